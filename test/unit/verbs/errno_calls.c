/* SPDX-License-Identifier: BSD-3-Clause */
/* One call each: the daemon refuses it, or its arguments are bad (errno_fixture.h). */
#include <errno.h>
#include "errno_fixture.h"

static int
got(const void *pointer)
{
	return pointer ? MADE : IS_NULL;
}

/* --- one call each; the daemon refuses it, or its arguments are bad -----------------------------
 */

static int
alloc_mw(struct errno_fixture *b)
{
	return got(ibv_alloc_mw(b->r->pd, IBV_MW_TYPE_1));
}

static int
alloc_parent_domain_of_nothing(struct errno_fixture *b)
{
	struct ibv_parent_domain_init_attr attr = {.td = b->td};

	return got(ibv_alloc_parent_domain(b->r->ctx, &attr));
}

static int
alloc_parent_domain_strange(struct errno_fixture *b)
{
	struct ibv_parent_domain_init_attr attr = {.pd = b->r->pd, .comp_mask = 1u << 31};

	return got(ibv_alloc_parent_domain(b->r->ctx, &attr));
}

static int
alloc_pd(struct errno_fixture *b)
{
	return got(ibv_alloc_pd(b->r->ctx));
}

static int
alloc_td_strange(struct errno_fixture *b)
{
	struct ibv_td_init_attr attr = {.comp_mask = 1u << 31};

	return got(ibv_alloc_td(b->r->ctx, &attr));
}

static int
attach_mcast(struct errno_fixture *b)
{
	union ibv_gid gid = {.raw = {0xff, 0x0e}};

	return ibv_attach_mcast(b->r->qp, &gid, 0);
}

static int
detach_mcast(struct errno_fixture *b)
{
	union ibv_gid gid = {.raw = {0xff, 0x0e}};

	return ibv_detach_mcast(b->r->qp, &gid, 0);
}

static int
bind_mw_in_reset(struct errno_fixture *b)
{
	struct ibv_mw_bind bind = {0};

	return ibv_bind_mw(b->r->qp, &b->mw, &bind);
}

static int
create_ah(struct errno_fixture *b)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

	return got(ibv_create_ah(b->r->pd, &attr));
}

static int
create_cq(struct errno_fixture *b)
{
	return got(ibv_create_cq(b->r->ctx, 8, NULL, NULL, 0));
}

static int
create_cq_of_none(struct errno_fixture *b)
{
	return got(ibv_create_cq(b->r->ctx, 0, NULL, NULL, 0));
}

static int
create_cq_bad_vector(struct errno_fixture *b)
{
	return got(ibv_create_cq(b->r->ctx, 8, NULL, NULL, 99));
}

static int
create_cq_ex(struct errno_fixture *b)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 8};

	return got(prov_create_cq_ex(b->r->ctx, &attr));
}

static int
create_cq_ex_strange(struct errno_fixture *b)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 8, .wc_flags = IBV_WC_EX_WITH_TM_INFO};

	return got(prov_create_cq_ex(b->r->ctx, &attr));
}

static int
create_cq_ex_of_no_domain(struct errno_fixture *b)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 8, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD};

	return got(prov_create_cq_ex(b->r->ctx, &attr));
}

static int
create_qp(struct errno_fixture *b)
{
	return got(fixture_create_qp(b->r, IBV_QPT_RC));
}

static int
create_qp_without_cq(struct errno_fixture *b)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC};

	return got(ibv_create_qp(b->r->pd, &attr));
}

static int
create_qp_ex_of(struct errno_fixture *b, uint32_t mask, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = b->r->cq,
		.recv_cq = b->r->cq,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_UD,
		.comp_mask = mask,
		.pd = b->r->pd,
		.send_ops_flags = ops,
	};

	return got(ibv_create_qp_ex(b->r->ctx, &attr));
}

static int
create_qp_ex(struct errno_fixture *b)
{
	return create_qp_ex_of(b, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			       IBV_QP_EX_WITH_SEND);
}

static int
create_qp_ex_without_pd(struct errno_fixture *b)
{
	return create_qp_ex_of(b, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, IBV_QP_EX_WITH_SEND);
}

static int
create_qp_ex_strange(struct errno_fixture *b)
{
	return create_qp_ex_of(b, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			       IBV_QP_EX_WITH_TSO);
}

static int
create_srq(struct errno_fixture *b)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 4, .max_sge = 1}};

	return got(ibv_create_srq(b->r->pd, &attr));
}

