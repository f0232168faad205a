/* SPDX-License-Identifier: BSD-3-Clause */
/* The provider's operations in the table of each rdma-core, and the layout that a libibverbs has.
 */
#include <string.h>
#include "provider_fixture.h"
#include "rdma_core.h"

#define SLOT(op) (offsetof(struct verbs_context_ops, op) / sizeof(void *))

/* Positions in the tables of rdma-core 56.1 and 65.0, counted in their headers. */
static const struct position {
	size_t slot, in_56, in_65;
} positions[] = {
	{SLOT(alloc_mw), 2, 4},          {SLOT(alloc_pd), 5, 7},
	{SLOT(bind_mw), 10, 12},         {SLOT(create_ah), 13, 15},
	{SLOT(create_cq), 15, 18},       {SLOT(create_qp_ex), 20, 23},
	{SLOT(create_srq), 22, 25},      {SLOT(dealloc_mw), 25, 29},
	{SLOT(destroy_ah), 29, 33},      {SLOT(destroy_cq), 31, 36},
	{SLOT(detach_mcast), 38, 43},    {SLOT(free_context), 39, 46},
	{SLOT(import_mr), 43, 50},       {SLOT(modify_qp), 47, 56},
	{SLOT(poll_cq), 53, 62},         {SLOT(post_srq_recv), 57, 66},
	{SLOT(query_device_ex), 58, 69}, {SLOT(query_port), 60, 71},
	{SLOT(query_qp), 61, 73},        {SLOT(query_qp_data_in_order), 62, 74},
	{SLOT(query_srq), 64, 76},       {SLOT(reg_mr), 68, 82},
	{SLOT(req_notify_cq), 69, 84},   {SLOT(resize_cq), 71, 86},
	{SLOT(unimport_mr), 74, 91},     {SLOT(unimport_pd), 75, 92},
};

/* What each rdma-core has, and the public function that tells it from its predecessor. */
static const struct {
	unsigned int version;
	const char *symbol;
	size_t ops, words;
} cores[] = {
	{33, "", 72, 40},
	{34, "ibv_reg_dmabuf_mr", 73, 40},
	{35, "ibv_import_dm", 75, 40},
	{36, "ibv_query_qp_data_in_order", 76, 40},
	{59, "ibv_alloc_dmah", 79, 43},
	{62, "ibv_dm_export_dmabuf_fd", 81, 44},
	{64, "ibv_alloc_buf", 83, 46},
	{65, "ibv_create_comp_cntr", 93, 46},
};
#define NCORES (sizeof(cores) / sizeof(cores[0]))

/* A table whose entry i is the address of marks[i]. */
static char marks[RCA_SLOTS];
static struct verbs_context_ops
marked(void)
{
	struct verbs_context_ops ops;

	for (size_t i = 0; i < RCA_SLOTS; i++) {
		void *mark = &marks[i];

		memcpy((char *)&ops + i * sizeof(void *), &mark, sizeof(void *));
	}
	return ops;
}

UNIT_TEST(tables_have_the_operations_of_their_version)
{
	const struct verbs_context_ops ops = marked();
	void *slot[RCA_SLOTS];

	for (size_t c = 0; c < NCORES; c++) {
		size_t n = rca_ops_translate(cores[c].version, &ops, slot);

		assert_int_equal(n, cores[c].ops);
		for (size_t i = 0; i < RCA_SLOTS; i++) {
			assert_true((slot[i] != NULL) == (i < n));
			assert_true(i == 0 || i >= n || slot[i - 1] < slot[i]);
		}
	}
	rca_ops_translate(56, &ops, slot);
	for (size_t i = 0; i < sizeof(positions) / sizeof(positions[0]); i++)
		assert_ptr_equal(slot[positions[i].in_56], &marks[positions[i].slot]);
	rca_ops_translate(65, &ops, slot);
	for (size_t i = 0; i < sizeof(positions) / sizeof(positions[0]); i++)
		assert_ptr_equal(slot[positions[i].in_65], &marks[positions[i].slot]);
}

UNIT_TEST(every_version_has_the_providers_operations)
{
	void *slot[RCA_SLOTS], *full[RCA_SLOTS];
	const void *newest = (void *)prov_context_ops.query_qp_data_in_order;

	memcpy(full, &prov_context_ops, sizeof(full));
	for (size_t c = 0; c < NCORES; c++) {
		size_t n = rca_ops_translate(cores[c].version, &prov_context_ops, slot), at = 0;

		for (size_t i = 0; i < RCA_SLOTS; i++) {
			if (full[i] == NULL || (full[i] == newest && cores[c].version < 36))
				continue;
			while (at < n && slot[at] != full[i])
				at++;
			assert_true(at < n);
		}
	}
}

/* Functions that a faked libibverbs has: those of the versions up to this one. */
static unsigned int faked;
static void *
fake_symbol(const char *name)
{
	for (size_t c = 0; c < NCORES; c++) {
		if (strcmp(name, cores[c].symbol) == 0)
			return cores[c].version <= faked ? marks : NULL;
	}
	return NULL;
}

UNIT_TEST(versions_are_found_by_their_functions)
{
	for (size_t c = 0; c < NCORES; c++) {
		faked = cores[c].version;
		assert_int_equal(rca_version_find(fake_symbol), faked);
		assert_int_equal(rca_context_head(faked), cores[c].words * sizeof(void *));
	}
	assert_int_equal(rca_context_head(57), 40 * sizeof(void *));
	assert_int_equal(rca_context_head(61), 43 * sizeof(void *));
	assert_int_equal(rca_context_head(63), 44 * sizeof(void *));
}

/* The context as this machine's libibverbs has made it, with one function of another operation. */
FIXTURE_TEST(misplaced_operations_are_found)
{
	struct fixture *r = *state;
	struct prov_context *ctx = prov_context_of(r->ctx);
	struct verbs_context copy;
	struct verbs_context_ops ops = prov_context_ops;

	assert_true(rca_context_check(&ctx->vctx, &prov_context_ops));
	memcpy(&copy, &ctx->vctx, sizeof(copy));
	copy.context.ops.post_recv = (void *)copy.context.ops.post_send;
	assert_false(rca_context_check(&copy, &prov_context_ops));
	/* a slot too many in front of the last operations */
	ops.resize_cq = NULL;
	assert_false(rca_context_check(&ctx->vctx, &ops));
}

FIXTURE_TEST(libibverbs_sees_the_context_and_the_extended_qp)
{
	struct fixture *r = *state;
	struct prov_context *ctx = prov_context_of(r->ctx);
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = r->cq,
		.recv_cq = r->cq,
		.cap = {1, 1, 1, 1, 0},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = r->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(r->ctx, &attr);
	struct verbs_context *seen = rca_context_seen(&ctx->vctx);
	unsigned int places = 0;

	assert_non_null(qp);
	assert_non_null(ibv_qp_to_qp_ex(qp));
	assert_null(ibv_qp_to_qp_ex(r->qp));
	for (unsigned int i = 0; i < RCA_QP_EX_PLACES; i++)
		places += prov_qp_of(qp)->vqp.ex_end[i].comp_mask != 0;
	assert_int_equal(places, 1);
	assert_true((char *)seen >= (char *)ctx);
	assert_int_equal((char *)(ctx + 1) > (char *)seen, true);
	assert_int_equal(ctx->vctx.sz, (char *)(&ctx->vctx + 1) - (char *)seen);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}
