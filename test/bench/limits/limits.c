/* SPDX-License-Identifier: BSD-3-Clause */
/* Lower bounds for any transport: CRC and copy of the bytes, and a port's bursts. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <rte_common.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_pause.h>
#include "bounds.h"
#include "wire/hdr.h"
#include "wire/icrc.h"

#define BURST 32
/* for a sender without a transport */
#define BARE_HEADERS 54 /* Ethernet, IPv4, UDP and BTH */
#define BARE_SWEEPS  5
#define MIN_MESSAGE  (64 * 1024) /* memory of smaller messages */
#define PACKETS      64          /* built between two bursts to the port */
#define PACKET_BYTES 8704        /* distance of the buffers of a pool */
#define PAYLOAD_AT   (128 + 54)  /* offset in a buffer: headroom, then Ethernet to BTH */
#define SWEEPS       5
#define OVERHEAD     74u /* of a WRITE of one packet, Ethernet to ICRC */

static const uint32_t sizes[] = {64, 256, 512, 1024, 2048, 4096};

static volatile uint32_t sum_sink;

/* Memory as in a transfer: a message and the buffers of its packets. */
struct pages {
	uint8_t *message, *packets;
	uint32_t message_bytes;
};

/* Populated ordinary pages, as clients and the nodes of mode "wire" have. */
static uint8_t *
pages_map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		bench_die("no memory for %zu bytes", bytes);
	return p;
}

static struct pages
pages_open(uint32_t message)
{
	struct pages p = {.message_bytes = RTE_MAX(message, (uint32_t)MIN_MESSAGE)};

	p.message = pages_map(p.message_bytes);
	p.packets = pages_map(PACKETS * PACKET_BYTES);
	return p;
}

static void
pages_close(struct pages *p)
{
	munmap(p->message, p->message_bytes);
	munmap(p->packets, PACKETS * PACKET_BYTES);
}

/* ns for a packet of payload bytes: copy from the message, CRC, or both. */
static double
packet_ns(const struct pages *p, uint32_t payload, bool copy, bool crc)
{
	uint32_t step = (payload + 63) & ~63u, turns = p->message_bytes / step;
	uint64_t best = UINT64_MAX;
	uint32_t sum = sum_sink;

	turns = RTE_MAX(turns, 1 + 2000000 / (payload + 200));
	for (unsigned k = 0; k < SWEEPS; k++) {
		uint64_t start = rte_rdtsc_precise();
		uint32_t off = 0;

		for (uint32_t i = 0; i < turns; i++) {
			uint8_t *at =
				p->packets + (size_t)(i % PACKETS) * PACKET_BYTES + PAYLOAD_AT;

			if (copy)
				memcpy(at, p->message + off, payload);
			if (crc)
				sum = wire_icrc_update(sum, at - BENCH_CRC_HEADERS,
						       payload + BENCH_CRC_HEADERS);
			__asm__ volatile("" ::: "memory");
			off += step;
			if (off + payload > p->message_bytes)
				off = 0;
		}
		start = rte_rdtsc_precise() - start;
		best = start < best ? start : best;
	}
	sum_sink = sum;
	return bench_ns(best) / turns;
}

static double
packet_alone_ns(uint32_t payload, uint32_t message)
{
	struct pages p = pages_open(message);
	double ns = packet_ns(&p, payload, true, true);

	pages_close(&p);
	return ns;
}

/* Frames alone between two processes, in the sizes of each path MTU. */
static int
limits_port(const struct bench_options *o, struct bench_report *r)
{
	char name[2 * NODE_DEVICE];
	struct node_pair p;

	node_net_name(o, name, sizeof(name));
	node_pair_open(&p, o, NODE_FRAMES, 0);
	for (unsigned i = 0; i < RTE_DIM(sizes) && sizes[i] <= o->mtu; i++) {
		uint32_t frame = sizes[i] + OVERHEAD;

		for (uint32_t k = 0; k < o->runs; k++) {
			struct node_pair_sample s;
			double packet_ns;

			node_pair_run(&p, NODE_FRAMES, frame, &s);
			packet_ns = 1e9 / s.rate + packet_alone_ns(sizes[i], o->size);
			bench_add(r, "oneway", "M/s", s.rate * 1e-6);
			bench_add(r, "oneway_bits", "Gb/s", s.rate * frame * 8e-9);
			bench_add(r, "with_crc_and_copy", "Gb/s", sizes[i] * 8 / packet_ns);
			bench_add(r, "distance", "ns", s.distance_ns);
			bench_add(r, "core_speed", "ns", s.speed_ns);
		}
		bench_report_row(r, "port, %s, frames of %u B (payload %u B)%s", name, frame,
				 sizes[i], node_pair_far(r));
	}
	node_pair_close(&p);
	return 0;
}

