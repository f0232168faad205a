/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/quota.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "control/config.h"

#define MIB_SHIFT        20
#define DEFAULT_MAX_MAPS 65530 /* the kernel's default, if the real value is unknown */
#define DEFAULT_MAX_FDS  1024

/* Names in messages. Kinds counted in bytes are shown in MiB. */
static const struct {
	const char *name; /* for operators */
	const char *what;
	const char *per_uid; /* option of the limit per uid */
	const char *all;     /* option of the limit of all uids */
	unsigned shift;
} kinds[QUOTA_NKINDS] = {
	[QUOTA_CLIENTS] = {"clients", "connections", "max-clients-per-uid", "max-clients", 0},
	[QUOTA_NEW] = {"new", "connections without HELLO", "max-new-per-uid", "max-clients", 0},
	[QUOTA_CONTEXTS] = {"contexts", "contexts", "max-contexts-per-uid", "max-clients", 0},
	[QUOTA_PDS] = {"pds", "protection domains", "max-pds-per-uid", "max-pds", 0},
	[QUOTA_MRS] = {"mrs", "memory regions and windows", "max-mrs-per-uid", "max-mrs", 0},
	[QUOTA_CHANNELS] = {"channels", "completion channels", "max-channels-per-uid",
			    "max-channels", 0},
	[QUOTA_CQS] = {"cqs", "completion queues", "max-cqs-per-uid", "max-cqs", 0},
	[QUOTA_SRQS] = {"srqs", "shared receive queues", "max-srqs-per-uid", "max-srqs", 0},
	[QUOTA_QPS] = {"qps", "queue pairs", "max-qps-per-uid", "max-qps", 0},
	[QUOTA_AHS] = {"ahs", "address handles", "max-ahs-per-uid", "max-ahs", 0},
	[QUOTA_CM_CHANNELS] = {"cm-channels", "rdma_cm channels", "max-cm-channels-per-uid",
			       "max-cm-channels", 0},
	[QUOTA_CM_IDS] = {"cm-ids", "rdma_cm ids", "max-cm-ids-per-uid", "max-cm-ids", 0},
	[QUOTA_MCAST] = {"mcast", "multicast memberships", "max-mcast-per-uid", "max-mcast", 0},
	[QUOTA_QUEUE_MEM] = {"queue-mem", "MiB of queue memory", "max-queue-mem-per-uid",
			     "max-queue-mem", MIB_SHIFT},
	[QUOTA_REG_MEM] = {"reg-mem", "MiB of registered memory", "max-reg-mem-per-uid",
			   "max-reg-mem", MIB_SHIFT},
	[QUOTA_FDS] = {"fds", "descriptors of the daemon", "max-fds-per-uid", "max-fds", 0},
	[QUOTA_MAPS] = {"maps", "mappings of client memory and queues", "max-maps-per-uid",
			"max-maps", 0},
};

void
quota_machine_look(struct quota_machine *m)
{
	FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
	struct rlimit r;
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	m->ram_bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 1ull << 30;
	if (f == NULL || fscanf(f, "%" SCNu64, &m->max_maps) != 1)
		m->max_maps = DEFAULT_MAX_MAPS;
	if (f != NULL)
		fclose(f);
	m->max_fds = getrlimit(RLIMIT_NOFILE, &r) == 0 ? r.rlim_max : DEFAULT_MAX_FDS;
}

/* Returns the limit of all uids together. */
static uint64_t
total_of(enum quota_kind k, const struct control_config *c, const struct quota_machine *m)
{
	switch (k) {
	case QUOTA_CLIENTS:
	case QUOTA_NEW:
	case QUOTA_CONTEXTS:
		return c->max_clients;
	case QUOTA_PDS:
		return c->max_pds;
	case QUOTA_MRS:
		return c->max_mrs;
	case QUOTA_CHANNELS:
		return c->max_channels;
	case QUOTA_CQS:
		return c->max_cqs;
	case QUOTA_SRQS:
		return c->max_srqs;
	case QUOTA_QPS:
		return c->max_qps;
	case QUOTA_AHS:
		return c->max_ahs;
	case QUOTA_CM_CHANNELS:
		return c->max_cm_channels;
	case QUOTA_CM_IDS:
		return c->max_cm_ids;
	case QUOTA_MCAST:
		return c->max_mcast;
	case QUOTA_QUEUE_MEM:
		return c->max_queue_mem_mib != 0 ? (uint64_t)c->max_queue_mem_mib << MIB_SHIFT
						 : m->ram_bytes / 2;
	case QUOTA_REG_MEM:
		return c->max_reg_mem_mib != 0 ? (uint64_t)c->max_reg_mem_mib << MIB_SHIFT
					       : 2 * m->ram_bytes;
	case QUOTA_FDS:
		/*
		 * reserve a quarter for the daemon: ports, capture files, descriptors in messages
		 */
		return c->max_fds != 0 ? c->max_fds : m->max_fds - m->max_fds / 4;
	case QUOTA_MAPS:
		/* reserve a quarter for the daemon: DPDK, rings, stacks, the heap */
		return c->max_maps != 0 ? c->max_maps : m->max_maps - m->max_maps / 4;
	case QUOTA_NKINDS:
		break;
	}
	return QUOTA_UNLIMITED;
}

