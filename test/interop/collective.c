/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Uses verbs as NCCL's InfiniBand transport does, without a GPU:
 *
 *   collective DEVICE DEVICE
 *
 * The library is opened at run time and its functions are looked up with their versions; the
 * device's place comes from sysfs; a receiver announces its buffer by an inline WRITE, which the
 * sender polls for in memory; the sender answers by a WRITE and an empty WRITE with immediate data,
 * for which a receive without memory waits; a QP that is connected to itself flushes by a READ.
 *
 * The exit status is 0 if the bytes came as sent, and every call answered as NCCL expects.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#undef ibv_query_port
#undef ibv_reg_mr

#define MESSAGES 16
#define LEN      (1U << 20)
#define SLOTS    32
#define VERSION  "IBVERBS_1.1"

/* What libibverbs exports; each is called by its pointer. */
#define CALLS(X)                                                                                   \
	X(ibv_get_device_list, VERSION)                                                            \
	X(ibv_free_device_list, VERSION)                                                           \
	X(ibv_get_device_name, VERSION)                                                            \
	X(ibv_open_device, VERSION)                                                                \
	X(ibv_get_async_event, VERSION)                                                            \
	X(ibv_ack_async_event, VERSION)                                                            \
	X(ibv_query_device, VERSION)                                                               \
	X(ibv_query_gid, VERSION)                                                                  \
	X(ibv_query_qp, VERSION)                                                                   \
	X(ibv_alloc_pd, VERSION)                                                                   \
	X(ibv_reg_mr_iova2, "IBVERBS_1.8")                                                         \
	X(ibv_reg_dmabuf_mr, "IBVERBS_1.12")                                                       \
	X(ibv_dereg_mr, VERSION)                                                                   \
	X(ibv_dealloc_pd, VERSION)                                                                 \
	X(ibv_create_cq, VERSION)                                                                  \
	X(ibv_destroy_cq, VERSION)                                                                 \
	X(ibv_create_qp, VERSION)                                                                  \
	X(ibv_modify_qp, VERSION)                                                                  \
	X(ibv_destroy_qp, VERSION)                                                                 \
	X(ibv_fork_init, VERSION)                                                                  \
	X(ibv_event_type_str, VERSION)

#define POINTER(name, version) static __typeof__(name) *p_##name;
CALLS(POINTER)
static int (*p_query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);

/* What a receiver tells the sender. The sender sees all of it when it sees idx. */
struct announcement {
	uint64_t addr;
	uint32_t rkey;
	uint32_t size;
	uint64_t idx;
};

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;    /* to the other end */
	struct ibv_qp *flush; /* to itself */
	struct ibv_mr *mr, *slots_mr;
	union ibv_gid gid;
	unsigned char *data;
	volatile struct announcement slots[SLOTS];
};

static void
check(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "collective: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void
load(void)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW);

	check(lib != NULL, "dlopen of libibverbs.so.1");
#define LOAD(name, version)                                                                        \
	p_##name = (__typeof__(p_##name))dlvsym(lib, #name, version);                              \
	check(p_##name != NULL, #name);
	CALLS(LOAD)
	p_query_port = (__typeof__(p_query_port))dlvsym(lib, "ibv_query_port", VERSION);
	check(p_query_port != NULL, "ibv_query_port");
}

static void *
watch(void *context)
{
	struct ibv_async_event event;

	while (p_ibv_get_async_event(context, &event) == 0) {
		fprintf(stderr, "collective: event %s\n", p_ibv_event_type_str(event.event_type));
		p_ibv_ack_async_event(&event);
	}
	return NULL;
}

/* The first GID of RoCEv2 with an IPv4 address; NCCL from 2.21 on reads the types, too. */
static int
gid_index(struct end *e, const char *name, int len)
{
	char path[PATH_MAX], type[32] = "";
	FILE *f;

	for (int i = 0; i < len; i++) {
		check(p_ibv_query_gid(e->context, 1, i, &e->gid) == 0, "ibv_query_gid");
		snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/gid_attrs/types/%d",
			 name, i);
		f = fopen(path, "r");
		check(f != NULL, path);
		if (!fgets(type, sizeof(type), f))
			type[0] = 0;
		fclose(f);
		if (strcmp(type, "RoCE v2\n") == 0 && e->gid.raw[10] == 0xff && e->gid.raw[12])
			return i;
	}
	check(0, "no GID of RoCEv2 with an IPv4 address");
	return -1;
}

