/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The "device" of an RDMA device, which represents its hardware. Programs (NCCL, UCX, hwloc, MPI)
 * read its locality, identity and network interface there. NCCL and hwloc find the bridges above it
 * by its path, which has to be below /sys/devices, as of a kernel's RDMA device.
 *
 * On a PCI NIC it is a link to the NIC's folder. The folder has the NIC's modalias, by which
 * libibverbs would choose the NIC's provider if it had one. So where programs see other providers,
 * and without a NIC, it is a folder without modalias, with uroce's identity. The kernel's rxe has
 * no "device" at all (since Linux 5.12), of which NCCL complains.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
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

/* Returns true if a folder has a name like 0000:00:03.0. */
static bool
is_pci_address(const char *name)
{
	unsigned int domain, bus, slot, function;
	int len = -1;

	return sscanf(name, "%x:%x:%x.%x%n", &domain, &bus, &slot, &function, &len) == 4 &&
	       name[len] == '\0';
}

/* Gets the folder of the interface's PCI device in /sys/devices, or "". */
static void
read_pci(struct run_device *d)
{
	char path[PATH_LEN], *real, *last;

	path_of(path, NET "/%s/device", d->netdev);
	real = realpath(path, NULL);
	/* virtio and other buses have their devices below the PCI device. */
	while (real && (last = strrchr(real, '/')) != NULL && !is_pci_address(last + 1))
		*last = '\0';
	if (real && strstr(real, "/pci") && strlen(real) < sizeof(d->pci))
		strcpy(d->pci, real);
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
tree_parent(const char *ibdev, const struct run_device *d, bool others)
{
	char dir[PATH_LEN], net[PATH_LEN];
	int rc = 0;

	if (*d->pci && !others)
		return put_link(ibdev, "device", d->pci);
	/* hwloc parses the bus address in the link's target. */
	if (*d->pci) {
		const char *pci = strstr(d->pci, "/pci");

		path_of(dir, "%s/devices%s", ibdev, pci);
		rc = put_dir(dir);
		rc |= put_link(ibdev, "device", path_of(net, "devices%s", pci));
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
