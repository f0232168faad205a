/* SPDX-License-Identifier: BSD-3-Clause */
#include "ipc/ops.h"

#include "uroce_abi/cm.h"

/* A spare field of a body; test/lint/abi_fields.py compares these lists with the ABI. */
#define AT(type, field)                                                                            \
	{                                                                                          \
		offsetof(struct uroce_##type, field), sizeof(((struct uroce_##type *)0)->field),   \
			#type "." #field                                                           \
	}
#define SPARE(type, ...) static const struct ipc_spare spare_##type[] = {__VA_ARGS__, {0, 0, NULL}}

SPARE(hello_req, AT(hello_req, spare));
SPARE(hello_rep, AT(hello_rep, spare0), AT(hello_rep, spare));
SPARE(device_rep, AT(device_rep, spare));
SPARE(clock_rep, AT(clock_rep, spare));
SPARE(port_req, AT(port_req, spare));
SPARE(port_rep, AT(port_rep, spare));
SPARE(gid_req, AT(gid_req, spare));
SPARE(gid_rep, AT(gid_rep, spare));
SPARE(pkey_req, AT(pkey_req, spare));
SPARE(pkey_rep, AT(pkey_rep, spare));
SPARE(handle, AT(handle, spare));
SPARE(reg_mr_req, AT(reg_mr_req, spare));
SPARE(reg_mr_rep, AT(reg_mr_rep, spare));
SPARE(rereg_mr_req, AT(rereg_mr_req, reg.spare));
SPARE(channel_rep, AT(channel_rep, spare));
SPARE(create_cq_req, AT(create_cq_req, spare));
SPARE(create_cq_rep, AT(create_cq_rep, spare), AT(create_cq_rep, ring.spare));
SPARE(resize_cq_req, AT(resize_cq_req, spare));
SPARE(create_qp_req, AT(create_qp_req, spare));
SPARE(create_qp_rep, AT(create_qp_rep, sq.spare), AT(create_qp_rep, rq.spare),
      AT(create_qp_rep, spare));
SPARE(modify_qp_req, AT(modify_qp_req, attr.ah.spare), AT(modify_qp_req, attr.alt_ah.spare),
      AT(modify_qp_req, attr.spare), AT(modify_qp_req, spare));
SPARE(query_qp_rep, AT(query_qp_rep, attr.ah.spare), AT(query_qp_rep, attr.alt_ah.spare),
      AT(query_qp_rep, attr.spare), AT(query_qp_rep, spare));
SPARE(create_ah_req, AT(create_ah_req, spare), AT(create_ah_req, attr.spare));
SPARE(create_srq_req, AT(create_srq_req, spare));
SPARE(create_srq_rep, AT(create_srq_rep, ring.spare), AT(create_srq_rep, spare));
SPARE(modify_srq_req, AT(modify_srq_req, spare));
SPARE(query_srq_rep, AT(query_srq_rep, spare));
SPARE(alloc_mw_req, AT(alloc_mw_req, spare));
SPARE(alloc_mw_rep, AT(alloc_mw_rep, spare));
SPARE(mcast_req, AT(mcast_req, spare));
SPARE(list_devices_rep, AT(list_devices_rep, spare));
SPARE(set_req, AT(set_req, spare));
SPARE(set_rep, AT(set_rep, spare));
SPARE(show_req, AT(show_req, spare));
SPARE(show_rep, AT(show_rep, spare));
SPARE(impair_req, AT(impair_req, spare));
SPARE(impair_rep, AT(impair_rep, spare));
SPARE(capture_req, AT(capture_req, spare));
SPARE(capture_rep, AT(capture_rep, spare));
SPARE(export_rep, AT(export_rep, spare));
SPARE(import_req, AT(import_req, spare));
SPARE(import_mr_rep, AT(import_mr_rep, spare));
SPARE(cm_open_req, AT(cm_open_req, spare));
SPARE(cm_open_rep, AT(cm_open_rep, spare));
SPARE(ask_peer_req, AT(ask_peer_req, spare));
SPARE(ask_peer_rep, AT(ask_peer_rep, spare));
SPARE(pause_threads_req, AT(pause_threads_req, spare));
SPARE(segment_rep, AT(segment_rep, spare));

#define BODY(type)                                                                                 \
	{                                                                                          \
		sizeof(struct uroce_##type), spare_##type                                          \
	}
#define NONE                                                                                       \
	{                                                                                          \
		0, NULL                                                                            \
	}
#define OP(op, req, rep, state, fds) [UROCE_CTRL_##op] = {#op, req, rep, IPC_STATE_##state, fds}

static const struct ipc_op op_table[UROCE_CTRL_OPS] = {
	OP(HELLO, BODY(hello_req), BODY(hello_rep), NEW, 0),
	OP(QUERY_DEVICE, NONE, BODY(device_rep), CONTEXT, 0),
	OP(QUERY_CLOCK, NONE, BODY(clock_rep), CONTEXT, 0),
	OP(QUERY_PORT, BODY(port_req), BODY(port_rep), CONTEXT, 0),
	OP(QUERY_GID, BODY(gid_req), BODY(gid_rep), CONTEXT, 0),
	OP(QUERY_PKEY, BODY(pkey_req), BODY(pkey_rep), CONTEXT, 0),
	OP(ALLOC_PD, NONE, BODY(handle), CONTEXT, 0),
	OP(DEALLOC_PD, BODY(handle), NONE, CONTEXT, 0),
	OP(REG_MR, BODY(reg_mr_req), BODY(reg_mr_rep), CONTEXT, UROCE_CTRL_MAX_FDS),
	OP(DEREG_MR, BODY(handle), NONE, CONTEXT, 0),
	OP(REREG_MR, BODY(rereg_mr_req), BODY(reg_mr_rep), CONTEXT, UROCE_CTRL_MAX_FDS),
	OP(CREATE_CHANNEL, NONE, BODY(channel_rep), CONTEXT, 0),
	OP(CREATE_CQ, BODY(create_cq_req), BODY(create_cq_rep), CONTEXT, 0),
	OP(RESIZE_CQ, BODY(resize_cq_req), BODY(create_cq_rep), CONTEXT, 0),
	OP(DESTROY_CQ, BODY(handle), NONE, CONTEXT, 0),
	OP(CREATE_QP, BODY(create_qp_req), BODY(create_qp_rep), CONTEXT, 0),
	OP(MODIFY_QP, BODY(modify_qp_req), NONE, CONTEXT, 0),
	OP(QUERY_QP, BODY(handle), BODY(query_qp_rep), CONTEXT, 0),
	OP(DESTROY_QP, BODY(handle), NONE, CONTEXT, 0),
	OP(CREATE_AH, BODY(create_ah_req), BODY(handle), CONTEXT, 0),
	OP(DESTROY_AH, BODY(handle), NONE, CONTEXT, 0),
	OP(CREATE_SRQ, BODY(create_srq_req), BODY(create_srq_rep), CONTEXT, 0),
	OP(MODIFY_SRQ, BODY(modify_srq_req), NONE, CONTEXT, 0),
	OP(QUERY_SRQ, BODY(handle), BODY(query_srq_rep), CONTEXT, 0),
	OP(DESTROY_SRQ, BODY(handle), NONE, CONTEXT, 0),
	OP(ALLOC_MW, BODY(alloc_mw_req), BODY(alloc_mw_rep), CONTEXT, 0),
	OP(DEALLOC_MW, BODY(handle), NONE, CONTEXT, 0),
	OP(ATTACH_MCAST, BODY(mcast_req), NONE, CONTEXT, 0),
	OP(DETACH_MCAST, BODY(mcast_req), NONE, CONTEXT, 0),
	OP(LIST_DEVICES, NONE, BODY(list_devices_rep), OBSERVER, 0),
	OP(SET, BODY(set_req), BODY(set_rep), OBSERVER, 0),
	OP(SHOW, BODY(show_req), BODY(show_rep), OBSERVER, 0),
	OP(IMPAIR, BODY(impair_req), BODY(impair_rep), OBSERVER, 0),
	OP(CAPTURE, BODY(capture_req), BODY(capture_rep), OBSERVER, 1),
	OP(RESIZE_SRQ, BODY(modify_srq_req), BODY(create_srq_rep), CONTEXT, 0),
	OP(EXPORT, NONE, BODY(export_rep), CONTEXT, 0),
	OP(IMPORT_PD, BODY(import_req), BODY(handle), CONTEXT, 0),
	OP(IMPORT_MR, BODY(import_req), BODY(import_mr_rep), CONTEXT, 0),
	OP(CM_OPEN, BODY(cm_open_req), BODY(cm_open_rep), OBSERVER, 0),
	OP(ASK_PEER, BODY(ask_peer_req), BODY(ask_peer_rep), OBSERVER, 0),
	OP(PAUSE_THREADS, BODY(pause_threads_req), NONE, OBSERVER, 0),
	OP(RESUME_THREADS, NONE, NONE, OBSERVER, 0),
	OP(SEGMENT, NONE, BODY(segment_rep), CONTEXT, 0),
};

const struct ipc_op *
ipc_op_get(uint16_t op)
{
	return op < UROCE_CTRL_OPS && op_table[op].name != NULL ? &op_table[op] : NULL;
}

const char *
ipc_body_spare_used(const struct ipc_body *form, const void *body)
{
	const uint8_t *bytes = body;

	if (form->len == 0)
		return NULL;
	for (const struct ipc_spare *s = form->spare; s->name != NULL; s++) {
		for (uint32_t i = 0; i < s->len; i++) {
			if (bytes[s->off + i] != 0)
				return s->name;
		}
	}
	return NULL;
}
