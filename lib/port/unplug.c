/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a PCI device is removed (hot-unplug, or `echo 1 >remove` in sysfs), vfio-pci asks the
 * process that has it to close it, and the removal waits until it does. EAL turns the request into
 * an event on its interrupt thread.
 */
#include <string.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include "port/log.h"
#include "port/unplug.h"

/* A bit per ethdev port id: its device is to be removed. EAL's interrupt thread sets it. */
static uint16_t leaving;
_Static_assert(PORT_IDS_MAX <= 16, "a bit per port id");

static uint16_t
bit(uint16_t id)
{
	return (uint16_t)(1u << id);
}

static void
on_device(const char *device, enum rte_dev_event_type event, void *arg)
{
	(void)device;
	if (event == RTE_DEV_EVENT_REMOVE)
		__atomic_fetch_or(&leaving, bit((uint16_t)(uintptr_t)arg), __ATOMIC_RELEASE);
}

void
port_unplug_watch(const struct port *p, const struct rte_eth_dev_info *info)
{
	int rc;

	if (info->device == NULL || p->id >= PORT_IDS_MAX)
		return;
	__atomic_fetch_and(&leaving, (uint16_t)~bit(p->id), __ATOMIC_RELAXED);
	rc = rte_dev_event_callback_register(rte_dev_name(info->device), on_device,
					     (void *)(uintptr_t)p->id);
	if (rc != 0)
		PORT_LOG(WARNING, p->name, "removal of the device will not be noticed: %s",
			 rte_strerror(-rc));
}

void
port_unplug_unwatch(const struct port *p)
{
	struct rte_eth_dev_info info;

	if (p->id < PORT_IDS_MAX && rte_eth_dev_info_get(p->id, &info) == 0 && info.device != NULL)
		(void)rte_dev_event_callback_unregister(rte_dev_name(info.device), on_device,
							(void *)(uintptr_t)p->id);
}

bool
port_must_leave(const struct port *p)
{
	return (p->kind == PORT_ETHDEV || p->kind == PORT_ETHDEV_GUARDED) && !p->gone &&
	       p->id < PORT_IDS_MAX &&
	       (__atomic_load_n(&leaving, __ATOMIC_ACQUIRE) & bit(p->id)) != 0;
}

void
port_leave(struct port *p)
{
	struct rte_eth_dev_info info = {.device = NULL};
	int rc = rte_eth_dev_info_get(p->id, &info);

	port_close(p);
	p->gone = true;
	if (rc == 0 && info.device != NULL)
		rc = rte_dev_remove(info.device);
	if (rc != 0)
		PORT_LOG(WARNING, p->name, "cannot give the device back: %s", rte_strerror(-rc));
}
