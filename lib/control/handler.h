/* SPDX-License-Identifier: BSD-3-Clause */
/* Interface of an operation's handler: request and reply. Control thread only. */
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
	const void *body; /* size of the operation's request, checked */
	const int *fds;
	unsigned nfds;
	const struct mrmap_found *found; /* REG_MR, REREG_MR: the memory found; refers to fds */
};
#define CTRL_REP_FDS UROCE_HELLO_FDS
struct ctrl_rep {
	void *body; /* size of the operation's reply, zeroed */
	int fds[CTRL_REP_FDS];
	bool close_fd[CTRL_REP_FDS]; /* close it after the reply was sent */
	unsigned nfds;
	char why[UROCE_CTRL_MAX_WHY]; /* reason of a refusal, NUL terminated; "": none */
	bool quiet;                   /* the refusal is not logged */
};

/*
 * Returned by a handler that replies later, through answer of struct ctrl_later. The client's next
 * request waits until then. Such a reply carries no descriptors.
 */
#define CTRL_LATER (-1)

/* A request with a later reply. body: size of the operation's reply, for status 0. */
struct ctrl_later {
	struct uroce_ctrl_hdr hdr;
	void (*answer)(struct session *s, int status, const void *body); /* NULL: none */
	struct defer *defer; /* what it waits for; NULL: not for a defer */
};

/* Returns 0, or a positive errno with nothing changed, or CTRL_LATER. */
typedef int ctrl_handler(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rep);

/* Adds fd to rep, at most CTRL_REP_FDS per reply. close_it: close it after sending. */
static inline void
ctrl_rep_fd(struct ctrl_rep *rep, int fd, bool close_it)
{
	rep->fds[rep->nfds] = fd;
	rep->close_fd[rep->nfds++] = close_it;
}

/* Sets the reason of a refusal, one sentence without full stop; the rest is cut off. Returns err.
 */
int ctrl_refuse(struct ctrl_rep *rep, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Runs the handler of op (dispatch.c). Returns 0 with a reply, a positive errno, or CTRL_LATER. */
int dispatch(struct session *s, uint16_t op, const struct ctrl_req *req, struct ctrl_rep *rep);

/*
 * Hooks of the program that runs the control plane: operations that need more than the library
 * links (JSON, files, the fault injector), and a notification when a port closes.
 */

struct device;

/* Called on the control thread. A NULL member means EOPNOTSUPP, or nothing to do. */
struct control_program {
	ctrl_handler *show, *impair, *capture;
	/* Called when workers have released dev's port, just before it is closed. */
	void (*port_released)(struct device *dev);
};

#endif
