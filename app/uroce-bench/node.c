/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker as in the daemon: its loop, timers and transmission. The client runs inside the loop, in
 * the callback of a doorbell ring that always reports overflow, which the worker calls once in each
 * iteration. Both cores therefore do the same work as for users; only the client's core is missing.
 */
#include <errno.h>
#include <net/if.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include "node.h"
#include "rc_client.h"

#define LOOK_US 2000 /* poll interval of the main thread, which shares the worker's core */

struct rc {
	struct node_shared *sh;
	struct node_side *me, *peer;
	unsigned side;
	struct worker_set *ws;
	struct worker *w;
	struct port *port;
	struct rc_side s;
	struct rc_client c;
	struct uroce_db_ring *db;
	uint32_t step; /* that the worker has reached */
};

static void
conn_raise(struct rc *rc, uint32_t i)
{
	struct qp_path path = rc_path(rc->me->mac, rc->peer->mac, rc->side, RC_QPN_BASE + i);

	if (rc->sh->o.port == BENCH_PORT_UDP)
		path.wire.udp_sport = WIRE_UDP_PORT; /* the socket's, under the ICRC */
	/* half a second of timeout: a worker may have to wait for its core */
	if (!rc_connect(&worker_engine(rc->w)->env, rc->s.conn[i].qp, rc->sh->o.mtu,
			RC_QPN_BASE + i, 17, &path))
		node_fail("a QP cannot be connected");
}

/* --- the client, on the worker ------------------------------------------------------------------
 */

/* Take completions, and post while there is more to post. */
static void
reap(struct rc *rc, bool more)
{
	uint64_t done = rc->c.done;

	if (!rc_client_reap(&rc->c, more ? rc->sh->until : 0))
		node_fail("a message completed with status %u", rc->c.failed);
	if (rc->side == 0 && rc->c.done != done)
		__atomic_store_n(&rc->me->count, rc->c.done, __ATOMIC_RELAXED);
}

/* Places that have certainly been written: the minimum over the connections, times their number. */
static uint64_t
places_filled(const struct rc *rc)
{
	return RTE_MIN(rc_client_least(&rc->c) * rc->sh->o.qps, (uint64_t)rc->sh->slots);
}

/* Called once in each iteration of the worker while the ring reports overflow. */
static bool
client(struct worker *w, void *ctx, bool first)
{
	struct rc *rc = ctx;
	uint32_t step = __atomic_load_n(&rc->sh->step, __ATOMIC_ACQUIRE);
	uint32_t phase = rc->sh->phase;

	if (step != rc->step && phase == NODE_PROBE)
		node_probe(rc->sh, rc->side);
	if (step != rc->step && phase == NODE_RUN && rc->side == 0)
		rc_client_fill(&rc->c, rc->sh->until);
	reap(rc, phase == NODE_RUN);
	if (phase == NODE_REST && rc->side == 0 && rc->c.done != rc->c.posted)
		step = rc->step; /* not at rest yet */
	if (step != rc->step && phase == NODE_REST)
		rc->me->full = places_filled(rc);
	if (step != rc->step)
		node_reached(rc->me, step);
	rc->step = step;
	/* The responder runs a client only for SEND, so that its loop stays unchanged otherwise. */
	if (rc->side == 0 ? phase == NODE_RUN || rc->c.done != rc->c.posted
			  : phase == NODE_RUN && rc->sh->o.op == BENCH_SEND)
		__atomic_store_n(&rc->db->overflow, 1, __ATOMIC_RELAXED);
	return false;
}

/* --- set-up, on the main thread -----------------------------------------------------------------
 */

static void
connect_on_worker(struct worker *w, void *arg)
{
	struct rc *rc = arg;

	for (uint32_t i = 0; i < rc->sh->o.qps; i++) {
		if (!rc_client_open(&rc->c, i, rc->port->id))
			node_fail("no memory for a QP");
		rc_client_prepare(&rc->c, i, rc->peer->key);
		conn_raise(rc, i);
		if (rc->side == 1)
			rc_client_post_recvs(&rc->c, i);
	}
}

static void
worker_open(struct rc *rc, struct rte_mempool *pool)
{
	static const unsigned lcore = 1;
	struct worker_params p = {.nworkers = 1,
				  .lcores = &lcore,
				  .idle = rc->sh->yields ? WORKER_IDLE_ADAPTIVE : WORKER_IDLE_POLL,
				  .mrs = &rc->s.mrs,
				  .qps = &rc->s.qps,
				  .pool = pool};
	const struct node_shared *sh = rc->sh;

	if (!rc_side_open(&rc->s, rc->side, node_region(rc->sh, rc->side), sh->slots * sh->stride,
			  sh->o.qps, rc_entries(3 * sh->o.qps * rc_entries(sh->o.depth))))
		node_fail("no memory");
	rc->me->key = rc->s.mr.key;
	rc->ws = worker_set_create(&p);
	if (rc->ws == NULL)
		node_fail("no worker: %s", strerror(errno));
	rc->w = worker_get(rc->ws, 0);
	rc->c = (struct rc_client){.o = &sh->o,
				   .s = &rc->s,
				   .w = rc->w,
				   .side = rc->side,
				   .slots = sh->slots,
				   .stride = sh->stride};
	rc->db = rc_zalloc(sizeof(*rc->db));
	if (rc->db == NULL || worker_add_port(rc->ws, rc->port) != 0 ||
	    worker_add_doorbell(rc->w, rc->db) != 0)
		node_fail("no memory");
	worker_poll_doorbell(rc->w, rc->db, &rc->db->waiter, 0, client, rc);
}

