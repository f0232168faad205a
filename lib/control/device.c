/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "control/balance.h"
#include "control/cm.h"
#include "control/events.h"
#include "control/log.h"
#include "control/log_event.h"
#include "control/neigh.h"
#include "control/numa.h"
#include "control/obj.h"
#include "control/handler.h"
#include "control/session.h"

#define LINK_POLL_NS    500000000ull
#define RESTART_WAIT_NS 5000000000ull

/*
 * Restarts the port if it needs that: a memif client whose server was missing or has ended, a VF
 * whose PF was reset.
 */
static void
restart_port(struct device *dev)
{
	struct worker_set *ws = dev->d->workers;

	if (!port_wants_restart(&dev->port) || daemon_now_ns() < dev->next_restart_ns)
		return;
	worker_pause_port(ws, &dev->port);
	if (port_restart(&dev->port) == 0)
		worker_resume_port(ws, &dev->port);
	else if (!dev->port.memif_client) /* which waits for its server in silence */
		dev->next_restart_ns = daemon_now_ns() + RESTART_WAIT_NS;
}

static void
look_at_link(struct device *dev)
{
	struct log_fields f = {0};

	if (!port_poll_link(&dev->port))
		return;
	log_field(&f, "UROCE_DEVICE", "%s", dev->name);
	log_field(&f, "UROCE_LINK", "%s", dev->port.link_up ? "up" : "down");
	log_event(RTE_LOG_NOTICE, LOG_EVENT_LINK, &f, "%s: link %s", dev->name,
		  dev->port.link_up ? "up" : "down");
	if (dev->hostif != NULL)
		hostif_set_link(dev->hostif, dev->port.link_up);
	events_port(dev, dev->port.link_up ? EVENTS_PORT_ACTIVE : EVENTS_PORT_ERR);
	if (dev->port.link_up)
		neigh_announce(dev);
}

/* Returns a client of dev; NULL: none. */
static struct session *
any_client(const struct device *dev)
{
	struct session *s;

	TAILQ_FOREACH (s, &dev->d->sessions, link) {
		if (s->dev == dev)
			return s;
	}
	return NULL;
}

/*
 * The machine loses the port's device. Its clients lose their connections, which their contexts
 * report as DEVICE_FATAL (EVT-14). The device stays, with its link down, but accepts no clients.
 */
static void
leave_port(struct device *dev)
{
	struct daemon *d = dev->d;
	struct session *s;

	LOG(ERR,
	    "%s: %s is removed from the machine: its clients end; restart uroced when it is back",
	    dev->name, dev->port.name);
	/* one by one: the end of a session may end others */
	while ((s = any_client(dev)) != NULL)
		session_destroy(s);
	ucma_device_gone(dev);
	worker_pause_port(d->workers, &dev->port);
	if (d->program->port_released != NULL)
		d->program->port_released(dev);
	port_leave(&dev->port);
	if (dev->hostif != NULL)
		hostif_set_link(dev->hostif, false);
}

/* ---- the device's periodic work ---- */

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
		if (port_must_leave(&dev->port))
			leave_port(dev);
		look_at_link(dev);
		host_tick(dev);
		restart_port(dev);
		guess_look(dev);
		sr_peer_tick(dev);
		balance_look(dev->d);
		numa_look(dev);
	}
	neigh_tick(dev);
}

