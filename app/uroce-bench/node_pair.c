/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
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
#include "node.h"
#include "wire/hdr.h"

#define XDP_MTU_MAX 3400u /* largest MTU of a veth with an XDP program */

void
node_net_check_options(const struct bench_options *o)
{
	const char *bad = NULL;

	if (o->port == BENCH_PORT_NONE)
		bad = "--port memif, vhost, af_xdp, af_packet, udp or packet";
	if (o->port == BENCH_PORT_AF_XDP && o->mtu > 2048)
		bad = "af_xdp: --mtu must be at most 2048: an interface under XDP carries 3400 "
		      "bytes";
	if (bad != NULL)
		cli_wrong(&bench_program, "mode %s: %s", o->mode, bad);
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
node_net_open(void)
{
	user_net_open();
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

#define START_MS  60000 /* on busy cores each RCU grace period of a socket takes seconds */
#define PHASE_MS  20000
#define SETTLE_MS 10 /* from the start of a run to the start of its measurement */

/* Ends this program if a node has died or reports an error. */
static void
check_alive(struct node_pair *p)
{
	for (unsigned s = 0; s < 2; s++) {
		int status;

		if (p->pid[s] == 0) /* not started yet */
			continue;
		if (__atomic_load_n(&p->sh->side[s].error[0], __ATOMIC_ACQUIRE) != '\0')
			bench_die("side %u: %s", s, p->sh->side[s].error);
		if (waitpid(p->pid[s], &status, WNOHANG) == p->pid[s])
			bench_die("side %u: ended with status %#x", s, status);
	}
}

/* Wait until side s has finished the current phase. */
static void
wait_reached(struct node_pair *p, unsigned s, unsigned limit_ms)
{
	uint64_t end = bench_now_ns() + limit_ms * 1000000ull;

	while (__atomic_load_n(&p->sh->side[s].steps, __ATOMIC_ACQUIRE) != p->sh->step) {
		check_alive(p);
		if (bench_now_ns() > end)
			bench_die("side %u: phase %u takes longer than %u ms", s, p->sh->phase,
				  limit_ms);
		usleep(200);
	}
}

static void
set_phase(struct node_pair *p, enum node_phase phase)
{
	__atomic_store_n(&p->sh->phase, phase, __ATOMIC_RELAXED);
	__atomic_store_n(&p->sh->step, p->sh->step + 1, __ATOMIC_RELEASE);
}

static void
set_phase_and_wait(struct node_pair *p, enum node_phase phase)
{
	set_phase(p, phase);
	for (unsigned s = 0; s < 2; s++)
		wait_reached(p, s, PHASE_MS);
}

static void
signal_both(const struct node_pair *p, int sig)
{
	for (unsigned s = 0; s < 2; s++)
		kill(p->pid[s], sig);
}

static void
start(struct node_pair *p, int fd, unsigned s)
{
	char number[12], side[4];
	char *argv[] = {"/proc/self/exe", p->sh->role == NODE_RC ? "node" : "frames", number, side,
			NULL};

	snprintf(number, sizeof(number), "%d", fd);
	snprintf(side, sizeof(side), "%u", s);
	node_net_side(node_net_is_socket(p->sh->o.port) ? s : 0);
	p->pid[s] = bench_spawn(argv, -1, -1, SIGKILL, NULL);
	node_net_side(0);
	wait_reached(p, s, START_MS);
}

static struct node_shared *
share(const struct bench_options *o, enum node_role role, int *fd)
{
	uint32_t stride = RTE_MAX((o->size + 63) & ~63u, 64u);
	uint32_t slots = stride >= NODE_MEM_BYTES ? 1 : NODE_MEM_BYTES / stride;
	size_t bytes = sizeof(struct node_shared) + PAGE_LEAST + 2ull * slots * stride;
	struct node_shared *sh;

	*fd = memfd_create("uroce-bench", 0);
	if (*fd < 0 || ftruncate(*fd, (off_t)bytes) != 0)
		bench_die("shared memory: %m");
	sh = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, *fd, 0);
	if (sh == MAP_FAILED)
		bench_die("shared memory: %m");
	sh->o = *o;
	sh->role = role;
	sh->slots = slots;
	sh->stride = stride;
	sh->frame = 64;
	sh->bytes = bytes;
	sh->cpu[1] = sysconf(_SC_NPROCESSORS_ONLN) > 1;
	sh->yields = sh->cpu[1] == 0;
	sh->link_mtu = node_net_mtu(o);
	return sh;
}

void
node_pair_open(struct node_pair *p, const struct bench_options *o, enum node_role role,
	       unsigned link)
{
	int fd;

	*p = (struct node_pair){.sh = share(o, role, &fd)};
	p->sh->link = link;
	node_net_port(o, link, p->sh->vdev);
	set_phase(p, NODE_START);
	start(p, fd, 1);
	start(p, fd, 0);
	close(fd);
	set_phase_and_wait(p, NODE_CONNECT);
	set_phase_and_wait(p, NODE_REST);
	signal_both(p, SIGSTOP);
}

void
node_pair_close(struct node_pair *p)
{
	signal_both(p, SIGKILL);
	for (unsigned s = 0; s < 2; s++)
		waitpid(p->pid[s], NULL, 0);
	munmap(p->sh, p->sh->bytes);
}

struct counts {
	double at_s;
	uint64_t done;
};

static struct counts
count(const struct node_pair *p)
{
	/* for frames alone: the side that receives */
	const struct node_side *end = &p->sh->side[p->sh->role == NODE_FRAMES];

	return (struct counts){.at_s = (double)bench_now_ns() * 1e-9,
			       .done = __atomic_load_n(&end->count, __ATOMIC_RELAXED)};
}

/* Measure distance and speed of the cores; keep the worst values so far. */
static void
probe(struct node_pair *p, struct node_pair_sample *s)
{
	const struct node_side *side = p->sh->side;

	if (p->sh->o.no_probe)
		return;
	__atomic_store_n(&p->sh->ping, 0, __ATOMIC_RELAXED);
	set_phase_and_wait(p, NODE_PROBE);
	s->distance_ns = RTE_MAX(s->distance_ns, side[0].distance_ns);
	s->speed_ns = RTE_MAX(s->speed_ns, RTE_MAX(side[0].speed_ns, side[1].speed_ns));
}

/* Wait for the last of a fixed number of messages. */
static void
wait_count(struct node_pair *p, uint64_t messages)
{
	uint64_t end = bench_now_ns() + PHASE_MS * 1000000ull;

	while (__atomic_load_n(&p->sh->side[0].count, __ATOMIC_RELAXED) < messages) {
		check_alive(p);
		if (bench_now_ns() > end)
			bench_die("%lu messages take longer than %u ms", messages, PHASE_MS);
		usleep(500);
	}
}

static void
run_once(struct node_pair *p, enum node_role role, uint32_t frame, struct node_pair_sample *s)
{
	struct counts a, b;

	p->sh->role = role;
	p->sh->frame = frame;
	signal_both(p, SIGCONT);
	*s = (struct node_pair_sample){0};
	probe(p, s);
	a = count(p);
	p->sh->until =
		role == NODE_RC && p->sh->o.count != 0 ? a.done + p->sh->o.count : UINT64_MAX;
	set_phase(p, NODE_RUN);
	if (p->sh->until != UINT64_MAX) {
		wait_count(p, p->sh->until);
	} else {
		usleep(SETTLE_MS * 1000);
		check_alive(p);
		a = count(p);
		usleep(p->sh->o.run_ms * 1000);
	}
	b = count(p);
	set_phase_and_wait(p, NODE_REST);
	s->rate = (double)(b.done - a.done) / (b.at_s - a.at_s);
	probe(p, s);
	signal_both(p, SIGSTOP);
}

void
node_pair_run(struct node_pair *p, enum node_role role, uint32_t frame, struct node_pair_sample *s)
{
	for (unsigned i = 0; i < NODE_TRIES; i++) {
		run_once(p, role, frame, s);
		if (s->rate > 0)
			return;
	}
	bench_die("nothing arrived in %u times %u ms", NODE_TRIES, p->sh->o.run_ms);
}

const char *
node_pair_far(struct bench_report *r)
{
	return bench_median(r, "distance") <= NODE_NEAR_NS ? ", near" : ", far";
}

bool
node_pair_verify(const struct node_pair *p)
{
	const struct node_shared *sh = p->sh;
	const uint8_t *a = node_region(p->sh, 0), *b = node_region(p->sh, 1);
	uint64_t n = RTE_MIN(sh->side[0].count, (uint64_t)sh->slots);

	/* connections fill places in turn: n messages fill at least so many */
	n = n < sh->slots ? sh->side[0].full : n;
	for (uint64_t i = 0; i < n; i++)
		if (memcmp(a + i * sh->stride, b + i * sh->stride, sh->o.size) != 0)
			return false;
	return n != 0;
}

/* --- mode "wire" --------------------------------------------------------------------------------
 */

double
wire_run(struct node_pair *p, struct bench_report *r, const struct node_pair_sample *other)
{
	const struct bench_options *o = &p->sh->o;
	double packets = RTE_MAX((o->size + o->mtu - 1) / o->mtu, 1u);
	struct node_pair_sample s;

	node_pair_run(p, NODE_RC, 0, &s);
	packets *= s.rate;
	bench_add(r, "messages", "M/s", s.rate * 1e-6);
	bench_add(r, "goodput", "Gb/s", s.rate * o->size * 8e-9);
	bench_add(r, "packets", "M/s", packets * 1e-6);
	bench_add(r, "distance", "ns", RTE_MAX(s.distance_ns, other->distance_ns));
	bench_add(r, "core_speed", "ns", RTE_MAX(s.speed_ns, other->speed_ns));
	return packets;
}

bool
wire_end(struct node_pair *p, struct bench_report *r)
{
	const struct bench_options o = p->sh->o;
	bool equal = node_pair_verify(p);

	node_pair_close(p);
	bench_report_row(r, "wire, %s, RC %s, %u B, MTU %u, %u QP%s%s%s", bench_port_name[o.port],
			 bench_op_name[o.op], o.size, o.mtu, o.qps, o.qps == 1 ? "" : "s",
			 node_pair_far(r), equal ? "" : ": BYTES DIFFER");
	return equal;
}

int
bench_wire(const struct bench_options *o, struct bench_report *r)
{
	static const struct node_pair_sample none;
	struct node_pair p;

	node_pair_open(&p, o, NODE_RC, 0);
	for (uint32_t i = 0; i < o->runs; i++)
		wire_run(&p, r, &none);
	return wire_end(&p, r) ? 0 : 1;
}