/* Returns the default limit of a uid. */
static uint64_t
share_of(enum quota_kind k, uint64_t all)
{
	switch (k) {
	case QUOTA_NEW:
	case QUOTA_MCAST:
		return all / 16 > 0 ? all / 16 : 1;
	case QUOTA_REG_MEM:
	case QUOTA_QUEUE_MEM:
	case QUOTA_FDS:
	case QUOTA_MAPS:
		return all / 2;
	default:
		return all - all / 4;
	}
}

void
quota_init(struct quota *q, const struct control_config *c, const struct quota_machine *m,
	   uid_t own_uid)
{
	memset(q, 0, sizeof(*q));
	q->own_uid = own_uid;
	q->by = c->quota_by;
	q->subuid = "/etc/subuid";
	for (unsigned i = 0; i < QUOTA_BUCKETS; i++)
		LIST_INIT(&q->bucket[i]);
	for (unsigned k = 0; k < QUOTA_NKINDS; k++) {
		struct quota_limit *l = &q->limit[k];

		l->all = total_of(k, c, m);
		/* reserve at least one for root, if there is more than one */
		l->others = l->all - (l->all + 15) / 16 * (l->all > 1);
		l->per_uid = c->per_uid[k] != 0 ? (uint64_t)c->per_uid[k] << kinds[k].shift
						: share_of(k, l->all);
	}
}

#define GROUP_IDS 0x80000000u /* ids of users of control groups; uids are smaller, as a rule */

static bool
is_privileged(const struct quota *q, uid_t uid)
{
	return uid == 0 || uid == q->own_uid;
}

static void
read_owners(struct quota *q)
{
	FILE *subuid = fopen(q->subuid, "re"), *passwd = fopen("/etc/passwd", "re");

	owner_read(&q->owners, subuid, passwd);
	if (subuid != NULL)
		fclose(subuid);
	if (passwd != NULL)
		fclose(passwd);
}

void
quota_owners_look(struct quota *q)
{
	if (q->by != QUOTA_BY_OWNER || !owner_changed(&q->owners, q->subuid))
		return;
	if (q->ask_owners != NULL)
		q->ask_owners(q);
	else
		read_owners(q);
}

/* Returns the uid that uid counts as. Containers of a privileged user do not share its rights. */
static uid_t
counts_as(struct quota *q, uid_t uid)
{
	uid_t owner;

	if (q->by != QUOTA_BY_OWNER || is_privileged(q, uid))
		return uid;
	quota_owners_look(q);
	owner = owner_of(&q->owners, uid);
	return is_privileged(q, owner) ? uid : owner;
}

struct quota_user *
quota_user_get(struct quota *q, uid_t uid)
{
	return quota_user_get_in(q, uid, NULL);
}

struct quota_user *
quota_user_get_in(struct quota *q, uid_t uid, const char *cgroup)
{
	struct quota_bucket *b;
	struct quota_user *u;

	uid = counts_as(q, uid);
	if (q->by != QUOTA_BY_CGROUP || is_privileged(q, uid))
		cgroup = NULL;
	b = &q->bucket[uid & (QUOTA_BUCKETS - 1)];
	LIST_FOREACH (u, b, link) {
		if (u->uid == uid && (u->cgroup == NULL) == (cgroup == NULL) &&
		    (cgroup == NULL || strcmp(u->cgroup, cgroup) == 0)) {
			u->refs++;
			return u;
		}
	}
	u = calloc(1, sizeof(*u));
	if (u != NULL && cgroup != NULL && (u->cgroup = strdup(cgroup)) == NULL) {
		free(u);
		u = NULL;
	}
	if (u == NULL)
		return NULL;
	u->quota = q;
	u->uid = uid;
	u->id = cgroup != NULL ? GROUP_IDS | ++q->ngroups : uid;
	u->privileged = is_privileged(q, uid);
	u->refs = 1;
	LIST_INSERT_HEAD(b, u, link);
	return u;
}

