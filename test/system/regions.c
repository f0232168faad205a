/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How regions and windows address their bytes: zero-based ones from 0, those with an iova from
 * there; the key of a window after a bind; and which of them allow atomics.
 *
 *   regions DEVICE
 *
 * TAP; exit status 0 when all tests passed.
 */
#include "kit/verbside.h"
#include "../kit/requirement.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEN  4096
#define AT   (64 * 1024) /* in side.buf: the region under test; accesses use the bytes at 0 */
#define MARK 0xc5

static struct side side;
static struct ibv_qp *qp[2]; /* [0] requests, [1] responds */

static void
qps_renew(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = side.cq,
		.recv_cq = side.cq,
		.cap = {SIDE_DEPTH, SIDE_DEPTH, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = side.pd,
		.send_ops_flags = IBV_QP_EX_WITH_BIND_MW,
	};
	struct ibv_wc wc;

	for (int i = 0; i < 2; i++) {
		if (qp[i])
			CHECK(ibv_destroy_qp(qp[i]) == 0);
		qp[i] = i ? ibv_create_qp_ex(side.ctx, &attr)
			  : side_qp(side.pd, IBV_QPT_RC, side.cq);
	}
	CHECK(qp[0] && qp[1] && side_raise(&side, qp[0], qp[1]->qp_num) == 0 &&
	      side_raise(&side, qp[1], qp[0]->qp_num) == 0);
	while (ibv_poll_cq(side.cq, 1, &wc) == 1)
		;
}

static enum ibv_wc_status
run(struct ibv_qp *on, struct ibv_send_wr *wr)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
	struct ibv_send_wr *bad;

	CHECK(ibv_post_send(on, wr, &bad) == 0 && verbs_wait(side.cq, &wc));
	if (wc.status != IBV_WC_SUCCESS)
		qps_renew();
	return wc.status;
}

/* Writes 8 bytes of MARK to addr by rkey. */
static enum ibv_wc_status
write_to(uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)side.buf, 8, side.mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .wr.rdma = {.remote_addr = addr, .rkey = rkey}};

	memset(side.buf, MARK, 8);
	memset(side.buf + AT, 0, 2 * LEN);
	return run(qp[0], &wr);
}

static bool
marked(const uint8_t *at)
{
	return at[0] == MARK && at[7] == MARK;
}

static enum ibv_wc_status
fetch_add(uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)side.buf, 8, side.mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .wr.atomic = {.remote_addr = addr,
					       .rkey = rkey,
					       .compare_add = 1}};

	return run(qp[0], &wr);
}

/* Checks that the first byte of mr, at p, has address base, for peers and for WQEs of this side. */
static void
expect_base(const struct ibv_mr *mr, const uint8_t *p, uint64_t base)
{
	struct ibv_sge sge = {base + LEN - 8, 8, mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .wr.rdma = {.remote_addr = (uintptr_t)side.buf,
					     .rkey = side.mr->rkey}};

	CHECK(mr->addr == p);
	CHECK(write_to(base, mr->rkey) == IBV_WC_SUCCESS && marked(p));
	CHECK(write_to(base + LEN - 8, mr->rkey) == IBV_WC_SUCCESS && marked(p + LEN - 8));
	CHECK(write_to(base - 8, mr->rkey) == IBV_WC_REM_ACCESS_ERR);
	CHECK(write_to(base + LEN - 7, mr->rkey) == IBV_WC_REM_ACCESS_ERR);
	if (base != (uintptr_t)p)
		CHECK(write_to((uintptr_t)p, mr->rkey) == IBV_WC_REM_ACCESS_ERR);
	memset(side.buf + AT, 0, 2 * LEN);
	CHECK(run(qp[0], &wr) == IBV_WC_SUCCESS && marked(p + LEN - 8));
}

#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

REQUIREMENT("MEM-04")
static void
zero_based_regions_start_at_0(void)
{
	static const size_t offsets[] = {0, 3, 4088};

	for (int i = 0; i < 3; i++) {
		uint8_t *p = side.buf + AT + offsets[i];
		struct ibv_mr *mr = ibv_reg_mr(side.pd, p, LEN, RIGHTS | IBV_ACCESS_ZERO_BASED);

		CHECK(mr);
		if (!mr)
			return;
		expect_base(mr, p, 0);
		CHECK(ibv_dereg_mr(mr) == 0);
		mr = ibv_reg_mr_iova(side.pd, p, LEN, 0, RIGHTS);
		CHECK(mr);
		expect_base(mr, p, 0);
		CHECK(ibv_dereg_mr(mr) == 0);
		/* Both flags at once, with different addresses. */
		CHECK(!ibv_reg_mr_iova(side.pd, p, LEN, 0x10000, RIGHTS | IBV_ACCESS_ZERO_BASED) &&
		      errno == EINVAL);
	}
}