static int
limits_memory(const struct bench_options *o, struct bench_report *r)
{
	struct pages p;

	p = pages_open(o->size);
	for (unsigned i = 0; i < RTE_DIM(sizes) && sizes[i] <= o->mtu; i++) {
		for (uint32_t k = 0; k < o->runs; k++) {
			double ns = packet_ns(&p, sizes[i], true, true);

			bench_add(r, "crc", "ns", packet_ns(&p, sizes[i], false, true));
			bench_add(r, "copy", "ns", packet_ns(&p, sizes[i], true, false));
			bench_add(r, "packet", "ns", ns);
			bench_add(r, "both", "Gb/s", sizes[i] * 8 / ns);
			bench_add(r, "hot_crc", "ns", bench_crc_ns(sizes[i]));
			bench_add(r, "hot_copy", "ns", bench_copy_ns(sizes[i]));
		}
		bench_report_row(r, "memory, %u B, between %u KiB of message and %u packet buffers",
				 sizes[i], p.message_bytes / 1024, PACKETS);
	}
	pages_close(&p);
	return 0;
}

/* --- a sender without a transport ----------------------------------------------------------- */

struct rte_mempool *
limits_pool(void)
{
	static struct rte_mempool *pool;

	if (pool == NULL)
		pool = rte_pktmbuf_pool_create("bench", 16383, 256, 0,
					       RTE_PKTMBUF_HEADROOM + WIRE_MAX_OVERHEAD + 4096, 0);
	if (pool == NULL)
		bench_die("no memory for packets");
	return pool;
}

/* Two net_ring ports, connected. */
static const struct port *
ring_ports(void)
{
	static const char *const name[2] = {"net_ring_bencha", "net_ring_benchb"};
	static struct port port[2];

	if (!port[0].started && port_ring_pair("bencha", "benchb", 1, 4096) != 0)
		bench_die("net_ring: no ports");
	for (unsigned i = 0; i < 2; i++) {
		struct port_params p = {.name = name[i], .nqueues = 1, .link_mtu = 4200};

		if (!port[i].started && port_open(&port[i], &p, limits_pool()) != 0)
			bench_die("net_ring: a port does not start");
	}
	return port;
}

/* Continue the CRC after the template: over the BTH, which holds the PSN, and the payload. */
static void
bare_frame(struct rte_mbuf *m, const uint8_t *payload, uint32_t len)
{
	static const uint8_t head[BARE_HEADERS];
	uint8_t *at = (uint8_t *)rte_pktmbuf_append(m, BARE_HEADERS + WIRE_ICRC_LEN);
	uint32_t crc;

	memcpy(at, head, BARE_HEADERS);
	crc = wire_icrc_update(0, at + BARE_HEADERS - WIRE_BTH_LEN, WIRE_BTH_LEN);
	crc = wire_icrc_update(crc, payload, len);
	memcpy(at + BARE_HEADERS, &crc, sizeof(crc));
}

static double
sender_ns(const struct bench_options *o)
{
	uint32_t mtu = o->mtu, left, n, k;
	uint64_t spent, best = UINT64_MAX, start;
	struct pages p = pages_open(o->size);
	const struct port *port = ring_ports();
	struct rte_mbuf *m[BURST];

	for (unsigned sweep = 0; sweep < BARE_SWEEPS; sweep++) {
		const uint8_t *at = p.message;

		for (spent = 0, left = o->size; left != 0;) {
			start = rte_rdtsc_precise();
			n = RTE_MIN((left + mtu - 1) / mtu, (uint32_t)BURST);
			if (rte_pktmbuf_alloc_bulk(limits_pool(), m, n) != 0)
				bench_die("no memory for packets");
			for (uint32_t i = 0; i < n; i++) {
				uint32_t len = RTE_MIN(left, mtu);

				bare_frame(m[i], at, len);
				at += len;
				left -= len;
			}
			k = rte_eth_tx_burst(port[0].id, 0, m, (uint16_t)n);
			spent += rte_rdtsc_precise() - start;
			rte_pktmbuf_free_bulk(m + k, n - k);
			k = rte_eth_rx_burst(port[1].id, 0, m, BURST);
			rte_pktmbuf_free_bulk(m, k);
		}
		best = RTE_MIN(best, spent);
	}
	pages_close(&p);
	return bench_ns(best);
}

/* ns of a message: buffers from the pool, header bytes, the CRC over BTH and payload, the port. */
static int
limits_sender(const struct bench_options *o, struct bench_report *r)
{
	for (uint32_t i = 0; i < o->runs; i++)
		bench_add(r, "sender", "ns", sender_ns(o));
	bench_report_row(r, "sender without a transport, %u B", o->size);
	return 0;
}

