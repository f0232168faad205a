/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion channels and asynchronous events. Both are sockets whose other end the daemon has. A
 * message has 8 bytes on a channel (the CQ's id) and 16 on the asynchronous descriptor. Programs
 * may poll(2) them; libibverbs reads them through prov_event_read, which
 *   - replaces the id by the object's address, as libibverbs expects it,
 *   - counts delivered events, so that destroy can wait until they were acknowledged,
 *   - drops events of destroyed objects,
 *   - prints the reason of an error if UROCE_VERBOSE is set; libibverbs has no field for it.
 *
 * Stale events must not make a descriptor readable either. After each read, and after the
 * destruction of an object, stale messages are dropped from the front of the queue: a descriptor is
 * readable only while its oldest event is live.
 *
 * One lock covers ids, counts and reading. Nothing blocks while it is held. It is not held across a
 * fork (fork.h): the list of descriptors is changed by single stores, and a child has no use for
 * the ids that it inherits.
 */
#include "provider.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <rdma/ib_user_verbs.h>
#include <uroce/errors.h>
#include "fork.h"

/* A descriptor that events are read from. */
struct event_fd {
	struct event_fd *next;
	struct prov_context *ctx; /* NULL: closed, or the parent's and we are the child */
	int fd;
	bool async;
	bool fatal_sent; /* DEVICE_FATAL was delivered: the daemon is gone */
	uint32_t handle; /* of a channel */
};

/* An id is slot number + generation << 32, so a dropped id is never reused. */
struct id_slot {
	struct prov_ref *ref; /* NULL: free */
	uint32_t gen;
	uint32_t next_free; /* slot + 1; 0 ends the list */
};

static struct {
	pthread_mutex_t mutex;
	struct event_fd *fds;
	struct id_slot *slot;
	uint32_t nslots;
	uint32_t free; /* slot + 1 */
} events = {.mutex = PTHREAD_MUTEX_INITIALIZER};

union event_msg {
	struct ib_uverbs_comp_event_desc comp;
	struct ib_uverbs_async_event_desc async;
};

static void
events_lock(void)
{
	fork_enter();
	pthread_mutex_lock(&events.mutex);
}

static void
events_unlock(void)
{
	pthread_mutex_unlock(&events.mutex);
}

static int
slots_grow(void)
{
	uint32_t n = events.nslots ? 2 * events.nslots : 64;
	struct id_slot *slot = realloc(events.slot, n * sizeof(*slot));

	if (!slot)
		return ENOMEM;
	events.slot = slot;
	for (uint32_t i = events.nslots; i < n; i++)
		slot[i] = (struct id_slot){.gen = 1, .next_free = i + 1 < n ? i + 2 : 0};
	events.free = events.nslots + 1;
	events.nslots = n;
	return 0;
}

int
prov_ref_add(struct prov_ref *ref, void *element)
{
	int rc = 0;

	events_lock();
	if (!events.free)
		rc = slots_grow();
	if (rc == 0) {
		uint32_t i = events.free - 1;
		struct id_slot *s = &events.slot[i];

		events.free = s->next_free;
		s->ref = ref;
		*ref = (struct prov_ref){.id = (uint64_t)s->gen << 32 | i, .element = element};
	}
	events_unlock();
	return rc;
}

/* The live object with that id, or NULL; lock held. */
static struct prov_ref *
ref_find(uint64_t id)
{
	uint32_t i = (uint32_t)id;

	if (i >= events.nslots || events.slot[i].gen != id >> 32)
		return NULL;
	return events.slot[i].ref;
}

void
prov_ref_drop(struct prov_ref *ref)
{
	events_lock();
	if (ref_find(ref->id) == ref) {
		uint32_t i = (uint32_t)ref->id;

		events.slot[i].ref = NULL;
		events.slot[i].gen++;
		events.slot[i].next_free = events.free;
		events.free = i + 1;
	}
	events_unlock();
}

void
prov_ref_free(struct prov_context *ctx, struct prov_ref *ref, void *obj, const uint32_t *comp,
	      const uint32_t *async, pthread_mutex_t *mutex, pthread_cond_t *cond)
{
	bool open = false;

	if (!ctx->forked) {
		pthread_mutex_lock(mutex);
		while ((comp && *comp != ref->comp_events) || *async != ref->async_events) {
			open = prov_context_lost(ctx);
			if (open)
				break;
			pthread_cond_wait(cond, mutex);
		}
		pthread_mutex_unlock(mutex);
	}
	if (!open) {
		free(obj);
		return;
	}
	ref->memory = obj;
	pthread_mutex_lock(&ctx->obj_mutex);
	ref->next = ctx->unacked;
	ctx->unacked = ref;
	pthread_mutex_unlock(&ctx->obj_mutex);
}

void
prov_ref_free_unacked(struct prov_context *ctx)
{
	while (ctx->unacked) {
		struct prov_ref *ref = ctx->unacked;

		ctx->unacked = ref->next;
		free(ref->memory);
	}
}

static struct event_fd *
fd_find(int fd)
{
	struct event_fd *e;

	for (e = events.fds; e; e = e->next) {
		if (e->fd == fd)
			break;
	}
	return e;
}

static int
fd_add(struct prov_context *ctx, int fd, bool async, uint32_t handle)
{
	struct event_fd *e = malloc(sizeof(*e));

	if (!e)
		return ENOMEM;
	*e = (struct event_fd){.ctx = ctx, .fd = fd, .async = async, .handle = handle};
	events_lock();
	e->next = events.fds;
	__atomic_store_n(&events.fds, e, __ATOMIC_RELEASE);
	events_unlock();
	return 0;
}

int
prov_event_add_async(struct prov_context *ctx, int fd)
{
	return fd_add(ctx, fd, true, 0);
}

int
prov_event_create_channel(struct prov_context *ctx)
{
	struct uroce_channel_rep rep;
	int fd, rc;
	struct ipc_call call = {
		.op = UROCE_CTRL_CREATE_CHANNEL,
		.rep = &rep,
		.rep_len = sizeof(rep),
		.rep_fds = &fd,
		.rep_fds_max = 1,
	};

	if (prov_call_fds(&ctx->vctx.context, &call))
		return -1;
	if (call.rep_nfds != 1) {
		errno = EPROTO;
		return -1;
	}
	rc = fd_add(ctx, fd, false, rep.handle);
	if (rc) {
		close(fd);
		errno = rc;
		return -1;
	}
	return fd;
}

bool
prov_event_channel_handle(struct prov_context *ctx, int fd, uint32_t *handle)
{
	struct event_fd *e;

	events_lock();
	e = fd_find(fd);
	if (e && (e->async || e->ctx != ctx))
		e = NULL;
	if (e)
		*handle = e->handle;
	events_unlock();
	return e != NULL;
}

int
prov_event_close(int fd)
{
	struct event_fd **p;

	events_lock();
	for (p = &events.fds; *p; p = &(*p)->next) {
		if ((*p)->fd == fd) {
			struct event_fd *e = *p;

			__atomic_store_n(p, e->next, __ATOMIC_RELEASE);
			fork_free(e);
			break;
		}
	}
	events_unlock();
	return close(fd);
}

void
prov_event_forget(struct prov_context *ctx)
{
	events_lock();
	for (struct event_fd *e = events.fds; e; e = e->next) {
		if (e->ctx == ctx)
			e->ctx = NULL;
	}
	events_unlock();
}

static void
event_fork_child(void)
{
	pthread_mutex_init(&events.mutex, NULL);
	for (struct event_fd *e = events.fds; e; e = e->next)
		e->ctx = NULL;
	/* Another thread may have been changing them. Freeing takes locks: the parent's stay. */
	events.slot = NULL;
	events.nslots = 0;
	events.free = 0;
}

static struct fork_part event_fork = {.child = event_fork_child};

static __attribute__((constructor)) void
event_fork_install(void)
{
	fork_part_add(&event_fork);
}

/* Returns true if an asynchronous event names an object, rather than the port or the device. */
static bool
names_object(uint32_t type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return true;
	default:
		return false;
	}
}

