/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of a device and entries of its tables, for clients. */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <uroce/uroce.h>
#include <rte_common.h>
#include "control/device.h"
#include "control/events.h"
#include "control/object.h"
#include "control/session.h"
#include "map/mrkept.h"

#define ATOMIC_HCA        1 /* enum ibv_atomic_cap */
#define PORT_STATE_DOWN   1 /* enum ibv_port_state */
#define PORT_STATE_ACTIVE 4
#define PHYS_POLLING      2
#define PHYS_LINK_UP      5
#define WIDTH_4X          2
#define SPEED_EDR         32
#define GID_ROCE_V2       2 /* enum ibv_gid_type of the kernel: IB 0, v1 1, v2 2 */

enum device_cap { /* the values are those of enum ibv_device_cap_flags */
		  CAP_BAD_PKEY_CNTR = 1 << 1,
		  CAP_BAD_QKEY_CNTR = 1 << 2,
		  CAP_AUTO_PATH_MIG = 1 << 4,
		  CAP_CURR_QP_STATE_MOD = 1 << 7,
		  CAP_PORT_ACTIVE_EVENT = 1 << 10,
		  CAP_SYS_IMAGE_GUID = 1 << 11,
		  CAP_RC_RNR_NAK_GEN = 1 << 12,
		  CAP_SRQ_RESIZE = 1 << 13,
		  CAP_MEM_WINDOW = 1 << 17,
		  CAP_MEM_WINDOW_TYPE_2B = 1 << 24,
};

void
device_limits(const struct device *dev, struct qp_limits *lim)
{
	memset(lim, 0, sizeof(*lim));
	lim->max_mtu = dev->max_mtu;
	lim->npkeys = UROCE_MAX_PKEYS;
	lim->ngids = UROCE_MAX_GIDS;
	for (unsigned i = 0; i < UROCE_MAX_GIDS; i++)
		lim->gid_valid |= (uint64_t)dev->net.gid[i].used << i;
}

