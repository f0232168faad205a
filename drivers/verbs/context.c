/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context is one connection to the daemon. Opening sends HELLO. Closing closes the socket, and
 * the daemon then destroys all objects that the context still owns.
 *
 * Fork: the child inherits descriptors and shared rings that are the parent's. Its copies of the
 * control sockets are closed at once (else the daemon would not notice that the parent died) and
 * its contexts are marked lost: every operation fails in the child and none reaches the parent's
 * queues. The list of contexts is changed by single stores, so the child can walk it even if
 * another thread held its lock.
 */
#include "provider.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>
#include <unistd.h>
#include "fork.h"
#include "mr_adopt.h"
#include "refusal.h"

static struct {
	pthread_mutex_t mutex;
	struct prov_context *list;
} open_contexts = {.mutex = PTHREAD_MUTEX_INITIALIZER};

uint32_t prov_lock_process = 1;

const struct verbs_context_ops prov_context_ops = {
	.alloc_mw = prov_alloc_mw,
	.alloc_parent_domain = prov_alloc_parent_domain,
	.alloc_pd = prov_alloc_pd,
	.alloc_td = prov_alloc_td,
	.attach_mcast = prov_attach_mcast,
	.bind_mw = prov_bind_mw,
	.create_ah = prov_create_ah,
	.create_cq = prov_create_cq,
	.create_cq_ex = prov_create_cq_ex,
	.create_qp = prov_create_qp,
	.create_qp_ex = prov_create_qp_ex,
	.create_srq = prov_create_srq,
	.create_srq_ex = prov_create_srq_ex,
	.dealloc_mw = prov_dealloc_mw,
	.dealloc_pd = prov_dealloc_pd,
	.dealloc_td = prov_dealloc_td,
	.dereg_mr = prov_dereg_mr,
	.destroy_ah = prov_destroy_ah,
	.destroy_cq = prov_destroy_cq,
	.destroy_qp = prov_destroy_qp,
	.destroy_srq = prov_destroy_srq,
	.detach_mcast = prov_detach_mcast,
	.free_context = prov_free_context,
	.get_srq_num = prov_get_srq_num,
	.import_mr = prov_import_mr,
	.import_pd = prov_import_pd,
	.modify_qp = prov_modify_qp,
	.modify_srq = prov_modify_srq,
	.poll_cq = prov_poll_cq,
	.post_recv = prov_post_recv,
	.post_send = prov_post_send,
	.post_srq_recv = prov_post_srq_recv,
	.query_device_ex = prov_query_device_ex,
	.query_port = prov_query_port,
	.query_qp = prov_query_qp,
	.query_qp_data_in_order = prov_query_qp_data_in_order,
	.query_rt_values = prov_query_rt_values,
	.query_srq = prov_query_srq,
	.reg_mr = prov_reg_mr,
	.req_notify_cq = prov_req_notify_cq,
	.rereg_mr = prov_rereg_mr,
	.resize_cq = prov_resize_cq,
	.unimport_mr = prov_unimport_mr,
	.unimport_pd = prov_unimport_pd,
};

void
prov_refusal_print(const char *who, const char *why)
{
	static time_t last; /* two threads at the same moment may print one line more */
	time_t now = time(NULL);

	if (__atomic_exchange_n(&last, now, __ATOMIC_RELAXED) != now)
		fprintf(stderr, "uroce: %s refuses: %s\n", who, why);
}

/*
 * Prints the daemon's reason for a refusal, such as the limit that was reached or the attribute
 * that is wrong. Some programs find the limits by creating QPs that are too large: that reason is
 * printed only with UROCE_VERBOSE.
 */
static void
print_reason(uint16_t op, int rc, const char *why)
{
	if (op == UROCE_CTRL_CREATE_QP && rc == EINVAL && getenv("UROCE_VERBOSE") == NULL)
		return;
	if (*why != '\0')
		prov_refusal_print("uroced", why);
}

int
prov_call_fds(struct ibv_context *ibctx, struct ipc_call *call)
{
	struct prov_context *ctx = prov_context_of(ibctx);
	int rc;

	fork_enter(); /* the connection is the parent's */
	rc = -ipc_client_call(&ctx->ipc, call);

	if (rc)
		print_reason(call->op, rc, call->why);
	if (rc == EIO || rc == EPROTO)
		prov_context_alive(ctx);
	if (rc)
		errno = rc;
	return rc;
}

