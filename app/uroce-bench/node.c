/* SPDX-License-Identifier: BSD-3-Clause */
#include <net/if.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <rte_branch_prediction.h>
#include <rte_byteorder.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_pause.h>
#include "node_pair.h"
#include "port/burst.h"

#define BURST       32
#define PROBE_TURNS 4000u
#define POOL_MBUFS  16384
#define POOL_CACHE  256
#define POOL_ROOM   (RTE_PKTMBUF_HEADROOM + 8320) /* as the daemon's */
#define LINK_MS     10000

static struct node_side *self;

void
node_fail(const char *fmt, ...)
{
	char text[sizeof(self->error)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	memcpy(self->error + 1, text + 1, sizeof(text) - 1);
	__atomic_store_n(&self->error[0], text[0], __ATOMIC_RELEASE);
	for (;;)
		pause(); /* until the parent kills this process */
}

uint32_t
node_next(const struct node_shared *sh, uint32_t step)
{
	uint32_t now;

	while ((now = __atomic_load_n(&sh->step, __ATOMIC_ACQUIRE)) == step)
		usleep(200);
	return now;
}

void
node_reached(struct node_side *me, uint32_t step)
{
	__atomic_store_n(&me->steps, step, __ATOMIC_RELEASE);
}

void
node_probe(struct node_shared *sh, unsigned side)
{
	if (side == 1)
		bench_pong(&sh->ping, PROBE_TURNS);
	else
		sh->side[0].distance_ns = bench_ping(&sh->ping, PROBE_TURNS);
	sh->side[side].speed_ns = bench_speed_here();
}

void
node_link_wait(struct port *port)
{
	for (unsigned i = 0; i < LINK_MS / 10 && !port->link_up; i++) {
		port_poll_link(port);
		usleep(10000);
	}
	if (!port->link_up)
		node_fail("no link");
}

static void
eal_start(const struct node_shared *sh, unsigned side)
{
	char lcores[32];

	snprintf(lcores, sizeof(lcores), "0@%u,1@%u", sh->cpu[side], sh->cpu[side]);
	if (bench_eal_plain(lcores, BENCH_EAL_MIB,
			    node_net_is_socket(sh->o.port) ? NULL : sh->vdev[side]) < 0)
		node_fail("DPDK does not start with %s: %s", sh->vdev[side],
			  rte_strerror(rte_errno));
}

static void
port_start(struct node_shared *sh, unsigned side, struct port *port, struct rte_mempool *pool)
{
	/* not the interface's MAC, so that the kernel ignores the frames: like --dev mac= */
	const uint8_t mac[6] = {2, 0, 0, 0, 0, (uint8_t)(side + 1)};
	char name[64], netdev[IF_NAMESIZE];
	struct port_params p = {.name = name, .nqueues = 1, .link_mtu = sh->link_mtu};

	if (sh->o.port == BENCH_PORT_AF_PACKET || sh->o.port == BENCH_PORT_AF_XDP ||
	    sh->o.port == BENCH_PORT_PACKET)
		p.mac = mac;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(sh->vdev[side], ","), sh->vdev[side]);
	node_net_interface(netdev, sh->link, side);
	if (sh->o.port == BENCH_PORT_UDP)
		p.udp_addr = sh->vdev[side];
	if (sh->o.port == BENCH_PORT_PACKET)
		p.packet_netdev = netdev;
	if (port_open(port, &p, pool) != 0)
		node_fail("%s does not open", name);
	for (unsigned i = 0; i < LINK_MS / 10 && !port->started; i++) {
		usleep(10000);
		port_restart(port);
	}
	if (!port->started)
		node_fail("%s finds no peer", name);
}

/* --- frames alone -------------------------------------------------------------------------------
 */

struct frames {
	struct node_shared *sh;
	struct node_side *me;
	struct port *port;
	struct rte_mempool *pool;
	uint8_t head[64]; /* Ethernet, IPv4 and UDP of a frame, and what follows */
	uint32_t bytes;
	uint32_t step; /* of the current run */
	int socket;    /* instead of the port, which is NULL then */
};

static void
make_head(struct frames *f, const uint8_t *peer)
{
	uint16_t len = rte_cpu_to_be_16((uint16_t)(f->bytes - 14));

	memset(f->head, 0, sizeof(f->head));
	memcpy(f->head, peer, 6);
	memcpy(f->head + 6, f->me->mac, 6);
	memcpy(f->head + 12, (uint8_t[]){8,  0, 0x45, 0,   0,  0, 0, 0,   0x40, 0, 64,
					 17, 0, 0,    198, 18, 0, 1, 198, 18,   0, 2},
	       22);
	memcpy(f->head + 16, &len, 2);
}

