/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A libibverbs of another rdma-core, for test_versions.py: its private ABI is ABI, and the
 * functions below do what fake_open's mode says. It has the name libibverbs.so.1, so a provider
 * that is loaded later uses it.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "rdma_core.h"

#define EXPORT             __attribute__((visibility("default")))
#define PASTE(a, b)        a##b
#define REGISTER_NAME(abi) PASTE(verbs_register_driver_, abi)

/* What differs from the rdma-core that the exported functions suggest. */
enum mode {
	MODE_NOTHING,
	MODE_CONTEXT,    /* its verbs_context has one function more */
	MODE_OPERATIONS, /* its table of operations has one slot more at the start */
};

static const struct verbs_device_ops *registered;
static enum mode mode;
static unsigned int living; /* contexts that were not undone */

EXPORT void REGISTER_NAME(ABI)(const struct verbs_device_ops *ops);
void
REGISTER_NAME(ABI)(const struct verbs_device_ops *ops)
{
	registered = ops;
}

EXPORT bool fake_registered(void);
bool
fake_registered(void)
{
	return registered != NULL;
}

EXPORT const char *ibv_event_type_str(enum ibv_event_type event);
const char *
ibv_event_type_str(enum ibv_event_type event)
{
	(void)event;
	return "";
}

#ifndef WITHOUT_QP_EX
EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp);
struct ibv_qp_ex *
ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	struct verbs_qp *vqp = (struct verbs_qp *)qp;

	return vqp->ex_end[5].comp_mask & RCA_QP_EX ? &vqp->qp_ex : NULL;
}
#endif

EXPORT void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd, size_t size,
					   struct verbs_context *offset, uint32_t driver_id);
void *
_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd, size_t size,
			      struct verbs_context *offset, uint32_t driver_id)
{
	/* as rdma-core 33, which the exported functions suggest */
	size_t head = rca_context_head(33) + (mode == MODE_CONTEXT ? sizeof(void *) : 0);
	char *block = calloc(1, size);
	struct ibv_context *ctx = (struct ibv_context *)(block + (uintptr_t)offset + head);
	size_t sz = head + sizeof(*ctx);

	(void)driver_id;
	memcpy((char *)ctx - sizeof(sz), &sz, sizeof(sz));
	ctx->device = device;
	ctx->cmd_fd = cmd_fd;
	living++;
	return block;
}

EXPORT void verbs_uninit_context(struct verbs_context *ctx);
void
verbs_uninit_context(struct verbs_context *ctx)
{
	(void)ctx;
	living--;
}

EXPORT void verbs_set_ops(struct verbs_context *ctx, void *const *slot);
void
verbs_set_ops(struct verbs_context *ctx, void *const *slot)
{
	struct ibv_context *c = (struct ibv_context *)((char *)ctx + rca_context_head(33));

	/* the position of poll_cq in rdma-core 33, or the next one */
	memcpy(&c->ops.poll_cq, &slot[mode == MODE_OPERATIONS ? 52 : 51], sizeof(void *));
}

/*
 * Opens a device with the provider, in this mode. Returns errno after a failure that left no
 * context, 0 after a success, -1 after a failure that left one.
 */
EXPORT int fake_open(int how);
int
fake_open(int how)
{
	static struct verbs_device device;

	mode = (enum mode)how;
	errno = 0;
	if (registered->alloc_context(&device.device, -1, NULL))
		return 0;
	return living ? -1 : errno;
}
