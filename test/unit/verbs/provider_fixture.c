/* SPDX-License-Identifier: BSD-3-Clause */
#include "provider_fixture.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

struct ibv_context *
fixture_open(struct fixture *r)
{
	struct verbs_context *v;

	/* As libibverbs does it, without sysfs: a device by name, any command descriptor. */
	r->vdev.ops = &prov_device_ops;
	r->vdev.refcount = 1;
	strcpy(r->vdev.device.name, "uroce0");
	v = prov_device_ops.alloc_context(&r->vdev.device, open("/dev/null", O_RDWR | O_CLOEXEC),
					  NULL);
	return v ? &v->context : NULL;
}

struct ibv_qp *
fixture_create_qp_of(struct fixture *r, enum ibv_qp_type type, uint32_t wrs)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = r->cq,
		.recv_cq = r->cq,
		.cap = {.max_send_wr = wrs,
			.max_recv_wr = wrs,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64},
		.qp_type = type,
	};

	return ibv_create_qp(r->pd, &attr);
}

struct ibv_qp *
fixture_create_qp(struct fixture *r, enum ibv_qp_type type)
{
	return fixture_create_qp_of(r, type, 8);
}

void
fixture_qp_to(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	assert(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
}

int
fixture_setup(void **state)
{
	struct fixture *r = calloc(1, sizeof(*r));

	assert(r);
	r->f = fake_start(NULL);
	r->ctx = fixture_open(r);
	assert(r->ctx);
	r->pd = ibv_alloc_pd(r->ctx);
	r->channel = ibv_create_comp_channel(r->ctx);
	assert(r->pd && r->channel);
	r->cq = ibv_create_cq(r->ctx, 16, r, r->channel, 0);
	assert(r->cq);
	r->qp = fixture_create_qp(r, IBV_QPT_RC);
	assert(r->qp);
	*state = r;
	return 0;
}

int
fixture_teardown(void **state)
{
	struct fixture *r = *state;

	if (r->qp)
		ibv_destroy_qp(r->qp);
	if (r->cq)
		ibv_destroy_cq(r->cq);
	if (r->channel)
		ibv_destroy_comp_channel(r->channel);
	if (r->pd)
		ibv_dealloc_pd(r->pd);
	ibv_close_device(r->ctx);
	fake_stop(r->f);
	free(r);
	return 0;
}
