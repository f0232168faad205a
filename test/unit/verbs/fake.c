/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake.h"

#include <arpa/inet.h>
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SEG_BYTES (4u << 20)
#define DB_STRIDE 8192

/* A request taken apart, and the reply being made. */
struct exchange {
	struct uroce_ctrl_hdr hdr;
	union {
		uint8_t bytes[UROCE_CTRL_MAX_MSG];
		struct uroce_hello_req hello;
		struct uroce_handle handle;
		struct uroce_port_req port;
		struct uroce_gid_req gid;
		struct uroce_pkey_req pkey;
		struct uroce_reg_mr_req reg_mr;
		struct uroce_create_cq_req create_cq;
		struct uroce_resize_cq_req resize_cq;
		struct uroce_create_qp_req create_qp;
		struct uroce_create_srq_req create_srq;
		struct uroce_modify_qp_req modify_qp;
	} req;
	union {
		uint8_t bytes[UROCE_CTRL_MAX_MSG];
		struct uroce_hello_rep hello;
		struct uroce_handle handle;
		struct uroce_device_rep device;
		struct uroce_port_rep port;
		struct uroce_gid_rep gid;
		struct uroce_pkey_rep pkey;
		struct uroce_reg_mr_rep reg_mr;
		struct uroce_channel_rep channel;
		struct uroce_create_cq_rep create_cq;
		struct uroce_create_qp_rep create_qp;
		struct uroce_create_srq_rep create_srq;
		struct uroce_query_qp_rep query_qp;
		struct uroce_list_devices_rep list;
		struct uroce_cm_open_rep cm_open;
		struct uroce_segment_rep segment;
	} rep;
	size_t rep_len;
	int fds[UROCE_HELLO_FDS];
	unsigned int nfds;
	bool keep_fd; /* fds[0] stays ours */
};

static int
memfd_of(size_t bytes)
{
	int fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
	return fd;
}

static void *
map_of(int fd, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert(p != MAP_FAILED);
	return p;
}

static uint32_t
pow2(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

/* A ring in the segment. */
static void *
carve(struct fake *f, struct uroce_ring_loc *loc, size_t hdr, uint32_t entries, uint32_t stride)
{
	void *ring = f->seg + f->seg_used;

	*loc = (struct uroce_ring_loc){
		.seg = f->seg_id,
		.off = f->seg_used,
		.entries = entries,
		.stride = stride,
	};
	memset(ring, 0, hdr + (size_t)entries * stride);
	f->seg_used += (hdr + (size_t)entries * stride + 63) & ~63ull;
	assert(f->seg_used <= SEG_BYTES);
	return ring;
}

static void
do_hello(struct fake *f, struct exchange *x)
{
	int pair[2];

	f->hello = x->req.hello;
	x->rep_len = sizeof(x->rep.hello);
	x->rep.hello.version = f->hello_version;
	x->rep.hello.features = f->hello_features;
	if (x->req.hello.device[0] == 0)
		return;
	assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	f->async_fd = pair[0];
	x->fds[0] = pair[1];
	f->db_fd = memfd_of(FAKE_WORKERS * DB_STRIDE);
	x->fds[1] = f->db_fd;
	for (unsigned int w = 0; w < FAKE_WORKERS; w++) {
		f->wake_fd[w] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		x->fds[2 + w] = dup(f->wake_fd[w]);
		f->db[w] = (struct uroce_db_ring *)((char *)map_of(f->db_fd,
								   FAKE_WORKERS * DB_STRIDE) +
						    w * DB_STRIDE);
		x->rep.hello.db_off[w] = w * DB_STRIDE;
	}
	f->states_fd = memfd_of(FAKE_WORKERS * sizeof(*f->states));
	f->states = map_of(f->states_fd, FAKE_WORKERS * sizeof(*f->states));
	x->fds[2 + FAKE_WORKERS] = f->states_fd;
	x->nfds = 3 + FAKE_WORKERS;
	x->rep.hello.context = 1;
	x->rep.hello.flags = f->hello_flags;
	x->rep.hello.nworkers = FAKE_WORKERS;
	x->rep.hello.db_seg_bytes = FAKE_WORKERS * DB_STRIDE;
}

static uint32_t
do_query_port(struct exchange *x)
{
	struct uroce_port_rep *p = &x->rep.port;

	if (x->req.port.port != 1)
		return EINVAL;
	x->rep_len = sizeof(*p);
	p->state = 4;
	p->max_mtu = 5;
	p->active_mtu = 3;
	p->gid_tbl_len = 4;
	p->pkey_tbl_len = 2;
	p->max_msg_sz = 1u << 31;
	p->active_speed = 32;
	p->active_width = 2;
	p->phys_state = 5;
	strcpy(p->netdev, "lo");
	return 0;
}

static uint32_t
do_query_gid(struct exchange *x)
{
	static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 1};

	if (x->req.gid.index >= 4)
		return EINVAL;
	x->rep_len = sizeof(x->rep.gid);
	x->rep.gid.type = 2;
	if (x->req.gid.index == 0)
		x->rep.gid.gid[0] = 0xfe, x->rep.gid.gid[1] = 0x80, x->rep.gid.gid[15] = 1;
	if (x->req.gid.index == 1)
		memcpy(x->rep.gid.gid, mapped, 16);
	return 0;
}