/* Sets the addresses of spec, or the host's. net has its MAC already. */
static int
set_addresses(struct device *dev, const struct devspec *spec)
{
	int rc;

	if (dev->net.host)
		return host_addrs_first(dev);
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

/* Logs the available ports when the named port does not exist. */
static void
log_ports(const char *wrong)
{
	char list[512];

	if (port_pci_why(wrong, list, sizeof(list))) {
		LOG(ERR, "option --dev: port '%s' does not exist: %s", wrong, list);
		return;
	}
	LOG(ERR, "option --dev: port '%s' does not exist; there %s%s", wrong,
	    port_list(list, sizeof(list)) > 0 ? "are:" : "is none", list);
}

static int
open_port(struct device *dev, const struct devspec *spec, bool inward)
{
	struct port_params params = {
		.name = spec->port,
		.nqueues = dev->d->nworkers,
		.qpn_mask = dev->d->qps.mask, /* qpn_take */
		.link_mtu = spec->mtu != 0 ? spec->mtu + WIRE_IP_OVERHEAD : 0u,
		.mac = spec->has_mac ? spec->mac : NULL,
		.vlan = spec->vlan,
		.inward = inward,
		.udp_netdev = spec->udp && spec->iface[0] != '\0' ? spec->iface : NULL,
		.udp_addr = spec->udp && spec->naddrs != 0 ? spec->addr[0] : NULL,
		.packet_netdev = spec->packet ? spec->iface : NULL,
		.shared = spec->share,
	};
	int rc = port_open(&dev->port, &params, dev->d->pool);

	if (rc == -ENODEV && !spec->udp && !spec->packet)
		log_ports(spec->port);
	if (rc < 0)
		return rc;
	dev->port.strict = spec->strict;
	dev->peers = spec->peers;
	dev->port.peers = dev->peers.n != 0 ? &dev->peers : NULL;
	dev->port.cnp_ns = 1000ull * spec->cnp_us;
	dev->port.cnp_dscp = spec->cnp_dscp;
	dev->cc = spec->cc;
	dev->plain = spec->probe_off ? QP_PLAIN_LETTER : 0;
	dev->max_mtu = qp_mtu_code(dev->port.link_mtu);
	if (spec->mtu != 0 && dev->max_mtu > qp_mtu_code(spec->mtu + WIRE_IP_OVERHEAD))
		dev->max_mtu = qp_mtu_code(spec->mtu + WIRE_IP_OVERHEAD);
	if (dev->max_mtu != 0)
		return 0;
	LOG(ERR, "%s: port %s carries %u bytes, too few for any path MTU", dev->name, spec->port,
	    dev->port.link_mtu);
	port_close(&dev->port);
	return -EINVAL;
}

static int
route(const void *ctx, const uint8_t dgid[16], uint8_t hop[16])
{
	return port_host_route(ctx, dgid, hop);
}

/* Initialises dev->net for the kind of port. */
static void
net_start(struct device *dev)
{
	if (!port_has_host_addrs(&dev->port)) {
		net_dev_init(&dev->net, dev->port.mac);
		return;
	}
	net_host_init(&dev->net, dev->port.mac, dev->port.shared ? 0 : WIRE_UDP_PORT);
	if (!dev->port.shared)
		return;
	dev->net.route = route;
	dev->net.route_ctx = &dev->port;
}

/* Second part of device_create: the steps that must be undone on failure. */
static int
device_start(struct device *dev, const struct devspec *spec, bool inward)
{
	struct daemon *d = dev->d;
	int rc = open_port(dev, spec, inward);

	if (rc < 0)
		return rc;
	net_start(dev);
	dev->sr_mode = spec->sr;
	dev->sr.on = spec->sr != DEVSPEC_SR_OFF && !spec->probe_off;
	memcpy(dev->pkey, spec->pkey, sizeof(dev->pkey));
	if (spec->npkeys == 0)
		dev->pkey[0] = WIRE_PKEY_DEFAULT;
	rc = set_addresses(dev, spec);
	if (rc == 0)
		rc = device_hostif_open(dev, spec->hostif);
	if (rc < 0)
		goto fail_port;
	dev->tick.ready = on_tick;
	dev->tick.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (dev->tick.fd < 0) {
		rc = -errno;
		goto fail_hostif;
	}
	rc = loop_add(&d->loop, &dev->tick, EPOLLIN);
	if (rc < 0)
		goto fail_tick;
	rc = worker_add_port(d->workers, &dev->port);
	if (rc < 0)
		goto fail_tick;
	rc = device_addrs_update(dev);
	if (rc == 0 && dev->net.host)
		rc = host_follow(dev);
	if (rc < 0)
		goto fail_worker;
	return 0;

fail_worker:
	device_addrs_clear(dev);
	worker_del_port(d->workers, &dev->port);
fail_tick:
	close(dev->tick.fd);
fail_hostif:
	device_hostif_close(dev);
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
		LOG(ERR, "two devices are named %s", spec->name);
		return -EEXIST;
	}
	for (uint32_t i = 0; i < d->ndevs; i++) {
		if (strcmp(d->dev[i]->port.name, spec->port) != 0)
			continue;
		LOG(ERR, "option --dev: port '%s' is used by device %s: %s needs another",
		    spec->port, d->dev[i]->name, spec->name);
		return -EBUSY;
	}
	dev = d->ndevs < UROCE_MAX_DEVICES ? calloc(1, sizeof(*dev)) : NULL;
	if (dev == NULL) {
		LOG(ERR, "%s: no space for another device", spec->name);
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

	ucma_device_gone(dev);
	if (dev->net.host)
		host_unfollow(dev);
	device_addrs_clear(dev);
	worker_del_port(d->workers, &dev->port);
	if (d->program->port_released != NULL)
		d->program->port_released(dev);
	device_hostif_close(dev);
	port_close(&dev->port);
	loop_del(&d->loop, &dev->tick);
	close(dev->tick.fd);
	for (uint32_t i = 0; i < d->ndevs; i++) {
		if (d->dev[i] == dev)
			d->dev[i] = d->dev[--d->ndevs];
	}
	free(dev);
}
