/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The results of ibv_query_device_ex and ibv_query_port are true: features that are not offered are
 * zero and refused, every limit can be reached, and one more is refused.
 *
 *   limits DEVICE
 *
 * The test needs exclusive use of the device. TAP; exit status 0 when all tests passed.
 */
#include "kit/verbside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct side side;

static void
features_not_offered_are_zero_and_refused(void)
{
	const struct ibv_device_attr_ex *a = &side.attr;
	static const uint8_t zeros[sizeof(struct ibv_device_attr_ex)];
	struct ibv_qp_init_attr_ex tso = {.qp_type = IBV_QPT_UD,
					  .comp_mask = IBV_QP_INIT_ATTR_PD |
						       IBV_QP_INIT_ATTR_MAX_TSO_HEADER,
					  .pd = side.pd,
					  .send_cq = side.cq,
					  .recv_cq = side.cq,
					  .max_tso_header = 64};
	struct ibv_srq_init_attr_ex tm = {.comp_mask =
						  IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
					  .pd = side.pd,
					  .attr = {.max_wr = 1, .max_sge = 1},
					  .srq_type = IBV_SRQT_TM};
	struct ibv_wq_init_attr wq = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = side.pd, .cq = side.cq};
	struct ibv_xrcd_init_attr xrcd = {.comp_mask =
						  IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1};
	struct ibv_alloc_dm_attr dm = {.length = 64};
	struct ibv_modify_cq_attr moderate = {.attr_mask = IBV_CQ_ATTR_MODERATE};
	const unsigned int absent = IBV_DEVICE_XRC | IBV_DEVICE_RAW_MULTI | IBV_DEVICE_UD_IP_CSUM |
				    IBV_DEVICE_RC_IP_CSUM | IBV_DEVICE_RAW_IP_CSUM |
				    IBV_DEVICE_MANAGED_FLOW_STEERING | IBV_DEVICE_N_NOTIFY_CQ |
				    IBV_DEVICE_RESIZE_MAX_WR | IBV_DEVICE_MEM_WINDOW_TYPE_2A;

#define ZERO(member) CHECK(memcmp(&a->member, zeros, sizeof(a->member)) == 0)
	ZERO(odp_caps);
	ZERO(tso_caps);
	ZERO(rss_caps);
	ZERO(max_wq_type_rq);
	ZERO(packet_pacing_caps);
	ZERO(raw_packet_caps);
	ZERO(tm_caps);
	ZERO(cq_mod_caps);
	ZERO(max_dm_size);
	ZERO(pci_atomic_caps);
	ZERO(xrc_odp_caps);
	ZERO(orig_attr.max_ee);
	ZERO(orig_attr.max_rdd);
	ZERO(orig_attr.max_fmr);
	ZERO(orig_attr.max_raw_ipv6_qp);
	ZERO(orig_attr.max_raw_ethy_qp);
#undef ZERO
	CHECK((a->orig_attr.device_cap_flags & absent) == 0);
	CHECK((a->device_cap_flags_ex & absent) == 0);
	CHECK(!ibv_alloc_dm(side.ctx, &dm) && errno == EOPNOTSUPP);
	CHECK(!ibv_open_xrcd(side.ctx, &xrcd) && errno == EOPNOTSUPP);
	CHECK(!ibv_create_wq(side.ctx, &wq) && errno == EOPNOTSUPP);
	CHECK(!ibv_create_qp_ex(side.ctx, &tso) && errno == EOPNOTSUPP);
	CHECK(!ibv_create_srq_ex(side.ctx, &tm) && errno == EOPNOTSUPP);
	CHECK(ibv_modify_cq(side.cq, &moderate) == EOPNOTSUPP);
	CHECK(!side_qp(side.pd, IBV_QPT_RAW_PACKET, side.cq));
	errno = 0;
	CHECK(!ibv_reg_mr(side.pd, side.buf, 4096, IBV_ACCESS_ON_DEMAND));
	CHECK(errno == EINVAL || errno == EOPNOTSUPP);
}