REQUIREMENT("MEM-04")
static void
rereg_keeps_or_changes_the_base(void)
{
	const int zero = IBV_ACCESS_ZERO_BASED;
	uint8_t *p = side.buf + AT, *q = p + LEN;
	struct ibv_mr *mr = ibv_reg_mr(side.pd, p, LEN, RIGHTS | zero);

	CHECK(mr);
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, q, LEN, 0) == 0);
	expect_base(mr, q, 0);
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, RIGHTS) == 0);
	expect_base(mr, q, (uintptr_t)q);
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, RIGHTS | zero) == 0);
	expect_base(mr, q, 0);
	CHECK(ibv_dereg_mr(mr) == 0);
	/* A change of rights keeps a region's own iova. */
	mr = ibv_reg_mr_iova(side.pd, p, LEN, 0x7000000, RIGHTS);
	CHECK(mr && ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				 RIGHTS | IBV_ACCESS_REMOTE_READ) == 0);
	expect_base(mr, p, 0x7000000);
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, q, LEN, 0) == 0);
	expect_base(mr, q, (uintptr_t)q);
	CHECK(ibv_dereg_mr(mr) == 0);
}

/* Binds by post_send or ibv_wr_*, on the responding QP, which a type 2 window belongs to. */
static enum ibv_wc_status
bind(struct ibv_mw *mw, uint32_t rkey, struct ibv_mr *mr, uint64_t addr, uint64_t len, int access,
     bool wr_api)
{
	struct ibv_mw_bind_info info = {mr, addr, len, (unsigned int)access};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW,
				 .bind_mw = {.mw = mw, .rkey = rkey, .bind_info = info}};
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp[1]);
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	if (!wr_api)
		return run(qp[1], &wr);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(ex, mw, rkey, &info);
	CHECK(ibv_wr_complete(ex) == 0 && verbs_wait(side.cq, &wc));
	if (wc.status != IBV_WC_SUCCESS)
		qps_renew();
	return wc.status;
}

REQUIREMENT("MEM-04")
static void
windows_can_be_bound_to_zero_based_regions(void)
{
	const int rights = RIGHTS | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED;
	uint8_t *p = side.buf + AT + 24;
	struct ibv_mr *mr = ibv_reg_mr(side.pd, p, LEN, rights);
	struct ibv_mw *mw = ibv_alloc_mw(side.pd, IBV_MW_TYPE_1);

	CHECK(mr && mw);
	for (int zero = 0; zero < 2; zero++) {
		uint32_t key = ibv_inc_rkey(mw->rkey);
		uint64_t base = zero ? 0 : 1000;

		CHECK(bind(mw, key, mr, 1000, 64,
			   IBV_ACCESS_REMOTE_WRITE | (zero ? IBV_ACCESS_ZERO_BASED : 0),
			   false) == IBV_WC_SUCCESS);
		mw->rkey = key;
		CHECK(write_to(base, key) == IBV_WC_SUCCESS && marked(p + 1000));
		CHECK(write_to(base + 57, key) == IBV_WC_REM_ACCESS_ERR);
	}
	CHECK(bind(mw, ibv_inc_rkey(mw->rkey), mr, (uintptr_t)p, 64, IBV_ACCESS_REMOTE_WRITE,
		   false) == IBV_WC_MW_BIND_ERR);
	CHECK(ibv_dealloc_mw(mw) == 0 && ibv_dereg_mr(mr) == 0);
}

