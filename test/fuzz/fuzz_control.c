/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hostile clients and neighbours of the control plane (fuzz_rx.h's interface; replay.c runs it
 * without libFuzzer). What must hold, whatever they send: each message gets its reply, of the right
 * length, or ends the session; when all have gone, no object, quota, frame or descriptor is left.
 *
 * An input is a sequence of steps: operation, who, argument, length, then so many bytes.
 */
#include "control_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <rte_eal.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include "control/cm.h"
#include "control/neigh.h"
#include "control/obj.h"
#include "control/session.h"
#include "control/slow_path.h"
#include "control/throttle.h"
#include "../kit/unit_eal.h"
#include "fuzz_rx.h"

#define STEPS_MAX 64u
#define SLOTS     4u /* sessions at a time */
#define PENDING   8u /* requests of a session without a reply yet */
#define HANDLES   4u /* of a kind that a session remembers */
#define TURNS_MAX 100000u
#define MBUFS     255u
#define FDS_EXACT 32u  /* inputs after which all descriptors must be closed; later .. */
#define FDS_SLACK 100u /* .. so many may still be closed by the broker */
#define MESSAGES  43u  /* operations of CTL_MESSAGE and CTL_MESSAGE2: more change old inputs */
#define FAKE_FDS  3u   /* of the fakes: epoll, the workers' eventfd, daemon.turn */

enum control_op {
	CTL_MESSAGE,  /* plausible, changed by the body; arg: operation */
	CTL_MESSAGE2, /* the same, from the second half of operations */
	CTL_RAW,      /* the body is the message */
	CTL_CONNECT,  /* arg: as which user, and which HELLO */
	CTL_CLOSE,
	CTL_COMMAND, /* of rdma_cm; arg: which */
	CTL_COMMAND_RAW,
	CTL_FRAME, /* from a neighbour */
	CTL_MAD,
	CTL_TIME,
	CTL_WORKER, /* stops worker arg & 1, or resumes it */
	CTL_OPS,
};

enum kind { NO_KIND, PD, MR, MW, CHANNEL, CQ, SRQ, QP, AH, KINDS };

/* What the requests of an operation refer to, and what its reply begins with. */
static const struct form {
	uint8_t makes; /* enum kind */
	struct {
		uint16_t at;
		uint8_t kind;
		bool optional; /* handle + 1, or 0 */
	} ref[4];
} forms[UROCE_CTRL_OPS] = {
#define AT(type, field) offsetof(struct uroce_##type, field)
	[UROCE_CTRL_ALLOC_PD] = {PD},
	[UROCE_CTRL_DEALLOC_PD] = {.ref = {{0, PD}}},
	[UROCE_CTRL_REG_MR] = {MR, {{0, PD}}},
	[UROCE_CTRL_DEREG_MR] = {.ref = {{0, MR}}},
	[UROCE_CTRL_REREG_MR] = {.ref = {{0, MR}, {AT(rereg_mr_req, reg.pd), PD}}},
	[UROCE_CTRL_CREATE_CHANNEL] = {CHANNEL},
	[UROCE_CTRL_CREATE_CQ] = {CQ, {{AT(create_cq_req, channel), CHANNEL, true}}},
	[UROCE_CTRL_RESIZE_CQ] = {.ref = {{0, CQ}}},
	[UROCE_CTRL_DESTROY_CQ] = {.ref = {{0, CQ}}},
	[UROCE_CTRL_CREATE_QP] = {QP,
				  {{AT(create_qp_req, pd), PD},
				   {AT(create_qp_req, send_cq), CQ},
				   {AT(create_qp_req, recv_cq), CQ},
				   {AT(create_qp_req, srq), SRQ, true}}},
	[UROCE_CTRL_MODIFY_QP] = {.ref = {{0, QP}}},
	[UROCE_CTRL_QUERY_QP] = {.ref = {{0, QP}}},
	[UROCE_CTRL_DESTROY_QP] = {.ref = {{0, QP}}},
	[UROCE_CTRL_CREATE_AH] = {AH, {{0, PD}}},
	[UROCE_CTRL_DESTROY_AH] = {.ref = {{0, AH}}},
	[UROCE_CTRL_CREATE_SRQ] = {SRQ, {{AT(create_srq_req, pd), PD}}},
	[UROCE_CTRL_MODIFY_SRQ] = {.ref = {{0, SRQ}}},
	[UROCE_CTRL_RESIZE_SRQ] = {.ref = {{0, SRQ}}},
	[UROCE_CTRL_QUERY_SRQ] = {.ref = {{0, SRQ}}},
	[UROCE_CTRL_DESTROY_SRQ] = {.ref = {{0, SRQ}}},
	[UROCE_CTRL_ALLOC_MW] = {MW, {{0, PD}}},
	[UROCE_CTRL_DEALLOC_MW] = {.ref = {{0, MW}}},
	[UROCE_CTRL_ATTACH_MCAST] = {.ref = {{0, QP}}},
	[UROCE_CTRL_DETACH_MCAST] = {.ref = {{0, QP}}},
	[UROCE_CTRL_IMPORT_PD] = {PD, {{AT(import_req, handle), PD}}},
	[UROCE_CTRL_IMPORT_MR] = {.ref = {{AT(import_req, handle), MR}, {AT(import_req, pd), PD}}},
};