static uint32_t
do_query_pkey(const struct fake *f, struct exchange *x)
{
	if (x->req.pkey.index >= 2)
		return EINVAL;
	x->rep_len = sizeof(x->rep.pkey);
	x->rep.pkey.pkey = x->req.pkey.index == 0 ? 0xffff : f->pkey;
	return 0;
}

static void
do_create_channel(struct fake *f, struct exchange *x)
{
	int pair[2];

	assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	f->channel_fd[f->nchannels] = pair[0];
	x->fds[x->nfds++] = pair[1];
	x->rep.channel.handle = f->nchannels++;
	x->rep_len = sizeof(x->rep.channel);
}

static uint32_t
do_cm_open(struct fake *f, struct exchange *x)
{
	if (f->ncms == FAKE_CMS)
		return ENOMEM;
	fake_cm_open(&f->cm[f->ncms], (uint8_t)(f->ncms + 1), &x->rep.cm_open, x->fds);
	f->ncms++;
	x->nfds = 2;
	x->rep_len = sizeof(x->rep.cm_open);
	return 0;
}

static void
place_cq(struct fake *f, struct exchange *x, struct fake_cq *cq, uint32_t entries)
{
	cq->entries = pow2(entries);
	cq->prod = 0;
	cq->hdr = carve(f, &x->rep.create_cq.ring, UROCE_CQ_HDR, cq->entries,
			sizeof(struct uroce_cqe));
	cq->ring = (struct uroce_cqe *)((char *)cq->hdr + UROCE_CQ_HDR);
	x->rep.create_cq.handle = (uint32_t)(cq - f->cq);
	x->rep_len = sizeof(x->rep.create_cq);
}

void
fake_new_segment(struct fake *f)
{
	if (f->seg_fd >= 0)
		close(f->seg_fd);
	f->seg_id++;
	f->seg_fd = memfd_of(SEG_BYTES);
	f->seg = map_of(f->seg_fd, SEG_BYTES);
	f->seg_used = 0;
}

static bool
has_room(const struct fake *f)
{
	return fcntl(f->seg_fd, F_GET_SEALS) & F_SEAL_FUTURE_WRITE;
}

static uint32_t
do_segment(struct fake *f, struct exchange *x)
{
	x->rep.segment = (struct uroce_segment_rep){.seg = f->seg_id, .bytes = SEG_BYTES};
	x->rep_len = sizeof(x->rep.segment);
	x->fds[x->nfds++] = f->seg_fd;
	x->keep_fd = true;
	return 0;
}

static uint32_t
do_create_cq(struct fake *f, struct exchange *x)
{
	unsigned int i;

	for (i = 0; i < FAKE_OBJS && f->cq[i].live; i++)
		;
	if (i == FAKE_OBJS)
		return ENOMEM;
	f->cq[i].live = true;
	f->cq[i].user_handle = x->req.create_cq.user_handle;
	f->cq[i].channel = x->req.create_cq.channel;
	place_cq(f, x, &f->cq[i], x->req.create_cq.cqe);
	return 0;
}

