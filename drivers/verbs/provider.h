/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs provider, which a program's stock libibverbs loads to reach uroced. There is one file
 * for each kind of object; this header declares the objects and the functions shared by the files.
 *
 *   device.c   discovery: which devices in sysfs are ours
 *   rdma_core.c   which libibverbs this process has, and its private functions
 *   context.c  open (HELLO), close, the table of operations
 *   rings.c    requests whose replies name rings in shared segments
 *   fork.c     the process forks, maybe with verbs called from its own fork handlers
 *   hooks/     calls of libibverbs that have no provider operation (completion channels, sysfs);
 *              librdmacm's calls for its device file
 *   cm_channel.c cm_command.c   channels of rdma_cm, which replace that file
 *   sysfs.c    current GIDs and P_Keys in place of the files that libibverbs reads
 *   event.c    completion channels and asynchronous events
 *   share.c    contexts that another process or library may import (ibv_import_device)
 *   pd.c mr.c ah.c srq.c cq.c cq_purge.c qp.c qp_modify.c   control: a request to the daemon
 *   query.c    attributes of device and port
 *   post.c post_recv.c wr.c cq.c cq_ex.c   fast path: shared memory only
 *   cq_idle.c idle.c   how an empty poll uses the core
 *   daemon_lost.c     completions after the daemon is lost
 *
 * The code follows the conventions of verbs: a function in the operation table returns 0 or a
 * positive errno, which is also left in errno (prov_fail), or a pointer or NULL with errno.
 * Programs read either. Any thread may call any function; each queue has a lock. Includes the
 * clients' side of lib/ipc and lib/map, lib/sched and include/uroce_abi, never DPDK.
 *
 * The daemon looks up objects by their handle and trusts nothing else: a program that corrupts a
 * handle gets the daemon's ENOENT.
 */
#ifndef UROCE_VERBS_UV_H
#define UROCE_VERBS_UV_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "ipc/client.h"
#include "map/segmap.h"
#include "lock.h"
#include "rdma_core.h"
#include "uroce_abi/cqe.h"
#include "uroce_abi/ring.h"
#include "uroce_abi/wqe.h"
#include "uroce_abi/wr.h"

#define PROV_DEVICE_PREFIX                "uroce"
#define PROV_PORT                         1 /* every device has exactly this one */

#define prov_container(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define prov_unlikely(x)                  __builtin_expect(!!(x), 0)

/* Returns error, a positive errno, and sets errno to it, as a kernel provider's ioctl does. */
static inline int
prov_fail(int error)
{
	errno = error;
	return error;
}

/*
 * The target of an event: a CQ, QP or SRQ. The daemon gets the id (user_handle), not the pointer.
 * An event that arrives after the object was destroyed is therefore recognised as stale.
 */
struct prov_ref {
	uint64_t id;
	void *element;         /* the ibv_cq, ibv_qp or ibv_srq */
	uint32_t comp_events;  /* delivered so far; event.c's lock */
	uint32_t async_events; /* delivered so far; event.c's lock */
	void *memory;          /* the object's memory, if it is freed with its context */
	struct prov_ref *next; /* in the context's unacked */
};

/* One worker lcore of the daemon as its clients see it. */
struct prov_worker {
	struct prov_lock lock; /* protects this process's side of db */
	struct uroce_db_ring *db;
	const struct uroce_worker_state *state;
	int wake_fd; /* eventfd */
};

/* How an empty poll uses the core; cq_idle.c. */
enum prov_poll_mode {
	PROV_POLL_ADAPTIVE, /* give it up while a completion is expected */
	PROV_POLL_SPIN,     /* keep it */
	PROV_POLL_YIELD,    /* yield, never sleep */
};

struct prov_context {
	uint8_t headroom[RCA_CONTEXT_HEADROOM]; /* libibverbs' verbs_context may start here */
	struct verbs_context vctx;
	struct ipc_client ipc;
	bool lost;   /* daemon gone, or forked: all operations fail (daemon_lost.c); atomic */
	bool forked; /* this is the child of a fork */
	enum prov_poll_mode poll;
	uint32_t nworkers;
	struct prov_worker worker[UROCE_MAX_WORKERS];
	void *db_seg;
	size_t db_bytes;
	struct uroce_worker_state *states; /* of all workers, read only */
	pthread_mutex_t seg_mutex;
	struct ipc_segmap segs;
	int spare_fd;                /* reserved (rings.c), -1: not; seg_mutex */
	struct uroce_device_rep dev; /* as of the open */
	pthread_mutex_t obj_mutex;   /* protects the lists */
	TAILQ_HEAD(, prov_qp) qps;   /* oldest first */
	LIST_HEAD(, prov_qp) ud_qps; /* the UD QPs, for prov_ud_wait_sent */
	TAILQ_HEAD(, prov_cq) cqs;
	struct prov_ref *unacked; /* destroyed, but with unacknowledged events: obj_mutex */
	uint32_t kept;       /* bit i: the daemon keeps adopted file i of this process; atomic */
	uint32_t full_posts; /* refused because a queue was full; atomic */
	struct prov_context *next; /* every open context of the process; context.c's lock */
};

