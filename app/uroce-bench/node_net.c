/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rte_common.h>
#include "client.h"
#include "node.h"
#include "wire/hdr.h"

#define XDP_MTU_MAX 3400u /* largest MTU of a veth with an XDP program */

/* The port of side s that the user names: PCI devices first. "" if there are fewer. */
static const char *
device_of(const struct bench_options *o, unsigned s)
{
	if (s < o->allow.n)
		return o->allow.v[s];
	return s - o->allow.n < o->vdev.n ? o->vdev.v[s - o->allow.n] : "";
}

unsigned
node_net_sides(const struct bench_options *o)
{
	return o->port == BENCH_PORT_EAL ? RTE_MIN(o->allow.n + o->vdev.n, 2u) : 2;
}

/* Stores the name of the IOMMU group of a PCI device. False: it has none, or there is none. */
static bool
iommu_group(const char *device, char *group, size_t size)
{
	char path[96], target[PATH_MAX];
	ssize_t len;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%.*s/iommu_group",
		 (int)strcspn(device, ","), device);
	len = readlink(path, target, sizeof(target) - 1);
	if (len < 0)
		return false;
	target[len] = '\0';
	snprintf(group, size, "%s", basename(target));
	return true;
}

static void
check_devices(const struct bench_options *o)
{
	const char *a = device_of(o, 0), *b = device_of(o, 1);
	char group[2][32];

	if (o->allow.n + o->vdev.n > 2)
		cli_wrong(&bench_program, "mode %s: more than two --allow and --vdev", o->mode);
	if (node_net_sides(o) < 2 && strcmp(o->mode, "port") != 0)
		cli_wrong(&bench_program, "mode %s: needs two ports (--allow, --vdev), not only %s",
			  o->mode, a);
	for (uint32_t i = 0; i < o->allow.n; i++)
		if (!bench_is_pci(o->allow.v[i]))
			cli_wrong(&bench_program, "--allow %s: not a PCI address like 0000:03:00.0",
				  o->allow.v[i]);
	if (o->allow.n == 2 && o->through == BENCH_THROUGH_NONE &&
	    iommu_group(a, group[0], sizeof(group[0])) &&
	    iommu_group(b, group[1], sizeof(group[1])) && strcmp(group[0], group[1]) == 0)
		cli_wrong(&bench_program,
			  "%s and %s are in one IOMMU group (%s), which only one process can "
			  "open: use ports of two groups, or --through testpmd",
			  a, b, group[0]);
}

unsigned
node_net_cpu(const struct bench_options *o, unsigned i)
{
	unsigned online = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);

	if (o->cpus.n != 0)
		return o->cpus.v[RTE_MIN(i, o->cpus.n - 1)];
	return RTE_MIN(i, online - 1);
}

void
node_net_check_options(const struct bench_options *o)
{
	const char *bad = NULL;

	if (o->port == BENCH_PORT_NONE)
		bad = "--port memif, vhost, af_xdp, af_packet, udp or packet, or two --allow or "
		      "--vdev";
	if (o->port == BENCH_PORT_AF_XDP && o->mtu > 2048)
		bad = "af_xdp: --mtu must be at most 2048: an interface under XDP carries 3400 "
		      "bytes";
	if (o->through != BENCH_THROUGH_NONE && node_net_is_socket(o->port))
		bad = "--through: testpmd has no ports udp and packet";
	if (bad != NULL)
		cli_wrong(&bench_program, "mode %s: %s", o->mode, bad);
	if (o->port == BENCH_PORT_EAL)
		check_devices(o);
	if (o->through == BENCH_THROUGH_NONE)
		bench_cpus_check(o, 2, "sender,receiver");
	else
		bench_cpus_check(o, 3, "sender,receiver,testpmd");
}

static int side_net[2]; /* of node_net_side; 0: the user's */

