/* SPDX-License-Identifier: BSD-3-Clause */
/* The files by which libibverbs, perftest, UCX and pyverbs recognise an RDMA device. */
#include "run.h"

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "uroce_abi/cm.h"

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

static int
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

/* The kernel's version of the uverbs interface that libibverbs expects to find. */
#define UVERBS_ABI 6

/*
 * librdmacm never opens its node, because the provider replaces the calls. Programs that open it
 * get an error from every write. A node with another number would look like a working rdma_cm.
 */
#define CM_NODE   "/dev/full"
#define CM_NUMBER "1:7"

/* Writes line i of a table. If like is less than i, line like has the same text. */
static int
put_line(const char *dir, unsigned int i, unsigned int like, const char *text)
{
	char file[16], other[16];

	snprintf(file, sizeof(file), "%u", i);
	snprintf(other, sizeof(other), "%u", like);
	return like < i ? put_like(dir, file, other) : put(dir, file, "%s", text);
}

static int
put_gid(const char *port, unsigned int i, const struct run_device *d)
{
	const uint8_t *gid = d->gid[i].gid;
	char dir[PATH_LEN], text[40];
	unsigned int like = 0;
	int rc;

	for (unsigned int k = 0; k < 8; k++)
		snprintf(text + 5 * k, sizeof(text) - 5 * k, "%02x%02x%s", gid[2 * k],
			 gid[2 * k + 1], k < 7 ? ":" : "");
	while (like < i && memcmp(d->gid[like].gid, gid, 16) != 0)
		like++;
	path_of(dir, "%s/gids", port);
	rc = put_line(dir, i, like, text);
	path_of(dir, "%s/gid_attrs/types", port);
	rc |= put_line(dir, i, 0, "RoCE v2");
	if (*d->netdev) {
		path_of(dir, "%s/gid_attrs/ndevs", port);
		rc |= put_line(dir, i, 0, d->netdev);
	}
	return rc;
}

static int
put_pkey(const char *port, unsigned int i, const struct run_device *d)
{
	char dir[PATH_LEN], text[16];
	unsigned int like = 0;

	snprintf(text, sizeof(text), "0x%04x", d->pkey[i].pkey);
	while (like < i && d->pkey[like].pkey != d->pkey[i].pkey)
		like++;
	path_of(dir, "%s/pkeys", port);
	return put_line(dir, i, like, text);
}

/* A port's rate in the kernel's form, with lanes and generation. */
static int
put_rate(const char *port, const struct uroce_port_rep *p)
{
	/* by ibv_port_attr's codes: of a lane, in 0.1 Gb/s; lanes by the code of the width */
	static const struct {
		uint32_t code, gbps_x10;
		const char *name;
	} speed[] = {{1, 25, "SDR"},   {2, 50, "DDR"},   {4, 100, "QDR"},  {8, 100, "FDR10"},
		     {16, 140, "FDR"}, {32, 250, "EDR"}, {64, 500, "HDR"}, {128, 1000, "NDR"}};
	static const unsigned int lanes[17] = {[1] = 1, [2] = 4, [4] = 8, [8] = 12, [16] = 2};
	unsigned int width = p->active_width <= 16 ? lanes[p->active_width] : 0, x10 = 0;
	const char *name = "?";

	for (size_t i = 0; i < sizeof(speed) / sizeof(speed[0]); i++) {
		if (speed[i].code != p->active_speed)
			continue;
		x10 = speed[i].gbps_x10;
		name = speed[i].name;
	}
	return put(port, "rate", "%u Gb/sec (%uX %s)", x10 * width / 10, width, name);
}

/* Files that change while programs run: links to the daemon's files, if they are visible here. */
static int
put_live(const char *port, const struct run_device *d)
{
	static const char *const live[] = {"state", "phys_state", "counters", "hw_counters"};
	char target[PATH_LEN];
	int rc = 0;

	for (size_t i = 0; i < sizeof(live) / sizeof(live[0]); i++) {
		path_of(target, "%s/%s", d->live, live[i]);
		rc |= put_link(port, live[i], target);
	}
	return rc;
}