struct prov_td {
	struct ibv_td td;
	uint32_t users; /* parent domains; atomic */
};

struct prov_pd {
	struct ibv_pd pd;
	struct prov_pd *parent; /* of a parent domain: the PD that it is based on */
	struct prov_td *td;     /* of a parent domain, or NULL */
	uint32_t users;         /* parent domains on this PD, QPs, SRQs, CQs; atomic */
};

struct stat;
struct mr_pin;
struct prov_mr {
	struct verbs_mr vmr;
	struct mr_pin *pin;
	uint64_t iova; /* address of its first byte for WQEs and peers */
};

/* Producer side of an SQ, RQ or SRQ; lock protects all fields. */
struct prov_ring {
	struct prov_lock lock;
	struct uroce_ring_hdr *hdr; /* shared; NULL: no such queue */
	uint8_t *slots;             /* shared */
	uint32_t mask, stride;
	uint32_t limit;   /* WRs that may be outstanding */
	uint32_t max_sge; /* of one WR */
	uint32_t prod;
	uint32_t cons; /* as last read from hdr */
};

struct prov_cq {
	struct verbs_cq vcq;
	struct prov_lock lock;
	struct uroce_cq_hdr *hdr; /* shared */
	struct uroce_cqe *slots;  /* shared */
	uint32_t mask;
	uint32_t shift; /* log2 of the entries: index >> shift is the lap */
	uint32_t cons;
	uint32_t empty_polls;
	uint64_t awaited_ns;         /* a completion may be due until then, or PROV_CQ_*; atomic */
	bool gathered;               /* the daemon is lost: old holds all remaining completions */
	bool last_event;             /* the channel must report the loss; atomic */
	int channel_fd;              /* -1: none */
	struct ibv_pd *domain;       /* parent domain, or NULL */
	TAILQ_ENTRY(prov_cq) link;   /* in its context's list */
	struct prov_cq_old *old;     /* entries saved by a resize, taken first */
	const struct uroce_cqe *cur; /* extended poll: the entry being read */
	struct prov_ref ref;
};

#define PROV_CQ_TRAFFIC 0ull       /* awaited_ns: a post or a completion since the last check */
#define PROV_CQ_QUIET   UINT64_MAX /* awaited_ns: no completion is expected */

/* Notes traffic of cq: a post whose completion or response goes to cq, or a completion in cq. */
static inline void
prov_cq_traffic(struct prov_cq *cq)
{
	if (__atomic_load_n(&cq->awaited_ns, __ATOMIC_RELAXED) != PROV_CQ_TRAFFIC)
		__atomic_store_n(&cq->awaited_ns, PROV_CQ_TRAFFIC, __ATOMIC_RELAXED);
}

struct prov_srq {
	struct verbs_srq vsrq;
	struct prov_ring ring;
	struct prov_qp *gathered; /* the daemon is lost: the QP whose CQ gets the WRs that no QP had
				     taken */
	struct prov_ref ref;
};

struct prov_qp {
	struct verbs_qp vqp;
	struct prov_ring sq, rq;
	uint32_t state; /* enum ibv_qp_state that this side last set; both rings' locks */
	uint32_t qpn;
	uint32_t max_inline;
	bool sig_all;
	const uint32_t *worker; /* index of its worker: the SQ header's, or first_worker */
	uint32_t first_worker;
	/* ibv_wr_*: between wr_start and wr_complete, under sq.lock */
	uint32_t build_start; /* sq.prod at wr_start */
	int build_error;
	const char *build_why; /* of build_error; NULL: the QP's state, or the daemon is lost */
	struct uroce_send_wqe *build; /* the WQE that setters act on */
	TAILQ_ENTRY(prov_qp) link;    /* of its context's */
	LIST_ENTRY(prov_qp) ud_link;  /* UD only */
	struct prov_ref ref;
	uint32_t ud_unsent; /* sq.prod up to which a destruction waited in vain; obj_mutex */
};