static void
open_end(struct end *e, struct ibv_device *dev)
{
	const char *name = p_ibv_get_device_name(dev);
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	char link[PATH_MAX], path[PATH_MAX];
	pthread_t thread;

	e->context = p_ibv_open_device(dev);
	check(e->context != NULL, "ibv_open_device");
	check(p_ibv_query_device(e->context, &attr) == 0 && attr.phys_port_cnt == 1,
	      "query_device");
	memset(&port, 0, sizeof(port));
	check(p_query_port(e->context, 1, &port) == 0, "ibv_query_port");
	check(port.state == IBV_PORT_ACTIVE && port.link_layer == IBV_LINK_LAYER_ETHERNET,
	      "an active Ethernet port");
	check(port.active_speed && port.active_width, "the port's rate");
	snprintf(link, sizeof(link), "/sys/class/infiniband/%s/device", name);
	check(realpath(link, path) != NULL && strlen(path) > 3, link);
	check(pthread_create(&thread, NULL, watch, e->context) == 0, "pthread_create");
	pthread_detach(thread);

	e->pd = p_ibv_alloc_pd(e->context);
	check(e->pd != NULL, "ibv_alloc_pd");
	/* A device that takes no DMA buffers says so, whatever the descriptor. */
	errno = 0;
	check(!p_ibv_reg_dmabuf_mr(e->pd, 0, 0, 0, -1, 0) &&
		      (errno == EOPNOTSUPP || errno == EPROTONOSUPPORT),
	      "ibv_reg_dmabuf_mr without DMA buffers");
	e->cq = p_ibv_create_cq(e->context, 256, NULL, NULL, 0);
	e->data = aligned_alloc(4096, LEN);
	check(e->cq && e->data, "ibv_create_cq");
	/* rkeys of a register call with relaxed ordering, as for NCCL's buffers */
	e->mr = p_ibv_reg_mr_iova2(e->pd, e->data, LEN, (uintptr_t)e->data,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING);
	e->slots_mr =
		p_ibv_reg_mr_iova2(e->pd, (void *)e->slots, sizeof(e->slots), (uintptr_t)e->slots,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					   IBV_ACCESS_REMOTE_READ);
	check(e->mr && e->slots_mr, "ibv_reg_mr_iova2");
}

static struct ibv_qp *
make_qp(struct end *e)
{
	struct ibv_qp_init_attr init = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 128,
			.max_recv_wr = 64,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = sizeof(struct announcement)},
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	struct ibv_qp *qp = p_ibv_create_qp(e->pd, &init);

	check(qp != NULL, "ibv_create_qp");
	check(p_ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_ACCESS_FLAGS) == 0,
	      "to INIT");
	return qp;
}

static void
connect_qp(struct ibv_qp *qp, int sgid_index, uint32_t dest, const union ibv_gid *gid)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = *gid,
				    .sgid_index = (uint8_t)sgid_index,
				    .hop_limit = 255}},
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 18,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};

	check(p_ibv_modify_qp(qp, &rtr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER) == 0,
	      "to RTR");
	check(p_ibv_modify_qp(qp, &rts,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
	      "to RTS");
}

static void
await(struct end *e, struct ibv_wc *wc, enum ibv_wc_opcode opcode)
{
	int n;

	while ((n = ibv_poll_cq(e->cq, 1, wc)) == 0)
		;
	check(n == 1, "ibv_poll_cq");
	if (wc->status != IBV_WC_SUCCESS || wc->opcode != opcode) {
		fprintf(stderr, "collective: status %d, opcode %d instead of %d\n", wc->status,
			wc->opcode, opcode);
		exit(1);
	}
}

static void
post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	errno = ibv_post_send(qp, wr, &bad);
	check(errno == 0, "ibv_post_send");
}

/* The receiver waits for message n and announces its buffer. */
static void
announce(struct end *to, struct end *from, uint64_t n)
{
	struct announcement a = {(uintptr_t)to->data, to->mr->rkey, LEN, n + 1};
	struct ibv_sge sge = {(uintptr_t)&a, sizeof(a), 0};
	struct ibv_send_wr wr = {
		.wr_id = n,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)&from->slots[n % SLOTS], from->slots_mr->rkey},
	};
	struct ibv_recv_wr recv = {.wr_id = n}, *bad;
	struct ibv_wc wc;

	check(ibv_post_recv(to->qp, &recv, &bad) == 0, "ibv_post_recv without memory");
	post(to->qp, &wr);
	await(to, &wc, IBV_WC_RDMA_WRITE);
}