/* Enter a new network namespace, and keep the kernel's own packets out of the measurement. */
static void
new_net(unsigned s)
{
	int fd;

	if (unshare(CLONE_NEWNET) != 0)
		bench_die("a network namespace: %m (needs root)");
	side_net[s] = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (side_net[s] < 0)
		bench_die("its network namespace: %m");
	fd = open("/proc/sys/net/ipv6/conf/default/disable_ipv6", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return; /* a kernel without IPv6 */
	if (write(fd, "1", 1) != 1)
		bench_die("IPv6 off: %m");
	close(fd);
}

void
node_net_side(unsigned s)
{
	if (side_net[s] != 0 && setns(side_net[s], CLONE_NEWNET) != 0)
		bench_die("network namespace %u: %m", s);
}

static void
write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		bench_die("%s: %m", path);
	close(fd);
}

/* An ordinary user is root in its own user namespace, if the system permits one. */
static void
user_net_open(void)
{
	uid_t uid = geteuid(), gid = getegid();
	char map[32];

	if (uid == 0)
		return;
	if (unshare(CLONE_NEWUSER) != 0)
		bench_die("a user namespace: %m (needs root, or user namespaces)");
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	write_file("/proc/self/gid_map", map);
}

void
node_net_open(enum bench_port port)
{
	bool own_net = port != BENCH_PORT_EAL; /* else the user's interfaces and NICs */

	user_net_open();
	if (unshare(CLONE_NEWNS) != 0)
		bench_die("private namespaces: %m (needs root)");
	for (unsigned s = 2; own_net && s-- > 0;)
		new_net(s);
	/* /run: files of DPDK and sockets; /sys: of the network namespace */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700") != 0 ||
	    (own_net && mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV, NULL) != 0))
		bench_die("mount: %m");
}

static void
run(char *const argv[])
{
	int status;
	pid_t pid = bench_spawn(argv, -1, -1, SIGKILL, NULL);

	if (waitpid(pid, &status, 0) != pid || status != 0)
		bench_die("%s %s %s failed", argv[0], argv[1], argv[2]);
}

bool
node_net_is_socket(enum bench_port port)
{
	return port == BENCH_PORT_UDP || port == BENCH_PORT_PACKET;
}

void
node_net_interface(char *name, unsigned link, unsigned s)
{
	snprintf(name, IF_NAMESIZE, "ub%u%c", link % 100, 'a' + s);
}

uint32_t
node_net_mtu(const struct bench_options *o)
{
	uint32_t bytes = o->mtu + WIRE_MAX_OVERHEAD;

	if (o->link_mtu != 0)
		return o->link_mtu;
	if (o->port == BENCH_PORT_AF_XDP && bytes > XDP_MTU_MAX)
		return XDP_MTU_MAX;
	return bytes < 1500 ? 1500 : bytes;
}

static void
interface_up(const char *name, const char *address)
{
	char plen[20];
	char *up[] = {"ip", "link", "set", (char *)name, "up", NULL};
	char *give[] = {"ip", "addr", "add", plen, "dev", (char *)name, NULL};

	snprintf(plen, sizeof(plen), "%.15s/24", address);
	if (*address != '\0')
		run(give);
	run(up);
}

/* Make a veth pair, its ends in the namespaces of both sides if these have addresses. */
static void
veth(unsigned link, uint32_t mtu, char address[2][NODE_DEVICE])
{
	bool apart = *address[1] != '\0';
	char bytes[12], a[IF_NAMESIZE], b[IF_NAMESIZE], net[64];
	char *add[] = {"ip",   "link", "add", a,     "mtu", bytes,   "type", "veth",
		       "peer", "name", b,     "mtu", bytes, "netns", net,    NULL};

	node_net_interface(a, link, 0);
	node_net_interface(b, link, 1);
	snprintf(bytes, sizeof(bytes), "%u", mtu);
	snprintf(net, sizeof(net), "/proc/%d/fd/%d", getpid(), side_net[apart]);
	run(add);
	interface_up(a, address[0]);
	node_net_side(apart);
	interface_up(b, address[1]);
	node_net_side(0);
}