/* Whatever new key a program passes, the upper 24 bits are the window's. */
REQUIREMENT("MEM-04")
static void
bind_chooses_eight_bits_of_the_key(void)
{
	uint8_t *p = side.buf + AT;
	struct ibv_mr *mr = ibv_reg_mr(side.pd, p, LEN, RIGHTS | IBV_ACCESS_MW_BIND);

	CHECK(mr);
	for (int i = 0; i < 4; i++) {
		struct ibv_mw *mw = ibv_alloc_mw(side.pd, i & 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
		uint32_t key = (mw->rkey & ~0xffu) | 0x42;

		CHECK(bind(mw, 0x12345642, mr, (uintptr_t)p, 64, IBV_ACCESS_REMOTE_WRITE, i & 2) ==
		      IBV_WC_SUCCESS);
		CHECK((i & 2) || mw->rkey == key); /* ibv_post_send stores it there */
		CHECK(write_to((uintptr_t)p, key) == IBV_WC_SUCCESS && marked(p));
		CHECK(write_to((uintptr_t)p, 0x12345642) == IBV_WC_REM_ACCESS_ERR);
		CHECK(ibv_dealloc_mw(mw) == 0);
	}
	CHECK(ibv_dereg_mr(mr) == 0);
}

static enum ibv_wc_status
invalidate(uint32_t rkey)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = rkey};

	return run(qp[1], &wr);
}

/*
 * A program may take the current key from the window. It binds it again after an invalidation, and
 * after a bind that failed although it was posted. A refused post leaves the key.
 */
REQUIREMENT("MEM-04")
static void
post_send_stores_the_new_key(void)
{
	uint8_t *p = side.buf + AT;
	struct ibv_mr *mr = ibv_reg_mr(side.pd, p, LEN, RIGHTS | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(side.pd, IBV_MW_TYPE_2);
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_BIND_MW, .num_sge = -1};
	const int access = IBV_ACCESS_REMOTE_WRITE;

	CHECK(mr && mw);
	for (int i = 0; i < 3; i++) {
		uint32_t key = ibv_inc_rkey(mw->rkey);

		CHECK(bind(mw, key, mr, (uintptr_t)p, 64, access, false) == IBV_WC_SUCCESS);
		CHECK(mw->rkey == key && write_to((uintptr_t)p, key) == IBV_WC_SUCCESS);
		CHECK(invalidate(mw->rkey) == IBV_WC_SUCCESS);
		/* beyond the region */
		CHECK(bind(mw, ibv_inc_rkey(key), mr, (uintptr_t)p, LEN + 1, access, false) ==
		      IBV_WC_MW_BIND_ERR);
		key = mw->rkey;
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = ibv_inc_rkey(key);
		CHECK(ibv_post_send(qp[1], &wr, &bad) == EINVAL && mw->rkey == key);
	}
	CHECK(ibv_dealloc_mw(mw) == 0 && ibv_dereg_mr(mr) == 0);
}

/* ibv_bind_mw counts up the low eight bits of the key. */
REQUIREMENT("MEM-04")
static void
type_1_key_counts_up(void)
{
	uint8_t *p = side.buf + AT;
	struct ibv_mr *mr = ibv_reg_mr(side.pd, p, LEN, RIGHTS | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(side.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind b = {.bind_info = {mr, (uintptr_t)p, 64, IBV_ACCESS_REMOTE_WRITE}};
	struct ibv_wc wc;

	CHECK(mr && mw);
	for (int i = 0; i < 300; i++) {
		uint32_t old = mw->rkey;

		CHECK(ibv_bind_mw(qp[1], mw, &b) == 0 && verbs_wait(side.cq, &wc) &&
		      wc.status == IBV_WC_SUCCESS);
		CHECK(mw->rkey == ((old & ~0xffu) | ((old + 1) & 0xff)));
	}
	CHECK(write_to((uintptr_t)p, mw->rkey) == IBV_WC_SUCCESS && marked(p));
	CHECK(ibv_dealloc_mw(mw) == 0 && ibv_dereg_mr(mr) == 0);
}

#define ATOMICS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

/* If peers see an address as a multiple of 8, it must be one for the CPU, too. */
REQUIREMENT("RSP-04")
static void
misaligned_regions_refuse_atomics(void)
{
	uint8_t *p = side.buf + AT;
	struct ibv_mr *mr;

	for (unsigned int off = 1; off < 8; off++) {
		CHECK(!ibv_reg_mr_iova(side.pd, p, LEN, 0x7000000 + off, ATOMICS) &&
		      errno == EINVAL);
		CHECK(!ibv_reg_mr(side.pd, p + off, LEN, ATOMICS | IBV_ACCESS_ZERO_BASED) &&
		      errno == EINVAL);
		/* The same offset in both is allowed. */
		mr = ibv_reg_mr_iova(side.pd, p + off, LEN, 0x7000000 + off, ATOMICS);
		CHECK(mr && fetch_add(0x7000008, mr->rkey) == IBV_WC_SUCCESS);
		CHECK(fetch_add(0x7000008 + off, mr->rkey) == IBV_WC_REM_INV_REQ_ERR);
		CHECK(ibv_dereg_mr(mr) == 0);
		mr = ibv_reg_mr(side.pd, p + off, LEN, ATOMICS);
		CHECK(mr && fetch_add((uintptr_t)p + 8, mr->rkey) == IBV_WC_SUCCESS);
		CHECK(ibv_dereg_mr(mr) == 0);
	}
	mr = ibv_reg_mr(side.pd, p, LEN, ATOMICS | IBV_ACCESS_ZERO_BASED);
	CHECK(mr && fetch_add(8, mr->rkey) == IBV_WC_SUCCESS);
	/* Nor may a rereg make one; a failed rereg changes nothing. */
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p + 4, LEN, 0) != 0);
	CHECK(fetch_add(16, mr->rkey) == IBV_WC_SUCCESS);
	CHECK(ibv_dereg_mr(mr) == 0);
	mr = ibv_reg_mr_iova(side.pd, p, LEN, 0x7000004, RIGHTS);
	CHECK(mr && ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ATOMICS) != 0);
	CHECK(write_to(0x7000004, mr->rkey) == IBV_WC_SUCCESS);
	CHECK(ibv_dereg_mr(mr) == 0);
}

