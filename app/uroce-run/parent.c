/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The folder "device" of an RDMA device, which represents its hardware. Programs (UCX, hwloc, MPI)
 * read its locality, identity and network interface there.
 *
 * The identity is uroce's, never the NIC's, because a program that finds a NIC's vendor may try to
 * drive the NIC. There is no modalias, because libibverbs would choose the NIC's provider by it.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "put.h"
#include "run.h"

#define NET  "/sys/class/net"
#define CPUS "/sys/devices/system/cpu/online"

/* Reads the first line of a file, without the newline. Returns false if there is none. */
static bool
first_line(const char *path, char *line, size_t room)
{
	FILE *f = fopen(path, "re");
	bool got = f && fgets(line, (int)room, f);

	if (f)
		fclose(f);
	if (got)
		line[strcspn(line, "\n")] = 0;
	return got && *line;
}

/* Converts a CPU list ("0-3,8") to a mask in sysfs's form: hexadecimal 32-bit words, highest first.
 */
static void
mask_of(const char *list, char *mask, size_t room)
{
	uint32_t word[32] = {0};
	int top = 0;
	size_t n = 0;

	for (const char *p = list; isdigit((unsigned char)*p);) {
		char *end;
		unsigned long first = strtoul(p, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (; first <= last && first < 32 * 32; first++) {
			word[first / 32] |= 1u << first % 32;
			if ((int)(first / 32) > top)
				top = (int)(first / 32);
		}
		p = *end == ',' ? end + 1 : end;
	}
	mask[0] = 0;
	for (int i = top; i >= 0 && n < room; i--)
		n += (size_t)snprintf(mask + n, room - n, i == top ? "%x" : ",%08x", word[i]);
}

/* Gets the PCI part of the interface's path in /sys/devices ("/pci0000:00/0000:00:03.0"), or "". */
static void
read_pci(struct run_device *d)
{
	char path[PATH_LEN], *real;
	const char *pci;

	path_of(path, NET "/%s/device", d->netdev);
	real = realpath(path, NULL);
	pci = real ? strstr(real, "/pci") : NULL;
	if (pci && strlen(pci) < sizeof(d->pci))
		strcpy(d->pci, pci);
	free(real);
}

void
parent_read(struct run_device *d)
{
	char path[PATH_LEN];

	strcpy(d->numa_node, "-1");
	strcpy(d->cpulist, "0");
	path_of(path, NET "/%s/device/numa_node", d->netdev);
	if (*d->netdev)
		first_line(path, d->numa_node, sizeof(d->numa_node));
	path_of(path, NET "/%s/device/local_cpulist", d->netdev);
	if (!*d->netdev || !first_line(path, d->cpulist, sizeof(d->cpulist)))
		first_line(CPUS, d->cpulist, sizeof(d->cpulist));
	if (*d->netdev)
		read_pci(d);
}

/* Writes the nearest NUMA node and CPUs: those of the interface's hardware, or all CPUs. */
static int
put_locality(const char *dir, const struct run_device *d)
{
	char mask[320];

	mask_of(d->cpulist, mask, sizeof(mask));
	return put(dir, "numa_node", "%s", d->numa_node) |
	       put(dir, "local_cpulist", "%s", d->cpulist) | put(dir, "local_cpus", "%s", mask);
}

int
tree_parent(const char *ibdev, const struct run_device *d)
{
	char dir[PATH_LEN], net[PATH_LEN];
	int rc = 0;

	/* hwloc parses the bus address in the link's target. */
	if (*d->pci) {
		path_of(dir, "%s/devices%s", ibdev, d->pci);
		rc = put_dir(dir);
		rc |= put_link(ibdev, "device", path_of(net, "devices%s", d->pci));
	}
	path_of(dir, "%s/device", ibdev);
	rc |= put(dir, "vendor", "0x%04x", d->dev.vendor_id);
	rc |= put(dir, "device", "0x%04x", d->dev.vendor_part_id);
	rc |= put(dir, "subsystem_vendor", "0x%04x", d->dev.vendor_id);
	rc |= put(dir, "subsystem_device", "0x%04x", d->dev.vendor_part_id);
	rc |= put_locality(dir, d);
	if (*d->netdev) {
		path_of(net, "%s/net/%s", dir, d->netdev);
		rc |= put_dir(net);
	}
	return rc;
}