static inline struct prov_context *
prov_context_of(struct ibv_context *ctx)
{
	return prov_container(ctx, struct prov_context, vctx.context);
}

/* Returns true if the daemon is lost, as far as this process has noticed. Any thread. */
static inline bool
prov_context_lost(const struct prov_context *ctx)
{
	return __atomic_load_n(&ctx->lost, __ATOMIC_RELAXED);
}

static inline struct prov_cq *
prov_cq_of(struct ibv_cq *cq)
{
	return prov_container(cq, struct prov_cq, vcq.cq);
}

static inline struct prov_qp *
prov_qp_of(struct ibv_qp *qp)
{
	return prov_container(qp, struct prov_qp, vqp.qp);
}

static inline struct prov_srq *
prov_srq_of(struct ibv_srq *srq)
{
	return prov_container(srq, struct prov_srq, vsrq.srq);
}

/* The slot of a free-running index. */
static inline void *
prov_ring_slot(const struct prov_ring *r, uint32_t index)
{
	return r->slots + (size_t)(index & r->mask) * r->stride;
}

#define PROV_RING_AHEAD 4 /* slots */

/*
 * Prefetches a slot that will be written soon, if it is free, from the cache of the worker's core.
 * Always inlined, because GCC removes calls of functions without other effects.
 */
static inline __attribute__((always_inline)) void
prov_ring_ahead(const struct prov_ring *r)
{
	uint32_t i = r->prod + PROV_RING_AHEAD;
	const uint8_t *slot = prov_ring_slot(r, i);

	if (i - r->cons >= r->limit)
		return;
	__builtin_prefetch(slot, 1);
	__builtin_prefetch(slot + 64, 1);
}

/* ---- device.c ---- */
extern const struct verbs_device_ops prov_device_ops;

/* ---- context.c ---- */
/* The operations that libibverbs calls; an operation that is missing is not supported. */
extern const struct verbs_context_ops prov_context_ops;
struct verbs_context *prov_alloc_context(struct ibv_device *device, int cmd_fd, void *priv);
void prov_free_context(struct ibv_context *ibctx);

/* One request without descriptors. 0 or a positive errno, which is also left in errno. */
int prov_call(struct ibv_context *ctx, uint16_t op, const void *req, size_t req_len, void *rep,
	      size_t rep_len);

/* As prov_call, for a struct ipc_call that the caller has filled. */
int prov_call_fds(struct ibv_context *ctx, struct ipc_call *call);

/*
 * DEALLOC_*, DESTROY_*, DEREG_*: the request is just a handle. 0 also if the daemon is gone: its
 * object is gone, too, and this side frees the rest (EVT-14).
 */
int prov_call_destroy(struct ibv_context *ctx, uint16_t op, uint32_t handle);

/* The open context whose command descriptor is cmd_fd, or NULL. */
struct prov_context *prov_context_by_cmd_fd(int cmd_fd);
/* Prints why the daemon cannot be reached; rc: the positive errno of ipc_client_connect. */
void prov_unreachable(int rc);

/*
 * Sends a request on any open context of the device and keeps it open meanwhile. Returns 0 or a
 * positive errno: ENODEV if no context is open. errno is unchanged.
 */
int prov_call_device(const char *device, uint16_t op, const void *req, size_t req_len, void *rep,
		     size_t rep_len);

/* Returns true if the daemon is alive; else sets ctx->lost. A system call: slow path only. */
bool prov_context_alive(struct prov_context *ctx);

/* ---- rings.c ---- */
/* The rings that a reply describes: n locations in it, and where their headers are mapped. */
struct prov_rings {
	const struct uroce_ring_loc *const *locs;
	size_t hdr_bytes; /* of each ring's header */
	void **rings;
	unsigned int n;
};

/*
 * Sends the request of call, and sets each of r->rings to the ring's header, or to NULL if its
 * location has 0 entries. If the daemon lacks room for the rings, gets segments, at most one a
 * ring, and repeats the request. Any thread. One at a time: the thread that gets a segment needs
 * all of it. 0 or a positive errno, which is also left in errno; EMFILE and ENOMEM also at this
 * process's limits.
 */
int prov_call_rings(struct ibv_context *ctx, struct ipc_call *call, const struct prov_rings *r);

/* Reserves a descriptor, if there is none yet. 0 or a positive errno. */
int prov_rings_open(struct prov_context *ctx);
void prov_rings_close(struct prov_context *ctx);