static bool
make_burst(const struct frames *f, struct rte_mbuf **m, unsigned n)
{
	if (rte_pktmbuf_alloc_bulk(f->pool, m, n) != 0)
		return false;
	for (unsigned i = 0; i < n; i++) {
		memcpy(rte_pktmbuf_mtod(m[i], void *), f->head, sizeof(f->head));
		m[i]->data_len = (uint16_t)f->bytes;
		m[i]->pkt_len = f->bytes;
	}
	return true;
}

static bool
running(const struct frames *f)
{
	return __atomic_load_n(&f->sh->step, __ATOMIC_RELAXED) == f->step;
}

static void
add(struct frames *f, unsigned n)
{
	__atomic_store_n(&f->me->count, f->me->count + n, __ATOMIC_RELAXED);
}

/* Like testpmd's txonly, but refused frames are retried. */
static void
send_only(struct frames *f)
{
	struct rte_mbuf *m[BURST];
	unsigned have = 0, sent;

	while (running(f)) {
		if (have == 0 && !make_burst(f, m, BURST))
			continue;
		have = have == 0 ? BURST : have;
		sent = port_tx_burst(f->port->id, 0, m + BURST - have, (uint16_t)have);
		have -= sent;
		add(f, sent);
		if (sent == 0)
			rte_pause();
	}
	rte_pktmbuf_free_bulk(m + BURST - have, have);
}

static void
receive_only(struct frames *f)
{
	struct rte_mbuf *m[BURST];
	uint16_t n;

	while (running(f)) {
		n = port_rx_burst(f->port->id, 0, m, BURST);
		if (n == 0) {
			rte_pause();
			continue;
		}
		rte_pktmbuf_free_bulk(m, n);
		add(f, n);
	}
}

/* Receive frames in flight until none has arrived for a while. */
static void
drain(struct frames *f)
{
	struct rte_mbuf *m[BURST];

	if (f->port == NULL) {
		node_sockets_drain(f->socket);
		return;
	}
	for (unsigned idle = 0; idle < 20; idle++) {
		uint16_t n = port_rx_burst(f->port->id, 0, m, BURST);

		rte_pktmbuf_free_bulk(m, n);
		if (n != 0)
			idle = 0;
		else
			usleep(100);
	}
}

static void
run_frames(struct frames *f, unsigned side)
{
	f->bytes = f->sh->frame;
	if (f->port == NULL) {
		node_sockets_run(f->sh, side, f->socket, f->step);
		return;
	}
	make_head(f, f->sh->side[1 - side].mac);
	if (side == 0)
		send_only(f);
	else
		receive_only(f);
}

static _Noreturn void
frames_main(struct frames *f, unsigned side)
{
	for (;;) {
		f->step = node_next(f->sh, f->step);
		switch (f->sh->phase) {
		case NODE_CONNECT:
			if (f->port != NULL)
				node_link_wait(f->port);
			break;
		case NODE_PROBE:
			node_probe(f->sh, side);
			break;
		case NODE_RUN:
			run_frames(f, side);
			continue;
		default:
			drain(f);
			break;
		}
		node_reached(f->me, f->step);
	}
}

int
node_main(const char *fd, const char *side_text)
{
	unsigned side = side_text[0] != '0';
	struct rte_mempool *pool;
	struct node_shared *sh;
	static struct port port;
	struct frames f;
	struct stat st;

	if (fstat(atoi(fd), &st) != 0 || (size_t)st.st_size < sizeof(*sh)) {
		fputs("uroce-bench: mode node is internal to uroce-bench\n", stderr);
		return 2;
	}
	sh = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(fd), 0);
	if (sh == MAP_FAILED)
		return 1;
	close(atoi(fd));
	signal(SIGPIPE, SIG_IGN); /* virtio_user writes to a peer that may have ended */
	self = &sh->side[side];
	if (sh->role != NODE_RC && node_net_is_socket(sh->o.port)) {
		f = (struct frames){.sh = sh, .me = self, .step = sh->step};
		f.socket = node_sockets_open(sh, side);
		bench_pin(sh->cpu[side]);
		node_reached(self, f.step);
		frames_main(&f, side);
	}
	eal_start(sh, side);
	pool = rte_pktmbuf_pool_create("bench", POOL_MBUFS, POOL_CACHE, 0, POOL_ROOM,
				       SOCKET_ID_ANY);
	if (pool == NULL)
		node_fail("no memory for packets");
	port_start(sh, side, &port, pool);
	memcpy(self->mac, port.mac, 6);
	f = (struct frames){.sh = sh, .me = self, .port = &port, .pool = pool, .step = sh->step};
	if (sh->role == NODE_RC)
		node_rc_main(sh, side, &port, pool);
	node_reached(self, f.step);
	frames_main(&f, side);
}