uint64_t
device_guid(const struct device *dev)
{
	const uint8_t *m = dev->port.mac;
	uint8_t eui[8] = {m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
	uint64_t guid;

	memcpy(&guid, eui, 8);
	return guid;
}

/* Returns a limit of objects. All fit 32 bits, because the options do. */
static uint32_t
limit_of(const struct quota_user *user, enum quota_kind kind)
{
	return (uint32_t)quota_max(user, kind);
}

/*
 * Mappings that a context needs besides those of its regions: doorbells, windows that stay mapped
 * without a region, segments of its queues (a program with more queues has fewer regions).
 */
#define OWN_MAPS (CONTEXT_MAPS + MRKEPT_MAX_IDLE + 15)

/* Returns how many regions a program can have: each takes a mapping, at least. */
static uint32_t
max_regions(const struct quota_user *user)
{
	uint64_t maps = quota_max(user, QUOTA_MAPS);

	maps = maps > OWN_MAPS ? maps - OWN_MAPS : 0;
	return (uint32_t)RTE_MIN(maps, quota_max(user, QUOTA_MRS));
}

void
device_attr(const struct device *dev, const struct quota_user *user, struct uroce_device_rep *rep)
{
	strcpy(rep->name, dev->name);
	snprintf(rep->fw_ver, sizeof(rep->fw_ver), "%s", UROCE_VERSION);
	rep->node_guid = device_guid(dev);
	rep->max_mr_size = UINT64_MAX;
	rep->page_size_cap = 0xfffff000;
	rep->vendor_id = UROCE_VENDOR_ID;
	rep->vendor_part_id = 1;
	rep->hw_ver = UROCE_ABI_VERSION;
	rep->max_qp = limit_of(user, QUOTA_QPS);
	rep->max_qp_wr = QP_MAX_WR;
	rep->max_sge = QP_MAX_SGE;
	rep->max_sge_rd = QP_MAX_SGE;
	rep->max_inline = QP_MAX_INLINE;
	rep->max_cq = limit_of(user, QUOTA_CQS);
	rep->max_cqe = EVENTS_MAX_CQE;
	rep->max_mr = max_regions(user);
	rep->max_pd = limit_of(user, QUOTA_PDS);
	rep->max_qp_rd_atom = QP_MAX_RD_ATOMIC;
	rep->max_qp_init_rd_atom = QP_MAX_RD_ATOMIC;
	rep->max_res_rd_atom = QP_MAX_RD_ATOMIC * rep->max_qp;
	rep->device_cap_flags = CAP_BAD_PKEY_CNTR | CAP_BAD_QKEY_CNTR | CAP_AUTO_PATH_MIG |
				CAP_CURR_QP_STATE_MOD | CAP_PORT_ACTIVE_EVENT | CAP_SYS_IMAGE_GUID |
				CAP_RC_RNR_NAK_GEN | CAP_SRQ_RESIZE | CAP_MEM_WINDOW |
				CAP_MEM_WINDOW_TYPE_2B;
	rep->max_total_mcast_qp_attach =
		RTE_MIN(MCAST_MAX_GROUPS * rep->max_qp, limit_of(user, QUOTA_MCAST));
	rep->max_mcast_grp = rep->max_total_mcast_qp_attach;
	rep->max_mcast_qp_attach = rep->max_qp;
	if (!port_takes_groups(&dev->port))
		rep->max_total_mcast_qp_attach = rep->max_mcast_grp = rep->max_mcast_qp_attach = 0;
	rep->max_mw = limit_of(user, QUOTA_MRS); /* no mapping */
	rep->max_ah = RTE_MIN((uint32_t)AH_MAX, limit_of(user, QUOTA_AHS));
	rep->max_srq = limit_of(user, QUOTA_SRQS);
	rep->max_srq_wr = QP_MAX_WR;
	rep->max_srq_sge = QP_MAX_SGE;
	rep->atomic_cap = ATOMIC_HCA; /* not GLOB: copied memory is not atomic for the program */
	rep->max_pkeys = UROCE_MAX_PKEYS;
	rep->local_ca_ack_delay = DEVICE_ACK_DELAY;
	rep->nports = 1;
}

/* Returns a drop counter, summed over all workers, at most what the port's 32-bit counter holds. */
static uint32_t
drops_of(const struct device *dev, enum drop_reason why)
{
	uint64_t sum = 0;

	for (uint32_t w = 0; w < dev->d->nworkers; w++) {
		const struct counter_block *b =
			worker_counters(worker_get(dev->d->workers, w), dev->port.id);

		sum += counters_read(&b->drop[why]);
		if (why == DROP_BAD_PKEY)
			sum += counters_read(&b->ctr[COUNTER_MCAST_BAD_PKEY]);
	}
	return sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

int
device_port_attr(const struct device *dev, uint32_t port, struct uroce_port_rep *rep)
{
	bool up = dev->port.link_up;

	if (port != 1)
		return EINVAL;
	rep->state = up ? PORT_STATE_ACTIVE : PORT_STATE_DOWN;
	rep->phys_state = up ? PHYS_LINK_UP : PHYS_POLLING;
	rep->max_mtu = 5;
	rep->active_mtu = dev->max_mtu;
	rep->gid_tbl_len = UROCE_MAX_GIDS;
	rep->pkey_tbl_len = UROCE_MAX_PKEYS;
	rep->bad_pkey_cntr = drops_of(dev, DROP_BAD_PKEY);
	rep->qkey_viol_cntr = drops_of(dev, DROP_BAD_QKEY);
	rep->max_msg_sz = QP_MAX_MSG_BYTES;
	rep->active_speed = SPEED_EDR;
	rep->active_width = WIDTH_4X;
	rep->netdev_ifindex = dev->port.netdev[0] ? if_nametoindex(dev->port.netdev) : 0;
	memcpy(rep->netdev, dev->port.netdev, sizeof(rep->netdev));
	memcpy(rep->mac, dev->port.mac, 6);
	return 0;
}

int
device_gid(const struct device *dev, uint32_t port, uint32_t index, struct uroce_gid_rep *rep)
{
	if (port != 1 || index >= UROCE_MAX_GIDS)
		return EINVAL;
	if (dev->net.gid[index].used)
		memcpy(rep->gid, dev->net.gid[index].gid, 16);
	rep->type = GID_ROCE_V2;
	return 0;
}

int
device_pkey(const struct device *dev, uint32_t port, uint32_t index, struct uroce_pkey_rep *rep)
{
	if (port != 1 || index >= UROCE_MAX_PKEYS)
		return EINVAL;
	rep->pkey = dev->pkey[index];
	return 0;
}

void
device_list(const struct daemon *d, struct uroce_list_devices_rep *rep)
{
	rep->ndevices = d->ndevs;
	for (uint32_t i = 0; i < d->ndevs; i++) {
		strcpy(rep->dev[i].name, d->dev[i]->name);
		rep->dev[i].node_guid = device_guid(d->dev[i]);
		rep->dev[i].gid_tbl_len = UROCE_MAX_GIDS;
		rep->dev[i].pkey_tbl_len = UROCE_MAX_PKEYS;
		memcpy(rep->dev[i].netdev, d->dev[i]->port.netdev, sizeof(rep->dev[i].netdev));
	}
}
