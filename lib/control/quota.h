/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Quotas: limits on what one user, and all unprivileged users together, may hold of the
 * daemon. Every resource that a client can make the daemon hold is taken from the quota first and
 * returned when it is freed, under the uid of the client's connection (struct ipc_peer). Three
 * limits apply to each kind, in this order:
 *
 *   per uid   option NAME-per-uid; does not apply to a privileged uid
 *   others    limit of all unprivileged uids together: all less a reserve for root
 *   all       limit of all uids together (option NAME)
 *
 * A subordinate uid (subuid(5)) counts as its owner, unless that is privileged, or quota-by=uid:
 * its owner's rootless containers could use thousands of uids.
 *
 * Root and the daemon's own uid are privileged. A refused quota_take leaves a sentence in
 * quota.refusal for the reply and the log: which limit, its value, the uid and the option.
 * Needs no EAL. Control thread only.
 */
#ifndef CONTROL_QUOTA_H
#define CONTROL_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <time.h>
#include "map/copier.h"

/*
 * Owners of subordinate uids, by subuid(5). An ordinary user may run processes with all of its
 * subordinate uids (newuidmap, rootless containers), usually 65,536 of them. Limits for each uid
 * would be none for it. Lines whose owner is in no local passwd(5) are skipped: a name service may
 * block. Needs no EAL. Control thread only.
 */

struct owner_range {
	uint32_t first, count;
	uid_t owner;
};

/* All zero at first. */
struct owner_table {
	struct owner_range *range; /* in the order of the file */
	size_t n;
	/* of the file when it was read; all zero: it was not there */
	struct timespec changed;
	off_t bytes;
	ino_t inode;
};

/* Returns true if the file subuid has changed since the last call. A file may be missing. */
bool owner_changed(struct owner_table *t, const char *subuid);
/*
 * Reads the ranges, with the names of passwd, in place of those in t. NULL: no such file. Lines
 * that are not valid are skipped; without memory, the rest of them.
 */
void owner_read(struct owner_table *t, FILE *subuid, FILE *passwd);
/* Returns the owner of the first range that has uid; uid itself: no range has it. */
uid_t owner_of(const struct owner_table *t, uid_t uid);
/* Frees the ranges; t is all zero then. */
void owner_free(struct owner_table *t);

struct control_config;

enum quota_kind {
	QUOTA_CLIENTS = 0, /* connections in any state */
	QUOTA_NEW,         /* connections that have not sent HELLO */
	QUOTA_CONTEXTS,    /* connections with a device */
	QUOTA_PDS,         /* protection domains, imported ones included */
	QUOTA_MRS,         /* memory regions and windows: entries of the key table */
	QUOTA_CHANNELS,    /* completion channels */
	QUOTA_CQS,
	QUOTA_SRQS,
	QUOTA_QPS,
	QUOTA_AHS,         /* address handles */
	QUOTA_CM_CHANNELS, /* channels of rdma_cm */
	QUOTA_CM_IDS,      /* ids of rdma_cm, and their memberships of groups */
	QUOTA_MCAST,       /* memberships of queue pairs in multicast groups */
	QUOTA_QUEUE_MEM,   /* bytes of segments that hold rings */
	QUOTA_REG_MEM,     /* registered bytes; memory registered twice counts twice */
	QUOTA_FDS,         /* descriptors of the daemon (RLIMIT_NOFILE) */
	QUOTA_MAPS,        /* mappings of client memory and of segments (vm.max_map_count) */
	QUOTA_NKINDS,
};

#define QUOTA_UNLIMITED   UINT64_MAX
#define QUOTA_REFUSAL_MAX 240
#define QUOTA_QP_LIMITS   5 /* capabilities of a QP that have a limit (refuse_cap) */

/* What option quota-by says a user is. */
enum quota_by {
	QUOTA_BY_OWNER, /* a uid, with its subordinate uids */
	QUOTA_BY_UID,
	QUOTA_BY_CGROUP, /* a uid within a control group: a container */
};

/*
 * One user. Freed with its last reference (quota_user_get). Accounts only: what a client may see
 * and change depends on its own uid (ipc_peer).
 */
