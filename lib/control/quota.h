/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Quotas: how much of the daemon one user, and all users but the privileged ones together, may
 * hold. Everything that a client can make the daemon keep is taken from here first and given back
 * when it is freed, under the uid of the client's connection (struct ipc_peer). Three limits apply
 * to each kind, in this order:
 *
 *   per uid   option NAME-per-uid; does not apply to a privileged uid
 *   others    what unprivileged uids may hold together: all of it less a reserve for root
 *   all       what everybody together may hold (option NAME)
 *
 * Privileged are root and the daemon's own uid. A refused quota_take leaves a sentence in
 * quota.refusal for the reply and the log: which limit, its value, the uid and the option.
 * Needs no EAL. Control thread only.
 */
#ifndef CONTROL_QUOTA_H
#define CONTROL_QUOTA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include "map/copier.h"

struct control_config;

enum quota_kind {
	QUOTA_CLIENTS = 0, /* connections, whatever they have said so far */
	QUOTA_NEW,         /* connections that have not sent HELLO */
	QUOTA_CONTEXTS,    /* connections with a device */
	QUOTA_PDS,         /* protection domains and imported names of them */
	QUOTA_MRS,         /* memory regions and windows: entries of the key table */
	QUOTA_CHANNELS,    /* completion channels */
	QUOTA_CQS,
	QUOTA_SRQS,
	QUOTA_QPS,
	QUOTA_AHS,       /* address handles */
	QUOTA_MCAST,     /* memberships of queue pairs in multicast groups */
	QUOTA_QUEUE_MEM, /* bytes of segments that hold rings */
	QUOTA_REG_MEM,   /* registered bytes; memory registered twice counts twice */
	QUOTA_FDS,       /* descriptors of the daemon (RLIMIT_NOFILE) */
	QUOTA_MAPS,      /* mappings of client memory and of segments (vm.max_map_count) */
	QUOTA_NKINDS,
};

#define QUOTA_UNLIMITED   UINT64_MAX
#define QUOTA_REFUSAL_MAX 240

/* One uid. Lives as long as somebody holds a reference (quota_user_get). */
struct quota_user {
	LIST_ENTRY(quota_user) link;
	struct quota *quota;
	uid_t uid;
	bool privileged;
	uint32_t refs;
	uint64_t rest_until_ns; /* its connections are not listened to before (rest.c) .. */
	const void *first;      /* .. but for this session */
	bool no_neigh;          /* no neighbour entry was to be had, this time (neigh.c) */
	uint32_t debts; /* regions that are deregistered and still being unmapped (obj_mr.c) */
	uint64_t used[QUOTA_NKINDS];
	struct copier_credit copies; /* how long workers may wait for its memory */
};
LIST_HEAD(quota_bucket, quota_user);

struct quota_limit {
	uint64_t per_uid; /* of an unprivileged uid */
	uint64_t others;  /* of all unprivileged uids together */
	uint64_t all;     /* of everybody */
};

#define QUOTA_BUCKETS 64 /* a power of two */
struct quota {
	struct quota_limit limit[QUOTA_NKINDS];
	uint64_t used_others[QUOTA_NKINDS]; /* by unprivileged uids */
	uint64_t used_all[QUOTA_NKINDS];
	uid_t own_uid; /* the daemon's */
	struct quota_bucket bucket[QUOTA_BUCKETS];
	char refusal[QUOTA_REFUSAL_MAX]; /* "": nothing was refused since quota_refusal_clear */
};

/* What limits that are not given in numbers are made from. */
struct quota_machine {
	uint64_t ram_bytes;
	uint64_t max_maps; /* vm.max_map_count */
	uint64_t max_fds;  /* RLIMIT_NOFILE, as far as it can be raised */
};

/* This machine's figures. */
void quota_machine_look(struct quota_machine *m);
/* Limits from the configuration; one that is 0 gets its default, made from *m and the totals. */
void quota_init(struct quota *q, const struct control_config *c, const struct quota_machine *m,
		uid_t own_uid);

/* The user of a uid, with one reference more. NULL: no memory. */
struct quota_user *quota_user_get(struct quota *q, uid_t uid);
/* One reference less. Whoever has taken something keeps a reference until it is given back. */
void quota_user_put(struct quota_user *u);

/*
 * Take n more of kind for u. 0; -ENOMEM when a limit is in the way: nothing is taken then, and
 * quota.refusal says why.
 */
int quota_take(struct quota_user *u, enum quota_kind kind, uint64_t n);
/* Give back n of what u has taken. */
void quota_give(struct quota_user *u, enum quota_kind kind, uint64_t n);
/* How much more u could take now. */
uint64_t quota_left(const struct quota_user *u, enum quota_kind kind);
/* How much u could hold if it were alone: what a device tells its clients. */
uint64_t quota_max(const struct quota_user *u, enum quota_kind kind);

/* Before a request; afterwards refusal tells about that request. */
void quota_refusal_clear(struct quota *q);

#endif