static uint32_t
do_resize_cq(struct fake *f, struct exchange *x)
{
	uint32_t h = x->req.resize_cq.handle;

	if (h >= FAKE_OBJS || !f->cq[h].live)
		return ENOENT;
	place_cq(f, x, &f->cq[h], x->req.resize_cq.cqe);
	return 0;
}

static uint32_t
do_create_qp(struct fake *f, struct exchange *x)
{
	const struct uroce_qp_cap *want = &x->req.create_qp.cap;
	struct uroce_create_qp_rep *rep = &x->rep.create_qp;
	struct fake_qp *qp;
	unsigned int i;

	if (want->max_send_sge > FAKE_MAX_SGE || want->max_inline > FAKE_MAX_INLINE ||
	    want->max_send_wr > FAKE_MAX_WR)
		return EINVAL;
	for (i = 0; i < FAKE_OBJS && f->qp[i].live; i++)
		;
	if (i == FAKE_OBJS)
		return ENOMEM;
	qp = &f->qp[i];
	*qp = (struct fake_qp){
		.live = true,
		.user_handle = x->req.create_qp.user_handle,
		.qpn = 0x100 + i,
		.sq_entries = pow2(want->max_send_wr),
		.rq_entries = pow2(want->max_recv_wr),
		.sq_stride = uroce_sq_stride(want->max_send_sge, want->max_inline),
		.rq_stride = uroce_rq_stride(want->max_recv_sge),
	};
	qp->sq = carve(f, &rep->sq, UROCE_RING_HDR, qp->sq_entries, qp->sq_stride);
	if (x->req.create_qp.srq == 0)
		qp->rq = carve(f, &rep->rq, UROCE_RING_HDR, qp->rq_entries, qp->rq_stride);
	rep->handle = i;
	rep->qpn = qp->qpn;
	rep->worker = qp->qpn % FAKE_WORKERS;
	qp->sq->worker = rep->worker;
	rep->cap = *want;
	x->rep_len = sizeof(*rep);
	return 0;
}

static uint32_t
do_create_srq(struct fake *f, struct exchange *x)
{
	struct uroce_create_srq_rep *rep = &x->rep.create_srq;
	struct fake_srq *srq;
	unsigned int i;

	for (i = 0; i < FAKE_OBJS && f->srq[i].live; i++)
		;
	if (i == FAKE_OBJS)
		return ENOMEM;
	srq = &f->srq[i];
	*srq = (struct fake_srq){
		.live = true,
		.user_handle = x->req.create_srq.user_handle,
		.entries = pow2(x->req.create_srq.max_wr),
		.stride = uroce_rq_stride(x->req.create_srq.max_sge),
	};
	srq->ring = carve(f, &rep->ring, UROCE_RING_HDR, srq->entries, srq->stride);
	rep->handle = rep->srqn = i;
	rep->max_wr = srq->entries;
	rep->max_sge = x->req.create_srq.max_sge;
	x->rep_len = sizeof(*rep);
	return 0;
}

static void
reset_ring(struct uroce_ring_hdr *hdr, uint32_t at)
{
	hdr->cons = hdr->done = at;
	hdr->entry = 0;
	hdr->held.state = UROCE_HELD_NONE;
}

static uint32_t
do_modify_qp(struct fake *f, struct exchange *x)
{
	uint32_t h = x->req.modify_qp.handle;

	if (h >= FAKE_OBJS || !f->qp[h].live)
		return ENOENT;
	f->qp[h].attr = x->req.modify_qp.attr;
	f->qp[h].last_mask = x->req.modify_qp.attr_mask;
	if (x->req.modify_qp.attr_mask & 1)
		f->qp[h].state = x->req.modify_qp.attr.qp_state;
	/* RESET: start over, the send queue from 0 and the receive queue where it stands. */
	if (f->qp[h].state == 0 && f->qp[h].sq)
		reset_ring(f->qp[h].sq, 0);
	if (f->qp[h].state == 0 && f->qp[h].rq)
		reset_ring(f->qp[h].rq, f->qp[h].rq->prod);
	return 0;
}

