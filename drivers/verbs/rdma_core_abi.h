/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of libibverbs' private driver interface, IBVERBS_PRIVATE_33 to 65 (rdma-core 33 to 65),
 * that a provider needs. Distributions do not ship a header for it, so the layouts are declared
 * here from measurements; the asserts at the end check them. Structures without a remark are the
 * same in all these versions; rdma_core.c translates the others. Public types come from
 * <infiniband/verbs.h> of any of these versions.
 */
#ifndef UROCE_VERBS_RDMA_CORE_ABI_H
#define UROCE_VERBS_RDMA_CORE_ABI_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

typedef void (*rca_unused)(void);

struct rca_list_node {
	struct rca_list_node *next, *prev;
};

/* How libibverbs may recognise a device as this provider's; kind 0 ends a table. */
enum rca_match_kind {
	RCA_MATCH_END = 0,
	RCA_MATCH_MODALIAS = 2, /* text is a glob; libibverbs makes one of the device's name */
};
struct verbs_match_ent {
	void *driver_data;
	union {
		const char *text;
		uint64_t driver_id;
	} u;
	uint16_t vendor, device;
	uint8_t kind;
};

struct verbs_sysfs_dev; /* opaque, owned by libibverbs */

struct verbs_device_ops;
struct verbs_device {
	struct ibv_device device;
	const struct verbs_device_ops *ops; /* these five belong to libibverbs */
	int refcount;
	struct rca_list_node entry;
	struct verbs_sysfs_dev *sysfs;
	uint64_t core_support;
};

struct verbs_device_ops {
	const char *name;
	uint32_t match_min_abi_version; /* against uverbsN/abi_version in sysfs */
	uint32_t match_max_abi_version;
	const struct verbs_match_ent *match_table;
	const struct verbs_device_ops **static_providers;
	bool (*match_device)(struct verbs_sysfs_dev *sysfs);
	struct verbs_context *(*alloc_context)(struct ibv_device *device, int cmd_fd, void *priv);
	struct verbs_context *(*import_context)(struct ibv_device *device, int cmd_fd);
	struct verbs_device *(*alloc_device)(struct verbs_sysfs_dev *sysfs);
	void (*uninit_device)(struct verbs_device *device);
};

enum rca_mr_type {
	RCA_MR_TYPE_MR = 0,
	RCA_MR_TYPE_NULL = 1,
	RCA_MR_TYPE_IMPORTED = 2,
};
struct verbs_mr {
	struct ibv_mr ibv_mr;
	uint32_t mr_type; /* enum rca_mr_type */
	int access;
};

enum rca_qp_mask {
	RCA_QP_EX = 1 << 1, /* qp_ex's function pointers are filled */
};
/*
 * libibverbs has comp_mask and xrcd behind its ibv_qp_ex, which grows at its end: it ends with
 * wr_abort in rdma-core 33 to 43, has one function more in 44 and two more from 45. The provider
 * fills no later function than wr_abort.
 */
#define RCA_QP_EX_END    (offsetof(struct ibv_qp_ex, wr_abort) + sizeof(void *))
#define RCA_QP_EX_PLACES 8 /* more than any version needs */
struct verbs_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex qp_ex;
		struct {
			uint8_t qp_ex_base[RCA_QP_EX_END];
			struct {
				uint32_t comp_mask; /* enum rca_qp_mask; rca_qp_set_ex */
				uint32_t spare;
			} ex_end[RCA_QP_EX_PLACES + 1]; /* the last one for xrcd */
		};
	};
};

struct verbs_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex cq_ex;
	};
};

struct verbs_srq {
	struct ibv_srq srq;
	enum ibv_srq_type srq_type;
	void *xrcd;
	struct ibv_cq *cq;
	uint32_t srq_num;
};

/*
 * One slot per operation of rdma-core 65, sorted by name. Earlier versions have fewer slots
 * (rca_ops_translate). Slots left NULL keep libibverbs' EOPNOTSUPP. Slots that this provider never
 * fills are declared as rca_unused: only their position matters, not their signature.
 */
