/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma_core.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LIBIBVERBS "libibverbs.so.1"

/* The highest number that an unknown private ABI is looked for, to name it. */
#define MAX_ABI 199

/* The private ABIs whose functions have the types declared here. */
static const unsigned int known_abi[] = {33, 34, 57, 59, 64, 65};

#define SLOT(op) (offsetof(struct verbs_context_ops, op) / sizeof(void *))

/* The rdma-core version that added an operation; 0: all have it. */
static const uint8_t since[RCA_SLOTS] = {
	[SLOT(reg_dmabuf_mr)] = 34,
	[SLOT(import_dm)] = 35,
	[SLOT(unimport_dm)] = 35,
	[SLOT(query_qp_data_in_order)] = 36,
	[SLOT(alloc_dmah)] = 59,
	[SLOT(dealloc_dmah)] = 59,
	[SLOT(reg_mr_ex)] = 59,
	[SLOT(dm_export_dmabuf_fd)] = 62,
	[SLOT(query_port_speed)] = 62,
	[SLOT(alloc_buf)] = 64,
	[SLOT(free_buf)] = 64,
	[SLOT(create_comp_cntr)] = 65,
	[SLOT(destroy_comp_cntr)] = 65,
	[SLOT(inc_comp_cntr)] = 65,
	[SLOT(inc_err_comp_cntr)] = 65,
	[SLOT(qp_attach_comp_cntr)] = 65,
	[SLOT(query_comp_cntr_caps)] = 65,
	[SLOT(read_comp_cntr)] = 65,
	[SLOT(read_err_comp_cntr)] = 65,
	[SLOT(set_comp_cntr)] = 65,
	[SLOT(set_err_comp_cntr)] = 65,
};

/* Each change of a layout, newest first, with a public function that came with it. */
static const struct version {
	unsigned int version;
	const char *symbol;
	unsigned int words; /* pointers added at the start of verbs_context since 33 */
} versions[] = {
	{65, "ibv_create_comp_cntr", 6},       {64, "ibv_alloc_buf", 6},
	{62, "ibv_dm_export_dmabuf_fd", 4},    {59, "ibv_alloc_dmah", 3},
	{36, "ibv_query_qp_data_in_order", 0}, {35, "ibv_import_dm", 0},
	{34, "ibv_reg_dmabuf_mr", 0},          {33, NULL, 0},
};

static_assert(RCA_CONTEXT_HEADROOM == 6 * sizeof(void *), "the largest of versions[].words");

static struct {
	unsigned int abi, version;
	unsigned int qp_ex_place; /* index in struct verbs_qp's ex_end */
	void *(*alloc)(struct ibv_device *device, int cmd_fd, size_t size,
		       struct verbs_context *offset, uint32_t driver_id);
	void (*uninit)(struct verbs_context *ctx);
	void (*set_ops)(struct verbs_context *ctx, void *const *slot);
} lib;

/* Returns libibverbs' function, or NULL. */
static void *
find(const char *name)
{
	static void *handle; /* kept: libibverbs is never unloaded before the provider */

	if (!handle)
		handle = dlopen(LIBIBVERBS, RTLD_NOLOAD | RTLD_LAZY);
	return handle ? dlsym(handle, name) : NULL;
}

static void *
find_register(unsigned int abi)
{
	char name[40];

	snprintf(name, sizeof(name), "verbs_register_driver_%u", abi);
	return find(name);
}

unsigned int
rca_version_find(void *(*symbol)(const char *name))
{
	const struct version *v = versions;

	while (v->symbol && !symbol(v->symbol))
		v++;
	return v->version;
}

size_t
rca_context_head(unsigned int version)
{
	const struct version *v = versions;

	/* Every version has query_port; later functions are in front of it. */
	while (v->version > version)
		v++;
	return offsetof(struct verbs_context, context) -
	       offsetof(struct verbs_context, query_port) + v->words * sizeof(void *);
}

size_t
rca_ops_translate(unsigned int version, const struct verbs_context_ops *ops, void *slot[RCA_SLOTS])
{
	size_t n = 0;

	memset(slot, 0, RCA_SLOTS * sizeof(*slot));
	for (size_t i = 0; i < RCA_SLOTS; i++) {
		if (since[i] <= version)
			memcpy(&slot[n++], (const char *)ops + i * sizeof(void *), sizeof(void *));
	}
	return n;
}

/*
 * Finds the place at which ibv_qp_to_qp_ex expects comp_mask, and with it the size of ibv_qp_ex.
 * Returns false if there is none.
 */
static bool
find_qp_ex_place(void)
{
	struct ibv_qp_ex *(*to_ex)(struct ibv_qp * qp) = find("ibv_qp_to_qp_ex");
	struct verbs_qp qp;

	for (unsigned int i = 0; to_ex && i < RCA_QP_EX_PLACES; i++) {
		memset(&qp, 0, sizeof(qp));
		qp.ex_end[i].comp_mask = RCA_QP_EX;
		if (to_ex(&qp.qp)) {
			lib.qp_ex_place = i;
			return true;
		}
	}
	return false;
}