static int
create_srq_ex_of(struct errno_fixture *b, uint32_t mask)
{
	struct ibv_srq_init_attr_ex attr = {.attr = {.max_wr = 4, .max_sge = 1},
					    .comp_mask = mask,
					    .srq_type = IBV_SRQT_XRC,
					    .pd = b->r->pd};

	return got(ibv_create_srq_ex(b->r->ctx, &attr));
}

static int
create_srq_ex(struct errno_fixture *b)
{
	return create_srq_ex_of(b, IBV_SRQ_INIT_ATTR_PD);
}

static int
create_srq_ex_without_pd(struct errno_fixture *b)
{
	return create_srq_ex_of(b, IBV_SRQ_INIT_ATTR_CQ);
}

static int
create_srq_ex_xrc(struct errno_fixture *b)
{
	return create_srq_ex_of(b, IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE);
}

static int
create_channel(struct errno_fixture *b)
{
	return got(ibv_create_comp_channel(b->r->ctx));
}

static int
dealloc_mw(struct errno_fixture *b)
{
	return ibv_dealloc_mw(&b->mw);
}

/* A PD that a parent domain, a QP, an SRQ use. */
static int
dealloc_pd_in_use(struct errno_fixture *b)
{
	return ibv_dealloc_pd(b->r->pd);
}

static int
dealloc_pd(struct errno_fixture *b)
{
	struct ibv_pd *pd = ibv_alloc_pd(b->r->ctx);
	int rc;

	assert_non_null(pd);
	b->r->f->refuse[UROCE_CTRL_DEALLOC_PD] = EBUSY; /* a region is in it: the daemon knows */
	rc = ibv_dealloc_pd(pd);
	if (rc) {
		int saved = errno;

		ibv_dealloc_pd(pd);
		errno = saved;
	}
	return rc;
}

static int
dealloc_td_in_use(struct errno_fixture *b)
{
	return ibv_dealloc_td(b->td);
}

static int
dereg_mr(struct errno_fixture *b)
{
	return ibv_dereg_mr(b->mr);
}

static int
dereg_imported_mr(struct errno_fixture *b)
{
	struct prov_mr imported = {
		.vmr = {.ibv_mr = {.context = b->r->ctx}, .mr_type = RCA_MR_TYPE_IMPORTED}};

	return ibv_dereg_mr(&imported.vmr.ibv_mr);
}

static int
destroy_ah(struct errno_fixture *b)
{
	return ibv_destroy_ah(&b->ah);
}

static int
destroy_cq(struct errno_fixture *b)
{
	return ibv_destroy_cq(b->r->cq);
}

static int
destroy_qp(struct errno_fixture *b)
{
	return ibv_destroy_qp(b->r->qp);
}

static int
destroy_srq(struct errno_fixture *b)
{
	return ibv_destroy_srq(b->srq);
}

static int
import_mr(struct errno_fixture *b)
{
	return got(ibv_import_mr(b->r->pd, 0));
}

static int
import_pd(struct errno_fixture *b)
{
	return got(ibv_import_pd(b->r->ctx, 0));
}

static int
modify_qp(struct errno_fixture *b)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};

	return ibv_modify_qp(b->r->qp, &attr, IBV_QP_STATE);
}

static int
modify_qp_to_reset(struct errno_fixture *b)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	return ibv_modify_qp(b->r->qp, &attr, IBV_QP_STATE);
}

static int
modify_srq(struct errno_fixture *b)
{
	struct ibv_srq_attr attr = {.srq_limit = 1};

	return ibv_modify_srq(b->srq, &attr, IBV_SRQ_LIMIT);
}

static int
resize_srq(struct errno_fixture *b)
{
	struct ibv_srq_attr attr = {.max_wr = 16};

	return ibv_modify_srq(b->srq, &attr, IBV_SRQ_MAX_WR);
}

static int
query_device(struct errno_fixture *b)
{
	struct ibv_device_attr_ex attr;

	return ibv_query_device_ex(b->r->ctx, NULL, &attr);
}

static int
query_device_strange(struct errno_fixture *b)
{
	struct ibv_query_device_ex_input input = {.comp_mask = 1};
	struct ibv_device_attr_ex attr;

	/* past libibverbs, which refuses it itself */
	return prov_query_device_ex(b->r->ctx, &input, &attr, sizeof(attr));
}

static int
query_port(struct errno_fixture *b)
{
	struct ibv_port_attr attr;

	return ibv_query_port(b->r->ctx, 1, &attr);
}

