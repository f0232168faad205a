/* SPDX-License-Identifier: BSD-3-Clause */
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "port/port.h"

#define PCI_ADDRESS "0000:03:00.0" /* shape: '0' stands for a hexadecimal digit */

bool
port_is_pci(const char *name)
{
	const char *shape = PCI_ADDRESS;

	if (strlen(name) != strlen(shape))
		return false;
	for (; *shape != '\0'; shape++, name++) {
		if (*shape == ':' || *shape == '.' ? *name != *shape
						   : strchr("0123456789abcdef", *name) == NULL)
			return false;
	}
	return true;
}

/* Stores the name of the kernel driver of a PCI device. Returns false if it has none. */
static bool
kernel_driver(const char *address, char driver[64])
{
	char path[64], target[PATH_MAX];
	ssize_t len;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver", address);
	len = readlink(path, target, sizeof(target) - 1);
	if (len < 0)
		return false;
	target[len] = '\0';
	snprintf(driver, 64, "%.63s", basename(target));
	return true;
}

bool
port_pci_why(const char *name, char *why, size_t room)
{
	char path[64], driver[64];

	if (!port_is_pci(name))
		return false;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", name);
	if (access(path, F_OK) != 0) {
		snprintf(why, room, "this machine has no PCI device %s (`lspci -D` lists them)",
			 name);
		return true;
	}
	if (!kernel_driver(name, driver))
		snprintf(why, room,
			 "PCI device %s has no kernel driver: bind it to vfio-pci (`driverctl "
			 "set-override %s vfio-pci`)",
			 name, name);
	else if (strcmp(driver, "vfio-pci") != 0)
		snprintf(why, room,
			 "PCI device %s is bound to the kernel driver '%s': bind it to vfio-pci "
			 "(`driverctl set-override %s vfio-pci`; mlx5 keeps its driver)",
			 name, driver, name);
	else
		snprintf(why, room,
			 "PCI device %s is bound to vfio-pci, but DPDK did not open it: add "
			 "`--allow %s`, or see its messages above",
			 name, name);
	return true;
}