/*
 * Replaces the id by the object's address. *ref is the object; NULL for an event of the port or
 * device. Returns false if the event is stale or the message is malformed.
 */
static bool
msg_resolve(const struct event_fd *e, union event_msg *m, ssize_t n, struct prov_ref **ref)
{
	*ref = NULL;
	if (e->async) {
		if (n != sizeof(m->async))
			return false;
		if (!names_object(m->async.event_type))
			return true;
		*ref = ref_find(m->async.element);
		if (*ref)
			m->async.element = (uintptr_t)(*ref)->element;
	} else {
		if (n != sizeof(m->comp))
			return false;
		*ref = ref_find(m->comp.cq_handle);
		if (*ref)
			m->comp.cq_handle = (uintptr_t)(*ref)->element;
	}
	return *ref != NULL;
}

/* Drops stale messages from the front of e's queue; lock held. */
static void
fd_trim(struct event_fd *e)
{
	union event_msg m;
	struct prov_ref *ref;
	ssize_t n;

	for (;;) {
		n = recv(e->fd, &m, sizeof(m), MSG_PEEK | MSG_DONTWAIT);
		if (n <= 0 || msg_resolve(e, &m, n, &ref))
			return;
		recv(e->fd, &m, sizeof(m), MSG_DONTWAIT);
	}
}