/* The sender sees the announcement in its memory, and sends. */
static void
answer(struct end *from, uint64_t n)
{
	volatile struct announcement *a = &from->slots[n % SLOTS];
	struct ibv_sge sge = {(uintptr_t)from->data, LEN, from->mr->lkey};
	struct ibv_send_wr wr[2] = {
		{.next = &wr[1], .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE},
		{.wr_id = n,
		 .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		 .send_flags = IBV_SEND_SIGNALED,
		 .imm_data = LEN},
	};

	while (__atomic_load_n(&a->idx, __ATOMIC_ACQUIRE) != n + 1)
		;
	check(a->size == LEN, "an announcement seen in part");
	wr[0].wr.rdma.remote_addr = wr[1].wr.rdma.remote_addr = a->addr;
	wr[0].wr.rdma.rkey = wr[1].wr.rdma.rkey = a->rkey;
	memset(from->data, (int)(n % 251 + 1), LEN);
	post(from->qp, wr);
}

static void
receive(struct end *to, uint64_t n)
{
	struct announcement flushed;
	struct ibv_sge sge = {(uintptr_t)&to->slots[0], sizeof(flushed), to->slots_mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {(uintptr_t)to->data, to->mr->rkey},
	};
	struct ibv_wc wc;

	await(to, &wc, IBV_WC_RECV_RDMA_WITH_IMM);
	check(wc.imm_data == LEN && wc.wr_id == n, "immediate data");
	post(to->flush, &wr);
	await(to, &wc, IBV_WC_RDMA_READ);
	for (size_t i = 0; i < LEN; i++)
		check(to->data[i] == n % 251 + 1, "a byte as sent");
}

static void
close_end(struct end *e)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	check(p_ibv_query_qp(e->qp, &attr, IBV_QP_STATE, &init) == 0 &&
		      attr.qp_state == IBV_QPS_RTS,
	      "ibv_query_qp");
	check(p_ibv_destroy_qp(e->qp) == 0 && p_ibv_destroy_qp(e->flush) == 0, "ibv_destroy_qp");
	check(p_ibv_dereg_mr(e->mr) == 0 && p_ibv_dereg_mr(e->slots_mr) == 0, "ibv_dereg_mr");
	check(p_ibv_destroy_cq(e->cq) == 0 && p_ibv_dealloc_pd(e->pd) == 0, "ibv_dealloc_pd");
}

int
main(int argc, char **argv)
{
	static struct end ends[2];
	struct ibv_device **list;
	struct ibv_wc wc;
	int count, sgid[2];

	check(argc == 3, "usage: collective DEVICE DEVICE");
	load();
	check(p_ibv_fork_init() == 0, "ibv_fork_init");
	list = p_ibv_get_device_list(&count);
	check(list && count, "ibv_get_device_list");
	for (int i = 0; i < 2; i++) {
		for (int d = 0; d < count; d++)
			if (strcmp(p_ibv_get_device_name(list[d]), argv[1 + i]) == 0)
				open_end(&ends[i], list[d]);
		check(ends[i].context != NULL, argv[1 + i]);
		sgid[i] = gid_index(&ends[i], argv[1 + i], 8);
		ends[i].qp = make_qp(&ends[i]);
		ends[i].flush = make_qp(&ends[i]);
	}
	p_ibv_free_device_list(list);
	for (int i = 0; i < 2; i++) {
		connect_qp(ends[i].qp, sgid[i], ends[!i].qp->qp_num, &ends[!i].gid);
		connect_qp(ends[i].flush, sgid[i], ends[i].flush->qp_num, &ends[i].gid);
	}
	for (uint64_t n = 0; n < MESSAGES; n++) {
		struct end *from = &ends[n % 2], *to = &ends[(n + 1) % 2];

		announce(to, from, n);
		answer(from, n);
		receive(to, n);
		await(from, &wc, IBV_WC_RDMA_WRITE);
	}
	close_end(&ends[0]);
	close_end(&ends[1]);
	printf("collective: %d messages of %u bytes, as sent\n", MESSAGES, LEN);
	return 0;
}