static int
query_qp(struct errno_fixture *b)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(b->r->qp, &attr, IBV_QP_STATE, &init);
}

static int
query_rt_values(struct errno_fixture *b)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	return ibv_query_rt_values_ex(b->r->ctx, &values);
}

static int
query_rt_values_strange(struct errno_fixture *b)
{
	struct ibv_values_ex values = {.comp_mask = 1u << 31};

	return ibv_query_rt_values_ex(b->r->ctx, &values);
}

static int
query_srq(struct errno_fixture *b)
{
	struct ibv_srq_attr attr;

	return ibv_query_srq(b->srq, &attr);
}

char errno_memory[4096] __attribute__((aligned(4096)));

static int
reg_mr(struct errno_fixture *b)
{
	return got(ibv_reg_mr(b->r->pd, errno_memory, sizeof(errno_memory), 0));
}

static int
reg_nothing(struct errno_fixture *b)
{
	return got(ibv_reg_mr(b->r->pd, (void *)4096, 4096, 0));
}

/* libibverbs returns its own numbers for this one; the reason is in errno. */
static int
rereg_mr(struct errno_fixture *b)
{
	int rc = ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			      IBV_ACCESS_LOCAL_WRITE);

	return rc == IBV_REREG_MR_ERR_CMD ? errno : rc;
}

static int
rereg_to_nothing(struct errno_fixture *b)
{
	int rc = ibv_rereg_mr(b->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)4096, 4096, 0);

	return rc == IBV_REREG_MR_ERR_CMD ? errno : rc;
}

static int
resize_cq(struct errno_fixture *b)
{
	return ibv_resize_cq(b->r->cq, 32);
}

static int
resize_cq_to_none(struct errno_fixture *b)
{
	return ibv_resize_cq(b->r->cq, 0);
}

#define OP(name)   #name, offsetof(struct verbs_context_ops, name)
#define HOOK(name) #name, SIZE_MAX /* not of the table */

