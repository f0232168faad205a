/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/device.h"

#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <uroce/uroce.h>
#include <rte_common.h>
#include "control/events.h"
#include "control/log.h"
#include "control/program.h"
#include "control/session.h"

#define ATOMIC_HCA        1 /* enum ibv_atomic_cap */
#define LINK_POLL_NS      500000000ull
#define ROCE_OVERHEAD     80u /* IPv6, UDP, BTH, longest extended headers, ICRC: see qp_mtu_code */
#define PORT_STATE_DOWN   1   /* enum ibv_port_state */
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

/* A memif client whose server was not there, or has gone: look for it. */
static void
seek_peer(struct device *dev)
{
	struct worker_set *ws = dev->d->workers;

	worker_pause_port(ws, &dev->port);
	if (port_restart(&dev->port) == 0)
		worker_resume_port(ws, &dev->port);
}

static void
on_tick(struct watch *w, uint32_t events)
{
	struct device *dev = WATCH_OF(w, struct device, tick);
	uint64_t n;

	if (read(w->fd, &n, sizeof(n)) < 0)
		return;
	mr_sweep_lost(dev->d);
	if (daemon_now_ns() >= dev->next_link_ns) {
		dev->next_link_ns = daemon_now_ns() + LINK_POLL_NS;
		if (port_poll_link(&dev->port)) {
			LOG(NOTICE, "%s: link %s", dev->name, dev->port.link_up ? "up" : "down");
			events_port(dev, dev->port.link_up ? EVENTS_PORT_ACTIVE : EVENTS_PORT_ERR);
			if (dev->port.link_up)
				neigh_announce(dev);
		}
		if (port_wants_restart(&dev->port))
			seek_peer(dev);
		guess_look(dev);
	}
	neigh_tick(dev);
}

/* The addresses of spec; net has its MAC. */
static int
set_addresses(struct device *dev, const struct devspec *spec)
{
	int rc;

	dev->net.vlan_tci = spec->vlan;
	dev->net.hairpin = spec->hairpin;
	for (uint32_t i = 0; i < spec->naddrs; i++) {
		rc = net_addr_add(&dev->net, spec->addr[i]);
		if (rc < 0) {
			LOG(ERR, "%s: addr '%s': %s", dev->name, spec->addr[i], strerror(-rc));
			return rc;
		}
	}
	for (uint32_t i = 0; i < spec->ngateways; i++) {
		rc = net_gateway_set(&dev->net, spec->gateway[i]);
		if (rc < 0) {
			LOG(ERR, "%s: gateway '%s': %s", dev->name, spec->gateway[i],
			    strerror(-rc));
			return rc;
		}
	}
	return 0;
}

/* The choice there was, for who named a port that is not there. */
static void
log_ports(const char *wrong)
{
	char list[512];

	LOG(ERR, "option --dev: port '%s' does not exist; there %s%s", wrong,
	    port_list(list, sizeof(list)) > 0 ? "are:" : "is none", list);
}

static int
open_port(struct device *dev, const struct devspec *spec, bool inward)
{
	struct port_params params = {
		.name = spec->port,
		.nqueues = dev->d->nworkers,
		.link_mtu = spec->mtu != 0 ? spec->mtu + ROCE_OVERHEAD : 0u,
		.mac = spec->has_mac ? spec->mac : NULL,
		.vlan = spec->vlan,
		.inward = inward,
	};
	int rc = port_open(&dev->port, &params, dev->d->pool);

	if (rc == -ENODEV)
		log_ports(spec->port);
	if (rc < 0)
		return rc;
	dev->max_mtu = qp_mtu_code(dev->port.link_mtu);
	if (spec->mtu != 0 && dev->max_mtu > qp_mtu_code(spec->mtu + ROCE_OVERHEAD))
		dev->max_mtu = qp_mtu_code(spec->mtu + ROCE_OVERHEAD);
	if (dev->max_mtu != 0)
		return 0;
	LOG(ERR, "%s: port %s carries %u bytes, too few for any path MTU", dev->name, spec->port,
	    dev->port.link_mtu);
	port_close(&dev->port);
	return -EINVAL;
}

/* The rest of device_create: what needs undoing step by step. */
static int
device_start(struct device *dev, const struct devspec *spec, bool inward)
{
	struct daemon *d = dev->d;
	int rc = open_port(dev, spec, inward);

	if (rc < 0)
		return rc;
	net_dev_init(&dev->net, dev->port.mac);
	memcpy(dev->pkey, spec->pkey, sizeof(dev->pkey));
	if (spec->npkeys == 0)
		dev->pkey[0] = WIRE_PKEY_DEFAULT;
	rc = set_addresses(dev, spec);
	if (rc < 0)
		goto fail_port;
	dev->tick.ready = on_tick;
	dev->tick.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (dev->tick.fd < 0) {
		rc = -errno;
		goto fail_port;
	}
	rc = loop_add(&d->loop, &dev->tick, EPOLLIN);
	if (rc < 0)
		goto fail_tick;
	rc = worker_add_port(d->workers, &dev->port);
	if (rc < 0)
		goto fail_tick;
	rc = device_addrs_update(dev);
	if (rc < 0)
		goto fail_worker;
	return 0;

fail_worker:
	worker_del_port(d->workers, &dev->port);
fail_tick:
	close(dev->tick.fd);
fail_port:
	port_close(&dev->port);
	return rc;
}

