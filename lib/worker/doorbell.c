/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <rte_branch_prediction.h>
#include <rte_common.h>
#include "worker/worker_parts.h"

#define DB_MASK  (UROCE_DB_ENTRIES - 1)
#define DB_BURST 64  /* of one ring per iteration, so that the others get their turn */
#define DB_TOTAL 512 /* of all rings per iteration, for frames, timers and send queues */
#define DB_RINGS 64  /* looked at per iteration: a client may have hundreds, and not use them */

/* Starts a scan of all QPs of the context, some per iteration, because doorbells were lost. */
static unsigned
ring_overflow(struct worker_doorbell *db, uint32_t prod)
{
	db->cons = prod;
	__atomic_store_n(&db->ring->cons, prod, __ATOMIC_RELEASE);
	db->scan_again = true;
	return 1;
}

static unsigned
ring_scan(struct worker *w, struct worker_doorbell *db)
{
	bool first = !db->scanning;

	if (first)
		db->scan_again = false;
	db->scanning = db->overflow(w, db->ctx, first);
	return WORKER_SCAN_QPS;
}

static unsigned
ring_poll(struct worker *w, struct worker_doorbell *db)
{
	struct uroce_db_ring *ring = db->ring;
	uint32_t prod = __atomic_load_n(&ring->prod, __ATOMIC_ACQUIRE);
	uint32_t n = prod - db->cons;

	/* The exchange acquires: WQEs posted before the client set the flag are visible. */
	if (unlikely(__atomic_load_n(&ring->overflow, __ATOMIC_RELAXED) != 0)) {
		__atomic_exchange_n(&ring->overflow, 0, __ATOMIC_ACQUIRE);
		return ring_overflow(db, prod);
	}
	if (likely(n == 0))
		return 0;
	if (unlikely(n > UROCE_DB_ENTRIES)) /* our client library never writes this */
		return ring_overflow(db, prod);
	if (n > DB_BURST)
		n = DB_BURST;
	for (uint32_t i = 0; i < n; i++, db->cons++) {
		uint32_t qpn = __atomic_load_n(&ring->qpn[db->cons & DB_MASK], __ATOMIC_RELAXED);

		hot_queue_rang(w, engine_doorbell(&w->engine, qpn));
	}
	__atomic_store_n(&ring->cons, db->cons, __ATOMIC_RELEASE);
	return n;
}

unsigned
doorbell_poll(struct worker *w)
{
	unsigned n = 0, at = w->next_doorbell, most = RTE_MIN(w->ndoorbells, DB_RINGS);

	for (unsigned i = 0; i < most && n < DB_TOTAL; i++) {
		struct worker_doorbell *db;

		at = at < w->ndoorbells ? at : 0;
		db = &w->doorbells[at++];
		if (!blame_serve(w, db->user))
			continue;
		n += ring_poll(w, db);
		if (unlikely(__atomic_load_n(db->waiter, __ATOMIC_RELAXED) != 0))
			waiter_seen(w, db);
		if (unlikely(db->scanning || db->scan_again))
			n += ring_scan(w, db);
	}
	w->next_doorbell = at;
	if (n != 0)
		w->handed = NULL; /* the client has posted, and sleeps soon */
	return n;
}

bool
doorbell_waits(struct worker *w)
{
	for (unsigned i = 0; i < w->ndoorbells; i++) {
		const struct worker_doorbell *db = &w->doorbells[i];

		if (!blame_serve(w, db->user))
			continue;
		if (__atomic_load_n(&db->ring->prod, __ATOMIC_RELAXED) != db->cons ||
		    __atomic_load_n(&db->ring->overflow, __ATOMIC_RELAXED) != 0 || db->scanning ||
		    db->scan_again)
			return true;
	}
	return false;
}

/* On the worker: moves its doorbells to a larger array; *arg is the old one then. */
static void
enlarge_on_worker(struct worker *w, void *arg)
{
	struct worker_doorbell **room = arg, *old = w->doorbells;

	if (w->ndoorbells != 0)
		memcpy(*room, old, w->ndoorbells * sizeof(*old));
	w->doorbells = *room;
	*room = old;
}