struct verbs_context_ops {
	rca_unused advise_mr;
	rca_unused alloc_buf;
	rca_unused alloc_dm;
	rca_unused alloc_dmah;
	struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type);
	rca_unused alloc_null_mr;
	struct ibv_pd *(*alloc_parent_domain)(struct ibv_context *context,
					      struct ibv_parent_domain_init_attr *attr);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	struct ibv_td *(*alloc_td)(struct ibv_context *context, struct ibv_td_init_attr *attr);
	void (*async_event)(struct ibv_context *context, struct ibv_async_event *event);
	rca_unused attach_counters_point_flow;
	int (*attach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
	int (*bind_mw)(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
	rca_unused close_xrcd;
	void (*cq_event)(struct ibv_cq *cq);
	struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
	rca_unused create_comp_cntr;
	rca_unused create_counters;
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe,
				    struct ibv_comp_channel *channel, int comp_vector);
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context,
					  struct ibv_cq_init_attr_ex *attr);
	rca_unused create_flow;
	rca_unused create_flow_action_esp;
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *context,
				       struct ibv_qp_init_attr_ex *attr);
	rca_unused create_rwq_ind_table;
	struct ibv_srq *(*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
	struct ibv_srq *(*create_srq_ex)(struct ibv_context *context,
					 struct ibv_srq_init_attr_ex *attr);
	rca_unused create_wq;
	rca_unused dealloc_dmah;
	int (*dealloc_mw)(struct ibv_mw *mw);
	int (*dealloc_pd)(struct ibv_pd *pd);
	int (*dealloc_td)(struct ibv_td *td);
	int (*dereg_mr)(struct verbs_mr *mr);
	int (*destroy_ah)(struct ibv_ah *ah);
	rca_unused destroy_comp_cntr;
	rca_unused destroy_counters;
	int (*destroy_cq)(struct ibv_cq *cq);
	rca_unused destroy_flow;
	rca_unused destroy_flow_action;
	int (*destroy_qp)(struct ibv_qp *qp);
	rca_unused destroy_rwq_ind_table;
	int (*destroy_srq)(struct ibv_srq *srq);
	rca_unused destroy_wq;
	int (*detach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
	rca_unused dm_export_dmabuf_fd;
	rca_unused free_buf;
	void (*free_context)(struct ibv_context *context);
	rca_unused free_dm;
	int (*get_srq_num)(struct ibv_srq *srq, uint32_t *srq_num);
	rca_unused import_dm;
	struct ibv_mr *(*import_mr)(struct ibv_pd *pd, uint32_t mr_handle);
	struct ibv_pd *(*import_pd)(struct ibv_context *context, uint32_t pd_handle);
	rca_unused inc_comp_cntr;
	rca_unused inc_err_comp_cntr;
	rca_unused modify_cq;
	rca_unused modify_flow_action_esp;
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
	rca_unused modify_qp_rate_limit;
	int (*modify_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr, int attr_mask);
	rca_unused modify_wq;
	rca_unused open_qp;
	rca_unused open_xrcd;
	int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	rca_unused post_srq_ops;
	int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
	rca_unused qp_attach_comp_cntr;
	rca_unused query_comp_cntr_caps;
	int (*query_device_ex)(struct ibv_context *context,
			       const struct ibv_query_device_ex_input *input,
			       struct ibv_device_attr_ex *attr, size_t attr_size);
	rca_unused query_ece;
	int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
	rca_unused query_port_speed;
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			struct ibv_qp_init_attr *init_attr);
	int (*query_qp_data_in_order)(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
	int (*query_rt_values)(struct ibv_context *context, struct ibv_values_ex *values);
	int (*query_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr);
	rca_unused read_comp_cntr;
	rca_unused read_counters;
	rca_unused read_err_comp_cntr;
	rca_unused reg_dm_mr;
	rca_unused reg_dmabuf_mr;
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				 int access);
	rca_unused reg_mr_ex;
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	int (*rereg_mr)(struct verbs_mr *mr, int flags, struct ibv_pd *pd, void *addr,
			size_t length, int access);
	int (*resize_cq)(struct ibv_cq *cq, int cqe);
	rca_unused set_comp_cntr;
	rca_unused set_ece;
	rca_unused set_err_comp_cntr;
	rca_unused unimport_dm;
	void (*unimport_mr)(struct ibv_mr *mr);
	void (*unimport_pd)(struct ibv_pd *pd);
};

#define RCA_SLOTS      (sizeof(struct verbs_context_ops) / sizeof(void *))
#define RCA_SLOTS_READ 256 /* a later libibverbs reads behind its predecessor's table */

/* Bytes that a later libibverbs has in front of the verbs_context of rdma-core 33 to 58. */
#define RCA_CONTEXT_HEADROOM (6 * sizeof(void *))

static_assert(RCA_SLOTS == 93, "verbs_context_ops");
static_assert(RCA_SLOTS < RCA_SLOTS_READ, "slots");
static_assert(sizeof(struct verbs_device) == sizeof(struct ibv_device) + 6 * sizeof(void *),
	      "verbs_device");
static_assert(sizeof(struct verbs_mr) == sizeof(struct ibv_mr) + 8, "verbs_mr");
static_assert(sizeof(struct verbs_cq) == sizeof(struct ibv_cq_ex), "verbs_cq");
static_assert(sizeof(struct ibv_context_ops) == 32 * sizeof(void *), "ibv_context_ops");
static_assert(offsetof(struct verbs_context, context) ==
		      offsetof(struct verbs_context, query_port) + 40 * sizeof(void *),
	      "verbs_context");
static_assert(offsetof(struct verbs_context, context) ==
		      offsetof(struct verbs_context, sz) + sizeof(size_t),
	      "verbs_context.sz");
static_assert(offsetof(struct verbs_context, context) + sizeof(struct ibv_context) ==
		      sizeof(struct verbs_context),
	      "verbs_context.context");
static_assert(RCA_QP_EX_END == sizeof(struct ibv_qp) + 24 + 20 * sizeof(void *), "ibv_qp_ex");
static_assert(sizeof(struct ibv_qp_ex) <= RCA_QP_EX_END + RCA_QP_EX_PLACES * sizeof(void *),
	      "RCA_QP_EX_PLACES");
/* Public structures are the same in all versions; these have no members that depend on libc. */
static_assert(sizeof(struct ibv_device) == 664, "ibv_device");
static_assert(sizeof(struct ibv_mr) == 48, "ibv_mr");
static_assert(sizeof(struct ibv_wc) == 48, "ibv_wc");
static_assert(sizeof(struct ibv_send_wr) == 128, "ibv_send_wr");
static_assert(sizeof(struct ibv_device_attr) == 232, "ibv_device_attr");
static_assert(sizeof(struct ibv_device_attr_ex) == 400, "ibv_device_attr_ex");

#endif