void
quota_user_put(struct quota_user *u)
{
	if (--u->refs > 0)
		return;
	LIST_REMOVE(u, link);
	free(u->cgroup);
	free(u);
}

static bool
fits(uint64_t used, uint64_t n, uint64_t limit)
{
	return n <= limit && used <= limit - n;
}

int
quota_take(struct quota_user *u, enum quota_kind k, uint64_t n)
{
	struct quota *q = u->quota;
	const struct quota_limit *l = &q->limit[k];
	unsigned shift = kinds[k].shift;
	uint64_t more = (n + (1ull << shift) - 1) >> shift;

	if (!u->privileged && !fits(u->used[k], n, l->per_uid))
		snprintf(q->refusal, sizeof(q->refusal),
			 "uid %u holds %" PRIu64 " and wants %" PRIu64
			 " more %s; a uid may hold %" PRIu64 " (option %s)",
			 u->uid, u->used[k] >> shift, more, kinds[k].what, l->per_uid >> shift,
			 kinds[k].per_uid);
	else if (!u->privileged && !fits(q->used_others[k], n, l->others))
		snprintf(q->refusal, sizeof(q->refusal),
			 "uid %u wants %" PRIu64 " more %s; uids other than root hold %" PRIu64
			 " and may hold %" PRIu64 " together, of %" PRIu64 " (option %s)",
			 u->uid, more, kinds[k].what, q->used_others[k] >> shift,
			 l->others >> shift, l->all >> shift, kinds[k].all);
	else if (!fits(q->used_all[k], n, l->all))
		snprintf(q->refusal, sizeof(q->refusal),
			 "uid %u wants %" PRIu64 " more %s; %" PRIu64
			 " are held and all clients may hold %" PRIu64 " together (option %s)",
			 u->uid, more, kinds[k].what, q->used_all[k] >> shift, l->all >> shift,
			 kinds[k].all);
	else {
		q->holders[k] += u->used[k] == 0 && n != 0;
		u->used[k] += n;
		q->used_all[k] += n;
		q->used_others[k] += u->privileged ? 0 : n;
		return 0;
	}
	return -ENOMEM;
}

void
quota_give(struct quota_user *u, enum quota_kind k, uint64_t n)
{
	u->used[k] -= n;
	u->quota->holders[k] -= u->used[k] == 0 && n != 0;
	u->quota->used_all[k] -= n;
	u->quota->used_others[k] -= u->privileged ? 0 : n;
}

static uint64_t
room(uint64_t used, uint64_t limit)
{
	return used < limit ? limit - used : 0;
}

static uint64_t
least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t
quota_left(const struct quota_user *u, enum quota_kind k)
{
	const struct quota *q = u->quota;
	uint64_t n = room(q->used_all[k], q->limit[k].all);

	if (u->privileged)
		return n;
	n = least(n, room(q->used_others[k], q->limit[k].others));
	return least(n, room(u->used[k], q->limit[k].per_uid));
}

uint64_t
quota_max(const struct quota_user *u, enum quota_kind k)
{
	const struct quota_limit *l = &u->quota->limit[k];

	return u->privileged ? l->all : least(l->per_uid, l->others);
}

const char *
quota_name(enum quota_kind k)
{
	return kinds[k].name;
}

const char *
quota_option(enum quota_kind k)
{
	return kinds[k].per_uid;
}

uint32_t
quota_unit(enum quota_kind k)
{
	return 1u << kinds[k].shift;
}

struct quota_user *
quota_user_next(const struct quota *q, const struct quota_user *after)
{
	unsigned i = 0;

	if (after != NULL) {
		if (LIST_NEXT(after, link) != NULL)
			return LIST_NEXT(after, link);
		i = (after->uid & (QUOTA_BUCKETS - 1)) + 1;
	}
	while (i < QUOTA_BUCKETS && LIST_EMPTY(&q->bucket[i]))
		i++;
	return i < QUOTA_BUCKETS ? LIST_FIRST(&q->bucket[i]) : NULL;
}

int
quota_set(struct quota *q, enum quota_kind k, uint64_t per_uid)
{
	if (per_uid == 0 || per_uid > q->limit[k].all >> kinds[k].shift)
		return -ERANGE;
	q->limit[k].per_uid = per_uid << kinds[k].shift;
	return 0;
}

void
quota_refusal_clear(struct quota *q)
{
	q->refusal[0] = '\0';
}
