/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports of drivers that need no privilege: net_ring and net_memif. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_ether.h>
#include <rte_mbuf.h>
#include "port/burst.h"
#include "port/port.h"
#include "../../kit/hang.h"
#include "../../kit/unit.h"
#include "../../kit/unit_eal.h"

static struct rte_mempool *pool, *small_pool;
static char prefix[64]; /* names that no other process uses */

/* printf format; then two parts of the socket's name */
#define MEMIF_ARGS(name, role) name ",role=" role ",socket-abstract=yes,socket=@%s%s,bsize=4608"

/* Of a process: EAL with so many vdevs, and the pools. */
static int
init_eal(const char *const *vdevs, unsigned n)
{
	if (unit_eal_with(NULL, "critical", vdevs, n) < 0)
		return -1;
	pool = rte_pktmbuf_pool_create("pool", 4095, 0, 0, 4608 + RTE_PKTMBUF_HEADROOM,
				       SOCKET_ID_ANY);
	small_pool = rte_pktmbuf_pool_create("small", 255, 0, 0, 2048 + RTE_PKTMBUF_HEADROOM,
					     SOCKET_ID_ANY);
	return pool != NULL && small_pool != NULL ? 0 : -1;
}

static struct rte_mbuf *
make_frame(uint32_t len, uint8_t fill)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	uint8_t *bytes;

	assert_non_null(m);
	bytes = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)len);
	assert_non_null(bytes);
	memset(bytes, fill, len);
	return m;
}

/* Waits for one frame and checks its bytes. */
static void
expect_frame(const struct port *p, uint16_t queue, uint32_t len, uint8_t fill)
{
	struct rte_mbuf *m;
	const uint8_t *bytes;

	if (!COMES_TRUE(port_rx_burst(p->id, queue, &m, 1) == 1)) {
		fail_msg("nothing came on %s", p->name);
		return;
	}
	bytes = rte_pktmbuf_mtod(m, const uint8_t *);
	assert_int_equal(m->pkt_len, len);
	assert_int_equal(m->nb_segs, 1);
	assert_int_equal(bytes[0], fill);
	assert_int_equal(bytes[len - 1], fill);
	rte_pktmbuf_free(m);
}

UNIT_TEST(ring_pair_carries_frames_both_ways_on_every_queue)
{
	struct port_params params = {.nqueues = 2, .link_mtu = 4200};
	struct port a, b;

	assert_int_equal(port_ring_pair("pa", "pb", 2, 64), 0);
	params.name = "net_ring_pa";
	assert_int_equal(port_open(&a, &params, pool), 0);
	params.name = "net_ring_pb";
	assert_int_equal(port_open(&b, &params, pool), 0);
	assert_string_equal(a.driver, "net_ring");
	assert_int_equal(a.nrxq, 2);
	assert_int_equal(a.ntxq, 2);
	assert_int_equal(a.link_mtu, 4200);
	assert_true(a.link_up);
	assert_true(rte_is_valid_assigned_ether_addr((struct rte_ether_addr *)a.mac));
	assert_memory_not_equal(a.mac, b.mac, 6);
	for (uint16_t q = 0; q < 2; q++) {
		struct rte_mbuf *m = make_frame(4218, (uint8_t)(7 + q));

		assert_int_equal(port_tx_burst(a.id, q, &m, 1), 1);
		expect_frame(&b, q, 4218, (uint8_t)(7 + q));
		m = make_frame(60, (uint8_t)(9 + q));
		assert_int_equal(port_tx_burst(b.id, q, &m, 1), 1);
		expect_frame(&a, q, 60, (uint8_t)(9 + q));
	}
	port_close(&a);
	port_close(&b);
}

UNIT_TEST(memif_links_up_and_carries_a_full_frame)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 9};
	struct port_params params = {.nqueues = 1, .name = "net_memif0", .mac = mac};
	struct port a, b;
	struct rte_mbuf *m;

	assert_int_equal(port_open(&a, &params, pool), 0);
	assert_memory_equal(a.mac, mac, 6);
	/* what its buffers (bsize) hold */
	assert_int_equal(a.link_mtu, 4608 - 18);
	params.name = "net_memif1";
	params.mac = NULL;
	assert_int_equal(port_open(&b, &params, pool), 0);
	assert_true(COMES_TRUE(({
		port_poll_link(&a);
		port_poll_link(&b);
		a.link_up &&b.link_up;
	})));
	/* the server sends into buffers that the client hands out when it polls */
	assert_int_equal(port_rx_burst(b.id, 0, &m, 1), 0);
	m = make_frame(a.link_mtu + 14, 0x5a);
	assert_int_equal(port_tx_burst(a.id, 0, &m, 1), 1);
	expect_frame(&b, 0, a.link_mtu + 14, 0x5a);
	port_close(&b);
	port_close(&a);
}

