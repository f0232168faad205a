/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The folder "device" of an RDMA device, which stands for the hardware under it: programs read
 * its locality (UCX, hwloc, MPI), its identity and its network interface there.
 *
 * Identity is uroce's and never the NIC's: programs that see a NIC's vendor here would drive it. So
 * there is no modalias either, by which libibverbs would choose the NIC's own provider.
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

/* The first line of a file, without its end. False: there is none. */
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

/* A list of CPUs ("0-3,8") as sysfs has masks: words of 32 bits in hexadecimal, the highest first.
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

/* Where memory and processors are that are near: as the interface's hardware says, or everywhere.
 */
static int
put_locality(const char *dir, const char *netdev)
{
	char path[PATH_LEN], node[16] = "-1", list[512] = "0", mask[320];

	path_of(path, NET "/%s/device/numa_node", netdev);
	if (*netdev)
		first_line(path, node, sizeof(node));
	path_of(path, NET "/%s/device/local_cpulist", netdev);
	if (!*netdev || !first_line(path, list, sizeof(list)))
		first_line(CPUS, list, sizeof(list));
	mask_of(list, mask, sizeof(mask));
	return put(dir, "numa_node", "%s", node) | put(dir, "local_cpulist", "%s", list) |
	       put(dir, "local_cpus", "%s", mask);
}

/*
 * The part of the interface's path in /sys/devices that says where on the PCI bus it is, as
 * "/pci0000:00/0000:00:03.0"; false: it is no PCI device, or there is no interface.
 */
static bool
pci_of(const char *netdev, char place[PATH_LEN])
{
	char path[PATH_LEN], *real;
	const char *pci;
	bool is;

	if (!*netdev)
		return false;
	path_of(path, NET "/%s/device", netdev);
	real = realpath(path, NULL);
	pci = real ? strstr(real, "/pci") : NULL;
	is = pci && strlen(pci) < PATH_LEN / 2;
	if (is)
		strcpy(place, pci);
	free(real);
	return is;
}

int
tree_parent(const char *ibdev, const struct run_device *d)
{
	char dir[PATH_LEN], net[PATH_LEN], place[PATH_LEN];
	int rc = 0;

	/* hwloc reads the bus address out of the link's text. */
	if (pci_of(d->netdev, place)) {
		path_of(dir, "%s/devices%s", ibdev, place);
		rc = put_dir(dir);
		rc |= put_link(ibdev, "device", path_of(net, "devices%s", place));
	}
	path_of(dir, "%s/device", ibdev);
	rc |= put(dir, "vendor", "0x%04x", d->dev.vendor_id);
	rc |= put(dir, "device", "0x%04x", d->dev.vendor_part_id);
	rc |= put(dir, "subsystem_vendor", "0x%04x", d->dev.vendor_id);
	rc |= put(dir, "subsystem_device", "0x%04x", d->dev.vendor_part_id);
	rc |= put_locality(dir, d->netdev);
	if (*d->netdev) {
		path_of(net, "%s/net/%s", dir, d->netdev);
		rc |= put_dir(net);
	}
	return rc;
}