/* The device of end s of a link of this kind, number i of its process. */
static void
device_make(enum bench_port port, unsigned link, unsigned s, unsigned i, char v[NODE_DEVICE])
{
	switch (port) {
	case BENCH_PORT_MEMIF:
		/* an abstract socket belongs to the network namespace and needs no file */
		snprintf(v, NODE_DEVICE, "net_memif%u,role=%s,socket=uroce-bench-%d-%u,bsize=4608",
			 i, s == 1 ? "server" : "client", getpid(), link);
		break;
	case BENCH_PORT_VHOST:
		if (s == 1)
			snprintf(v, NODE_DEVICE, "net_vhost%u,iface=/run/vhost%u,queues=1", i,
				 link);
		else
			snprintf(v, NODE_DEVICE,
				 "net_virtio_user%u,path=/run/vhost%u,queues=1,"
				 "queue_size=1024,packed_vq=1",
				 i, link);
		break;
	case BENCH_PORT_AF_PACKET:
		snprintf(v, NODE_DEVICE,
			 "net_af_packet%u,iface=ub%u%c,blocksz=16384,framesz=8192,"
			 "framecnt=1024,qpairs=1,qdisc_bypass=1",
			 i, link, 'a' + s);
		break;
	case BENCH_PORT_AF_XDP:
		snprintf(v, NODE_DEVICE, "net_af_xdp%u,iface=ub%u%c", i, link, 'a' + s);
		break;
	case BENCH_PORT_UDP:
	case BENCH_PORT_PACKET:
		snprintf(v, NODE_DEVICE, "10.0.%u.%u", link, 1 + s);
		break;
	default:
		abort();
	}
}

/* Makes the interfaces of a link, at its first use. */
static void
interfaces_make(const struct bench_options *o, unsigned link, char address[2][NODE_DEVICE])
{
	static char none[2][NODE_DEVICE];
	static uint64_t made;

	if (made >> link & 1)
		return;
	made |= 1ull << link;
	if (node_net_is_socket(o->port))
		veth(link, node_net_mtu(o), address);
	else if (o->port == BENCH_PORT_AF_PACKET || o->port == BENCH_PORT_AF_XDP)
		veth(link, node_net_mtu(o), none);
}

void
node_net_port(const struct bench_options *o, unsigned link, char device[2][NODE_DEVICE])
{
	for (unsigned s = 0; s < 2; s++) {
		if (o->port == BENCH_PORT_EAL)
			snprintf(device[s], NODE_DEVICE, "%s", device_of(o, s));
		else
			device_make(o->port, link, s, 0, device[s]);
	}
	interfaces_make(o, link, device);
}

/*
 * EAL probes PCI devices in the order of their addresses, and vdevs behind them: the numbers that
 * the ports of path->between get.
 */
static void
number_ports(const struct bench_options *o, struct node_path *path)
{
	bool turned = o->allow.n == 2 && strcmp(path->between[0], path->between[1]) > 0;

	snprintf(path->order, sizeof(path->order), "%s", turned ? "1,2,0,3" : "0,2,1,3");
}

void
node_net_path(const struct bench_options *o, unsigned link, struct node_path *path)
{
	bool eal = o->port == BENCH_PORT_EAL;
	enum bench_port kind = eal ? BENCH_PORT_MEMIF : o->port;

	*path = (struct node_path){.nbetween = 0};
	if (o->through == BENCH_THROUGH_NONE) {
		node_net_port(o, link, path->node);
		return;
	}
	for (unsigned s = 0; eal && s < 2; s++)
		snprintf(path->between[path->nbetween++], NODE_DEVICE, "%s", device_of(o, s));
	for (unsigned s = 0; s < 2; s++) {
		device_make(kind, link + s, 0, 0, path->node[s]);
		device_make(kind, link + s, 1, s, path->between[path->nbetween++]);
		interfaces_make(o, link + s, NULL);
	}
	snprintf(path->order, sizeof(path->order), "0,1");
	if (eal)
		number_ports(o, path);
}

void
node_net_name(const struct bench_options *o, char *name, size_t size)
{
	size_t len = 0;

	if (o->port != BENCH_PORT_EAL) {
		snprintf(name, size, "%s", bench_port_name[o->port]);
		return;
	}
	for (unsigned s = 0; s < node_net_sides(o) && len < size; s++) {
		const char *device = device_of(o, s);

		len += (size_t)snprintf(name + len, size - len, "%s%.*s", s == 0 ? "" : " to ",
					(int)strcspn(device, ","), device);
	}
}