int
prov_call(struct ibv_context *ibctx, uint16_t op, const void *req, size_t req_len, void *rep,
	  size_t rep_len)
{
	struct ipc_call call = {
		.op = op,
		.req = req,
		.req_len = req_len,
		.rep = rep,
		.rep_len = rep_len,
	};

	return prov_call_fds(ibctx, &call);
}

int
prov_call_destroy(struct ibv_context *ibctx, uint16_t op, uint32_t handle)
{
	struct uroce_handle req = {.handle = handle};
	int rc = prov_call(ibctx, op, &req, sizeof(req), NULL, 0);

	return rc && prov_context_alive(prov_context_of(ibctx)) ? rc : 0;
}

struct prov_context *
prov_context_by_cmd_fd(int cmd_fd)
{
	struct prov_context *ctx;

	fork_enter();
	pthread_mutex_lock(&open_contexts.mutex);
	for (ctx = open_contexts.list; ctx; ctx = ctx->next) {
		if (ctx->vctx.context.cmd_fd == cmd_fd)
			break;
	}
	pthread_mutex_unlock(&open_contexts.mutex);
	return ctx;
}

int
prov_call_device(const char *device, uint16_t op, const void *req, size_t req_len, void *rep,
		 size_t rep_len)
{
	int rc = ENODEV, saved = errno;

	fork_enter();
	pthread_mutex_lock(&open_contexts.mutex);
	for (struct prov_context *ctx = open_contexts.list; ctx && rc == ENODEV; ctx = ctx->next) {
		struct ibv_context *ibctx = &ctx->vctx.context;

		if (!prov_context_lost(ctx) && strcmp(ibctx->device->name, device) == 0)
			rc = prov_call(ibctx, op, req, req_len, rep, rep_len);
	}
	pthread_mutex_unlock(&open_contexts.mutex);
	errno = saved;
	return rc;
}

bool
prov_context_alive(struct prov_context *ctx)
{
	struct pollfd pfd = {.fd = __atomic_load_n(&ctx->ipc.sock, __ATOMIC_RELAXED)};

	/*
	 * Polls for the hang-up only: a reply in flight belongs to its caller. Another thread may
	 * close the descriptor at this moment, because the connection has ended.
	 */
	if (pfd.fd < 0 || (poll(&pfd, 1, 0) > 0 && (pfd.revents & (POLLHUP | POLLERR | POLLNVAL))))
		__atomic_store_n(&ctx->lost, true, __ATOMIC_RELAXED);
	return !prov_context_lost(ctx);
}

static void
context_fork_child(void)
{
	prov_lock_process++;
	pthread_mutex_init(&open_contexts.mutex, NULL);
	for (struct prov_context *ctx = open_contexts.list; ctx; ctx = ctx->next) {
		ctx->lost = ctx->forked = true;
		pthread_mutex_init(&ctx->obj_mutex, NULL);
		pthread_mutex_init(&ctx->seg_mutex, NULL);
		ipc_client_abandon(&ctx->ipc);
	}
}

static struct fork_part context_fork = {.child = context_fork_child};

static __attribute__((constructor)) void
context_fork_install(void)
{
	fork_part_add(&context_fork);
}

static void
context_link(struct prov_context *ctx)
{
	pthread_mutex_lock(&open_contexts.mutex);
	ctx->next = open_contexts.list;
	__atomic_store_n(&open_contexts.list, ctx, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&open_contexts.mutex);
}

static void
context_unlink(struct prov_context *ctx)
{
	struct prov_context **p;

	fork_enter();
	pthread_mutex_lock(&open_contexts.mutex);
	for (p = &open_contexts.list; *p; p = &(*p)->next) {
		if (*p == ctx) {
			__atomic_store_n(p, ctx->next, __ATOMIC_RELEASE);
			break;
		}
	}
	pthread_mutex_unlock(&open_contexts.mutex);
}

/* Undoes context_hello; descriptors that libibverbs closes are not touched. */
static void
context_release(struct prov_context *ctx)
{
	ipc_client_close(&ctx->ipc);
	prov_rings_close(ctx);
	for (uint32_t i = 0; i < ctx->nworkers; i++)
		close(ctx->worker[i].wake_fd);
	if (ctx->db_seg)
		munmap(ctx->db_seg, ctx->db_bytes);
	if (ctx->states)
		munmap(ctx->states, ctx->nworkers * sizeof(*ctx->states));
	ipc_segmap_close(&ctx->segs);
}