static uint32_t
do_destroy(struct fake *f, struct exchange *x)
{
	uint32_t h = x->req.handle.handle;

	switch (x->hdr.op) {
	case UROCE_CTRL_DESTROY_CQ:
		if (h >= FAKE_OBJS || !f->cq[h].live)
			return ENOENT;
		f->cq[h].live = false;
		return 0;
	case UROCE_CTRL_DESTROY_QP:
		if (h >= FAKE_OBJS || !f->qp[h].live)
			return ENOENT;
		f->qp[h].live = false;
		return 0;
	case UROCE_CTRL_DESTROY_SRQ:
		f->srq[h % FAKE_OBJS].live = false;
		return 0;
	case UROCE_CTRL_DEALLOC_PD:
		f->pd_live--;
		return 0;
	default:
		return 0;
	}
}

static uint32_t
dispatch(struct fake *f, struct exchange *x)
{
	switch (x->hdr.op) {
	case UROCE_CTRL_HELLO:
		do_hello(f, x);
		return 0;
	case UROCE_CTRL_LIST_DEVICES:
		x->rep_len = sizeof(x->rep.list);
		fake_list(&x->rep.list);
		return 0;
	case UROCE_CTRL_QUERY_DEVICE:
		x->rep_len = sizeof(x->rep.device);
		fake_device(&x->rep.device);
		return 0;
	case UROCE_CTRL_QUERY_PORT:
		return do_query_port(x);
	case UROCE_CTRL_QUERY_GID:
		return do_query_gid(x);
	case UROCE_CTRL_QUERY_PKEY:
		return do_query_pkey(f, x);
	case UROCE_CTRL_ALLOC_PD:
		x->rep.handle.handle = f->pd_live++;
		x->rep_len = sizeof(x->rep.handle);
		return 0;
	case UROCE_CTRL_REG_MR:
		f->mr = x->req.reg_mr;
		x->rep.reg_mr =
			(struct uroce_reg_mr_rep){.handle = 5, .lkey = 0x111, .rkey = 0x222};
		x->rep_len = sizeof(x->rep.reg_mr);
		return 0;
	case UROCE_CTRL_CREATE_CHANNEL:
		do_create_channel(f, x);
		return 0;
	case UROCE_CTRL_CM_OPEN:
		return do_cm_open(f, x);
	case UROCE_CTRL_CREATE_CQ:
		return has_room(f) ? do_create_cq(f, x) : ENOSPC;
	case UROCE_CTRL_RESIZE_CQ:
		return has_room(f) ? do_resize_cq(f, x) : ENOSPC;
	case UROCE_CTRL_CREATE_QP:
		return has_room(f) ? do_create_qp(f, x) : ENOSPC;
	case UROCE_CTRL_CREATE_SRQ:
		return has_room(f) ? do_create_srq(f, x) : ENOSPC;
	case UROCE_CTRL_SEGMENT:
		return do_segment(f, x);
	case UROCE_CTRL_MODIFY_QP:
		return do_modify_qp(f, x);
	case UROCE_CTRL_CREATE_AH:
		x->rep_len = sizeof(x->rep.handle);
		return 0;
	case UROCE_CTRL_DESTROY_CQ:
	case UROCE_CTRL_DESTROY_QP:
	case UROCE_CTRL_DESTROY_SRQ:
	case UROCE_CTRL_DESTROY_AH:
	case UROCE_CTRL_DEALLOC_PD:
	case UROCE_CTRL_DEREG_MR:
		return do_destroy(f, x);
	default:
		return EOPNOTSUPP;
	}
}

static void
answer(struct fake *f, struct exchange *x, uint32_t status)
{
	struct iovec iov[2] = {{&x->hdr, sizeof(x->hdr)}, {&x->rep, x->rep_len}};
	char control[CMSG_SPACE(sizeof(x->fds))] = {0};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

	if (status)
		x->rep_len = (size_t)sprintf((char *)x->rep.bytes, "%s", f->refuse_why);
	x->hdr.status = status;
	x->hdr.len = (uint32_t)x->rep_len;
	x->hdr.nfds = x->nfds;
	iov[1].iov_len = x->hdr.len;
	if (x->nfds) {
		struct cmsghdr *cm;

		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(x->nfds * sizeof(int));
		cm = CMSG_FIRSTHDR(&msg);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(x->nfds * sizeof(int));
		memcpy(CMSG_DATA(cm), x->fds, x->nfds * sizeof(int));
	}
	sendmsg(f->conn, &msg, MSG_NOSIGNAL);
	for (unsigned int i = x->keep_fd ? 1 : 0; i < x->nfds; i++)
		close(x->fds[i]);
}