/* ---- hooks/libibverbs.c ---- */
/* Redirects calls of libibverbs to the provider; once, from the provider's constructor. */
void prov_hooks_install(void);

/* ---- sysfs.c ---- */
/*
 * If path (relative to the directory dir, as for openat(2)) is the file of a GID or P_Key of a
 * device that this process has open, returns a descriptor with the current content. Otherwise
 * returns -1. errno is unchanged.
 */
int prov_sysfs_open(int dir, const char *path);

/* ---- event.c ---- */
/* Reads of a context's asynchronous descriptor go through prov_event_read from now on. */
int prov_event_add_async(struct prov_context *ctx, int fd);
/* The context closes: reads of channels that the program left open fail with EIO. */
void prov_event_forget(struct prov_context *ctx);
/* Requests a completion channel from the daemon. The descriptor, or -1 with errno. */
int prov_event_create_channel(struct prov_context *ctx);
/* Gets the daemon's handle of ctx's channel fd. Returns false if fd is not a channel. */
bool prov_event_channel_handle(struct prov_context *ctx, int fd, uint32_t *handle);
/* Gives ref an id, unique in the process. 0 or ENOMEM. */
int prov_ref_add(struct prov_ref *ref, void *element);
/* Releases the id: no event of the object is delivered from now on. May be repeated. */
void prov_ref_drop(struct prov_ref *ref);
/*
 * Frees an object (obj, which contains ref) once every delivered event has been acknowledged: *comp
 * (NULL: there are none) and *async count these under mutex, and cond is signalled. Does not wait
 * in the child of a fork, where the threads that took the events do not exist, nor if the daemon is
 * lost: the memory then stays for late acknowledgements until the context closes (EVT-14).
 */
void prov_ref_free(struct prov_context *ctx, struct prov_ref *ref, void *obj, const uint32_t *comp,
		   const uint32_t *async, pthread_mutex_t *mutex, pthread_cond_t *cond);
/* The context closes: frees the memory that prov_ref_free kept. */
void prov_ref_free_unacked(struct prov_context *ctx);
/* Drops stale events from the heads of the channel (-1: none) and of ctx's async descriptor. */
void prov_event_purge(struct prov_context *ctx, int channel_fd);
/* Replace libibverbs' read(2) and close(2). Other descriptors are passed to libc. */
ssize_t prov_event_read(int fd, void *buf, size_t len);
int prov_event_close(int fd);

/* ---- share.c ---- */
/* Prepares ctx's command descriptor for ibv_import_device. A failure only prevents the import. */
void prov_share_offer(struct prov_context *ctx, const char *device);
/* A separate context for a process that got the command descriptor of another context. */
struct verbs_context *prov_import_context(struct ibv_device *device, int cmd_fd);
struct ibv_pd *prov_import_pd(struct ibv_context *ibctx, uint32_t handle);
void prov_unimport_pd(struct ibv_pd *pd);
struct ibv_mr *prov_import_mr(struct ibv_pd *pd, uint32_t handle);
void prov_unimport_mr(struct ibv_mr *mr);
/* Replace fstat(2) and ioctl(2) of libibverbs' import. Other descriptors are passed to libc. */
int prov_share_fstat(int fd, struct stat *st);
int prov_share_ioctl(int fd, unsigned long request, void *arg);

/* ---- pd.c ---- */
struct ibv_pd *prov_alloc_pd(struct ibv_context *ibctx);
int prov_dealloc_pd(struct ibv_pd *ibpd);
/*
 * Count an object in pd that was created, or destroyed. The daemon counts the users of a PD, but
 * cannot tell which name of the PD (parent domain) they use. NULL is ignored.
 */
void prov_pd_hold(struct ibv_pd *pd);
void prov_pd_drop(struct ibv_pd *pd);
struct ibv_pd *prov_alloc_parent_domain(struct ibv_context *ibctx,
					struct ibv_parent_domain_init_attr *attr);
struct ibv_td *prov_alloc_td(struct ibv_context *ibctx, struct ibv_td_init_attr *attr);
int prov_dealloc_td(struct ibv_td *td);

/* ---- mr.c, ah.c ---- */
struct ibv_mr *prov_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access);
int prov_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access);
int prov_dereg_mr(struct verbs_mr *vmr);
struct ibv_mw *prov_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int prov_dealloc_mw(struct ibv_mw *mw);
int prov_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
struct ibv_ah *prov_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int prov_destroy_ah(struct ibv_ah *ah);
/* Address attributes in the ABI's layout and back. */
void prov_ah_attr_out(struct uroce_ah_attr *to, const struct ibv_ah_attr *from);
void prov_ah_attr_in(struct ibv_ah_attr *to, const struct uroce_ah_attr *from);