/* The same files with their current contents, without counters. */
static int
put_still(const char *port, const struct run_device *d)
{
	static const char *const state[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE"};
	static const char *const phys[] = {"?",
					   "Sleep",
					   "Polling",
					   "Disabled",
					   "PortConfigurationTraining",
					   "LinkUp",
					   "LinkErrorRecovery",
					   "Phy Test"};
	uint32_t s = d->port.state < 5 ? d->port.state : 0;
	uint32_t p = d->port.phys_state < 8 ? d->port.phys_state : 0;

	return put(port, "state", "%u: %s", s, state[s]) |
	       put(port, "phys_state", "%u: %s", d->port.phys_state, phys[p]);
}

/* enum ib_port_cap_flags: connection management, and GIDs that are IP addresses. */
#define CAP_MASK ((1u << 16) | (1u << 26))

static int
put_port(const char *ibdev, const struct run_device *d)
{
	char port[PATH_LEN];
	int rc;

	path_of(port, "%s/ports/1", ibdev);
	rc = *d->live ? put_live(port, d) : put_still(port, d);
	rc |= put_rate(port, &d->port);
	rc |= put(port, "link_layer", "Ethernet");
	rc |= put(port, "cap_mask", "0x%08x", CAP_MASK);
	/* Ethernet has neither LIDs nor a subnet manager. */
	rc |= put(port, "lid", "0x0");
	rc |= put(port, "lid_mask_count", "0");
	rc |= put(port, "sm_lid", "0x0");
	rc |= put(port, "sm_sl", "0");
	for (uint32_t i = 0; i < d->ngids; i++)
		rc |= put_gid(port, i, d);
	for (uint32_t i = 0; i < d->npkeys; i++)
		rc |= put_pkey(port, i, d);
	return rc;
}

static int
put_ibdev(const char *sysfs, const struct run_device *d, bool others)
{
	uint64_t guid = be64toh(d->dev.node_guid);
	char ibdev[PATH_LEN], text[24];
	int rc;

	path_of(ibdev, "%s/infiniband/%s", sysfs, d->name);
	snprintf(text, sizeof(text), "%04x:%04x:%04x:%04x", (unsigned int)(guid >> 48),
		 (unsigned int)(guid >> 32 & 0xffff), (unsigned int)(guid >> 16 & 0xffff),
		 (unsigned int)(guid & 0xffff));
	rc = put(ibdev, "node_type", "1: CA");
	rc |= put(ibdev, "node_guid", "%s", text);
	rc |= put(ibdev, "sys_image_guid", "%s", text);
	rc |= put(ibdev, "node_desc", "%s", d->name);
	rc |= put(ibdev, "fw_ver", "%.*s", (int)sizeof(d->dev.fw_ver), d->dev.fw_ver);
	rc |= put(ibdev, "hca_type", "uroce");
	rc |= put(ibdev, "hw_rev", "%x", d->dev.hw_ver);
	rc |= put(ibdev, "board_id", "uroce");
	rc |= put_port(ibdev, d);
	rc |= tree_parent(ibdev, d, others);
	return rc;
}

/*
 * libibverbs requires a character device with the number in "dev"; the provider never uses it. When
 * it imports a context, libibverbs tells devices apart by this number, so the first few devices get
 * different ones. These nodes are accessible to everybody.
 */
static const struct {
	const char *path, *number;
} nodes[] = {
	{"/dev/null", "1:3"},   {"/dev/zero", "1:5"},    {"/dev/full", "1:7"},
	{"/dev/random", "1:8"}, {"/dev/urandom", "1:9"},
};
#define NNODES (sizeof(nodes) / sizeof(nodes[0]))

int
tree_device(const char *sysfs, const char *dev, const struct run_device *d, unsigned int index,
	    bool others)
{
	unsigned int which = index % NNODES;
	char dir[PATH_LEN], node[16];
	int rc;

	rc = put_ibdev(sysfs, d, others);
	path_of(dir, "%s/infiniband_verbs/uverbs%u", sysfs, index);
	rc |= put(dir, "ibdev", "%s", d->name);
	rc |= put(dir, "abi_version", "%d", UROCE_ABI_VERSION);
	rc |= put(dir, "dev", "%s", nodes[which].number);
	path_of(dir, "%s/infiniband", dev);
	snprintf(node, sizeof(node), "uverbs%u", index);
	return rc | put_link(dir, node, nodes[which].path) ? -1 : 0;
}

int
tree_common(const char *sysfs, const char *dev)
{
	char dir[PATH_LEN];

	path_of(dir, "%s/infiniband", dev);
	if (put_link(dir, "rdma_cm", CM_NODE))
		return -1;
	path_of(dir, "%s/infiniband_verbs", sysfs);
	return put(dir, "abi_version", "%d", UVERBS_ABI);
}

int
tree_rdma_cm(const char *sysfs)
{
	char dir[PATH_LEN];

	path_of(dir, "%s/misc/rdma_cm", sysfs);
	return put(dir, "abi_version", "%d", UROCE_CM_ABI) | put(dir, "dev", CM_NUMBER) ? -1 : 0;
}

/*
 * libibverbs appends the number of its private ABI to the provider's name. One provider serves many
 * numbers, and says so when it is loaded by a libibverbs that it does not know. So there is a link
 * for each number up to this one.
 */
#define MAX_PRIVATE_ABI 99

int
tree_driver(const char *config, const char *links, const char *seen, const char *provider)
{
	char name[32];

	for (unsigned int abi = 1; abi <= MAX_PRIVATE_ABI; abi++) {
		snprintf(name, sizeof(name), "liburoce-rdmav%u.so", abi);
		if (put_link(links, name, provider))
			return -1;
	}
	return put(config, RUN_DRIVER, "driver %s/liburoce", seen);
}
