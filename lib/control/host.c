/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/device.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "control/cm.h"
#include "control/events.h"
#include "control/log.h"
#include "control/neigh.h"
#include "control/obj.h"

#define ANSWERS    32   /* neighbours' replies per turn of the loop */
#define ANSWER_MAX 2048 /* bytes: longer frames are not replies */

/*
 * Reads the kernel's current addresses. Reports the changed slots of the GID table. Returns 0, or
 * -errno if the kernel cannot be queried: then nothing changes.
 */
static int
addrs_sync(struct device *dev, uint64_t *added, uint64_t *gone)
{
	struct net_addr addr[UROCE_MAX_GIDS];
	int n = port_host_addrs(&dev->port, addr, UROCE_MAX_GIDS);

	*added = *gone = 0;
	if (n < 0)
		return n;
	dev->net.held = set_slots_in_use(dev);
	net_host_addrs_set(&dev->net, addr, (uint32_t)n, added, gone);
	return 0;
}

static void
addrs_follow(struct device *dev)
{
	struct net_addr before[UROCE_MAX_GIDS];
	uint64_t added, gone;
	int rc;

	memcpy(before, dev->net.gid, sizeof(before));
	rc = addrs_sync(dev, &added, &gone);
	if (rc < 0 && !dev->addrs_late)
		LOG(WARNING, "%s: cannot read the addresses of %s: %s; trying again", dev->name,
		    dev->port.netdev, strerror(-rc));
	dev->addrs_late = rc < 0;
	if ((added | gone) == 0)
		return;
	/* If memory is short, workers keep the old list until the next change. */
	(void)device_addrs_update(dev);
	for (uint32_t i = 0; i < UROCE_MAX_GIDS; i++) {
		if (gone >> i & 1) {
			qp_gid_gone(dev, i);
			if (net_gid_find(&dev->net, before[i].gid) < 0)
				ucma_address_gone(dev, before[i].gid);
		}
	}
	LOG(NOTICE, "%s: addresses of %s changed", dev->name, dev->port.netdev);
	events_port(dev, EVENTS_GID_CHANGE);
}

static void
on_change(struct watch *w, uint32_t events)
{
	struct device *dev = WATCH_OF(w, struct device, host);
	char message[8192];

	/* The contents do not matter: everything is read again, which covers lost messages. */
	while (recv(w->fd, message, sizeof(message), MSG_DONTWAIT) >= 0 || errno == ENOBUFS)
		;
	addrs_follow(dev);
	dev->next_link_ns = 0; /* check the link at once */
	neigh_tick(dev);
}

int
host_addrs_first(struct device *dev)
{
	uint64_t added, gone;
	int rc = addrs_sync(dev, &added, &gone);

	if (rc < 0) {
		LOG(ERR, "%s: cannot read the addresses of %s: %s", dev->name, dev->port.netdev,
		    strerror(-rc));
		return rc;
	}
	if (added != 0)
		return 0;
	LOG(ERR, "%s: %s has no address: `ip addr add 10.9.0.1/24 dev %s`, for example", dev->name,
	    dev->port.netdev, dev->port.netdev);
	return -EADDRNOTAVAIL;
}

void
host_tick(struct device *dev)
{
	if (dev->addrs_late)
		addrs_follow(dev);
}

void
host_unfollow(struct device *dev)
{
	loop_del(&dev->d->loop, &dev->host);
	close(dev->host.fd);
	if (dev->answers.fd != 0)
		loop_del(&dev->d->loop, &dev->answers);
	dev->answers.fd = 0;
}

/* Handles a bounded number of neighbours' replies. The rest keeps the descriptor readable. */
static void
on_answers(struct watch *w, uint32_t events)
{
	struct device *dev = WATCH_OF(w, struct device, answers);
	uint8_t frame[ANSWER_MAX];

	for (unsigned i = 0; i < ANSWERS; i++) {
		ssize_t len = recv(w->fd, frame, sizeof(frame), MSG_DONTWAIT | MSG_TRUNC);

		if (len < 0)
			return;
		if ((size_t)len <= sizeof(frame))
			neigh_rx_bytes(dev, frame, (uint32_t)len);
	}
}

/* Watches for neighbours' replies, if they do not arrive through the port. 0 or -errno. */
static int
answers_follow(struct device *dev)
{
	if (dev->port.neigh_fd == 0)
		return 0;
	dev->answers.ready = on_answers;
	dev->answers.fd = dev->port.neigh_fd;
	return loop_add(&dev->d->loop, &dev->answers, EPOLLIN);
}

int
host_follow(struct device *dev)
{
	struct sockaddr_nl at = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int rc;

	dev->host.ready = on_change;
	dev->host.fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (dev->host.fd < 0)
		return -errno;
	rc = bind(dev->host.fd, (struct sockaddr *)&at, sizeof(at)) == 0 ? 0 : -errno;
	if (rc == 0)
		rc = loop_add(&dev->d->loop, &dev->host, EPOLLIN);
	if (rc < 0) {
		close(dev->host.fd);
		return rc;
	}
	rc = answers_follow(dev);
	if (rc < 0)
		host_unfollow(dev);
	return rc;
}