/* ---- query.c ---- */
int prov_query_device_ex(struct ibv_context *ibctx, const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t attr_size);
int prov_query_port(struct ibv_context *ibctx, uint8_t port, struct ibv_port_attr *attr);
/* Reads the clock of completion timestamps; EINVAL for any other clock. */
int prov_query_rt_values(struct ibv_context *ibctx, struct ibv_values_ex *values);

/* ---- cq.c, cq_ex.c ---- */
struct ibv_cq *prov_create_cq(struct ibv_context *ibctx, int cqe, struct ibv_comp_channel *channel,
			      int comp_vector);
struct ibv_cq_ex *prov_create_cq_ex(struct ibv_context *ibctx, struct ibv_cq_init_attr_ex *attr);
int prov_resize_cq(struct ibv_cq *ibcq, int cqe);
int prov_destroy_cq(struct ibv_cq *ibcq);
int prov_poll_cq(struct ibv_cq *ibcq, int num, struct ibv_wc *wc);
int prov_req_notify_cq(struct ibv_cq *ibcq, int solicited_only);
/*
 * The oldest entry not taken yet, or NULL. prov_cq_take takes it; it stays valid until
 * prov_cq_publish returns the taken slots to the daemon. The lock is held over all three calls.
 */
const struct uroce_cqe *prov_cq_head(struct prov_cq *cq);
void prov_cq_take(struct prov_cq *cq);
void prov_cq_publish(struct prov_cq *cq);
/* Fills the extended poll's function pointers. */
void prov_cq_ex_init(struct prov_cq *cq, uint64_t wc_flags);

/* ---- cq_idle.c ---- */
/*
 * Called after an empty poll, lock not held. polls: number of empty polls so far. Returns 0; 1 if
 * it gave up the core, so that another poll is worthwhile; -EIO if the CQ is dead. Checks from time
 * to time whether the daemon is alive.
 */
int prov_cq_idle(struct prov_cq *cq, uint32_t polls);
/*
 * Reads the poll mode from UROCE_POLL. shared_cores: the daemon shares its cores with its clients.
 * 0; EINVAL for an unknown value, with a message on stderr.
 */
int prov_poll_mode(bool shared_cores, enum prov_poll_mode *mode);

/* ---- cq_purge.c ---- */
/* Entries that a resize found in the old ring. */
struct prov_cq_old {
	uint32_t n, next;
	struct uroce_cqe cqe[];
};
/*
 * Removes the entries of qpn that were not polled, keeping the order of all others. The daemon
 * must have finished with that QP. Takes cq's lock.
 */
void prov_cq_purge(struct prov_cq *cq, uint32_t qpn);
static inline bool
prov_cq_has_old(const struct prov_cq *cq)
{
	return cq->old && cq->old->next < cq->old->n;
}
/* Space for all entries that cq can hold; NULL without memory. */
struct prov_cq_old *prov_cq_old_alloc(struct prov_cq *cq);
/* Copies all entries not taken yet into to, oldest first; lock held. */
void prov_cq_save(const struct prov_cq *cq, struct prov_cq_old *to);

/* ---- qp.c, qp_modify.c ---- */
struct ibv_qp *prov_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *prov_create_qp_ex(struct ibv_context *ibctx, struct ibv_qp_init_attr_ex *attr);
int prov_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask);
int prov_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init);
int prov_query_qp_data_in_order(struct ibv_qp *ibqp, enum ibv_wr_opcode op, uint32_t flags);
int prov_destroy_qp(struct ibv_qp *ibqp);
int prov_attach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid);
int prov_detach_mcast(struct ibv_qp *ibqp, const union ibv_gid *gid, uint16_t lid);
/* Removes the unpolled entries of qp from its CQs. The daemon must have finished with qp. */
void prov_qp_purge_cqs(struct prov_qp *qp);
/* The sizes of a QP's queues, as the daemon grants them. */
void prov_qp_cap_in(struct ibv_qp_cap *to, const struct uroce_qp_cap *from);
/* Initialises a queue with the ring that a reply describes. */
void prov_ring_init(struct prov_ring *r, void *hdr, const struct uroce_ring_loc *loc,
		    uint32_t limit, uint32_t max_sge);