/* What ports say while fn runs, from the level of uroced's log on. */
static void
logged(void (*fn)(void), char *text, size_t room)
{
	FILE *log = tmpfile();
	size_t n;

	assert_non_null(log);
	rte_log_set_level_pattern("uroce.port", RTE_LOG_NOTICE);
	rte_log_set_global_level(RTE_LOG_NOTICE);
	assert_int_equal(rte_openlog_stream(log), 0);
	fn();
	assert_int_equal(rte_openlog_stream(NULL), 0);
	rte_log_set_global_level(RTE_LOG_CRIT);
	rewind(log);
	n = fread(text, 1, room - 1, log);
	text[n] = '\0';
	fclose(log);
}

static unsigned queues;
static const char *memif_name; /* a port that is closed does not exist any more */

static void
open_and_close(void)
{
	struct port_params params = {.nqueues = queues, .name = memif_name};
	struct port p;

	assert_int_equal(port_open(&p, &params, pool), 0);
	port_close(&p);
}

/* The driver does not tell how many queues the peer has; with another number, connections hang. */
UNIT_TEST(a_memif_of_several_queues_says_what_its_peer_needs)
{
	char text[1024];

	queues = 2;
	memif_name = "net_memif3";
	logged(open_and_close, text, sizeof(text));
	assert_non_null(strstr(text, "net_memif joins its 2 queues with the peer's one to one"));
}

UNIT_TEST(a_memif_of_one_queue_says_nothing_of_queues)
{
	char text[1024];

	queues = 1;
	memif_name = "net_memif4";
	logged(open_and_close, text, sizeof(text));
	assert_null(strstr(text, "one to one"));
}

/* Another process, that sends back what it gets on a memif server's port. */
static pid_t
start_server(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/proc/self/exe", "test_port", "server", prefix, NULL);
		_exit(127);
	}
	return pid;
}

static int
be_server(const char *name)
{
	struct port_params params = {.nqueues = 1, .name = "net_memif0"};
	char vdev[160];
	struct rte_mbuf *m;
	struct port p;

	snprintf(vdev, sizeof(vdev), MEMIF_ARGS("net_memif0", "server"), name, "b");
	if (init_eal(&(const char *){vdev}, 1) != 0 || port_open(&p, &params, pool) != 0)
		return 1;
	for (;;) { /* until its parent kills it, or ends */
		while (port_rx_burst(p.id, 0, &m, 1) == 1) {
			if (port_tx_burst(p.id, 0, &m, 1) != 1)
				rte_pktmbuf_free(m);
		}
		usleep(1000);
	}
}

/* As the daemon does it: check the link periodically, and restart the port while it is down. */
static void
restart_until_up(struct port *p)
{
	for (int i = 0; i < HANGS_S * 10 && !p->link_up; i++) {
		if (port_wants_restart(p))
			(void)port_restart(p);
		usleep(100000);
		port_poll_link(p);
	}
	assert_true(p->link_up);
}

/* A client starts before its server, survives its death, and finds the next one. */
UNIT_TEST(memif_client_waits_for_its_server)
{
	struct port_params params = {.nqueues = 1, .name = "net_memif2"};
	struct port p;

	assert_int_equal(port_open(&p, &params, pool), 0);
	assert_false(p.started);
	assert_false(p.link_up);
	assert_true(port_wants_restart(&p));
	assert_int_equal(port_restart(&p), -ENOTCONN);
	assert_false(port_poll_link(&p));
	for (int life = 0; life < 3; life++) {
		pid_t server = start_server();
		struct rte_mbuf *m;

		restart_until_up(&p);
		assert_false(port_wants_restart(&p));
		m = make_frame(100, (uint8_t)(0x5a + life));
		/* hands out buffers to be sent into */
		assert_int_equal(port_rx_burst(p.id, 0, &(struct rte_mbuf *){NULL}, 1), 0);
		assert_int_equal(port_tx_burst(p.id, 0, &m, 1), 1);
		expect_frame(&p, 0, 100, (uint8_t)(0x5a + life));
		kill(server, SIGKILL);
		waitpid(server, NULL, 0);
		assert_true(COMES_TRUE(({
			port_poll_link(&p);
			!p.link_up;
		})));
		assert_true(port_wants_restart(&p));
	}
	port_close(&p);
}