const struct failure failures[] = {
	/* while its queue has room */
	{HOOK(wr_complete), 0, EINVAL, wr_complete_malformed},
	{OP(alloc_mw), UROCE_CTRL_ALLOC_MW, REFUSED, alloc_mw},
	{OP(alloc_parent_domain), 0, EINVAL, alloc_parent_domain_of_nothing},
	{OP(alloc_parent_domain), 0, EOPNOTSUPP, alloc_parent_domain_strange},
	{OP(alloc_pd), UROCE_CTRL_ALLOC_PD, REFUSED, alloc_pd},
	{OP(alloc_td), 0, EOPNOTSUPP, alloc_td_strange},
	{OP(attach_mcast), UROCE_CTRL_ATTACH_MCAST, REFUSED, attach_mcast},
	{OP(bind_mw), 0, EINVAL, bind_mw_in_reset},
	{OP(create_ah), UROCE_CTRL_CREATE_AH, REFUSED, create_ah},
	{OP(create_cq), UROCE_CTRL_CREATE_CQ, REFUSED, create_cq},
	{OP(create_cq), 0, EINVAL, create_cq_of_none},
	{OP(create_cq), 0, EINVAL, create_cq_bad_vector},
	{OP(create_cq_ex), UROCE_CTRL_CREATE_CQ, REFUSED, create_cq_ex},
	{OP(create_cq_ex), 0, EOPNOTSUPP, create_cq_ex_strange},
	{OP(create_cq_ex), 0, EINVAL, create_cq_ex_of_no_domain},
	{OP(create_qp), UROCE_CTRL_CREATE_QP, REFUSED, create_qp},
	{OP(create_qp), 0, EINVAL, create_qp_without_cq},
	{OP(create_qp_ex), UROCE_CTRL_CREATE_QP, REFUSED, create_qp_ex},
	{OP(create_qp_ex), 0, EINVAL, create_qp_ex_without_pd},
	{OP(create_qp_ex), 0, EOPNOTSUPP, create_qp_ex_strange},
	{OP(create_srq), UROCE_CTRL_CREATE_SRQ, REFUSED, create_srq},
	{OP(create_srq_ex), UROCE_CTRL_CREATE_SRQ, REFUSED, create_srq_ex},
	{OP(create_srq_ex), 0, EINVAL, create_srq_ex_without_pd},
	{OP(create_srq_ex), 0, EOPNOTSUPP, create_srq_ex_xrc},
	{OP(dealloc_mw), UROCE_CTRL_DEALLOC_MW, REFUSED, dealloc_mw},
	{OP(dealloc_pd), 0, EBUSY, dealloc_pd_in_use},
	{OP(dealloc_pd), 0, EBUSY, dealloc_pd},
	{OP(dealloc_td), 0, EBUSY, dealloc_td_in_use},
	{OP(dereg_mr), UROCE_CTRL_DEREG_MR, REFUSED, dereg_mr},
	{OP(dereg_mr), 0, EINVAL, dereg_imported_mr},
	{OP(destroy_ah), UROCE_CTRL_DESTROY_AH, REFUSED, destroy_ah},
	{OP(destroy_cq), UROCE_CTRL_DESTROY_CQ, EBUSY, destroy_cq},
	{OP(destroy_qp), UROCE_CTRL_DESTROY_QP, EBUSY, destroy_qp},
	{OP(destroy_srq), UROCE_CTRL_DESTROY_SRQ, EBUSY, destroy_srq},
	{OP(detach_mcast), UROCE_CTRL_DETACH_MCAST, REFUSED, detach_mcast},
	{OP(import_mr), 0, EINVAL, import_mr},
	{OP(import_pd), 0, EINVAL, import_pd},
	{OP(modify_qp), UROCE_CTRL_MODIFY_QP, REFUSED, modify_qp},
	{OP(modify_qp), UROCE_CTRL_MODIFY_QP, REFUSED, modify_qp_to_reset},
	{OP(modify_srq), UROCE_CTRL_MODIFY_SRQ, REFUSED, modify_srq},
	{OP(modify_srq), UROCE_CTRL_RESIZE_SRQ, REFUSED, resize_srq},
	{OP(poll_cq), 0, EIO, poll_overrun_cq},
	{OP(post_recv), 0, EINVAL, post_recv_malformed},
	{OP(post_recv), 0, EINVAL, post_recv_in_reset},
	{OP(post_recv), 0, EINVAL, post_recv_to_a_qp_with_srq},
	{OP(post_send), 0, EINVAL, post_send_in_reset},
	{OP(post_send), 0, EINVAL, post_send_malformed},
	{OP(post_send), 0, ENOMEM, post_send_full},
	{OP(post_srq_recv), 0, EINVAL, post_srq_recv_malformed},
	{OP(post_srq_recv), 0, ENOMEM, post_srq_recv_full},
	{OP(query_device_ex), UROCE_CTRL_QUERY_DEVICE, REFUSED, query_device},
	{OP(query_device_ex), 0, EINVAL, query_device_strange},
	{OP(query_port), UROCE_CTRL_QUERY_PORT, REFUSED, query_port},
	{OP(query_qp), UROCE_CTRL_QUERY_QP, REFUSED, query_qp},
	{OP(query_rt_values), UROCE_CTRL_QUERY_CLOCK, REFUSED, query_rt_values},
	{OP(query_rt_values), 0, EINVAL, query_rt_values_strange},
	{OP(query_srq), UROCE_CTRL_QUERY_SRQ, REFUSED, query_srq},
	{OP(reg_mr), UROCE_CTRL_REG_MR, REFUSED, reg_mr},
	{OP(reg_mr), 0, EFAULT, reg_nothing},
	{OP(rereg_mr), UROCE_CTRL_REREG_MR, REFUSED, rereg_mr},
	{OP(rereg_mr), 0, EFAULT, rereg_to_nothing},
	{OP(resize_cq), UROCE_CTRL_RESIZE_CQ, REFUSED, resize_cq},
	{OP(resize_cq), 0, EINVAL, resize_cq_to_none},
	{HOOK(create_comp_channel), UROCE_CTRL_CREATE_CHANNEL, REFUSED, create_channel},
	{HOOK(start_poll), 0, EINVAL, start_poll_strange},
	{HOOK(start_poll), 0, EIO, start_poll_overrun},
	{HOOK(wr_complete), 0, ENOMEM, wr_complete_full},
};
const size_t nfailures = sizeof(failures) / sizeof(failures[0]);

#define SLOT(name) offsetof(struct verbs_context_ops, name)

/* Arming fails only without a daemon, which has a separate test. */
const size_t infallible[] = {
	SLOT(free_context), SLOT(get_srq_num), SLOT(query_qp_data_in_order),
	SLOT(unimport_mr),  SLOT(unimport_pd), SLOT(req_notify_cq),
};
const size_t ninfallible = sizeof(infallible) / sizeof(infallible[0]);