struct quota_user {
	LIST_ENTRY(quota_user) link;
	struct quota *quota;
	uid_t uid;    /* the owner of subordinate uids */
	char *cgroup; /* by cgroup, unless privileged; else NULL */
	uint32_t id;  /* stands for the user: its uid; of a cgroup's, a number */
	bool privileged;
	uint32_t refs;
	uint64_t throttled_until_ns; /* its connections are not polled before (throttle.c) */
	uint64_t slices_ns;          /* not charged yet */
	const void *first;           /* this connection excepted */
	uint64_t qp_refused_ns[QUOTA_QP_LIMITS]; /* when the log named this limit; 0: not yet */
	bool no_neigh;  /* no neighbour entry was free for it in this round (neigh.c) */
	uint32_t debts; /* regions that are deregistered but still mapped (obj_mr.c) */
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
	uint32_t holders[QUOTA_NKINDS]; /* users that hold any */
	uid_t own_uid;                  /* the daemon's */
	enum quota_by by;
	uint32_t ngroups;   /* by cgroup: users so far */
	const char *subuid; /* path of subuid(5) */
	/*
	 * Has others open subuid(5) and passwd(5), which a sandbox forbids, and call owner_read
	 * soon; until then the ranges are the old ones. NULL: quota_user_get opens them.
	 */
	void (*ask_owners)(struct quota *q);
	struct owner_table owners;
	struct quota_bucket bucket[QUOTA_BUCKETS];
	char refusal[QUOTA_REFUSAL_MAX]; /* "": nothing was refused since quota_refusal_clear */
};

/* Figures from which default limits are computed. */
struct quota_machine {
	uint64_t ram_bytes;
	uint64_t max_maps; /* vm.max_map_count */
	uint64_t max_fds;  /* RLIMIT_NOFILE, raised as far as possible */
};

/* Gets this machine's figures. */
void quota_machine_look(struct quota_machine *m);
/* Sets limits from the configuration. Limits of 0 get defaults, computed from *m and the totals. */
void quota_init(struct quota *q, const struct control_config *c, const struct quota_machine *m,
		uid_t own_uid);

/* Reads subuid(5), if subordinate uids count as their owner and it has changed. */
void quota_owners_look(struct quota *q);
/*
 * Returns the user that uid counts as, with an additional reference; NULL: no memory. Reads
 * subuid(5) again if it has changed.
 */
struct quota_user *quota_user_get(struct quota *q, uid_t uid);
/* The same of a process in this control group (ipc_peer_cgroup), which only QUOTA_BY_CGROUP needs.
 */
struct quota_user *quota_user_get_in(struct quota *q, uid_t uid, const char *cgroup);
/*
 * Who a process of uid, which counts as u, is to others: those for whom this is the same see and
 * change each other's objects. Its own uid; by cgroup, only within one.
 */
static inline uint32_t
quota_who(const struct quota_user *u, uid_t uid)
{
	return u->cgroup != NULL ? u->id : uid;
}
/* Drops a reference. A caller of quota_take keeps one until it has given everything back. */
void quota_user_put(struct quota_user *u);

/*
 * Takes n more of kind for u. Returns 0, or -ENOMEM if a limit forbids it: nothing is taken, and
 * quota.refusal has the reason.
 */
int quota_take(struct quota_user *u, enum quota_kind kind, uint64_t n);
/* Returns n of kind that u has taken to the quota. */
void quota_give(struct quota_user *u, enum quota_kind kind, uint64_t n);
/* Returns how much more of kind u could take now. */
uint64_t quota_left(const struct quota_user *u, enum quota_kind kind);
/* Returns how much of kind u could hold if it were the only user. Devices report it to clients. */
uint64_t quota_max(const struct quota_user *u, enum quota_kind kind);

/* Returns the name for operators ("qps"), and the option that sets the limit of a uid. */
const char *quota_name(enum quota_kind kind);
const char *quota_option(enum quota_kind kind);
/* Returns the unit of that option: 1, or the bytes of a MiB. */
uint32_t quota_unit(enum quota_kind kind);
/*
 * Returns the user after `after`, in no particular order, or the first one if that is NULL. NULL:
 * no more.
 */
struct quota_user *quota_user_next(const struct quota *q, const struct quota_user *after);
/*
 * Sets the limit of an unprivileged uid to per_uid units. Users that hold more keep it. Returns 0,
 * or -ERANGE if per_uid is 0 or exceeds the limit of all uids together.
 */
int quota_set(struct quota *q, enum quota_kind kind, uint64_t per_uid);

/* Clears the refusal. Called before a request, so that refusal belongs to that request. */
void quota_refusal_clear(struct quota *q);

#endif