REQUIREMENT("RSP-04")
static void
misaligned_windows_refuse_atomics(void)
{
	const int rights = RIGHTS | IBV_ACCESS_MW_BIND;
	uint8_t *p = side.buf + AT;
	struct ibv_mr *odd = ibv_reg_mr_iova(side.pd, p, LEN, 0x7000004, rights);
	struct ibv_mr *even = ibv_reg_mr(side.pd, p, LEN, rights);

	CHECK(odd && even);
	for (int type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
		struct ibv_mw *mw = ibv_alloc_mw(side.pd, type);
		const int atomic = IBV_ACCESS_REMOTE_ATOMIC, zero = IBV_ACCESS_ZERO_BASED;
		uint32_t key = ibv_inc_rkey(mw->rkey);

		CHECK(bind(mw, key, odd, 0x7000008, 64, atomic, false) == IBV_WC_MW_BIND_ERR);
		CHECK(bind(mw, key, odd, 0x7000008, 64, atomic | zero, false) ==
		      IBV_WC_MW_BIND_ERR);
		CHECK(bind(mw, key, even, (uintptr_t)p + 4, 64, atomic | zero, false) ==
		      IBV_WC_MW_BIND_ERR);
		/* A zero-based window can be aligned although its region is not. */
		CHECK(bind(mw, key, odd, 0x700000c, 64, atomic | zero, false) == IBV_WC_SUCCESS);
		CHECK(fetch_add(8, key) == IBV_WC_SUCCESS);
		CHECK(ibv_dealloc_mw(mw) == 0);
		mw = ibv_alloc_mw(side.pd, type);
		key = ibv_inc_rkey(mw->rkey);
		CHECK(bind(mw, key, even, (uintptr_t)p + 4, 64, atomic, false) == IBV_WC_SUCCESS);
		CHECK(fetch_add((uintptr_t)p + 8, key) == IBV_WC_SUCCESS);
		CHECK(ibv_dealloc_mw(mw) == 0);
	}
	CHECK(ibv_dereg_mr(odd) == 0 && ibv_dereg_mr(even) == 0);
}

/* First test: sets up what the others need. */
static void
queue_pairs_are_connected(void)
{
	qps_renew();
}

int
main(int argc, char **argv)
{
	static const struct side_test tests[] = {
		SIDE_TEST(queue_pairs_are_connected),
		SIDE_TEST(zero_based_regions_start_at_0),
		SIDE_TEST(rereg_keeps_or_changes_the_base),
		SIDE_TEST(windows_can_be_bound_to_zero_based_regions),
		SIDE_TEST(bind_chooses_eight_bits_of_the_key),
		SIDE_TEST(post_send_stores_the_new_key),
		SIDE_TEST(type_1_key_counts_up),
		SIDE_TEST(misaligned_regions_refuse_atomics),
		SIDE_TEST(misaligned_windows_refuse_atomics),
	};

	return side_main(argc, argv, &side, 1, tests, sizeof(tests) / sizeof(tests[0]));
}