/* Take the worker's events, which must not be lost. Other kinds are errors. */
static void
take_events(struct rc *rc)
{
	struct worker_event ev[32];
	unsigned n = worker_events(rc->ws, ev, 32);

	for (unsigned i = 0; i < n; i++) {
		if (ev[i].kind == WORKER_EV_FRAME)
			rte_pktmbuf_free(ev[i].obj);
		else if (ev[i].kind == WORKER_EV_ASYNC && ev[i].ev != QP_EVENT_COMM_EST)
			node_fail("a QP or CQ failed: event %u", ev[i].ev);
	}
}

_Noreturn static void
node_rc_main(struct node_shared *sh, unsigned side, struct port *port, struct rte_mempool *pool)
{
	static struct rc rc;
	uint32_t step = sh->step;

	rc = (struct rc){.sh = sh,
			 .me = &sh->side[side],
			 .peer = &sh->side[1 - side],
			 .side = side,
			 .port = port,
			 .step = step};
	worker_open(&rc, pool);
	node_reached(rc.me, step);
	for (;;) {
		uint32_t now = __atomic_load_n(&sh->step, __ATOMIC_ACQUIRE);

		take_events(&rc);
		if (now == step) {
			usleep(LOOK_US);
			continue;
		}
		step = now;
		if (sh->phase == NODE_CONNECT) {
			node_link_wait(port);
			worker_call(rc.w, connect_on_worker, &rc);
			node_reached(rc.me, step);
			continue;
		}
		/* the worker does the other phases */
		__atomic_store_n(&rc.db->overflow, 1, __ATOMIC_RELEASE);
	}
}

#define PROBE_TURNS 4000u
#define POOL_MBUFS  16384
#define POOL_CACHE  256
#define POOL_ROOM   (RTE_PKTMBUF_HEADROOM + 8320) /* as the daemon's */
#define LINK_MS     30000

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
	else if (sh->sides == 2)
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
			    node_net_is_socket(sh->o.port) ? NULL : sh->device[side]) < 0)
		node_fail("DPDK does not start with %s: %s", sh->device[side],
			  rte_strerror(rte_errno));
}

/* The name of the port that EAL has made of the device; fails if it has made none. */
static void
name_port(const char *device, char name[64])
{
	uint16_t id = (uint16_t)rte_eth_find_next(0);
	char why[160];

	snprintf(name, 64, "%.*s", (int)strcspn(device, ","), device);
	if (id < RTE_MAX_ETHPORTS && rte_eth_dev_get_name_by_port(id, name) == 0)
		return;
	if (port_pci_why(name, why, sizeof(why)))
		node_fail("%s", why);
	node_fail("DPDK makes no port of %s", device);
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
	if (node_net_is_socket(sh->o.port))
		snprintf(name, sizeof(name), "%s", sh->device[side]);
	else
		name_port(sh->device[side], name);
	node_net_interface(netdev, sh->link, side);
	if (sh->o.port == BENCH_PORT_UDP)
		p.udp_addr = sh->device[side];
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
	if (port->nrxq != 1)
		node_fail("%s has %u receive queues, and its only thread polls one: remove "
			  "qpairs= or queue_count= from --vdev",
			  name, port->nrxq);
}

struct node_shared *
node_enter(int argc, char **argv, unsigned *side)
{
	int fd = argc == 4 ? atoi(argv[2]) : -1;
	struct node_shared *sh;
	struct stat st;

	if (fstat(fd, &st) != 0 || (size_t)st.st_size < sizeof(*sh)) {
		fputs("uroce-bench: mode node is internal to uroce-bench\n", stderr);
		exit(2);
	}
	*side = argv[3][0] != '0';
	sh = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (sh == MAP_FAILED)
		exit(1);
	close(fd);
	signal(SIGPIPE, SIG_IGN); /* virtio_user writes to a peer that may have ended */
	self = &sh->side[*side];
	return sh;
}

struct rte_mempool *
node_port_open(struct node_shared *sh, unsigned side, struct port *port)
{
	struct rte_mempool *pool;

	eal_start(sh, side);
	pool = rte_pktmbuf_pool_create("bench", POOL_MBUFS, POOL_CACHE, 0, POOL_ROOM,
				       SOCKET_ID_ANY);
	if (pool == NULL)
		node_fail("no memory for packets");
	port_start(sh, side, port, pool);
	memcpy(self->mac, port->mac, 6);
	return pool;
}

int
node_main(int argc, char **argv)
{
	static struct port port;
	unsigned side;
	struct node_shared *sh = node_enter(argc, argv, &side);

	node_rc_main(sh, side, &port, node_port_open(sh, side, &port));
}
