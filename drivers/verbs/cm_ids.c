/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/rdma_user_cm.h>
#include "cm_command.h"

/* Of enum rdma_cm_event_type, whose header cannot be included beside the kernel's. */
#define EVENT_CONNECT_REQUEST 4
#define EVENT_DEVICE_REMOVAL  11

/* An id, or a group that one has joined. */
struct cm_known {
	TAILQ_ENTRY(cm_known)
	link;                  /* in its channel's list, ids with the event last; not for a group */
	struct cm_channel *ch; /* not of a group */
	LIST_ENTRY(cm_known) group_link;
	LIST_HEAD(, cm_known) groups;
	struct cm_known *joined_by; /* of a group */
	const uint8_t *home;        /* the secret of its channel; of a group: of joined_by's */
	uint32_t id;
	uint32_t reported; /* events */
	uint64_t uid;      /* 0: the program does not know the id yet */
	bool told;         /* has its DEVICE_REMOVAL */
};

/*
 * Two trees (tsearch(3)) of all channels: a request names its listener only by the uid. An id is
 * that of its channel: another channel can have the same one, because its daemon is another one, or
 * because the daemon gave the id to it before the thread that destroyed the old one has noted that.
 */
static struct {
	pthread_mutex_t mutex;
	void *by_id, *by_uid;
} known = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int
compare_id(const void *a, const void *b)
{
	const struct cm_known *x = a, *y = b;

	if (x->id != y->id)
		return x->id > y->id ? 1 : -1;
	return memcmp(x->home, y->home, UROCE_CM_CHANNEL_ID);
}

static int
compare_uid(const void *a, const void *b)
{
	uint64_t x = ((const struct cm_known *)a)->uid, y = ((const struct cm_known *)b)->uid;

	return (x > y) - (x < y);
}

static struct cm_known *
find_id(const uint8_t *home, uint32_t id)
{
	const struct cm_known key = {.home = home, .id = id};
	struct cm_known **at = tfind(&key, &known.by_id, compare_id);

	return at ? *at : NULL;
}

static struct cm_known *
find_uid(uint64_t uid)
{
	struct cm_known **at = tfind(&(struct cm_known){.uid = uid}, &known.by_uid, compare_uid);

	return at ? *at : NULL;
}

/* If two ids have the same uid, the tree has the first one. */
static void
uid_set(struct cm_known *k, uint64_t uid)
{
	if (k->uid && find_uid(k->uid) == k)
		tdelete(k, &known.by_uid, compare_uid);
	k->uid = uid;
	if (uid)
		tsearch(k, &known.by_uid, compare_uid);
}

static void
drop(struct cm_known *k)
{
	struct cm_known *group;

	while ((group = LIST_FIRST(&k->groups)) != NULL)
		drop(group);
	if (k->joined_by)
		LIST_REMOVE(k, group_link);
	else
		TAILQ_REMOVE(&k->ch->ids, k, link);
	uid_set(k, 0);
	tdelete(k, &known.by_id, compare_id);
	free(k);
}

/* Adds an id. Returns NULL if out of memory; the id will then get no event. */
static struct cm_known *
add(const uint8_t *home, uint32_t id, uint64_t uid)
{
	struct cm_known *k = find_id(home, id);

	if (k) /* the daemon has returned the same id twice */
		drop(k);
	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	k->home = home;
	k->id = id;
	LIST_INIT(&k->groups);
	if (!tsearch(k, &known.by_id, compare_id)) {
		free(k);
		return NULL;
	}
	uid_set(k, uid);
	return k;
}

static void
add_id(struct cm_channel *ch, uint32_t id, uint64_t uid)
{
	struct cm_known *k = add(ch->secret, id, uid);

	if (!k)
		return;
	k->ch = ch;
	TAILQ_INSERT_HEAD(&ch->ids, k, link);
}

static void
add_group(struct cm_channel *ch, uint32_t owner, uint32_t id, uint64_t uid)
{
	struct cm_known *o = find_id(ch->secret, owner), *k = NULL;

	if (o && !o->joined_by && owner != id)
		k = add(ch->secret, id, uid);
	if (!k)
		return;
	k->joined_by = o;
	LIST_INSERT_HEAD(&o->groups, k, group_link);
}

static void
note_event(struct cm_channel *ch, const struct rdma_ucm_event_resp *ev)
{
	bool request = ev->event == EVENT_CONNECT_REQUEST;
	struct cm_known *k = request ? find_uid(ev->uid) : find_id(ch->secret, ev->id);

	if (k) {
		k->reported++;
		if (k->joined_by)
			k->joined_by->reported++;
	}
	if (request)
		add_id(ch, ev->id, 0);
}

/* Gives k another key. If there is no memory for it, k gets no event. */
static void
set_home(struct cm_known *k, const uint8_t *home)
{
	tdelete(k, &known.by_id, compare_id);
	k->home = home;
	tsearch(k, &known.by_id, compare_id);
}

/* The id and its groups belong to ch from now on. */
static void
move(struct cm_known *k, struct cm_channel *ch)
{
	struct cm_known *group;

	TAILQ_REMOVE(&k->ch->ids, k, link);
	k->ch = ch;
	TAILQ_INSERT_HEAD(&ch->ids, k, link);
	set_home(k, ch->secret);
	LIST_FOREACH (group, &k->groups, group_link)
		set_home(group, ch->secret);
}