int
device_create(struct daemon *d, const struct devspec *spec, bool inward)
{
	struct device *dev;
	int rc;

	if (daemon_device_named(d, spec->name) != NULL) {
		LOG(ERR, "two devices of the name %s", spec->name);
		return -EEXIST;
	}
	for (uint32_t i = 0; i < d->ndevs; i++) {
		if (strcmp(d->dev[i]->port.name, spec->port) != 0)
			continue;
		LOG(ERR, "option --dev: port '%s' is that of device %s: %s needs another",
		    spec->port, d->dev[i]->name, spec->name);
		return -EBUSY;
	}
	dev = d->ndevs < UROCE_MAX_DEVICES ? calloc(1, sizeof(*dev)) : NULL;
	if (dev == NULL) {
		LOG(ERR, "%s: no room for another device", spec->name);
		return -ENOMEM;
	}
	dev->d = d;
	strcpy(dev->name, spec->name);
	TAILQ_INIT(&dev->qps);
	TAILQ_INIT(&dev->members);
	rc = device_start(dev, spec, inward);
	if (rc < 0) {
		LOG(ERR, "device %s on port %s cannot be created: %s", spec->name, spec->port,
		    strerror(-rc));
		free(dev);
		return rc;
	}
	d->dev[d->ndevs++] = dev;
	neigh_announce(dev);
	neigh_tick(dev);
	return 0;
}

void
device_destroy(struct device *dev)
{
	struct daemon *d = dev->d;

	device_addrs_clear(dev);
	worker_del_port(d->workers, &dev->port);
	if (d->program->port_released != NULL)
		d->program->port_released(dev);
	port_close(&dev->port);
	loop_del(&d->loop, &dev->tick);
	close(dev->tick.fd);
	for (uint32_t i = 0; i < d->ndevs; i++) {
		if (d->dev[i] == dev)
			d->dev[i] = d->dev[--d->ndevs];
	}
	free(dev);
}

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

/* EUI-64 of the MAC, in network order. */
static uint64_t
node_guid(const struct device *dev)
{
	const uint8_t *m = dev->port.mac;
	uint8_t eui[8] = {m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};
	uint64_t guid;

	memcpy(&guid, eui, 8);
	return guid;
}

/* All limits of objects fit: options have 32 bits. */
static uint32_t
limit_of(const struct quota_user *user, enum quota_kind kind)
{
	return (uint32_t)quota_max(user, kind);
}

void
device_attr(const struct device *dev, const struct quota_user *user, struct uroce_device_rep *rep)
{
	strcpy(rep->name, dev->name);
	snprintf(rep->fw_ver, sizeof(rep->fw_ver), "%s", UROCE_VERSION);
	rep->node_guid = node_guid(dev);
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
	rep->max_mr = limit_of(user, QUOTA_MRS);
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
	rep->max_mw = rep->max_mr;
	rep->max_ah = RTE_MIN((uint32_t)AH_MAX, limit_of(user, QUOTA_AHS));
	rep->max_srq = limit_of(user, QUOTA_SRQS);
	rep->max_srq_wr = QP_MAX_WR;
	rep->max_srq_sge = QP_MAX_SGE;
	rep->atomic_cap = ATOMIC_HCA; /* copied memory is not atomic for the program itself */
	rep->max_pkeys = UROCE_MAX_PKEYS;
	rep->local_ca_ack_delay = 15; /* 4.096 us * 2^15: what a busy shared core may need */
	rep->nports = 1;
}

/* Of all workers; the port's counter of it has 32 bits. */
static uint32_t
drops_of(const struct device *dev, enum obs_drop why)
{
	uint64_t sum = 0;

	for (uint32_t w = 0; w < dev->d->nworkers; w++) {
		const struct obs_block *b =
			worker_obs(worker_get(dev->d->workers, w), dev->port.id);

		sum += __atomic_load_n(&b->drop[why], __ATOMIC_RELAXED);
		if (why == OBS_DROP_BAD_PKEY)
			sum += __atomic_load_n(&b->ctr[OBS_MCAST_BAD_PKEY], __ATOMIC_RELAXED);
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
	rep->bad_pkey_cntr = drops_of(dev, OBS_DROP_BAD_PKEY);
	rep->qkey_viol_cntr = drops_of(dev, OBS_DROP_BAD_QKEY);
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
		rep->dev[i].node_guid = node_guid(d->dev[i]);
		rep->dev[i].gid_tbl_len = UROCE_MAX_GIDS;
		rep->dev[i].pkey_tbl_len = UROCE_MAX_PKEYS;
		memcpy(rep->dev[i].netdev, d->dev[i]->port.netdev, sizeof(rep->dev[i].netdev));
	}
}