struct slot {
	int fd;       /* the client's end; -1: none */
	int channel;  /* of events, or -1 */
	uint32_t pid; /* its number of requests so far, which is their cookie */
	struct {
		uint16_t op;
		uint32_t cookie;
	} pending[PENDING];
	uint32_t npending;
	uint32_t handle[KINDS][HANDLES];
	uint32_t made[KINDS];
};

struct daemon fuzz_daemon;

static struct rte_mempool *pool;
static struct slot slots[SLOTS];
static uint8_t token[UROCE_TOKEN_BYTES]; /* the last one that was exported */
static uint32_t last_qpn;
static bool stopped[FAKE_WORKERS];
static uint32_t idle_fds; /* open descriptors between inputs */

void
require(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "fuzz_control: %s\n", what);
	abort();
}

/* ---- messages ---- */

/* Sends n bytes with descriptors: how & 7 of them, of kinds from how >> 3 on. */
static void
send_bytes(struct slot *s, const uint8_t *bytes, uint32_t n, uint8_t how)
{
	static const uint8_t counts[8] = {0, 1, 0, 2, 0, 1, 5, 65};
	uint32_t nfds = counts[how & 7];
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(65 * sizeof(int))];
	} control;
	struct iovec iov = {(void *)(uintptr_t)bytes, n};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct uroce_ctrl_hdr hdr = {0};
	int fds[65];

	if (s->fd < 0 || s->npending == PENDING)
		return;
	for (uint32_t i = 0; i < nfds; i++)
		fds[i] = how >> 3 == 31 ? s->fd : host_fd((how >> 3) + i);
	if (nfds > 0) {
		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(&control.align), fds, nfds * sizeof(int));
	}
	if (sendmsg(s->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 || n == 0)
		return;
	memcpy(&hdr, bytes, n < sizeof(hdr) ? n : sizeof(hdr));
	s->pending[s->npending].op = hdr.op;
	s->pending[s->npending++].cookie = hdr.cookie;
}

/* ---- replies ---- */

static void
slot_end(struct slot *s)
{
	close(s->fd);
	if (s->channel >= 0)
		close(s->channel);
	*s = (struct slot){.fd = -1, .channel = -1};
}

static void
remember(struct slot *s, uint16_t op, const uint8_t *body)
{
	enum kind k = op < UROCE_CTRL_OPS ? forms[op].makes : NO_KIND;

	if (op == UROCE_CTRL_EXPORT)
		memcpy(token, body, sizeof(token));
	if (op == UROCE_CTRL_CREATE_QP)
		memcpy(&last_qpn, body + AT(create_qp_rep, qpn), sizeof(last_qpn));
	if (k != NO_KIND)
		memcpy(&s->handle[k][s->made[k]++ % HANDLES], body, sizeof(uint32_t));
}