/* Sets up the doorbell rings and wake-up descriptors of a HELLO reply. The caller keeps fds[0]. */
static int
context_workers(struct prov_context *ctx, const struct uroce_hello_rep *rep, const int *fds)
{
	int err;

	ctx->db_bytes = rep->db_seg_bytes;
	ctx->db_seg = ipc_seg_map(fds[1], ctx->db_bytes, true);
	err = errno;
	close(fds[1]);
	ctx->nworkers = rep->nworkers;
	for (uint32_t i = 0; i < rep->nworkers; i++)
		ctx->worker[i].wake_fd = fds[2 + i];
	ctx->states =
		ipc_seg_map(fds[2 + rep->nworkers], rep->nworkers * sizeof(*ctx->states), false);
	if (!ctx->states)
		err = errno;
	close(fds[2 + rep->nworkers]);
	if (!ctx->db_seg || !ctx->states)
		return err;
	for (uint32_t i = 0; i < rep->nworkers; i++) {
		uint64_t off = rep->db_off[i];

		if (off % UROCE_CACHE_LINE || off > ctx->db_bytes ||
		    ctx->db_bytes - off < sizeof(struct uroce_db_ring))
			return EPROTO;
		ctx->worker[i].db = (struct uroce_db_ring *)((char *)ctx->db_seg + off);
		ctx->worker[i].state = &ctx->states[i];
	}
	if (rep->flags & UROCE_HELLO_COPY)
		mr_pieces_copy();
	return prov_poll_mode(rep->flags & UROCE_HELLO_YIELD, &ctx->poll);
}

void
prov_unreachable(int rc)
{
	fprintf(stderr, "uroce: cannot reach uroced at %s: %s%s\n", ipc_client_path(NULL),
		strerror(rc),
		rc == EACCES ? "; its --socket-mode and --socket-group decide who may connect"
			     : "");
}

/* Connects and sends HELLO. 0 or a positive errno; context_release undoes both. */
static int
context_hello(struct prov_context *ctx, const char *device)
{
	struct uroce_hello_rep rep;
	int fds[UROCE_HELLO_FDS];
	char why[UROCE_CTRL_MAX_WHY + 1];
	unsigned int nfds;
	int rc;

	rc = -ipc_client_connect(&ctx->ipc, NULL);
	if (rc) {
		prov_unreachable(rc);
		return rc;
	}
	rc = -ipc_client_hello(&ctx->ipc, device, &rep, fds, &nfds, why);
	if (rc) {
		fprintf(stderr, "uroce: uroced refuses %s: %s%s%s\n", device, strerror(rc),
			*why ? ": " : "", why);
		return rc;
	}
	if (rep.nworkers == 0 || rep.nworkers > UROCE_MAX_WORKERS || nfds != rep.nworkers + 3) {
		while (nfds)
			close(fds[--nfds]);
		return EPROTO;
	}
	/* From here on libibverbs closes the asynchronous descriptor with the context. */
	ctx->vctx.context.async_fd = fds[0];
	rc = context_workers(ctx, &rep, fds);
	if (rc == 0)
		rc = prov_rings_open(ctx);
	if (rc == 0)
		rc = prov_event_add_async(ctx, fds[0]);
	if (rc == 0)
		rc = prov_call(&ctx->vctx.context, UROCE_CTRL_QUERY_DEVICE, NULL, 0, &ctx->dev,
			       sizeof(ctx->dev));
	return rc;
}

struct verbs_context *
prov_alloc_context(struct ibv_device *device, int cmd_fd, void *priv)
{
	struct prov_context *ctx;
	int rc;

	(void)priv;
	fork_enter();
	ctx = rca_context_alloc(device, cmd_fd, sizeof(*ctx), offsetof(struct prov_context, vctx));
	if (!ctx)
		return NULL;
	pthread_mutex_init(&ctx->seg_mutex, NULL);
	ctx->spare_fd = -1;
	prov_daemon_lost_init(ctx);
	rc = rca_context_set_ops(&ctx->vctx, &prov_context_ops);
	if (rc == 0) {
		rc = context_hello(ctx, device->name);
		if (rc)
			context_release(ctx);
	}
	if (rc) {
		rca_context_uninit(&ctx->vctx);
		free(ctx);
		errno = rc;
		return NULL;
	}
	ctx->vctx.context.num_comp_vectors = (int)ctx->nworkers;
	context_link(ctx);
	prov_share_offer(ctx, device->name);
	return rca_context_seen(&ctx->vctx);
}

void
prov_free_context(struct ibv_context *ibctx)
{
	struct prov_context *ctx = prov_context_of(ibctx);

	context_unlink(ctx);
	prov_event_forget(ctx);
	context_release(ctx);
	prov_ref_free_unacked(ctx);
	rca_context_uninit(&ctx->vctx);
	fork_free(ctx);
}
