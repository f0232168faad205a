/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Thread domains and parent domains; threads that share queues (verbs objects are thread-safe); and
 * objects whose handle a program has corrupted: ENOENT, and no other effect.
 *
 *   domains DEVICE
 *
 * TAP; exit status 0 when all tests passed.
 */
#include "kit/verbside.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define EACH    3000 /* messages of each thread */
#define TOTAL   (THREADS * EACH)
#define SLOTS   64 /* receives posted at a time */

static struct side side;

/* --- domains --------------------------------------------------------------------------------- */

static struct ibv_td *
make_td(void)
{
	struct ibv_td_init_attr attr = {0};

	return ibv_alloc_td(side.ctx, &attr);
}

static struct ibv_pd *
make_domain(struct ibv_pd *pd, struct ibv_td *td)
{
	struct ibv_parent_domain_init_attr attr = {.pd = pd, .td = td};

	return ibv_alloc_parent_domain(side.ctx, &attr);
}

static struct ibv_cq_ex *
make_cq_ex(struct ibv_pd *domain, uint32_t cqe)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = cqe,
					   .wc_flags = IBV_WC_STANDARD_FLAGS,
					   .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS |
							IBV_CQ_INIT_ATTR_MASK_PD,
					   .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
					   .parent_domain = domain};

	return ibv_create_cq_ex(side.ctx, &attr);
}

/* Returned EBUSY, and errno is EBUSY; then clears errno for the next call. */
static bool
refused(int rc)
{
	bool busy = rc == EBUSY && errno == EBUSY;

	errno = 0;
	return busy;
}

/* An object in use cannot be destroyed: only the reverse order works. */
static void
domains_are_freed_after_their_users(void)
{
	struct ibv_srq_init_attr sattr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_td_init_attr unknown = {.comp_mask = 1u << 31};
	struct ibv_parent_domain_init_attr strange = {.pd = side.pd, .comp_mask = 1u << 31};
	struct ibv_pd *pd = ibv_alloc_pd(side.ctx), *domain, *other;
	struct ibv_td *td = make_td();
	struct ibv_srq *srq;
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;

	CHECK(pd && td);
	CHECK(!ibv_alloc_td(side.ctx, &unknown) && errno == EOPNOTSUPP);
	CHECK(!ibv_alloc_parent_domain(side.ctx, &strange) && errno == EOPNOTSUPP);
	CHECK(!make_domain(NULL, td) && errno == EINVAL);
	domain = make_domain(pd, td);
	other = make_domain(pd, NULL); /* same PD, no thread domain */
	CHECK(domain && other && domain != pd && other != domain);
	CHECK(refused(ibv_dealloc_td(td)));
	CHECK(refused(ibv_dealloc_pd(pd)));
	cq = make_cq_ex(domain, 16);
	CHECK(cq && refused(ibv_dealloc_pd(domain)));
	qp = side_qp(domain, IBV_QPT_RC, ibv_cq_ex_to_cq(cq));
	CHECK(qp && qp->pd == domain);
	CHECK(ibv_destroy_qp(qp) == 0 && refused(ibv_dealloc_pd(domain)));
	CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
	qp = side_qp(domain, IBV_QPT_RC, side.cq);
	CHECK(qp && refused(ibv_dealloc_pd(domain)) && ibv_destroy_qp(qp) == 0);
	srq = ibv_create_srq(domain, &sattr);
	CHECK(srq && refused(ibv_dealloc_pd(domain)) && ibv_destroy_srq(srq) == 0);
	CHECK(ibv_dealloc_pd(domain) == 0);
	CHECK(refused(ibv_dealloc_pd(pd)));
	CHECK(ibv_dealloc_td(td) == 0);
	CHECK(ibv_dealloc_pd(other) == 0);
	CHECK(ibv_dealloc_pd(pd) == 0);
}

static unsigned int allocations;

static void *
own_alloc(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t type)
{
	(void)pd;
	(void)context;
	(void)size;
	(void)alignment;
	(void)type;
	allocations++;
	return IBV_ALLOCATOR_USE_DEFAULT;
}

static void
own_free(struct ibv_pd *pd, void *context, void *ptr, uint64_t type)
{
	(void)pd;
	(void)context;
	(void)ptr;
	(void)type;
}

