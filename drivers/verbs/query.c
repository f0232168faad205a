/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attributes of the device and its port. GIDs and P_Keys are not queried here: libibverbs reads
 * them from sysfs (sysfs.c).
 */
#include "provider.h"

#include <errno.h>
#include <string.h>

#define PROV_CLOCK_KHZ 1000000 /* completion timestamps are nanoseconds */
#define NS_PER_S       1000000000u

/* IP based GIDs, as enum ib_port_cap_flags of the kernel has it; no public header names it. */
#define PROV_PORT_CAP_IP_BASED_GIDS (1u << 26)

static void
device_fill(struct ibv_device_attr *to, const struct uroce_device_rep *from)
{
	memcpy(to->fw_ver, from->fw_ver, sizeof(from->fw_ver));
	to->fw_ver[sizeof(from->fw_ver) - 1] = 0;
	to->node_guid = from->node_guid;
	to->sys_image_guid = from->node_guid;
	to->max_mr_size = from->max_mr_size;
	to->page_size_cap = from->page_size_cap;
	to->vendor_id = from->vendor_id;
	to->vendor_part_id = from->vendor_part_id;
	to->hw_ver = from->hw_ver;
	to->max_qp = (int)from->max_qp;
	to->max_qp_wr = (int)from->max_qp_wr;
	to->device_cap_flags = from->device_cap_flags;
	to->max_sge = (int)from->max_sge;
	to->max_sge_rd = (int)from->max_sge_rd;
	to->max_cq = (int)from->max_cq;
	to->max_cqe = (int)from->max_cqe;
	to->max_mr = (int)from->max_mr;
	to->max_pd = (int)from->max_pd;
	to->max_qp_rd_atom = (int)from->max_qp_rd_atom;
	to->max_res_rd_atom = (int)from->max_res_rd_atom;
	to->max_qp_init_rd_atom = (int)from->max_qp_init_rd_atom;
	to->atomic_cap = from->atomic_cap;
	to->max_mw = (int)from->max_mw;
	to->max_mcast_grp = (int)from->max_mcast_grp;
	to->max_mcast_qp_attach = (int)from->max_mcast_qp_attach;
	to->max_total_mcast_qp_attach = (int)from->max_total_mcast_qp_attach;
	to->max_ah = (int)from->max_ah;
	to->max_srq = (int)from->max_srq;
	to->max_srq_wr = (int)from->max_srq_wr;
	to->max_srq_sge = (int)from->max_srq_sge;
	to->max_pkeys = (uint16_t)from->max_pkeys;
	to->local_ca_ack_delay = (uint8_t)from->local_ca_ack_delay;
	to->phys_port_cnt = (uint8_t)from->nports;
}

int
prov_query_device_ex(struct ibv_context *ibctx, const struct ibv_query_device_ex_input *input,
		     struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ibv_device_attr_ex full = {0};
	struct uroce_device_rep rep;
	int rc;

	if (input && input->comp_mask)
		return prov_fail(EINVAL);
	rc = prov_call(ibctx, UROCE_CTRL_QUERY_DEVICE, NULL, 0, &rep, sizeof(rep));
	if (rc)
		return rc;
	device_fill(&full.orig_attr, &rep);
	full.completion_timestamp_mask = UINT64_MAX;
	full.hca_core_clock = PROV_CLOCK_KHZ;
	full.device_cap_flags_ex = rep.device_cap_flags;
	full.phys_port_cnt_ex = rep.nports;
	/* ibv_query_device passes a struct that ends after orig_attr. */
	memset(attr, 0, attr_size);
	memcpy(attr, &full, attr_size < sizeof(full) ? attr_size : sizeof(full));
	return 0;
}

int
prov_query_port(struct ibv_context *ibctx, uint8_t port, struct ibv_port_attr *attr)
{
	struct uroce_port_req req = {.port = port};
	struct uroce_port_rep rep;
	int rc;

	rc = prov_call(ibctx, UROCE_CTRL_QUERY_PORT, &req, sizeof(req), &rep, sizeof(rep));
	if (rc)
		return rc;
	/* An earlier libibverbs has no room for the members that a later header adds at the end. */
	memset(attr, 0, offsetof(struct ibv_port_attr, port_cap_flags2) + sizeof(uint16_t));
	attr->state = rep.state;
	attr->max_mtu = rep.max_mtu;
	attr->active_mtu = rep.active_mtu;
	attr->gid_tbl_len = (int)rep.gid_tbl_len;
	attr->port_cap_flags = IBV_PORT_CM_SUP | PROV_PORT_CAP_IP_BASED_GIDS;
	attr->flags = IBV_QPF_GRH_REQUIRED; /* as of any RoCE port */
	attr->max_msg_sz = rep.max_msg_sz;
	attr->bad_pkey_cntr = rep.bad_pkey_cntr;
	attr->qkey_viol_cntr = rep.qkey_viol_cntr;
	attr->pkey_tbl_len = (uint16_t)rep.pkey_tbl_len;
	attr->max_vl_num = 1;
	attr->active_width = (uint8_t)rep.active_width;
	attr->active_speed = (uint8_t)rep.active_speed;
	attr->phys_state = (uint8_t)rep.phys_state;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

int
prov_query_rt_values(struct ibv_context *ibctx, struct ibv_values_ex *values)
{
	const uint32_t wanted = values->comp_mask;
	struct uroce_clock_rep rep;
	int rc;

	values->comp_mask = 0;
	if (wanted & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return prov_fail(EINVAL);
	if (!wanted)
		return 0;
	rc = prov_call(ibctx, UROCE_CTRL_QUERY_CLOCK, NULL, 0, &rep, sizeof(rep));
	if (rc)
		return rc;
	values->raw_clock.tv_sec = (time_t)(rep.now_ns / NS_PER_S);
	values->raw_clock.tv_nsec = (long)(rep.now_ns % NS_PER_S);
	values->comp_mask = wanted;
	return 0;
}