void
prov_event_purge(struct prov_context *ctx, int channel_fd)
{
	events_lock();
	for (struct event_fd *e = events.fds; e; e = e->next) {
		if (e->ctx == ctx && (e->async || e->fd == channel_fd))
			fd_trim(e);
	}
	events_unlock();
}

/*
 * The daemon closed its end. A context gets one DEVICE_FATAL (EVT-14). A channel gets an event for
 * each of its CQs, so that a waiting program polls the remaining completions (CQE-15). After that,
 * reads fail, as those of a removed device do.
 */
static ssize_t
fd_hung_up(struct event_fd *e, union event_msg *m)
{
	struct prov_ref *ref;

	__atomic_store_n(&e->ctx->lost, true, __ATOMIC_RELAXED);
	if (e->async && !e->fatal_sent) {
		e->fatal_sent = true;
		m->async =
			(struct ib_uverbs_async_event_desc){.event_type = IBV_EVENT_DEVICE_FATAL};
		return sizeof(m->async);
	}
	ref = e->async ? NULL : prov_daemon_lost_event(e->ctx, e->fd);
	if (ref) {
		ref->comp_events++;
		m->comp.cq_handle = (uintptr_t)ref->element;
		return sizeof(m->comp);
	}
	errno = EIO;
	return -1;
}

/* Takes the oldest live event without waiting. Lock held. Returns as read(2); EAGAIN if none. */
static ssize_t
fd_take(struct event_fd *e, union event_msg *m)
{
	struct prov_ref *ref;
	ssize_t n;

	if (!e->ctx) {
		errno = EIO;
		return -1;
	}
	do {
		n = recv(e->fd, m, sizeof(*m), MSG_DONTWAIT);
		if (n < 0 && errno != ECONNRESET)
			return -1;
		if (n <= 0)
			return fd_hung_up(e, m);
	} while (!msg_resolve(e, m, n, &ref));
	if (ref && e->async)
		ref->async_events++;
	else if (ref)
		ref->comp_events++;
	fd_trim(e);
	return n;
}

/* With UROCE_VERBOSE prints why the object of an asynchronous event failed. */
static void
explain(const struct ib_uverbs_async_event_desc *ev)
{
	const char *word = uroce_error_word(ev->reserved);

	if (word && ev->reserved && getenv("UROCE_VERBOSE"))
		fprintf(stderr, "uroce: asynchronous event '%s': %s (%s, vendor_err 0x%x)\n",
			ibv_event_type_str((enum ibv_event_type)ev->event_type),
			uroce_error_sentence(ev->reserved), word, ev->reserved);
}

ssize_t
prov_event_read(int fd, void *buf, size_t len)
{
	union event_msg m;
	struct event_fd *e;
	bool async;
	ssize_t n;

	for (;;) {
		struct pollfd pfd = {.fd = fd, .events = POLLIN};

		events_lock();
		e = fd_find(fd);
		n = e ? fd_take(e, &m) : 0;
		async = e && e->async;
		events_unlock();
		if (!e)
			return read(fd, buf, len);
		if (n >= 0) {
			if (async && n == sizeof(m.async))
				explain(&m.async);
			if ((size_t)n > len)
				n = (ssize_t)len;
			memcpy(buf, &m, (size_t)n);
			return n;
		}
		if (errno != EAGAIN || (fcntl(fd, F_GETFL) & O_NONBLOCK))
			return -1;
		if (poll(&pfd, 1, -1) < 0)
			return -1;
	}
}