/* Copies a struct from bytes that may be fewer: the rest is zero. */
#define GET(to, from, len)                                                                         \
	memcpy(memset(&(to), 0, sizeof(to)), from, (len) < sizeof(to) ? (len) : sizeof(to))

static void
note(struct cm_channel *ch, const uint8_t *from, uint32_t cmd, const void *body, size_t in,
     const void *reply, size_t len)
{
	union {
		struct rdma_ucm_create_id create;
		struct rdma_ucm_destroy_id destroy;
		struct rdma_ucm_accept accept;
		struct rdma_ucm_migrate_id migrate;
		struct rdma_ucm_join_ip_mcast join_ip;
		struct rdma_ucm_join_mcast join;
	} c;
	struct rdma_ucm_create_id_resp made;
	struct rdma_ucm_event_resp event;
	struct cm_known *k;

	GET(c, body, in);
	GET(made, reply, len);
	switch (cmd) {
	case RDMA_USER_CM_CMD_CREATE_ID:
		add_id(ch, made.id, c.create.uid);
		break;
	case RDMA_USER_CM_CMD_DESTROY_ID:
	case RDMA_USER_CM_CMD_LEAVE_MCAST:
		k = find_id(ch->secret, c.destroy.id);
		if (k)
			drop(k);
		break;
	case RDMA_USER_CM_CMD_ACCEPT:
		k = find_id(ch->secret, c.accept.id);
		if (k && c.accept.conn_param.valid)
			uid_set(k, c.accept.uid);
		break;
	case RDMA_USER_CM_CMD_MIGRATE_ID:
		k = find_id(from, c.migrate.id);
		if (k && !k->joined_by)
			move(k, ch);
		break;
	case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
		add_group(ch, c.join_ip.id, made.id, c.join_ip.uid);
		break;
	case RDMA_USER_CM_CMD_JOIN_MCAST:
		add_group(ch, c.join.id, made.id, c.join.uid);
		break;
	case RDMA_USER_CM_CMD_GET_EVENT:
		GET(event, reply, len);
		note_event(ch, &event);
		break;
	}
}

void
cm_ids_note(struct cm_channel *ch, const uint8_t *from, uint32_t cmd, const void *body, size_t in,
	    const void *reply, size_t len)
{
	pthread_mutex_lock(&known.mutex);
	note(ch, from, cmd, body, in, reply, len);
	pthread_mutex_unlock(&known.mutex);
}

/*
 * Returns the next DEVICE_REMOVAL. Unlike the kernel's, its status is an error: a synchronous call
 * waits for the next event of any type and must not take this one for success.
 */
static int
removal(struct cm_channel *ch, void *reply, size_t *len)
{
	struct rdma_ucm_event_resp ev = {.event = EVENT_DEVICE_REMOVAL,
					 .status = (uint32_t)-ENODEV};
	struct cm_known *k;

	while ((k = TAILQ_FIRST(&ch->ids)) != NULL && !k->told) {
		k->told = true;
		TAILQ_REMOVE(&ch->ids, k, link);
		TAILQ_INSERT_TAIL(&ch->ids, k, link);
		if (!k->uid)
			continue;
		k->reported++;
		ev.uid = k->uid;
		ev.id = k->id;
		memcpy(reply, &ev, sizeof(ev));
		*len = sizeof(ev);
		return 0;
	}
	return EIO;
}

static int
destroy(struct cm_channel *ch, uint32_t id, bool group, void *reply, size_t *len)
{
	struct rdma_ucm_destroy_id_resp resp = {0};
	struct cm_known *k = find_id(ch->secret, id);

	if (!k || group != (k->joined_by != NULL))
		return EIO;
	resp.events_reported = k->reported;
	drop(k);
	memcpy(reply, &resp, sizeof(resp));
	*len = sizeof(resp);
	return 0;
}

int
cm_ids_lost(struct cm_channel *ch, uint32_t cmd, const void *body, size_t in, void *reply,
	    size_t *len)
{
	struct rdma_ucm_destroy_id c;
	int rc = EIO;

	pthread_mutex_lock(&known.mutex);
	GET(c, body, in);
	if (cmd == RDMA_USER_CM_CMD_GET_EVENT)
		rc = removal(ch, reply, len);
	else if (cmd == RDMA_USER_CM_CMD_DESTROY_ID || cmd == RDMA_USER_CM_CMD_LEAVE_MCAST)
		rc = destroy(ch, c.id, cmd == RDMA_USER_CM_CMD_LEAVE_MCAST, reply, len);
	pthread_mutex_unlock(&known.mutex);
	return rc;
}

void
cm_ids_forget(struct cm_channel *ch)
{
	struct cm_known *k;

	pthread_mutex_lock(&known.mutex);
	while ((k = TAILQ_FIRST(&ch->ids)) != NULL)
		drop(k);
	pthread_mutex_unlock(&known.mutex);
}

void
cm_ids_fork_child(void)
{
	pthread_mutex_init(&known.mutex, NULL);
	/* Another thread may have been changing them. */
	known.by_id = known.by_uid = NULL;
}
