/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cli/cli.h"
#include "node_pair.h"
#include "wire/hdr.h"

#define XDP_MTU_MAX 3400u /* largest MTU of a veth with an XDP program */

void
node_net_check_options(const struct bench_options *o)
{
	const char *bad = NULL;

	if (o->port == BENCH_PORT_NONE && strcmp(o->mode, "wire") == 0)
		bad = "mode wire: --port memif, vhost, af_xdp, af_packet, udp or packet";
	if (o->port == BENCH_PORT_AF_XDP && o->mtu > 2048)
		bad = "af_xdp: --mtu must be at most 2048: an interface under XDP carries 3400 "
		      "bytes";
	if ((o->versus_limit || o->versus_testpmd) && strcmp(o->mode, "wire") != 0)
		bad = "--versus-limit, --versus-testpmd: only with mode wire";
	if (node_net_is_socket(o->port) && o->versus_testpmd)
		bad = "--versus-testpmd: testpmd has no ports udp and packet";
	if (strcmp(o->mode, "limit") == 0 && o->measure != BENCH_RATE &&
	    (o->measure != BENCH_LATENCY || !node_net_is_socket(o->port)))
		bad = "mode limit: --measure rate, or latency with --port udp or packet";
	if (bad != NULL)
		cli_wrong(&bench_program, "%s", bad);
}

static int side_net[2]; /* of node_net_side */

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
	if (setns(side_net[s], CLONE_NEWNET) != 0)
		bench_die("network namespace %u: %m", s);
}

void
node_net_open(void)
{
	if (unshare(CLONE_NEWNS) != 0)
		bench_die("private namespaces: %m (needs root)");
	new_net(1);
	new_net(0);
	/* /run: files of DPDK and sockets; /sys: of the network namespace */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700") != 0 ||
	    mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV, NULL) != 0)
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
veth(unsigned link, uint32_t mtu, char address[2][256])
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

void
node_net_port(const struct bench_options *o, unsigned link, char vdev[2][256])
{
	char none[2][256] = {"", ""};

	for (unsigned s = 0; s < 2; s++) {
		char *v = vdev[s];

		switch (o->port) {
		case BENCH_PORT_MEMIF:
			/* an abstract socket belongs to the network namespace and needs no file */
			snprintf(v, 256, "net_memif0,role=%s,socket=uroce-bench-%u,bsize=4608",
				 s == 1 ? "server" : "client", link);
			break;
		case BENCH_PORT_VHOST:
			if (s == 1)
				snprintf(v, 256, "net_vhost0,iface=/run/vhost%u,queues=1", link);
			else
				snprintf(v, 256,
					 "net_virtio_user0,path=/run/vhost%u,queues=1,"
					 "queue_size=1024,packed_vq=1",
					 link);
			break;
		case BENCH_PORT_AF_PACKET:
			snprintf(v, 256,
				 "net_af_packet0,iface=ub%u%c,blocksz=16384,framesz=8192,"
				 "framecnt=1024,qpairs=1,qdisc_bypass=1",
				 link, 'a' + s);
			break;
		case BENCH_PORT_AF_XDP:
			snprintf(v, 256, "net_af_xdp0,iface=ub%u%c", link, 'a' + s);
			break;
		case BENCH_PORT_UDP:
		case BENCH_PORT_PACKET:
			snprintf(v, 256, "10.0.%u.%u", link, 1 + s);
			break;
		default:
			abort();
		}
	}
	if (node_net_is_socket(o->port))
		veth(link, node_net_mtu(o), vdev);
	else if (o->port == BENCH_PORT_AF_PACKET || o->port == BENCH_PORT_AF_XDP)
		veth(link, node_net_mtu(o), none);
}