/* --- a transfer, and directly after it what it is compared with ------------------------------ */

/*
 * Packets per second that the sender's core could make if it did only testpmd's work, the ICRC and,
 * if the driver does not copy, the copy into the port's buffers. On af_packet and af_xdp the
 * sender's core is the limit, because the kernel does the work of both ends there.
 */
static double
possible(const struct bench_options *o, double testpmd)
{
	uint32_t payload = RTE_MIN(o->size, o->mtu);
	double ns = bench_crc_ns(payload + BENCH_CRC_HEADERS);

	if (o->port == BENCH_PORT_AF_XDP)
		ns += bench_copy_ns(payload);
	return 1e9 / (1e9 / testpmd + ns);
}

static int
wire_limit(const struct bench_options *o, struct bench_report *r)
{
	struct node_pair rc, frames;
	struct node_pair_sample port;

	node_pair_open(&rc, o, NODE_RC, 0);
	node_pair_open(&frames, o, NODE_FRAMES, 1);
	for (uint32_t i = 0; i < o->runs; i++) {
		double bytes_ns = packet_alone_ns(RTE_MIN(o->size, o->mtu), o->size), packets,
		       limit;

		node_pair_run(&frames, NODE_FRAMES, wire_frame(o), &port);
		packets = wire_run(&rc, r, &port);
		/* sockets: compared with bare UDP sockets, the maximum that the kernel allows */
		limit = node_net_is_socket(o->port) ? port.rate
						    : 1e9 / (1e9 / port.rate + bytes_ns);
		bench_add(r, "port", "M/s", port.rate * 1e-6);
		bench_add(r, "crc_and_copy", "ns", bytes_ns);
		bench_add(r, "limit", "M/s", limit * 1e-6);
		bench_add(r, "versus_limit", "of it", packets / limit);
	}
	node_pair_close(&frames);
	return wire_end(&rc, r) ? 0 : 1;
}

static int
wire_testpmd(const struct bench_options *o, struct bench_report *r)
{
	static const struct node_pair_sample none;
	struct testpmd_pair pmd;
	struct node_pair rc;

	/* two processes cannot have a NIC's port at the same time */
	if (o->port == BENCH_PORT_EAL || o->through != BENCH_THROUGH_NONE)
		return wire_in_turn(o, r);
	node_pair_open(&rc, o, NODE_RC, 0);
	testpmd_pair_open(&pmd, o, 1);
	for (uint32_t i = 0; i < o->runs; i++) {
		double packets = wire_run(&rc, r, &none),
		       other = testpmd_pair_run(&pmd, wire_frame(o), o->run_ms);

		bench_add(r, "testpmd", "M/s", other * 1e-6);
		bench_add(r, "versus_testpmd", "of it", packets / other);
		bench_add(r, "possible", "M/s", possible(o, other) * 1e-6);
	}
	testpmd_pair_close(&pmd);
	return wire_end(&rc, r) ? 0 : 1;
}

/* --- threads that sleep: what a machine costs an idle daemon --------------------------------- */

#define SLEEP_NS 2000000 /* the longest sleep of a worker that polls a port */
#define WAKE_NS  3000000 /* of a worker that need not poll, 100 ms after its last work */

struct sleeper {
	unsigned cpu;
	uint64_t until_ns; /* end of the sleep, CLOCK_MONOTONIC */
	double share;      /* of its core that the thread used */
	int fd;            /* eventfd that wakes the thread */
	uint64_t found;    /* wake-ups seen */
	bool stop;
};

static uint64_t
cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void
start(pthread_t *thread, void *(*fn)(void *), struct sleeper *s)
{
	errno = pthread_create(thread, NULL, fn, s);
	if (errno != 0)
		bench_die("a thread: %m");
}

static void *
sleeps(void *arg)
{
	static const struct timespec limit = {.tv_nsec = SLEEP_NS};
	uint64_t begin, used;
	struct sleeper *s = arg;

	bench_pin(s->cpu);
	begin = bench_now_ns();
	used = cpu_ns();
	while (bench_now_ns() < s->until_ns)
		ppoll(NULL, 0, &limit, NULL);
	used = cpu_ns() - used;
	s->share = (double)used / (double)(bench_now_ns() - begin);
	return NULL;
}

static double
bare_sleeps(unsigned cpu, uint64_t ns)
{
	struct sleeper s = {.cpu = cpu, .until_ns = bench_now_ns() + ns};
	pthread_t thread;

	start(&thread, sleeps, &s);
	pthread_join(thread, NULL);
	return s.share;
}

