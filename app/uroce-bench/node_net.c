/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
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
		bad = "mode wire: --port memif, vhost, af_xdp or af_packet";
	if (o->port == BENCH_PORT_AF_XDP && o->mtu > 2048)
		bad = "af_xdp: --mtu must be at most 2048: an interface under XDP carries 3400 "
		      "bytes";
	if ((o->versus_limit || o->versus_testpmd) && strcmp(o->mode, "wire") != 0)
		bad = "--versus-limit, --versus-testpmd: only with mode wire";
	if (bad != NULL)
		cli_wrong(&bench_program, "%s", bad);
}

void
node_net_open(void)
{
	int fd;

	if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0)
		bench_die("namespaces of its own: %m (needs root)");
	/* /run: files of DPDK and sockets; /sys: of the network namespace */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700") != 0 ||
	    mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV, NULL) != 0)
		bench_die("mount: %m");
	/* keep the kernel's own packets out of the measurement */
	fd = open("/proc/sys/net/ipv6/conf/default/disable_ipv6", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return; /* a kernel without IPv6 */
	if (write(fd, "1", 1) != 1)
		bench_die("IPv6 off: %m");
	close(fd);
}

static void
run(char *const argv[])
{
	int status;
	pid_t pid = bench_spawn(argv, -1, -1, SIGKILL, NULL);

	if (waitpid(pid, &status, 0) != pid || status != 0)
		bench_die("%s %s %s failed", argv[0], argv[1], argv[2]);
}

uint32_t
node_net_mtu(enum bench_port port, uint32_t mtu)
{
	uint32_t bytes = mtu + WIRE_MAX_OVERHEAD;

	if (port == BENCH_PORT_AF_XDP && bytes > XDP_MTU_MAX)
		return XDP_MTU_MAX;
	return bytes < 1500 ? 1500 : bytes;
}

static void
veth(const char *a, const char *b, uint32_t mtu)
{
	char bytes[12];
	char *add[] = {"ip",   "link", "add",  (char *)a, "mtu", bytes, "type",
		       "veth", "peer", "name", (char *)b, "mtu", bytes, NULL};
	char *up_a[] = {"ip", "link", "set", (char *)a, "up", NULL};
	char *up_b[] = {"ip", "link", "set", (char *)b, "up", NULL};

	snprintf(bytes, sizeof(bytes), "%u", mtu);
	run(add);
	run(up_a);
	run(up_b);
}

void
node_net_port(enum bench_port port, unsigned link, uint32_t mtu, char vdev[2][256])
{
	for (unsigned s = 0; s < 2; s++) {
		char *v = vdev[s];

		switch (port) {
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
		default:
			abort();
		}
	}
	if (port == BENCH_PORT_AF_PACKET || port == BENCH_PORT_AF_XDP) {
		char a[16], b[16];

		snprintf(a, sizeof(a), "ub%ua", link);
		snprintf(b, sizeof(b), "ub%ub", link);
		veth(a, b, node_net_mtu(port, mtu));
	}
}