/* Queues are in the daemon's memory, so a program's allocator is accepted and never called. */
static void
allocators_are_accepted(void)
{
	struct ibv_parent_domain_init_attr attr = {.pd = side.pd,
						   .comp_mask =
							   IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
							   IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
						   .alloc = own_alloc,
						   .free = own_free,
						   .pd_context = &side};
	struct ibv_pd *domain = ibv_alloc_parent_domain(side.ctx, &attr);
	struct ibv_cq_ex *cq = make_cq_ex(domain, 16);
	struct ibv_qp *qp = side_qp(domain, IBV_QPT_RC, ibv_cq_ex_to_cq(cq));

	CHECK(qp && allocations == 0);
	CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
	CHECK(ibv_dealloc_pd(domain) == 0);
}

/* --- one pair of queues, many threads -------------------------------------------------------- */

/* State shared by the threads. QP from sends to QP to; the payload of a message is its number. */
static struct shared {
	struct ibv_cq *cq;
	struct ibv_qp *from, *to;
	bool wr_api; /* every other thread posts by ibv_wr_* */
	unsigned int sent[TOTAL], came[TOTAL];
	unsigned int nsent, ncame, bad; /* atomic */
} * sh;

static int
post_slot(uint64_t slot)
{
	struct ibv_sge sge = {(uintptr_t)side.buf + slot * 64, 64, side.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = TOTAL + slot, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(sh->to, &wr, &bad);
}

static int
post_number(uint32_t number, bool wr_api)
{
	struct ibv_sge sge = {.addr = (uintptr_t)&number, .length = sizeof(number)};
	struct ibv_send_wr wr = {.wr_id = number,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(sh->from);

	if (!wr_api)
		return ibv_post_send(sh->from, &wr, &bad);
	ibv_wr_start(ex);
	ex->wr_id = number;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, &number, sizeof(number));
	return ibv_wr_complete(ex);
}

static void *
sender(void *arg)
{
	uint32_t thread = (uint32_t)(uintptr_t)arg;

	for (uint32_t i = 0; i < EACH && !sh->bad; i++) {
		int rc;

		while ((rc = post_number(thread * EACH + i, sh->wr_api && thread % 2)) == ENOMEM)
			sched_yield(); /* queue full */
		if (rc)
			__atomic_fetch_add(&sh->bad, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void
took(const struct ibv_wc *wc)
{
	uint32_t number = (uint32_t)wc->wr_id;

	if (wc->status != IBV_WC_SUCCESS) {
		__atomic_fetch_add(&sh->bad, 1, __ATOMIC_RELAXED);
	} else if (number < TOTAL) {
		__atomic_fetch_add(&sh->sent[number], 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&sh->nsent, 1, __ATOMIC_RELAXED);
	} else {
		memcpy(&number, side.buf + (wc->wr_id - TOTAL) * 64, sizeof(number));
		if (number >= TOTAL || post_slot(wc->wr_id - TOTAL))
			__atomic_fetch_add(&sh->bad, 1, __ATOMIC_RELAXED);
		else
			__atomic_fetch_add(&sh->came[number], 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&sh->ncame, 1, __ATOMIC_RELAXED);
	}
}

static void *
poller(void *arg)
{
	struct ibv_wc wc[3];
	unsigned int idle = 0;
	int n;

	(void)arg;
	while (!sh->bad && (sh->nsent < TOTAL || sh->ncame < TOTAL)) {
		n = ibv_poll_cq(sh->cq, 3, wc);
		if (n < 0 || idle++ > 50u * 1000 * 1000)
			__atomic_fetch_add(&sh->bad, 1, __ATOMIC_RELAXED);
		for (int i = 0; i < n; i++, idle = 0)
			took(&wc[i]);
	}
	return NULL;
}

static bool
share_open(bool wr_api)
{
	struct ibv_qp_init_attr_ex attr = {.cap = {32, 2 * SLOTS, 1, 1, 64},
					   .qp_type = IBV_QPT_RC,
					   .comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .pd = side.pd,
					   .send_ops_flags = IBV_QP_EX_WITH_SEND};

	sh = calloc(1, sizeof(*sh));
	sh->wr_api = wr_api;
	sh->cq = ibv_create_cq(side.ctx, 1024, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = sh->cq;
	sh->from = ibv_create_qp_ex(side.ctx, &attr);
	sh->to = ibv_create_qp_ex(side.ctx, &attr);
	return sh->from && sh->to && side_raise(&side, sh->to, sh->from->qp_num) == 0 &&
	       side_raise(&side, sh->from, sh->to->qp_num) == 0;
}

/* Each message is sent once, arrives once, and completes once on both sides. */
static void
share(bool wr_api)
{
	pthread_t post[THREADS], poll[2];
	unsigned int wrong = 0;

	CHECK(share_open(wr_api));
	for (uint64_t slot = 0; slot < SLOTS; slot++)
		CHECK(post_slot(slot) == 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&post[i], NULL, sender, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_create(&poll[i], NULL, poller, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(post[i], NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(poll[i], NULL);
	for (int i = 0; i < TOTAL; i++)
		wrong += sh->sent[i] != 1 || sh->came[i] != 1;
	CHECK(sh->bad == 0 && sh->nsent == TOTAL && sh->ncame == TOTAL);
	CHECK(wrong == 0);
	CHECK(ibv_destroy_qp(sh->from) == 0 && ibv_destroy_qp(sh->to) == 0);
	CHECK(ibv_destroy_cq(sh->cq) == 0);
	free(sh);
}

static void
threads_share_queues(void)
{
	share(false);
}

static void
threads_share_queues_by_either_way_to_post(void)
{
	share(true);
}

/* --- one domain per thread -------------------------------------------------------------------- */

/* Sends n messages from one QP of the domain to the other and compares each. */
static int
ping(struct ibv_qp *const qp[2], struct ibv_cq_ex *cq, size_t at, int n)
{
	struct ibv_sge from = {(uintptr_t)side.buf + at, 8, side.mr->lkey};
	struct ibv_sge to = {(uintptr_t)side.buf + at + 64, 8, side.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	struct ibv_recv_wr rwr = {.sg_list = &to, .num_sge = 1}, *rbad;
	struct ibv_poll_cq_attr none = {0};
	int good = 0;

	for (uint64_t i = 1; i <= (uint64_t)n; i++) {
		int done = 0;

		memcpy(side.buf + at, &i, sizeof(i));
		if (ibv_post_recv(qp[1], &rwr, &rbad) || ibv_post_send(qp[0], &wr, &bad))
			break;
		while (done < 2) {
			if (ibv_start_poll(cq, &none)) {
				sched_yield();
				continue;
			}
			do {
				done += cq->status == IBV_WC_SUCCESS ? 1 : 100;
			} while (ibv_next_poll(cq) == 0);
			ibv_end_poll(cq);
		}
		good += done == 2 && memcmp(side.buf + at, side.buf + at + 64, 8) == 0;
	}
	return good;
}

static void *
own_domain(void *arg)
{
	size_t at = (size_t)(uintptr_t)arg * 4096;
	struct ibv_td *td = make_td();
	struct ibv_pd *domain = make_domain(side.pd, td);
	struct ibv_cq_ex *cq = make_cq_ex(domain, 16);
	struct ibv_qp *qp[2];
	int good = 0;

	for (int i = 0; i < 2; i++)
		qp[i] = side_qp(domain, IBV_QPT_RC, ibv_cq_ex_to_cq(cq));
	/* The region belongs to the PD, which the domain only renames. */
	if (qp[0] && qp[1] && side_raise(&side, qp[0], qp[1]->qp_num) == 0 &&
	    side_raise(&side, qp[1], qp[0]->qp_num) == 0)
		good = ping(qp, cq, at, 500);
	for (int i = 0; i < 2; i++)
		good -= ibv_destroy_qp(qp[i]) != 0;
	good -= ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) || ibv_dealloc_pd(domain) || ibv_dealloc_td(td);
	return (void *)(intptr_t)good;
}

static void
each_thread_can_have_a_separate_domain(void)
{
	pthread_t thread[THREADS];
	void *good;

	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, own_domain, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &good);
		CHECK((intptr_t)good == 500);
	}
}

/* --- handles --------------------------------------------------------------------------------- */

/* Does fails, a call that names an object, get ENOENT forevery handle but the object's own? */
#define ENOENT_FOR(object, fails)                                                                  \
	do {                                                                                       \
		uint32_t own = (object)->handle;                                                   \
		const uint32_t garbled[] = {own + 500, own + 0x5555, own ^ 1u << 20,               \
					    own ^ 1u << 30, own ^ 1u << 31};                       \
                                                                                                   \
		for (unsigned int g = 0; g < sizeof(garbled) / sizeof(garbled[0]); g++) {          \
			(object)->handle = garbled[g];                                             \
			errno = 0;                                                                 \
			CHECK((fails) == ENOENT);                                                  \
		}                                                                                  \
		(object)->handle = own;                                                            \
	} while (0)
#define ERRNO_OF(makes) ((makes) ? 0 : errno)

static union ibv_gid
own_gid(void)
{
	union ibv_gid gid = {{0}};

	CHECK(ibv_query_gid(side.ctx, 1, 1, &gid) == 0);
	return gid;
}

static void
creating_with_garbled_handles_fails(void)
{
	struct ibv_srq_init_attr sattr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_ah_attr ah = {.is_global = 1,
				 .port_num = 1,
				 .grh = {.sgid_index = 1, .hop_limit = 1, .dgid = own_gid()}};
	struct ibv_srq *srq = ibv_create_srq(side.pd, &sattr);
	struct ibv_qp_init_attr attr = {.send_cq = side.cq,
					.recv_cq = side.cq,
					.srq = srq,
					.cap = {4, 0, 1, 0, 0},
					.qp_type = IBV_QPT_RC};

	CHECK(srq);
	ENOENT_FOR(side.pd, ERRNO_OF(side_qp(side.pd, IBV_QPT_RC, side.cq)));
	ENOENT_FOR(side.pd, ERRNO_OF(ibv_reg_mr(side.pd, side.buf, 4096, SIDE_ACCESS)));
	ENOENT_FOR(side.pd, ERRNO_OF(ibv_alloc_mw(side.pd, IBV_MW_TYPE_1)));
	ENOENT_FOR(side.pd, ERRNO_OF(ibv_create_srq(side.pd, &sattr)));
	ENOENT_FOR(side.pd, ERRNO_OF(ibv_create_ah(side.pd, &ah)));
	ENOENT_FOR(side.cq, ERRNO_OF(side_qp(side.pd, IBV_QPT_UD, side.cq)));
	ENOENT_FOR(srq, ERRNO_OF(ibv_create_qp(side.pd, &attr)));
	CHECK(ibv_destroy_srq(srq) == 0);
}

static void
changing_with_garbled_handles_fails(void)
{
	struct ibv_srq_init_attr sattr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq_attr limit = {.srq_limit = 1}, bigger = {.max_wr = 8};
	struct ibv_srq *srq = ibv_create_srq(side.pd, &sattr);
	struct ibv_qp *qp = side_qp(side.pd, IBV_QPT_UD, side.cq);
	struct ibv_cq *cq = ibv_create_cq(side.ctx, 4, NULL, NULL, 0);
	struct ibv_mr *mr = ibv_reg_mr(side.pd, side.buf, 4096, SIDE_ACCESS);
	struct ibv_mw *mw = ibv_alloc_mw(side.pd, IBV_MW_TYPE_1);
	struct ibv_pd *pd = ibv_alloc_pd(side.ctx);
	union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 9}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_init_attr init;

	CHECK(srq && qp && cq && mr && mw && pd);
	ENOENT_FOR(qp, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	ENOENT_FOR(qp, ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	ENOENT_FOR(qp, ibv_attach_mcast(qp, &group, 0));
	ENOENT_FOR(qp, ibv_detach_mcast(qp, &group, 0));
	ENOENT_FOR(qp, ibv_destroy_qp(qp));
	ENOENT_FOR(srq, ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	ENOENT_FOR(srq, ibv_modify_srq(srq, &bigger, IBV_SRQ_MAX_WR));
	ENOENT_FOR(srq, ibv_query_srq(srq, &limit));
	ENOENT_FOR(srq, ibv_destroy_srq(srq));
	ENOENT_FOR(cq, ibv_resize_cq(cq, 8));
	ENOENT_FOR(cq, ibv_destroy_cq(cq));
	ENOENT_FOR(mr, ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				    IBV_ACCESS_LOCAL_WRITE) == IBV_REREG_MR_ERR_CMD
			       ? errno
			       : 0);
	ENOENT_FOR(mr, ibv_dereg_mr(mr));
	ENOENT_FOR(mw, ibv_dealloc_mw(mw));
	ENOENT_FOR(pd, ibv_dealloc_pd(pd));
	/* The objects are unchanged. */
	CHECK(ibv_query_srq(srq, &limit) == 0 && limit.srq_limit == 0 && limit.max_wr == 4);
	CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_srq(srq) == 0 && ibv_destroy_cq(cq) == 0);
	CHECK(ibv_dereg_mr(mr) == 0 && ibv_dealloc_mw(mw) == 0 && ibv_dealloc_pd(pd) == 0);
}

/* The worker looks up an address handle, so the WR fails, and the QP with it. */
static void
garbled_address_handles_are_refused(void)
{
	struct ibv_ah_attr attr = {.is_global = 1,
				   .port_num = 1,
				   .grh = {.sgid_index = 1, .hop_limit = 1, .dgid = own_gid()}};
	struct ibv_ah *ah = ibv_create_ah(side.pd, &attr);
	struct ibv_qp *qp = side_qp(side.pd, IBV_QPT_UD, side.cq);
	struct ibv_sge sge = {(uintptr_t)side.buf, 8, side.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .wr = {.ud = {.ah = ah,
					       .remote_qpn = 77,
					       .remote_qkey = VERBS_QKEY}}},
			   *bad;
	struct ibv_wc wc;

	CHECK(ah && qp && side_raise(&side, qp, 0) == 0);
	ENOENT_FOR(ah, ibv_destroy_ah(ah));
	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
	CHECK(verbs_wait(side.cq, &wc) && wc.status == IBV_WC_SUCCESS);
	ah->handle += 77;
	CHECK(ibv_post_send(qp, &wr, &bad) == 0);
	CHECK(verbs_wait(side.cq, &wc) && wc.status == IBV_WC_LOC_QP_OP_ERR);
	ah->handle -= 77;
	CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_ah(ah) == 0);
}

/* ibv_create_srq ignores srq_limit: programs leave it uninitialised. */
static void
srq_is_created_without_a_limit(void)
{
	struct ibv_srq_init_attr_ex xattr = {
		.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 2},
		.comp_mask = IBV_SRQ_INIT_ATTR_PD,
		.pd = side.pd,
	};
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 77777}};
	struct ibv_srq *srq = ibv_create_srq(side.pd, &attr);
	struct ibv_srq *srq_ex = ibv_create_srq_ex(side.ctx, &xattr);
	struct ibv_srq_attr now;

	CHECK(srq && srq_ex);
	if (!srq || !srq_ex)
		return;
	CHECK(ibv_query_srq(srq, &now) == 0 && now.srq_limit == 0 && now.max_wr == 4);
	CHECK(ibv_query_srq(srq_ex, &now) == 0 && now.srq_limit == 0);
	CHECK(ibv_destroy_srq(srq) == 0 && ibv_destroy_srq(srq_ex) == 0);
}

/* The receive queue size that ibv_create_qp returns with an SRQ; UC with an SRQ is refused. */
static void
qps_share_an_srq(void)
{
	struct ibv_srq_init_attr sattr = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(side.pd, &sattr);
	static const struct {
		enum ibv_qp_type type;
		bool good;
	} kind[] = {{IBV_QPT_RC, true}, {IBV_QPT_UD, true}, {IBV_QPT_UC, false}};

	CHECK(srq);
	for (unsigned i = 0; i < 3; i++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = side.cq,
			.recv_cq = side.cq,
			.srq = srq,
			.qp_type = kind[i].type,
			.cap = {1, UINT32_MAX, 1, UINT32_MAX, 0},
		};
		struct ibv_qp *qp = ibv_create_qp(side.pd, &attr);

		CHECK(kind[i].good == (qp != NULL) && (qp || errno == EINVAL));
		CHECK(!qp || ibv_destroy_qp(qp) == 0);
	}
	CHECK(ibv_destroy_srq(srq) == 0);
}

int
main(int argc, char **argv)
{
	static const struct side_test tests[] = {
		SIDE_TEST(qps_share_an_srq),
		SIDE_TEST(srq_is_created_without_a_limit),
		SIDE_TEST(domains_are_freed_after_their_users),
		SIDE_TEST(allocators_are_accepted),
		SIDE_TEST(threads_share_queues),
		SIDE_TEST(threads_share_queues_by_either_way_to_post),
		SIDE_TEST(each_thread_can_have_a_separate_domain),
		SIDE_TEST(creating_with_garbled_handles_fails),
		SIDE_TEST(changing_with_garbled_handles_fails),
		SIDE_TEST(garbled_address_handles_are_refused),
	};

	return side_main(argc, argv, &side, 1, tests, sizeof(tests) / sizeof(tests[0]));
}