static void
keep_fds(struct slot *s, uint16_t op, int *fds, uint32_t n, const uint8_t *body)
{
	if (op == UROCE_CTRL_CM_OPEN && n == 2) {
		cm_open_channel(fds[0], fds[1], body);
		return;
	}
	if (op == UROCE_CTRL_SHOW || op == UROCE_CTRL_IMPAIR)
		program_reply(op, body, fds, n);
	/* Every client has to seal its segments; one request in eight here forgets it. */
	if (op == UROCE_CTRL_HELLO && n > 1 && s->pid % 8 != 7)
		fcntl(fds[1], F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
	if (op == UROCE_CTRL_SEGMENT && n == 1 && s->pid % 8 != 7)
		fcntl(fds[0], F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
	if (op == UROCE_CTRL_CREATE_CHANNEL && n == 1) {
		int old = s->channel;

		s->channel = fds[0];
		fds[0] = old;
	}
	for (uint32_t i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* Sends a request that an input need not contain. */
static void
send_own(struct slot *s, uint16_t op, const void *body, uint32_t len)
{
	struct {
		struct uroce_ctrl_hdr hdr;
		uint8_t body[64];
	} m = {.hdr = {UROCE_CTRL_MAGIC, UROCE_ABI_VERSION, op, ++s->pid, 0, len}};

	if (len > 0)
		memcpy(m.body, body, len);
	send_bytes(s, (void *)&m, (uint32_t)sizeof(m.hdr) + len, 0);
}

/* As every client: gets its first segment, and those that it lacks. */
static void
want_segment(struct slot *s, const struct uroce_ctrl_hdr *hdr, const uint8_t *body)
{
	const struct uroce_create_cq_req cq = {.cqe = 1};
	const struct uroce_hello_rep *hello = (const void *)body;

	if (hdr->status == ENOSPC)
		send_own(s, UROCE_CTRL_SEGMENT, NULL, 0);
	else if (hdr->status == 0 && hdr->op == UROCE_CTRL_HELLO && hello->nworkers > 0)
		send_own(s, UROCE_CTRL_CREATE_CQ, &cq, sizeof(cq));
}

/* Receives one reply. Returns false if there is none; the session may have ended. */
static bool
receive(struct slot *s)
{
	static uint8_t bytes[UROCE_CTRL_MAX_MSG];
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(UROCE_CTRL_MAX_FDS * sizeof(int))];
	} control;
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	ssize_t n = recvmsg(s->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *cm = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	const struct uroce_ctrl_hdr *hdr = (const void *)bytes;
	const struct ipc_op *op;
	uint32_t nfds = 0;
	int fds[UROCE_CTRL_MAX_FDS];

	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		slot_end(s);
		return false;
	}
	if (cm != NULL) {
		nfds = (uint32_t)((cm->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(cm), nfds * sizeof(int));
	}
	require(n >= (ssize_t)sizeof(*hdr) && hdr->len == n - sizeof(*hdr), "length of a reply");
	require(hdr->magic == UROCE_CTRL_MAGIC && hdr->nfds == nfds, "form of a reply");
	require(s->npending > 0 && s->pending[0].op == hdr->op &&
			s->pending[0].cookie == hdr->cookie,
		"a reply to another request");
	memmove(s->pending, s->pending + 1, --s->npending * sizeof(s->pending[0]));
	op = ipc_op_get(hdr->op);
	want_segment(s, hdr, bytes + sizeof(*hdr));
	if (hdr->status != 0) {
		require(hdr->len <= UROCE_CTRL_MAX_WHY && nfds == 0, "form of a refusal");
		return true;
	}
	require(op != NULL && hdr->len == op->rep.len, "length of a reply's body");
	require(ipc_body_spare_used(&op->rep, bytes + sizeof(*hdr)) == NULL, "spare bytes");
	remember(s, hdr->op, bytes + sizeof(*hdr));
	keep_fds(s, hdr->op, fds, nfds, bytes + sizeof(*hdr));
	return true;
}

/* Frames that the daemon sends reach it again if they are for itself. */
static void
deliver(void)
{
	struct rte_mbuf *m = fake_sent;

	fake_sent = NULL;
	slow_path_rx(fuzz_daemon.dev[0], m);
	rte_pktmbuf_free(m);
}

/* Waits until the daemon has something to do. what: must not be, after 20 seconds without. */
static void
await(const char *what)
{
	struct pollfd p = {.fd = fuzz_daemon.loop.epfd, .events = POLLIN};
	int n = 0;

	for (uint32_t i = 0; i < 20 && n != 1; i++)
		n = poll(&p, 1, 1000); /* libFuzzer's timer interrupts it */
	require(n == 1, what);
}

/* Runs the daemon until it has nothing to do, and receives the replies. */
static void
settle(void)
{
	struct daemon *d = &fuzz_daemon;
	struct epoll_event ev;

	for (uint32_t turns = 0;; turns++) {
		require(turns < TURNS_MAX, "the daemon does not come to rest");
		fake_reset();
		for (struct slot *s = slots; s < slots + SLOTS; s++)
			while (s->fd >= 0 && receive(s))
				;
		cm_replies();
		if (epoll_wait(d->loop.epfd, &ev, 1, 0) == 1) {
			struct watch *w = ev.data.ptr;

			w->ready(w, ev.events);
		} else if (fake_sent != NULL) {
			deliver();
		} else if (TAILQ_EMPTY(&d->broker.waits)) {
			break;
		} else {
			await("the broker does not respond");
		}
	}
	for (struct slot *s = slots; s < slots + SLOTS; s++)
		require(s->npending == 0 || stopped[0] || stopped[1], "a request without reply");
}

/* ---- requests ---- */

static void
fill_memory(struct uroce_reg_mr_req *q, uint8_t how)
{
	static const uint64_t va[] = {HOST_MEM_VA, HOST_ANON_VA};

	q->access = 7;
	q->addr = va[how >> 7];
	q->iova = q->addr;
	q->length = 0x2000;
	q->npieces = 1;
	q->piece[0] = (struct uroce_mr_piece){.va = q->addr,
					      .len = 0x2000,
					      .kind = how & 3,
					      .vm_start = HOST_MEM_VA,
					      .vm_end = HOST_MEM_VA + HOST_BYTES};
}

/* States of QPs in the order of how, with their attributes. */
static void
fill_modify(struct uroce_modify_qp_req *q, uint8_t how)
{
	static const struct {
		uint32_t state, mask;
	} to[8] = {{1, 0x39}, {2, 0x181181 | 0x8000}, {3, 0x12e01}, {6, 1}, {0, 1},
		   {1, 0x71}, {3, 0x10001},           {4, 1}};

	q->attr_mask = to[how % 8].mask;
	q->attr = (struct uroce_qp_attr){.qp_state = to[how % 8].state,
					 .port_num = 1,
					 .path_mtu = 3,
					 .qkey = 0x1111,
					 .dest_qp_num = 0x123,
					 .timeout = 14,
					 .min_rnr_timer = 12,
					 .max_rd_atomic = 1,
					 .max_dest_rd_atomic = 1,
					 .ah = {.is_global = 1, .port_num = 1, .sgid_index = 1}};
	memcpy(q->attr.ah.dgid, fuzz_daemon.dev[0]->net.gid[1].gid, 16);
}

static void
fill_text(struct uroce_set_req *q, uint8_t how)
{
	static const char *const text[] = {"10.0.0.9/24", "fd00::9/64", "dcqcn", "swift",
					   "on",          "off",        "debug", "qps",
					   "error",       "10.0.0.1/24"};

	strcpy(q->device, "t0");
	q->what = 1 + how % 5;
	if (how >= 200)
		q->what = UROCE_SET_LOG_LEVEL + how % 2;
	q->index = how % 3;
	q->pkey = 0x8001;
	strcpy(q->addr, text[how % (sizeof(text) / sizeof(text[0]))]);
}

/* Fields that are no handles. */
static void
fill(uint16_t op, uint8_t how, uint8_t *body)
{
	struct uroce_create_qp_req *qp = (void *)body;
	struct uroce_create_ah_req *ah = (void *)body;
	struct uroce_ask_peer_req *ask = (void *)body;

	switch (op) {
	case UROCE_CTRL_QUERY_PORT:
	case UROCE_CTRL_QUERY_GID:
	case UROCE_CTRL_QUERY_PKEY:
		body[0] = 1;
		body[4] = how;
		break;
	case UROCE_CTRL_REG_MR:
		fill_memory((void *)body, how);
		((struct uroce_reg_mr_req *)(void *)body)->keep = how >> 2 & 3;
		break;
	case UROCE_CTRL_REREG_MR:
		((struct uroce_rereg_mr_req *)(void *)body)->flags = 1 + how % 7;
		fill_memory(&((struct uroce_rereg_mr_req *)(void *)body)->reg, how);
		break;
	case UROCE_CTRL_CREATE_CQ:
		((struct uroce_create_cq_req *)(void *)body)->cqe = 1 + how;
		break;
	case UROCE_CTRL_RESIZE_CQ:
		((struct uroce_resize_cq_req *)(void *)body)->cqe = 1 + how;
		break;
	case UROCE_CTRL_CREATE_QP:
		qp->qp_type = 2 + how % 3;
		qp->cap = (struct uroce_qp_cap){16, 16, 1 + how % 4, 1, how};
		break;
	case UROCE_CTRL_MODIFY_QP:
		fill_modify((void *)body, how);
		break;
	case UROCE_CTRL_CREATE_AH:
		ah->attr = (struct uroce_ah_attr){.is_global = 1, .port_num = 1, .sgid_index = 1};
		memcpy(ah->attr.dgid, fuzz_daemon.dev[0]->net.gid[1].gid, 16);
		ah->attr.dgid[15] ^= how & 3;
		break;
	case UROCE_CTRL_CREATE_SRQ:
		((struct uroce_create_srq_req *)(void *)body)->max_wr = 1 + how;
		((struct uroce_create_srq_req *)(void *)body)->max_sge = 1 + how % 4;
		break;
	case UROCE_CTRL_MODIFY_SRQ:
	case UROCE_CTRL_RESIZE_SRQ:
		((struct uroce_modify_srq_req *)(void *)body)->attr_mask = 1 + how % 3;
		((struct uroce_modify_srq_req *)(void *)body)->max_wr = 1 + how;
		break;
	case UROCE_CTRL_ALLOC_MW:
		((struct uroce_alloc_mw_req *)(void *)body)->type = 1 + how % 2;
		break;
	case UROCE_CTRL_ATTACH_MCAST:
	case UROCE_CTRL_DETACH_MCAST:
		((struct uroce_mcast_req *)(void *)body)->gid[0] = 0xff;
		((struct uroce_mcast_req *)(void *)body)->gid[1] = 0x0e;
		((struct uroce_mcast_req *)(void *)body)->gid[15] = how;
		break;
	case UROCE_CTRL_SET:
		fill_text((void *)body, how);
		break;
	case UROCE_CTRL_IMPORT_PD:
	case UROCE_CTRL_IMPORT_MR:
		memcpy(body, token, sizeof(token));
		break;
	case UROCE_CTRL_ASK_PEER:
		strcpy(ask->device, "t0");
		memcpy(ask->remote, fuzz_daemon.dev[0]->net.gid[1].gid, 16);
		ask->gid_index = 1;
		ask->len = how & 1 ? 256 : 0;
		ask->number = how >> 1;
		break;
	case UROCE_CTRL_PAUSE_THREADS:
		((struct uroce_pause_threads_req *)(void *)body)->tid = (uint32_t)host_client;
		break;
	default:
		program_fill(op, how, body, last_qpn);
		break;
	}
}

/*
 * Sends a request. body[0] chooses its descriptors, body[1] the values of its fields, body[2] the
 * handles; the rest is written over the request (step_overlay).
 */
static void
message(struct slot *s, uint16_t op, const uint8_t *body, uint32_t len)
{
	const struct ipc_op *row = ipc_op_get(op);
	uint8_t bytes[UROCE_CTRL_MAX_MSG] __attribute__((aligned(8))) = {0};
	struct uroce_ctrl_hdr *hdr = (void *)bytes;
	uint8_t about[3] = {0}, *to = bytes + sizeof(*hdr);
	uint32_t n = len < sizeof(about) ? len : sizeof(about);

	if (row == NULL || s->fd < 0)
		return;
	if (n > 0)
		memcpy(about, body, n);
	*hdr = (struct uroce_ctrl_hdr){UROCE_CTRL_MAGIC, UROCE_ABI_VERSION, op, ++s->pid, 0,
				       row->req.len};
	hdr->nfds = (about[0] & 7) < 4 ? (about[0] & 7) == 1   ? 1
					 : (about[0] & 7) == 3 ? 2
							       : 0
				       : (uint16_t)(about[0] & 7);
	fill(op, about[1], to);
	for (uint32_t i = 0; i < 4 && forms[op].ref[i].kind != NO_KIND; i++) {
		enum kind k = forms[op].ref[i].kind;
		uint32_t handle = s->handle[k][(about[2] >> i) % HANDLES];

		if (forms[op].ref[i].optional)
			handle = s->made[k] > 0 && (about[2] & 0x80) == 0 ? handle + 1 : 0;
		memcpy(to + forms[op].ref[i].at, &handle, sizeof(handle));
	}
	step_overlay(bytes, (uint32_t)sizeof(*hdr) + row->req.len, body + n, len - n);
	send_bytes(s, bytes, (uint32_t)sizeof(*hdr) + row->req.len, about[0]);
}

static void
hello(struct slot *s, uint8_t how, const uint8_t *body, uint32_t len)
{
	struct {
		struct uroce_ctrl_hdr hdr;
		struct uroce_hello_req req;
	} m = {.hdr = {UROCE_CTRL_MAGIC, UROCE_ABI_VERSION, UROCE_CTRL_HELLO, ++s->pid, 0,
		       sizeof(m.req)},
	       .req = {.pid = 1,
		       .version_min = UROCE_ABI_VERSION_MIN,
		       .version_max = UROCE_ABI_VERSION}};

	if ((how & 3) != 3)
		strcpy(m.req.device, "t0");
	step_overlay((void *)&m, sizeof(m), body, len);
	send_bytes(s, (void *)&m, sizeof(m), 0);
}

static void
connect_slot(struct slot *s, uint8_t how, const uint8_t *body, uint32_t len)
{
	static const uid_t uids[] = {0, 0, 1000, 1001};
	struct daemon *d = &fuzz_daemon;
	uid_t uid = uids[how >> 2 & 3];
	struct quota_user *user = quota_user_get(&d->quota, uid);
	struct ipc_peer peer = {.uid = uid, .pid = host_client};
	int sv[2];

	if (user == NULL || quota_take(user, QUOTA_NEW, 1) < 0) { /* too many have sent no HELLO */
		if (user != NULL)
			quota_user_put(user);
		return;
	}
	require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, sv) == 0, "no connection");
	peer.sock = sv[0];
	peer.pidfd = (int)syscall(SYS_pidfd_open, host_client, 0);
	require(quota_take(user, QUOTA_CLIENTS, 1) == 0 &&
			quota_take(user, QUOTA_FDS, SESSION_FDS) == 0 &&
			session_create(d, &peer, user, request_ready) == 0,
		"no session");
	if (s->fd >= 0)
		slot_end(s);
	s->fd = sv[1];
	if ((how & 0x80) == 0)
		hello(s, how, body, len);
}

/* ---- inputs ---- */

static void
worker_step(uint8_t arg)
{
	uint32_t i = arg & 1;

	stopped[i] = !stopped[i];
	if (stopped[i])
		fake_stop(i);
	else
		fake_resume(&fuzz_daemon, i);
}

static void
step(const uint8_t *head, const uint8_t *body, uint32_t len)
{
	struct slot *s = &slots[head[1] % SLOTS];
	uint16_t half = MESSAGES / 2;

	switch ((enum control_op)(head[0] % CTL_OPS)) {
	case CTL_MESSAGE:
		message(s, head[2] % half, body, len);
		break;
	case CTL_MESSAGE2:
		message(s, (uint16_t)(half + head[2] % (MESSAGES - half)), body, len);
		break;
	case CTL_RAW:
		send_bytes(s, body, len, head[2]);
		break;
	case CTL_CONNECT:
		connect_slot(s, head[2], body, len);
		break;
	case CTL_CLOSE:
		if (head[2] % 4 == 3)
			cm_close(head[1]);
		else if (head[2] % 4 == 2 && s->channel >= 0)
			close(s->channel), s->channel = -1;
		else if (s->fd >= 0)
			slot_end(s);
		break;
	case CTL_COMMAND:
		cm_command(head[1], head[2], body, len);
		break;
	case CTL_COMMAND_RAW:
		cm_raw(head[1], body, len);
		break;
	case CTL_FRAME:
		neighbour_frame(head[2], head[1], body, len);
		break;
	case CTL_MAD:
		neighbour_mad(head[2], head[1], body, len);
		break;
	case CTL_TIME:
		host_time(1ull << head[2] % 36);
		neigh_tick(fuzz_daemon.dev[0]);
		break;
	case CTL_WORKER:
		worker_step(head[2]);
		break;
	case CTL_OPS:
		break;
	}
	settle();
	rte_log_set_global_level(RTE_LOG_ERR); /* SET changes it */
}

static void
finish(void)
{
	struct daemon *d = &fuzz_daemon;

	for (unsigned i = 0; i < FAKE_WORKERS; i++)
		if (stopped[i])
			worker_step((uint8_t)i);
	settle();
	for (struct slot *s = slots; s < slots + SLOTS; s++)
		if (s->fd >= 0)
			slot_end(s);
	cm_close_all();
	settle();
	program_close(d);
	/* the broker may have to close a client's end that was sent to the daemon */
	while (!TAILQ_EMPTY(&d->sessions)) {
		await("a session is left");
		settle();
	}
	require(TAILQ_EMPTY(&d->ending), "a session does not end");
	require(fake_qps == 0 && fake_doorbells == 0, "a worker has something left");
	/* regions are unmapped in the background */
	for (unsigned i = 0; d->quota.used_all[QUOTA_REG_MEM] != 0 && i < 20000; i++) {
		mr_debts_settle();
		poll(NULL, 0, 1);
	}
	for (unsigned k = 0; k < QUOTA_NKINDS; k++)
		require(d->quota.used_all[k] == 0, quota_name(k));
	ucma_close(d);
	host_close();
	throttle_close(d);
	fake_close(d);
	require(rte_mempool_in_use_count(pool) == 0, "a frame is left");
}

/*
 * The broker's threads close descriptors late. The fuzzer does not wait for them after each input:
 * on a busy machine that would take most of its time.
 */
static void
check_fds(void)
{
	static uint32_t inputs;
	uint32_t slack = inputs++ < FDS_EXACT ? 0 : FDS_SLACK;

	if (host_fds() <= idle_fds + slack)
		return;
	for (uint32_t i = 0; host_fds() > idle_fds; i++) {
		if (i == 10000) {
			host_fds_print();
			require(false, slack == 0 ? "a descriptor is left"
						  : "an input before left descriptors");
		}
		poll(NULL, 0, 1);
	}
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char prefix[64], lcores[32];
	char *eal[] = {(char *)"fuzz",
		       (char *)"--no-huge",
		       (char *)"--no-pci",
		       (char *)"--no-shconf",
		       (char *)"-m",
		       (char *)"32",
		       (char *)"--no-telemetry",
		       (char *)"--log-level=critical",
		       lcores,
		       prefix};

	setenv("CMOCKA_TEST_ABORT", "1", 1); /* for the fakes */
	host_init();
	rte_openlog_stream(fopen("/dev/null", "we"));
	snprintf(lcores, sizeof(lcores), "--lcores=0@%d", unit_eal_cpu());
	snprintf(prefix, sizeof(prefix), "--file-prefix=fuzz-%d", getpid());
	require(rte_eal_init(sizeof(eal) / sizeof(eal[0]), eal) >= 0, "no EAL");
	pool = rte_pktmbuf_pool_create("pool", MBUFS, 0, 0, 4608 + RTE_PKTMBUF_HEADROOM,
				       SOCKET_ID_ANY);
	require(pool != NULL, "no pool");
	program_init();
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct daemon *d = &fuzz_daemon;

	rte_log_set_global_level(RTE_LOG_ERR);
	fake_open(d);
	program_open(d);
	host_open();
	if (idle_fds == 0) /* but those of fake_open: */
		idle_fds = host_fds() - FAKE_FDS;
	d->pool = pool;
	d->dev[0]->port.link_up = true;
	d->dev[0]->sr.on = true;
	fake_sends = true;
	fake_sent = NULL;
	fake_waits = true;
	memset(stopped, 0, sizeof(stopped));
	for (uint32_t i = 0; i < SLOTS; i++)
		slots[i] = (struct slot){.fd = -1, .channel = -1};
	require(throttle_open(d) == 0 && ucma_open(d) == 0, "no service");
	connect_slot(&slots[0], 0, NULL, 0);
	connect_slot(&slots[1], 4 + 3, NULL, 0);
	settle();
	for (uint32_t steps = 0; steps < STEPS_MAX && size >= 4; steps++) {
		uint32_t len = data[3] < size - 4 ? data[3] : (uint32_t)(size - 4);

		step(data, data + 4, len);
		data += 4 + len;
		size -= 4 + len;
	}
	finish();
	check_fds();
	return 0;
}