/* Finds the private ABI. Returns verbs_register_driver_*, or NULL. */
static void *
find_abi(void)
{
	void *reg = NULL;

	for (size_t i = 0; !reg && i < sizeof(known_abi) / sizeof(known_abi[0]); i++) {
		lib.abi = known_abi[i];
		reg = find_register(lib.abi);
	}
	return reg;
}

static void
print_unknown_abi(void)
{
	unsigned int abi = 1;

	while (abi <= MAX_ABI && !find_register(abi))
		abi++;
	if (abi > MAX_ABI)
		fprintf(stderr,
			"uroce: no devices: " LIBIBVERBS " has no private ABI that uroce knows "
			"(33, 34, 57, 59, 64, 65)\n");
	else
		fprintf(stderr,
			"uroce: no devices: " LIBIBVERBS " has private ABI %u; uroce knows 33, 34, "
			"57, 59, 64, 65 (rdma-core 33 to 65): install another uroce or rdma-core\n",
			abi);
}

/* Prints that this libibverbs differs in what from the version that it seems to have. */
static void
print_unknown_layout(const char *what)
{
	fprintf(stderr,
		"uroce: " LIBIBVERBS " (private ABI %u, like rdma-core %u) has unknown %s: install "
		"another uroce or rdma-core\n",
		lib.abi, lib.version, what);
}

bool
rca_register(const struct verbs_device_ops *ops)
{
	void (*reg)(const struct verbs_device_ops *ops) = find_abi();

	lib.alloc = find("_verbs_init_and_alloc_context");
	lib.uninit = find("verbs_uninit_context");
	lib.set_ops = find("verbs_set_ops");
	if (!reg || !lib.alloc || !lib.uninit || !lib.set_ops) {
		print_unknown_abi();
		return false;
	}
	lib.version = rca_version_find(find);
	if (!find_qp_ex_place()) {
		print_unknown_layout("queue pairs");
		return false;
	}
	reg(ops);
	return true;
}

struct verbs_context *
rca_context_seen(struct verbs_context *ctx)
{
	return (struct verbs_context *)((char *)&ctx->context - rca_context_head(lib.version));
}

void *
rca_context_alloc(struct ibv_device *device, int cmd_fd, size_t size, size_t offset)
{
	size_t start =
		offset + offsetof(struct verbs_context, context) - rca_context_head(lib.version);

	/* an offset, passed as a pointer */
	return lib.alloc(device, cmd_fd, size, (struct verbs_context *)(uintptr_t)start, 0);
}

bool
rca_context_check(const struct verbs_context *ctx, const struct verbs_context_ops *ops)
{
	const struct ibv_context_ops *c = &ctx->context.ops;

	/* They are spread over the table, so one slot too many or too few moves some of them. */
	return c->alloc_mw == ops->alloc_mw &&
	       ctx->alloc_parent_domain == ops->alloc_parent_domain &&
	       ctx->alloc_td == ops->alloc_td && c->bind_mw == ops->bind_mw &&
	       ctx->create_qp_ex == ops->create_qp_ex && ctx->create_srq_ex == ops->create_srq_ex &&
	       c->dealloc_mw == ops->dealloc_mw && ctx->dealloc_td == ops->dealloc_td &&
	       ctx->get_srq_num == ops->get_srq_num && c->poll_cq == ops->poll_cq &&
	       c->post_recv == ops->post_recv && c->post_send == ops->post_send &&
	       c->post_srq_recv == ops->post_srq_recv &&
	       ctx->query_device_ex == ops->query_device_ex &&
	       ctx->query_rt_values == ops->query_rt_values &&
	       c->req_notify_cq == ops->req_notify_cq &&
	       (void *)c->_compat_resize_cq == (void *)ops->resize_cq;
}

int
rca_context_set_ops(struct verbs_context *ctx, const struct verbs_context_ops *ops)
{
	void *slot[RCA_SLOTS_READ] = {NULL};

	if (ctx->sz != rca_context_head(lib.version) + sizeof(ctx->context)) {
		print_unknown_layout("contexts");
		return EPROTONOSUPPORT;
	}
	rca_ops_translate(lib.version, ops, slot);
	lib.set_ops(rca_context_seen(ctx), slot);
	if (rca_context_check(ctx, ops))
		return 0;
	print_unknown_layout("operations");
	return EPROTONOSUPPORT;
}

void
rca_context_uninit(struct verbs_context *ctx)
{
	lib.uninit(rca_context_seen(ctx));
}

void
rca_qp_set_ex(struct verbs_qp *qp)
{
	qp->ex_end[lib.qp_ex_place].comp_mask |= RCA_QP_EX;
}
