/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operation's handler: what it gets and what it answers. Control thread only.
 */
#ifndef CONTROL_HANDLER_H
#define CONTROL_HANDLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uroce_abi/ctrl.h>

struct defer;
struct mrmap_found;
struct session;

/* A request as its handler sees it, and the reply it fills in. */
struct ctrl_req {
	const void *body; /* of the operation's size: checked */
	const int *fds;
	unsigned nfds;
	const struct mrmap_found *found; /* REG_MR, REREG_MR: of the memory, with fds */
};
#define CTRL_REP_FDS (UROCE_MAX_WORKERS + 2)
struct ctrl_rep {
	void *body; /* of the operation's size, zeroed */
	int fds[CTRL_REP_FDS];
	bool close_fd[CTRL_REP_FDS]; /* not needed once it was sent */
	unsigned nfds;
	char why[UROCE_CTRL_MAX_WHY]; /* a refusal's sentence, NUL terminated; "": none */
};

/*
 * Of a handler whose answer comes later, by answer of struct ctrl_later; until then the client's
 * next request waits. Such an answer carries no descriptors.
 */
#define CTRL_LATER (-1)

/* A request that is answered later; body: of the operation's size, for status 0. */
struct ctrl_later {
	struct uroce_ctrl_hdr hdr;
	void (*answer)(struct session *s, int status, const void *body); /* NULL: nothing waits */
	struct defer *defer; /* what it waits for; NULL: something else */
};

/* 0, or a positive errno and nothing changed, or CTRL_LATER. */
typedef int ctrl_handler(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rep);

/* Send fd, of which a reply has CTRL_REP_FDS at most, with rep; close_it: and close it then. */
static inline void
ctrl_rep_fd(struct ctrl_rep *rep, int fd, bool close_it)
{
	rep->fds[rep->nfds] = fd;
	rep->close_fd[rep->nfds++] = close_it;
}

/* Run the handler of op (dispatch.c). 0 and a reply, a positive errno, or CTRL_LATER. */
int dispatch(struct session *s, uint16_t op, const struct ctrl_req *req, struct ctrl_rep *rep);

#endif
