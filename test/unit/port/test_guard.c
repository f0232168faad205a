/* SPDX-License-Identifier: BSD-3-Clause */
/* Bursts of a port whose memory is gone: a callback of the burst stands for the driver. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include "port/ethdev.h"
#include "port/port.h"
#include "../../kit/unit.h"
#include "../../kit/unit_eal.h"

static struct rte_mempool *pool;
static struct port port; /* what it sends, it receives */
static volatile uint8_t *hole;
static bool fault;

static uint16_t
touch_rx(uint16_t id, uint16_t queue, struct rte_mbuf *m[], uint16_t n, uint16_t max, void *arg)
{
	if (fault)
		*hole = 1;
	return n;
}

static uint16_t
touch_tx(uint16_t id, uint16_t queue, struct rte_mbuf *m[], uint16_t n, void *arg)
{
	if (fault)
		*hole = 1;
	return n;
}

static void
make_frames(struct rte_mbuf **m, unsigned n)
{
	assert_int_equal(rte_pktmbuf_alloc_bulk(pool, m, n), 0);
	for (unsigned i = 0; i < n; i++)
		assert_non_null(rte_pktmbuf_append(m[i], 60));
}

UNIT_TEST(bursts_work_when_nothing_is_wrong)
{
	struct rte_mbuf *m[8];

	assert_int_equal(port_guard_install(), 0);
	make_frames(m, 8);
	assert_int_equal(port_tx_burst_guarded(port.id, 0, m, 8), 8);
	assert_int_equal(port_rx_burst_guarded(port.id, 0, m, 8), 8);
	rte_pktmbuf_free_bulk(m, 8);
	assert_int_equal(port_rx_burst_guarded(port.id, 0, m, 8), 0);
}

UNIT_TEST(fault_ends_its_burst_only)
{
	struct rte_mbuf *m[8];

	assert_int_equal(port_guard_install(), 0);
	/* again and again: the handler must not stay blocked */
	for (int i = 0; i < 3; i++) {
		make_frames(m, 8);
		fault = true;
		/* said to be sent, and lost */
		assert_int_equal(port_tx_burst_guarded(port.id, 0, m, 8), 8);
		rte_pktmbuf_free_bulk(m, 8);
		fault = false;
		assert_int_equal(port_rx_burst_guarded(port.id, 0, m, 8), 0);

		make_frames(m, 5);
		assert_int_equal(port_tx_burst_guarded(port.id, 0, m, 5), 5);
		fault = true;
		/* those that were whole by then */
		assert_int_equal(port_rx_burst_guarded(port.id, 0, m, 8), 5);
		rte_pktmbuf_free_bulk(m, 5);
		assert_int_equal(port_rx_burst_guarded(port.id, 0, m, 8), 0);
		fault = false;
	}
	assert_int_equal(rte_mempool_avail_count(pool), 1023);
}

static volatile int heard;

static void
hear(int sig)
{
	heard++;
	/* let the access that comes again succeed */
	mprotect((void *)(uintptr_t)hole, 4096, PROT_READ | PROT_WRITE);
}

UNIT_TEST(other_faults_reach_the_previous_handler)
{
	pid_t pid;
	int status;

	signal(SIGSEGV, hear);
	assert_int_equal(port_guard_install(), 0);
	assert_int_equal(port_guard_install(), 0);
	*hole = 1;
	assert_int_equal(heard, 1);
	mprotect((void *)(uintptr_t)hole, 4096, PROT_NONE);

	pid = fork();
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		port_guard_install();
		*hole = 1;
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	pid = fork();
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		port_guard_install();
		raise(SIGSEGV);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static int
start(void **state)
{
	struct port_params params = {.name = "net_ring0", .nqueues = 1, .link_mtu = 1500};
	static const char *const vdev[] = {"net_ring0"};

	if (unit_eal_with(NULL, "critical", vdev, 1) < 0)
		return -1;
	pool = rte_pktmbuf_pool_create("pool", 1023, 0, 0, 2048 + RTE_PKTMBUF_HEADROOM,
				       SOCKET_ID_ANY);
	hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pool == NULL || hole == MAP_FAILED || port_open(&port, &params, pool) != 0)
		return -1;
	return rte_eth_add_rx_callback(port.id, 0, touch_rx, NULL) == NULL ||
	       rte_eth_add_tx_callback(port.id, 0, touch_tx, NULL) == NULL;
}

static int
end_group(void **state)
{
	port_close(&port);
	return rte_eal_cleanup();
}

UNIT_PROGRAM(start, end_group);