/* Serves one connection until it ends. */
static void
serve(struct fake *f)
{
	for (;;) {
		struct exchange x = {0};
		struct iovec iov[2] = {{&x.hdr, sizeof(x.hdr)}, {&x.req, sizeof(x.req)}};
		char control[CMSG_SPACE(UROCE_CTRL_MAX_FDS * sizeof(int))];
		struct msghdr msg = {.msg_iov = iov,
				     .msg_iovlen = 2,
				     .msg_control = control,
				     .msg_controllen = sizeof(control)};
		uint32_t status;

		if (recvmsg(f->conn, &msg, MSG_CMSG_CLOEXEC) < (ssize_t)sizeof(x.hdr))
			return;
		for (struct cmsghdr *cm = CMSG_FIRSTHDR(&msg); cm; cm = CMSG_NXTHDR(&msg, cm)) {
			int *fd = (int *)CMSG_DATA(cm);

			for (size_t n = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int); n; n--)
				close(*fd++);
		}
		assert(x.hdr.op < UROCE_CTRL_OPS);
		f->seen[x.hdr.op]++;
		f->last_version = x.hdr.version;
		if (x.hdr.op == UROCE_CTRL_HELLO && f->hang_up_at_hello)
			return;
		status = f->refuse[x.hdr.op];
		f->refuse[x.hdr.op] = 0;
		if (status == 0)
			status = dispatch(f, &x);
		answer(f, &x, status);
	}
}

static void *
fake_main(void *arg)
{
	struct fake *f = arg;

	while (!__atomic_load_n(&f->stop, __ATOMIC_ACQUIRE)) {
		int conn = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC);

		if (conn < 0)
			break;
		fake_new_segment(f);
		__atomic_store_n(&f->conn, conn, __ATOMIC_RELEASE);
		serve(f);
		__atomic_store_n(&f->conn, -1, __ATOMIC_RELEASE);
		close(conn);
	}
	return NULL;
}

struct fake *
fake_start(const char *path)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	struct fake *f = calloc(1, sizeof(*f));

	assert(f);
	if (path) {
		snprintf(f->path, sizeof(f->path), "%s", path);
	} else {
		strcpy(f->dir, "/tmp/uv-test-XXXXXX");
		assert(mkdtemp(f->dir));
		snprintf(f->path, sizeof(f->path), "%s/sock", f->dir);
	}
	f->async_fd = f->conn = -1;
	f->hello_version = UROCE_ABI_VERSION;
	f->hello_features = UROCE_ABI_FEATURES;
	f->refuse_why = "";
	f->seg_fd = -1;
	f->seg_id = 3;
	fake_new_segment(f); /* each connection gets its own */
	f->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	strcpy(sun.sun_path, f->path);
	assert(bind(f->listen_fd, (struct sockaddr *)&sun, sizeof(sun)) == 0);
	assert(listen(f->listen_fd, 8) == 0);
	setenv(UROCE_SOCK_ENV, f->path, 1);
	assert(pthread_create(&f->thread, NULL, fake_main, f) == 0);
	return f;
}

void
fake_hang_up(struct fake *f)
{
	int conn = __atomic_load_n(&f->conn, __ATOMIC_ACQUIRE);

	__atomic_store_n(&f->stop, true, __ATOMIC_RELEASE);
	shutdown(f->listen_fd, SHUT_RDWR);
	if (conn >= 0)
		shutdown(conn, SHUT_RDWR);
}

void
fake_die(struct fake *f)
{
	fake_hang_up(f);
	if (f->async_fd >= 0)
		close(f->async_fd);
	f->async_fd = -1;
	for (uint32_t i = 0; i < f->nchannels; i++)
		close(f->channel_fd[i]);
	f->nchannels = 0;
	for (uint32_t i = 0; i < f->ncms; i++)
		fake_cm_die(&f->cm[i]);
}

void
fake_stop(struct fake *f)
{
	fake_die(f);
	pthread_join(f->thread, NULL);
	close(f->listen_fd);
	close(f->seg_fd);
	munmap(f->seg, SEG_BYTES);
	unlink(f->path);
	if (*f->dir)
		rmdir(f->dir);
	free(f);
}