/*
 * Opens an eventfd that ends w's sleeps. Clients do not share one: its flags and count belong to
 * all its holders, so that one client could block the others' writes or take away their wake-ups.
 * Edge triggered, so that the worker never reads it. Returns the descriptor or -errno.
 */
static int
wake_fd_open(struct worker *w)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), rc;

	if (fd < 0 || epoll_ctl(w->client_fd, EPOLL_CTL_ADD, fd, &ev) < 0) {
		rc = -errno;
		if (fd >= 0)
			close(fd);
		return rc;
	}
	return fd;
}

/* Closes the eventfd. Removes it from the epoll explicitly, because the client still holds it. */
static void
wake_fd_close(struct worker *w, int fd)
{
	epoll_ctl(w->client_fd, EPOLL_CTL_DEL, fd, NULL);
	close(fd);
}

/*
 * Makes room for one more wake of w, and for its ring among the doorbells that w polls: a ring that
 * w has left keeps both until worker_close_doorbell. Returns 0 or -ENOMEM.
 */
static int
wakes_reserve(struct worker *w)
{
	unsigned n = w->wakes_room != 0 ? 2 * w->wakes_room : 16;
	struct worker_doorbell *room;
	struct worker_wake *wakes;

	if (w->nwakes < w->wakes_room)
		return 0;
	room = calloc(n, sizeof(*room));
	wakes = room != NULL ? realloc(w->wakes, n * sizeof(*wakes)) : NULL;
	if (wakes == NULL) {
		free(room);
		return -ENOMEM;
	}
	w->wakes = wakes;
	w->wakes_room = n;
	worker_call(w, enlarge_on_worker, &room);
	free(room);
	return 0;
}

int
worker_add_doorbell(struct worker *w, struct uroce_db_ring *ring)
{
	int fd = wake_fd_open(w), rc;

	if (fd < 0)
		return fd;
	rc = wakes_reserve(w);
	if (rc < 0) {
		wake_fd_close(w, fd);
		return rc;
	}
	w->wakes[w->nwakes++] = (struct worker_wake){.ring = ring, .fd = fd};
	return 0;
}

static void
poll_on_worker(struct worker *w, void *arg)
{
	const struct worker_doorbell *db = arg;

	w->doorbells[w->ndoorbells++] = *db;
}

void
worker_poll_doorbell(struct worker *w, struct uroce_db_ring *ring, uint32_t *waiter, uint8_t user,
		     worker_scan_fn *overflow, void *ctx)
{
	struct worker_doorbell db = {
		.ring = ring, .waiter = waiter, .user = user, .overflow = overflow, .ctx = ctx};

	db.cons = __atomic_load_n(&ring->cons, __ATOMIC_RELAXED);
	worker_call(w, poll_on_worker, &db);
}

void
worker_leave_doorbell(struct worker *w, struct uroce_db_ring *ring)
{
	w->handed = NULL; /* it may lie in the memory of this ring's context */
	for (unsigned i = 0; i < w->ndoorbells; i++) {
		if (w->doorbells[i].ring != ring)
			continue;
		w->doorbells[i] = w->doorbells[--w->ndoorbells];
		return;
	}
}

void
worker_close_doorbell(struct worker *w, struct uroce_db_ring *ring)
{
	for (unsigned i = 0; i < w->nwakes; i++) {
		if (w->wakes[i].ring != ring)
			continue;
		wake_fd_close(w, w->wakes[i].fd);
		w->wakes[i] = w->wakes[--w->nwakes];
		return;
	}
}

int
worker_wake_fd(struct worker *w, const struct uroce_db_ring *ring)
{
	for (unsigned i = 0; i < w->nwakes; i++) {
		if (w->wakes[i].ring == ring)
			return w->wakes[i].fd;
	}
	return -1;
}
