/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel interface of a device: it has the device's MAC, MTU, link state and addresses. */
#include <errno.h>
#include <string.h>
#include "control/device.h"
#include "control/log.h"

int
device_hostif_addr(struct device *dev, const struct net_addr *a, bool add)
{
	if (dev->hostif == NULL || (a->v4 ? !dev->net.kernel_v4 : !dev->net.kernel_v6))
		return 0;
	return add ? hostif_addr_add(dev->hostif, a) : hostif_addr_del(dev->hostif, a);
}

/* Sets the device's addresses. The first one, link-local, shows whether the kernel has IPv6. */
static int
set_addresses(struct device *dev)
{
	const char *name = hostif_name(dev->hostif);
	char text[64];
	int rc;

	dev->net.kernel_v4 = true;
	rc = hostif_addr_add(dev->hostif, &dev->net.gid[0]);
	dev->net.kernel_v6 = rc == 0 || rc == -EEXIST;
	if (!dev->net.kernel_v6)
		LOG(NOTICE, "%s: %s has no IPv6 addresses (%s): the device alone uses its own",
		    dev->name, name, strerror(-rc));
	for (uint32_t i = 1; i < UROCE_MAX_GIDS; i++) {
		const struct net_addr *a = &dev->net.gid[i];

		rc = a->used ? device_hostif_addr(dev, a, true) : 0;
		if (rc == 0)
			continue;
		if (net_gid_to_text(a->gid, text, sizeof(text)) < 0)
			text[0] = '\0';
		LOG(ERR, "%s: hostif=%s: address %s: %s", dev->name, name, text, strerror(-rc));
		return rc;
	}
	return 0;
}

int
device_hostif_open(struct device *dev, const char *name)
{
	const struct hostif_params p = {
		.name = name,
		.dev = dev->port.id,
		.mac = dev->port.mac,
		.mtu = dev->port.link_mtu,
		.vlan = dev->port.vlan,
		.pool = dev->d->pool,
		.workers = dev->d->workers,
	};
	char err[256];
	int rc;

	if (name[0] == '\0')
		return 0;
	if (port_shares_interface(&dev->port)) {
		LOG(ERR,
		    "%s: hostif=%s: the kernel already receives every frame of %s; hostif= is "
		    "for ports without a kernel interface",
		    dev->name, name, dev->port.netdev);
		return -EINVAL;
	}
	rc = hostif_open(&dev->hostif, &p, err, sizeof(err));
	if (rc < 0) {
		LOG(ERR, "%s: %s", dev->name, err);
		return rc;
	}
	rc = set_addresses(dev);
	if (rc == 0)
		rc = hostif_start(dev->hostif);
	if (rc == 0)
		hostif_set_link(dev->hostif, dev->port.link_up);
	else
		device_hostif_close(dev);
	return rc;
}

void
device_hostif_close(struct device *dev)
{
	hostif_close(dev->hostif);
	dev->hostif = NULL;
}