static void
port_attributes_match_its_tables(void)
{
	struct ibv_port_attr port, none;
	struct ibv_gid_entry entry;
	struct ibv_ah_attr flat = {.port_num = 1};
	union ibv_gid gid;
	__be16 pkey;

	memset(&port, 0xff, sizeof(port));
	CHECK(ibv_query_port(side.ctx, 1, &port) == 0);
	CHECK(port.state == IBV_PORT_ACTIVE && port.link_layer == IBV_LINK_LAYER_ETHERNET);
	CHECK(port.lid == 0 && port.sm_lid == 0 && port.lmc == 0);
	CHECK(port.active_mtu <= port.max_mtu && port.active_mtu == IBV_MTU_4096);
	CHECK(port.max_msg_sz == 1u << 31);
	/* RoCE has no packets without a GRH; this flag reports that to programs. */
	CHECK(port.flags == IBV_QPF_GRH_REQUIRED);
	CHECK(!ibv_create_ah(side.pd, &flat));
	CHECK(ibv_query_port(side.ctx, 0, &none) != 0);
	CHECK(ibv_query_port(side.ctx, side.attr.orig_attr.phys_port_cnt + 1, &none) != 0);
	CHECK(side.attr.orig_attr.phys_port_cnt == side.attr.phys_port_cnt_ex);
	for (int i = 0; i < port.gid_tbl_len; i++) {
		CHECK(ibv_query_gid(side.ctx, 1, i, &gid) == 0);
		/* ENODATA: empty */
		CHECK(ibv_query_gid_ex(side.ctx, 1, (uint32_t)i, &entry, 0) ==
		      (gid.global.interface_id ? 0 : ENODATA));
	}
	CHECK(ibv_query_gid(side.ctx, 1, port.gid_tbl_len, &gid) != 0);
	CHECK(port.pkey_tbl_len == side.attr.orig_attr.max_pkeys);
	for (int i = 0; i < port.pkey_tbl_len; i++)
		CHECK(ibv_query_pkey(side.ctx, 1, i, &pkey) == 0);
	CHECK(ibv_query_pkey(side.ctx, 1, port.pkey_tbl_len, &pkey) != 0);
}

/* --- numbers of objects ---------------------------------------------------------------------- */

static void *
make_pd(void)
{
	return ibv_alloc_pd(side.ctx);
}
static void *
make_cq(void)
{
	return ibv_create_cq(side.ctx, 1, NULL, NULL, 0);
}
static void *
make_mr(void)
{
	return ibv_reg_mr(side.pd, side.buf, 64, IBV_ACCESS_LOCAL_WRITE);
}
static void *
make_mw(void)
{
	return ibv_alloc_mw(side.pd, IBV_MW_TYPE_2);
}
static void *
make_qp(void)
{
	return side_qp(side.pd, IBV_QPT_UD, side.cq);
}
static void *
make_srq(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};

	return ibv_create_srq(side.pd, &attr);
}
static void *
make_ah(void)
{
	struct ibv_ah_attr attr = {.is_global = 1,
				   .port_num = 1,
				   .grh = {.sgid_index = 1, .hop_limit = 1}};

	return ibv_query_gid(side.ctx, 1, 1, &attr.grh.dgid) ? NULL : ibv_create_ah(side.pd, &attr);
}

#define END(kind, verb, type)                                                                      \
	static int end_##kind(void *o)                                                             \
	{                                                                                          \
		return verb((struct type *)o);                                                     \
	}
END(pd, ibv_dealloc_pd, ibv_pd)
END(cq, ibv_destroy_cq, ibv_cq)
END(mr, ibv_dereg_mr, ibv_mr)
END(mw, ibv_dealloc_mw, ibv_mw)
END(qp, ibv_destroy_qp, ibv_qp)
END(srq, ibv_destroy_srq, ibv_srq)
END(ah, ibv_destroy_ah, ibv_ah)

/*
 * Creates as many as the limit, then one more, then one more after another was destroyed. At most
 * spare more than the limit may exist.
 */
static void
fill_up(int limit, int spare, void *(*make)(void), int (*end)(void *))
{
	void **o = calloc((size_t)(limit + spare) + 1, sizeof(*o));
	int n = 0;

	while (o && n <= limit + spare && (o[n] = make()))
		n++;
	CHECK(n >= limit && n <= limit + spare);
	CHECK(errno == ENOMEM);
	if (n != limit)
		printf("# %d of %d\n", n, limit);
	if (n > 1) {
		CHECK(end(o[n / 2]) == 0);
		o[n / 2] = make();
		CHECK(o[n / 2]);
	}
	while (n > 0)
		CHECK(o[--n] && end(o[n]) == 0);
	free(o);
}