static void *
is_woken(void *arg)
{
	static const struct timespec limit = {.tv_nsec = WAKE_NS};
	struct sleeper *s = arg;
	struct pollfd p = {.fd = s->fd, .events = POLLIN};
	uint64_t count;

	bench_pin(s->cpu);
	while (!__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE)) {
		if (ppoll(&p, 1, &limit, NULL) != 1)
			continue;
		__atomic_add_fetch(&s->found, 1, __ATOMIC_RELEASE);
		if (read(s->fd, &count, sizeof(count)) < 0)
			break;
	}
	return NULL;
}

static void
bare_wakes(unsigned from, unsigned to, uint32_t n, uint32_t pause_us, struct client_hist *h)
{
	const struct timespec pause = {.tv_nsec = (long)pause_us * 1000};
	const uint64_t one = 1;
	struct sleeper s = {.cpu = to, .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
	pthread_t thread;
	cpu_set_t were;

	if (s.fd < 0)
		bench_die("an eventfd: %m");
	sched_getaffinity(0, sizeof(were), &were);
	start(&thread, is_woken, &s);
	bench_pin(from);
	for (uint64_t i = 1; i <= n; i++) {
		uint64_t begin;

		nanosleep(&pause, NULL);
		begin = bench_now_ns();
		if (write(s.fd, &one, sizeof(one)) < 0)
			break;
		while (__atomic_load_n(&s.found, __ATOMIC_ACQUIRE) != i)
			rte_pause();
		client_hist_add(h, bench_now_ns() - begin);
	}
	__atomic_store_n(&s.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	sched_setaffinity(0, sizeof(were), &were);
	close(s.fd);
}

static int
limits_sleep(const struct bench_options *o, struct bench_report *r)
{
	unsigned last = client_cpu(client_cpus() - 1);

	for (uint32_t i = 0; i < o->runs; i++) {
		struct client_hist wakes = {0};

		bare_wakes(client_cpu(0), last, 10, 100000, &wakes);
		bench_add(r, "eventfd", "us", client_hist_at(&wakes, 0.5) / 1e3);
		bench_add(r, "sleeper", "% of a core", 100 * bare_sleeps(last, 250000000));
	}
	bench_report_row(r, "a bare thread that sleeps");
	return 0;
}

static void
check_sockets(const struct bench_options *o)
{
	if (!node_net_is_socket(o->port))
		cli_wrong(&bench_program, "mode %s: --port udp or packet", o->mode);
}

static void
check_testpmd(const struct bench_options *o)
{
	node_net_check_options(o);
	if (node_net_is_socket(o->port))
		cli_wrong(&bench_program, "mode %s: testpmd has no ports udp and packet", o->mode);
}

const struct cli_program bench_program = {
	.name = "limits",
	.usage = "usage: limits MODE [OPTION...]\n"
		 "\n"
		 "  memory        CRC and copy between a message of --size and the buffers of a "
		 "burst\n"
		 "  sender        messages without a transport\n"
		 "  port          frames alone over a port; with one --allow or --vdev only sent: "
		 "no peer is needed\n"
		 "  wire-limit    uroce-bench's mode wire, and the limit model of the same port\n"
		 "  wire-testpmd  the same, and dpdk-testpmd on such a port\n"
		 "  sockets       the latency of bare sockets\n"
		 "  sleep         a bare thread that sleeps and is woken\n"
		 "  hops          to the worker and back without a packet\n"
		 "  latency       as uroce-bench latency\n"
		 "  scale         as uroce-bench scale\n",
	.options = bench_fields,
};

const struct bench_mode bench_modes[] = {
	{"memory", limits_memory, bench_eal_one, NULL},
	{"sender", limits_sender, bench_eal_one, NULL},
	{"port", limits_port, bench_eal_one, node_net_check_options},
	{"wire-limit", wire_limit, bench_eal_one, node_net_check_options},
	{"wire-testpmd", wire_testpmd, bench_eal_one, check_testpmd},
	{"sockets", limits_sockets, NULL, check_sockets},
	{"sleep", limits_sleep, NULL, NULL},
	{"hops", limits_hops, bench_eal_one, NULL},
	{"latency", bench_latency, NULL, latency_check},
	{"scale", bench_scale, scale_eal_start, scale_check_options},
	{NULL},
};

int
main(int argc, char **argv)
{
	if (argc > 2 && strcmp(argv[1], HOPS_MODE) == 0)
		return hops_main(argc, argv);
	if (argc > 2 && strcmp(argv[1], "frames") == 0)
		return frames_main(argc, argv);
	if (argc > 2 && strcmp(argv[1], CLIENT_MODE) == 0)
		return client_main(argc, argv);
	if (argc > 2 && strcmp(argv[1], "node") == 0)
		return node_main(argc, argv);
	return bench_main(argc, argv);
}