/* ---- ah.c: posted datagrams ---- */
/*
 * Before an address handle (only: NULL) or a QP is destroyed: waits until the posted datagrams of
 * ctx, or of this QP, were sent; at most 100 ms for each QP that does not send. Takes obj_mutex.
 */
void prov_ud_wait_sent(struct prov_context *ctx, const struct prov_qp *only);

/* ---- post.c ---- */
/* Return true if a QP in this state accepts send (receive) WRs (IMM-01, IMM-02). */
bool prov_state_sends(uint32_t state);
bool prov_state_receives(uint32_t state);
/* Returns how many WRs still fit. Reads the daemon's index only if fewer than want seem to fit. */
uint32_t prov_ring_room(struct prov_ring *r, uint32_t want);
/* Makes WRs up to r->prod visible. Returns true if the daemon needs a doorbell. Lock held. */
bool prov_ring_publish(struct prov_ring *r);
/* As prov_ring_publish, for qp's SQ; completions are expected in its CQs from now on. */
bool prov_sq_publish(struct prov_qp *qp);
/* Ends the sleep of a worker. */
void prov_worker_wake(struct prov_worker *w);
/* Notifies qp's worker that it has new work; the ring's lock is not needed. */
void prov_doorbell(struct prov_qp *qp);
/* Writes n SGEs in the ABI's layout to to, which follows the header of a WQE. */
void prov_sges_write(void *to, const struct ibv_sge *from, int n);
/* Writes the fields of a bind into its WQE. */
void prov_bind_write(struct uroce_send_wqe *wqe, const struct ibv_mw *mw, uint32_t rkey,
		     const struct ibv_mw_bind_info *info);
/* Handles a post that failed with rc. If the queue was full, checks the daemon. Returns rc. */
int prov_post_failed(struct ibv_context *ibctx, int rc);
int prov_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

/* ---- post_recv.c ---- */
int prov_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int prov_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* ---- daemon_lost.c ---- */
void prov_daemon_lost_init(struct prov_context *ctx);
/* A context lists its QPs and CQs from their creation to their destruction. */
void prov_daemon_lost_add_qp(struct prov_context *ctx, struct prov_qp *qp);
void prov_daemon_lost_del_qp(struct prov_context *ctx, struct prov_qp *qp);
void prov_daemon_lost_add_cq(struct prov_context *ctx, struct prov_cq *cq);
void prov_daemon_lost_del_cq(struct prov_context *ctx, struct prov_cq *cq);
/* Replaces the lost daemon's check: 0 if this CQ or SRQ may be destroyed; EBUSY: a QP uses it. */
int prov_daemon_lost_check_unused(struct prov_context *ctx, const struct ibv_cq *cq,
				  const struct ibv_srq *srq);
/*
 * Called before a poll if ctx->lost, cq's lock not held. Returns 1 if there are completions to
 * poll, 0 if there are none yet, -EIO if none will follow.
 */
int prov_daemon_lost_poll(struct prov_cq *cq);
/* Replaces arming cq. Returns 0 while completions remain, which the channel reports; else EIO. */
int prov_daemon_lost_notify(struct prov_cq *cq);
/* Returns a CQ of this channel whose loss must be reported, each CQ once; NULL: none. */
struct prov_ref *prov_daemon_lost_event(struct prov_context *ctx, int channel_fd);
/* Called when a queue is full: checks from time to time that the daemon is alive. No lock held. */
void prov_daemon_lost_queue_full(struct prov_context *ctx);

/* ---- srq.c ---- */
struct ibv_srq *prov_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
struct ibv_srq *prov_create_srq_ex(struct ibv_context *ibctx, struct ibv_srq_init_attr_ex *attr);
int prov_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask);
int prov_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr);
int prov_destroy_srq(struct ibv_srq *ibsrq);
int prov_get_srq_num(struct ibv_srq *ibsrq, uint32_t *num);

/* ---- wr.c ---- */
/* Send operations that ibv_create_qp_ex offers for this type (IBV_QP_EX_WITH_*). */
uint64_t prov_wr_ops(uint32_t qp_type);
/* Fills the ibv_wr_* function pointers of qp. */
void prov_wr_init(struct prov_qp *qp);

/* Returns the key of mw after a bind that requests want: a program chooses the low 8 bits only. */
static inline uint32_t
prov_mw_key(const struct ibv_mw *mw, uint32_t want)
{
	return (mw->rkey & ~0xffu) | (want & 0xff);
}

#endif