/* The side already has one of each of the first three. */
#define FILL(kind, limit)                                                                          \
	static void test_max_##kind(void)                                                          \
	{                                                                                          \
		fill_up(limit, 0, make_##kind, end_##kind);                                        \
	}
FILL(pd, side.attr.orig_attr.max_pd - 1)
FILL(cq, side.attr.orig_attr.max_cq - 1)
FILL(mw, side.attr.orig_attr.max_mw - 1)
FILL(qp, side.attr.orig_attr.max_qp)
FILL(srq, side.attr.orig_attr.max_srq)
FILL(ah, side.attr.orig_attr.max_ah)

/*
 * If mappings limit the regions, rather than entries of the key table, the attribute leaves some to
 * the program's queues.
 */
static void
test_max_mr(void)
{
	const struct ibv_device_attr *a = &side.attr.orig_attr;

	fill_up(a->max_mr - 1, a->max_mr < a->max_mw ? 32 : 0, make_mr, end_mr);
}

/* --- sizes ----------------------------------------------------------------------------------- */

static void
max_cqe_is_the_largest_cq(void)
{
	int max = side.attr.orig_attr.max_cqe;
	struct ibv_cq *cq = ibv_create_cq(side.ctx, max, NULL, NULL, 0);

	CHECK(cq && cq->cqe >= max);
	CHECK(cq && ibv_destroy_cq(cq) == 0);
	CHECK(!ibv_create_cq(side.ctx, max + 1, NULL, NULL, 0) && errno == EINVAL);
	cq = ibv_create_cq(side.ctx, 1, NULL, NULL, 0);
	CHECK(cq && ibv_resize_cq(cq, max + 1) == EINVAL);
	CHECK(cq && ibv_resize_cq(cq, max) == 0 && cq->cqe >= max);
	CHECK(cq && ibv_destroy_cq(cq) == 0);
}

/* Creates a QP with these caps; true if that succeeds and grants at least these. */
static bool
granted(uint32_t send_wr, uint32_t recv_wr, uint32_t send_sge, uint32_t recv_sge)
{
	struct ibv_qp_init_attr attr = {.send_cq = side.cq,
					.recv_cq = side.cq,
					.cap = {send_wr, recv_wr, send_sge, recv_sge, 0},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(side.pd, &attr);
	bool good = qp && attr.cap.max_send_wr >= send_wr && attr.cap.max_recv_wr >= recv_wr &&
		    attr.cap.max_send_sge >= send_sge && attr.cap.max_recv_sge >= recv_sge;

	return good && ibv_destroy_qp(qp) == 0;
}

static void
max_qp_wr_and_max_sge_are_exact(void)
{
	uint32_t wr = (uint32_t)side.attr.orig_attr.max_qp_wr;
	uint32_t sge = (uint32_t)side.attr.orig_attr.max_sge;

	CHECK(granted(wr, wr, sge, sge));
	CHECK(!granted(wr + 1, 1, 1, 1) && errno == EINVAL);
	CHECK(!granted(1, wr + 1, 1, 1) && errno == EINVAL);
	CHECK(!granted(1, 1, sge + 1, 1) && errno == EINVAL);
	CHECK(!granted(1, 1, 1, sge + 1) && errno == EINVAL);
}

static void
max_srq_wr_and_max_srq_sge_are_exact(void)
{
	struct ibv_srq_init_attr attr = {
		.attr = {.max_wr = (uint32_t)side.attr.orig_attr.max_srq_wr,
			 .max_sge = (uint32_t)side.attr.orig_attr.max_srq_sge}};
	const struct ibv_srq_attr most = attr.attr;
	struct ibv_srq *srq = ibv_create_srq(side.pd, &attr);
	struct ibv_recv_wr wr = {0}, *bad;
	uint32_t n = 0;

	CHECK(srq && attr.attr.max_wr == most.max_wr && attr.attr.max_sge == most.max_sge);
	while (srq && n <= most.max_wr && ibv_post_srq_recv(srq, &wr, &bad) == 0)
		n++;
	CHECK(n == most.max_wr);
	CHECK(srq && ibv_destroy_srq(srq) == 0);
	attr.attr.max_wr = most.max_wr + 1;
	CHECK(!ibv_create_srq(side.pd, &attr) && errno == EINVAL);
	attr.attr.max_wr = 1;
	attr.attr.max_sge = most.max_sge + 1;
	CHECK(!ibv_create_srq(side.pd, &attr) && errno == EINVAL);
}

/* QPs whose flushed receive queues fill the largest CQ to its last entry: none is lost. */
static void
max_cqe_and_qp_wr_are_usable(void)
{
	int max = side.attr.orig_attr.max_cqe, wrs = side.attr.orig_attr.max_qp_wr, n, got = 0;
	struct ibv_cq *cq = ibv_create_cq(side.ctx, max, NULL, NULL, 0);
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct ibv_recv_wr wr = {0}, *bad;
	struct ibv_qp *qp[64] = {0};
	struct ibv_wc wc[32];

	CHECK(cq && max % wrs == 0 && max / wrs <= 64);
	for (int i = 0; cq && i < max / wrs; i++) {
		struct ibv_qp_init_attr attr = {.send_cq = cq,
						.recv_cq = cq,
						.cap = {1, (uint32_t)wrs, 1, 1, 0},
						.qp_type = IBV_QPT_RC};

		qp[i] = ibv_create_qp(side.pd, &attr);
		CHECK(qp[i] && side_init_state(qp[i]) == 0);
		for (n = 0; qp[i] && n <= wrs && ibv_post_recv(qp[i], &wr, &bad) == 0; n++)
			wr.wr_id++;
		CHECK(n == wrs);
		CHECK(qp[i] && ibv_modify_qp(qp[i], &error, IBV_QP_STATE) == 0);
	}
	for (int i = 0; cq && i < max / wrs;
	     i++) /* a query waits for the worker, which has flushed */
		CHECK(ibv_query_qp(qp[i], &error, IBV_QP_STATE, &(struct ibv_qp_init_attr){0}) ==
		      0);
	while (cq && got < max && verbs_wait(cq, wc)) {
		got++;
		while ((n = ibv_poll_cq(cq, 32, wc)) > 0)
			got += n;
		CHECK(n == 0); /* -1: overrun */
	}
	CHECK(got == max);
	for (int i = 0; i < 64 && qp[i]; i++)
		CHECK(ibv_destroy_qp(qp[i]) == 0);
	CHECK(cq && ibv_destroy_cq(cq) == 0);
}

/* --- use ------------------------------------------------------------------------------------- */

/* Two connected QPs with the maximum number of SGEs. */
static bool
make_pair(struct ibv_qp *qp[2])
{
	struct ibv_qp_init_attr attr = {
		.send_cq = side.cq,
		.recv_cq = side.cq,
		.cap = {64, 64, (uint32_t)side.attr.orig_attr.max_sge,
			(uint32_t)side.attr.orig_attr.max_sge, 0},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	for (int i = 0; i < 2; i++)
		qp[i] = ibv_create_qp(side.pd, &attr);
	return qp[0] && qp[1] && side_raise(&side, qp[0], qp[1]->qp_num) == 0 &&
	       side_raise(&side, qp[1], qp[0]->qp_num) == 0;
}

/* Describes n pieces of 100 bytes, 300 bytes apart, from an offset of the buffer on. */
static void
pieces(struct ibv_sge *sge, int n, size_t from)
{
	for (int i = 0; i < n; i++) {
		sge[i].addr = (uintptr_t)side.buf + from + (size_t)i * 300;
		sge[i].length = 100;
		sge[i].lkey = side.mr->lkey;
	}
}

#define PLACE 100000 /* of the target in the buffer; the source is at its start */

/* Moves data from source to target. The source may be in pieces, and the target, too. */
static bool
same(int n, bool from_pieces, bool to_pieces)
{
	for (int k = 0; k < n * 100; k++) {
		size_t piece = (size_t)k / 100 * 300 + (size_t)k % 100;
		uint8_t from = side.buf[from_pieces ? piece : (size_t)k];

		if (from != side.buf[PLACE + (to_pieces ? piece : (size_t)k)])
			return false;
	}
	return true;
}

static void
max_sge_is_usable(void)
{
	int n = side.attr.orig_attr.max_sge, nrd = side.attr.orig_attr.max_sge_rd;
	struct ibv_sge from[256], to[256];
	struct ibv_send_wr wr = {.sg_list = from, .num_sge = n, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_recv_wr rwr = {.sg_list = to, .num_sge = n}, *rbad;
	struct ibv_qp *qp[2];
	struct ibv_wc wc;

	CHECK(n <= 256 && nrd <= n && make_pair(qp));
	for (int i = 0; i < PLACE; i++)
		side.buf[i] = (uint8_t)(i * 7 + i / 256);
	pieces(from, n, 0);
	pieces(to, n, PLACE);
	CHECK(ibv_post_recv(qp[1], &rwr, &rbad) == 0 && ibv_post_send(qp[0], &wr, &bad) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(verbs_wait(side.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	CHECK(same(n, true, true));
	memset(side.buf + PLACE, 0, PLACE);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = (uintptr_t)side.buf + PLACE;
	wr.wr.rdma.rkey = side.mr->rkey;
	CHECK(ibv_post_send(qp[0], &wr, &bad) == 0);
	CHECK(verbs_wait(side.cq, &wc) && wc.status == IBV_WC_SUCCESS && same(n, true, false));
	memset(side.buf + PLACE, 0, PLACE);
	wr.opcode = IBV_WR_RDMA_READ;
	wr.sg_list = to;
	wr.num_sge = nrd;
	wr.wr.rdma.remote_addr = (uintptr_t)side.buf;
	CHECK(ibv_post_send(qp[0], &wr, &bad) == 0);
	CHECK(verbs_wait(side.cq, &wc) && wc.status == IBV_WC_SUCCESS && same(nrd, false, true));
	wr.num_sge = n + 1;
	CHECK(ibv_post_send(qp[0], &wr, &bad) == EINVAL);
	for (int i = 0; i < 2; i++)
		CHECK(ibv_destroy_qp(qp[i]) == 0);
}

/* READs beyond the limit wait for their turn; a QP with more than the device's limit is refused. */
static void
max_rd_atomic_is_usable(void)
{
	const struct ibv_device_attr *a = &side.attr.orig_attr;
	struct ibv_sge sge = {(uintptr_t)side.buf + PLACE, 8192, side.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ}, *bad;
	struct ibv_qp_attr attr = {.max_rd_atomic = (uint8_t)(a->max_qp_init_rd_atom + 1),
				   .max_dest_rd_atomic = (uint8_t)(a->max_qp_rd_atom + 1)};
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp[2];
	struct ibv_wc wc;

	CHECK(make_pair(qp));
	CHECK(ibv_query_qp(qp[0], &attr, IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC,
			   &init) == 0);
	CHECK(attr.max_rd_atomic == a->max_qp_init_rd_atom);
	CHECK(attr.max_dest_rd_atomic == a->max_qp_rd_atom);
	CHECK(a->max_res_rd_atom == a->max_qp_rd_atom * a->max_qp);
	wr.wr.rdma.remote_addr = (uintptr_t)side.buf;
	wr.wr.rdma.rkey = side.mr->rkey;
	for (int i = 0; i < 64; i++)
		CHECK(ibv_post_send(qp[0], &wr, &bad) == 0);
	for (int i = 0; i < 64; i++)
		CHECK(verbs_wait(side.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	CHECK(memcmp(side.buf, side.buf + PLACE, 8192) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(ibv_destroy_qp(qp[i]) == 0);
	/* One more is refused, on either side. */
	side.attr.orig_attr.max_qp_init_rd_atom++;
	CHECK(!make_pair(qp));
	side.attr.orig_attr.max_qp_init_rd_atom--;
	CHECK(ibv_destroy_qp(qp[0]) == 0 && ibv_destroy_qp(qp[1]) == 0);
	side.attr.orig_attr.max_qp_rd_atom++;
	CHECK(!make_pair(qp));
	side.attr.orig_attr.max_qp_rd_atom--;
	CHECK(ibv_destroy_qp(qp[0]) == 0 && ibv_destroy_qp(qp[1]) == 0);
}

/* --- multicast ------------------------------------------------------------------------------- */

static union ibv_gid
group(int i)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 7}};

	gid.raw[14] = (uint8_t)(i >> 8);
	gid.raw[15] = (uint8_t)i;
	return gid;
}

/* Puts every QP of the device in one group; then each QP, or just one, in as many as allowed. */
static void
max_multicast_groups_are_usable(void)
{
	const struct ibv_device_attr *a = &side.attr.orig_attr;
	int nqp = a->max_mcast_qp_attach, each = a->max_total_mcast_qp_attach / nqp, groups = 0;
	bool few = a->max_total_mcast_qp_attach <= 4096;
	struct ibv_qp **qp = calloc((size_t)nqp, sizeof(struct ibv_qp *));
	union ibv_gid gid = group(groups++);

	CHECK(nqp == a->max_qp && each > 1 && each * nqp == a->max_total_mcast_qp_attach);
	for (int i = 0; i < nqp; i++) {
		qp[i] = make_qp();
		CHECK(qp[i] && ibv_attach_mcast(qp[i], &gid, 0) == 0);
	}
	for (int i = 0; i < (few ? nqp : 1) && qp[i]; i++) {
		for (int k = 1; k < each; k++) {
			gid = group(groups++);
			CHECK(ibv_attach_mcast(qp[i], &gid, 0) == 0);
		}
		gid = group(groups);
		/* if not few, the device's limit is what binds, not the QP's */
		CHECK(!few || ibv_attach_mcast(qp[i], &gid, 0) == ENOMEM);
	}
	CHECK(groups <= a->max_mcast_grp);
	/* Detach: all from the first group, and each from its others. */
	groups = 0;
	gid = group(groups++);
	for (int i = 0; i < nqp; i++)
		CHECK(qp[i] && ibv_detach_mcast(qp[i], &gid, 0) == 0);
	for (int i = 0; i < (few ? nqp : 1) && qp[i]; i++) {
		for (int k = 1; k < each; k++) {
			gid = group(groups++);
			CHECK(ibv_detach_mcast(qp[i], &gid, 0) == 0);
		}
	}
	for (int i = 0; i < nqp; i++)
		CHECK(qp[i] && ibv_destroy_qp(qp[i]) == 0);
	free(qp);
}

/* --- time ------------------------------------------------------------------------------------ */

/* The device's clock in ns, within the bits of completion_timestamp_mask. */
static uint64_t
device_ns(void)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	CHECK(ibv_query_rt_values_ex(side.ctx, &values) == 0);
	CHECK(values.comp_mask == IBV_VALUES_MASK_RAW_CLOCK);
	return (uint64_t)values.raw_clock.tv_sec * 1000000000u + (uint64_t)values.raw_clock.tv_nsec;
}

static void
timestamps_are_of_the_clock_that_can_be_queried(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 64,
					   .wc_flags = IBV_WC_STANDARD_FLAGS |
						       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(side.ctx, &attr);
	struct ibv_poll_cq_attr none = {0};
	struct ibv_recv_wr wr = {0}, *bad;
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	uint64_t last, ts;
	struct ibv_qp *qp;

	CHECK(side.attr.completion_timestamp_mask == UINT64_MAX);
	CHECK(side.attr.hca_core_clock == 1000000); /* kHz: one tick is one nanosecond */
	CHECK(cq);
	qp = side_qp(side.pd, IBV_QPT_RC, ibv_cq_ex_to_cq(cq));
	CHECK(qp && side_init_state(qp) == 0);
	last = device_ns();
	CHECK(last != 0);
	for (int i = 0; i < SIDE_DEPTH; i++)
		CHECK(ibv_post_recv(qp, &wr, &bad) == 0);
	CHECK(ibv_modify_qp(qp, &error, IBV_QP_STATE) == 0);
	CHECK(ibv_query_qp(qp, &error, IBV_QP_STATE, &(struct ibv_qp_init_attr){0}) == 0);
	CHECK(ibv_start_poll(cq, &none) == 0);
	for (int i = 0; i < SIDE_DEPTH; i++) {
		ts = ibv_wc_read_completion_ts(cq);
		CHECK(ts >= last);
		last = ts;
		CHECK(ibv_next_poll(cq) == (i < SIDE_DEPTH - 1 ? 0 : ENOENT));
	}
	ibv_end_poll(cq);
	CHECK(device_ns() >= last);
	CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
	/* The device has no wall clock and does not claim to have one. */
	attr.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	CHECK(!ibv_create_cq_ex(side.ctx, &attr) && errno == EOPNOTSUPP);
}

int
main(int argc, char **argv)
{
	static const struct side_test tests[] = {
		SIDE_TEST(features_not_offered_are_zero_and_refused),
		SIDE_TEST(port_attributes_match_its_tables),
		SIDE_TEST(test_max_pd),
		SIDE_TEST(test_max_cq),
		SIDE_TEST(test_max_mr),
		SIDE_TEST(test_max_mw),
		SIDE_TEST(test_max_qp),
		SIDE_TEST(test_max_srq),
		SIDE_TEST(test_max_ah),
		SIDE_TEST(max_cqe_is_the_largest_cq),
		SIDE_TEST(max_qp_wr_and_max_sge_are_exact),
		SIDE_TEST(max_srq_wr_and_max_srq_sge_are_exact),
		SIDE_TEST(max_cqe_and_qp_wr_are_usable),
		SIDE_TEST(max_sge_is_usable),
		SIDE_TEST(max_rd_atomic_is_usable),
		SIDE_TEST(max_multicast_groups_are_usable),
		SIDE_TEST(timestamps_are_of_the_clock_that_can_be_queried),
	};

	return side_main(argc, argv, &side, 1, tests, sizeof(tests) / sizeof(tests[0]));
}