UNIT_TEST(impossible_configurations_are_refused)
{
	static const uint8_t group[6] = {1, 0, 0, 0, 0, 9};
	struct port_params params = {.nqueues = 1, .name = "net_nothing0"};
	struct port p;

	assert_int_equal(port_open(&p, &params, pool), -ENODEV);
	assert_int_equal(port_ring_pair("pc", "pd", 1, 64), 0);
	assert_int_equal(port_ring_pair("pe", "pf", 0, 64), -EINVAL);
	assert_int_equal(port_ring_pair("pe", "pf", 1, 63), -EINVAL);
	params.name = "net_ring_pc";
	params.mac = group;
	assert_int_equal(port_open(&p, &params, pool), -EINVAL);
	params.mac = NULL;
	params.link_mtu = 100;
	assert_int_equal(port_open(&p, &params, pool), -EINVAL);
	/* the smallest path MTU, 256, with its headers */
	params.link_mtu = 339;
	assert_int_equal(port_open(&p, &params, pool), -EINVAL);
	params.link_mtu = 340;
	assert_int_equal(port_open(&p, &params, pool), 0);
	assert_int_equal(p.link_mtu, 340);
	port_close(&p);
	assert_int_equal(port_ring_pair("pg", "ph", 1, 64), 0);
	params.name = "net_ring_pg";
	/* more than buffers hold is cut down to what they do */
	params.link_mtu = 4200;
	assert_int_equal(port_open(&p, &params, small_pool), 0);
	assert_int_equal(p.link_mtu, 2048 - 18);
	port_close(&p);
}

/* EVT-14: the driver's device is removed from the machine while the port is open. */
UNIT_TEST(a_removed_device_is_given_back)
{
	struct port_params params = {.name = "net_ring_pi", .nqueues = 1};
	char list[512];
	struct port p;

	assert_int_equal(port_ring_pair("pi", "pj", 1, 64), 0);
	assert_int_equal(port_open(&p, &params, pool), 0);
	assert_false(port_must_leave(&p));
	rte_dev_event_callback_process("net_ring_pi", RTE_DEV_EVENT_ADD);
	rte_dev_event_callback_process("net_ring_pj", RTE_DEV_EVENT_REMOVE);
	assert_false(port_must_leave(&p));
	rte_dev_event_callback_process("net_ring_pi", RTE_DEV_EVENT_REMOVE);
	assert_true(port_must_leave(&p));
	port_leave(&p);
	assert_false(port_must_leave(&p));
	assert_false(port_poll_link(&p));
	assert_false(p.link_up);
	assert_false(port_wants_restart(&p));
	assert_true(port_list(list, sizeof(list)) > 0);
	assert_null(strstr(list, "net_ring_pi"));
	port_close(&p);
}

UNIT_TEST(a_missing_pci_port_has_a_reason)
{
	char why[512];

	assert_false(port_pci_why("net_ring_pz", why, sizeof(why)));
	assert_false(port_pci_why("0000:03:00/0", why, sizeof(why)));
	assert_false(port_pci_why("0000:03:00.00", why, sizeof(why)));
	assert_true(port_pci_why("ffff:ff:1f.7", why, sizeof(why)));
	assert_non_null(strstr(why, "no PCI device ffff:ff:1f.7"));
}

static int
start_eal(void **state)
{
	char memif[5][160];
	const char *vdevs[5] = {memif[0], memif[1], memif[2], memif[3], memif[4]};

	snprintf(prefix, sizeof(prefix), "test_port_%d", getpid());
	snprintf(memif[0], sizeof(memif[0]), MEMIF_ARGS("net_memif0", "server"), prefix, "a");
	snprintf(memif[1], sizeof(memif[1]), MEMIF_ARGS("net_memif1", "client"), prefix, "a");
	snprintf(memif[2], sizeof(memif[2]), MEMIF_ARGS("net_memif2", "client"), prefix, "b");
	snprintf(memif[3], sizeof(memif[3]), MEMIF_ARGS("net_memif3", "client"), prefix, "c");
	snprintf(memif[4], sizeof(memif[4]), MEMIF_ARGS("net_memif4", "client"), prefix, "d");
	return init_eal(vdevs, 5);
}

/*
 * No rte_eal_cleanup(): it takes away the memory under the listening socket of a memif, which stays
 * registered with EAL's interrupt thread (port_close). Of 200 runs on a loaded machine 4 ended so.
 */
static int
stop_eal(void **state)
{
	rmdir(rte_eal_get_runtime_dir()); /* EAL leaves it, empty */
	return 0;
}

UNIT_PROGRAM(start_eal, stop_eal);

int
main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "server") == 0)
		return be_server(argv[2]);
	return unit_run();
}
