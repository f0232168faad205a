/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A neighbour that measures its calls, and clients that disturb it, for attacks.py:
 *
 *   attacks DEVICE neighbour SECONDS
 *
 * writes 64 bytes to itself, one WRITE at a time, and allocates and deallocates a PD each
 * millisecond. At the end it prints the number, median, 99th percentile and maximum (us) of WRITEs
 * and of calls, in JSON.
 *
 *   attacks DEVICE MODE [COMMAND..]
 *
 * prints "attacks" when it begins, and goes on until it is killed. The table at the end has the
 * modes: busy is honest, all others are attacks.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "kit/program.h"
#include "kit/verbside.h"
#include "uroce_abi/ring.h"

#define PAGE        4096u
#define GIB         (1ull << 30)
#define HUGE_BYTES  (4 * GIB)
#define REGIONS     20000u
#define SHOWN       22000u
#define WINDOWS     20000u
#define CONTEXTS    768u
#define QPS         2000u /* whose doorbells are lost */
#define WRITERS     256u
#define BUSY_BYTES  (16u << 10)
#define DEEP        16384u
#define GROUPS      64u   /* of a QP: the daemon's limit */
#define MEMBERS     4096u /* of a user: the daemon's limit */
#define LOCKED      64u   /* QPs whose memory is late */
#define SAMPLES_MAX (4u << 20)

static const char *device;
static struct side side;

/* --- the neighbour --------------------------------------------------------------------------- */

struct samples {
	uint64_t end_ns;
	uint32_t n;
	uint32_t ns[SAMPLES_MAX];
};

static struct samples writes, calls;

static void
sample(struct samples *s, uint64_t since_ns)
{
	if (s->n < SAMPLES_MAX)
		s->ns[s->n++] = (uint32_t)(now_ns() - since_ns);
}

static int
compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void
samples_print(const char *name, struct samples *s)
{
	if (s->n == 0)
		die("%s: no sample", name);
	qsort(s->ns, s->n, sizeof(s->ns[0]), compare);
	printf("\"%s\": [%u, %.1f, %.1f, %.1f]", name, s->n, s->ns[s->n / 2] / 1e3,
	       s->ns[(uint64_t)s->n * 99 / 100] / 1e3, s->ns[s->n - 1] / 1e3);
}

static void *
call_on(void *arg)
{
	struct timespec pause = {.tv_nsec = 1000000};

	while (now_ns() < calls.end_ns) {
		uint64_t since = now_ns();
		struct ibv_pd *pd = ibv_alloc_pd(side.ctx);

		if (pd == NULL)
			die("no PD: %m");
		sample(&calls, since);
		since = now_ns();
		if (ibv_dealloc_pd(pd) != 0)
			die("the PD remains: %m");
		sample(&calls, since);
		nanosleep(&pause, NULL);
	}
	return arg;
}

static struct ibv_qp *
own_qp(struct ibv_cq *cq)
{
	struct ibv_qp *qp = side_qp(side.pd, IBV_QPT_RC, cq);

	if (qp == NULL || side_raise(&side, qp, qp->qp_num) != 0)
		die("no queue pair: %m");
	return qp;
}

/* Posts a WRITE of so many bytes of the device's buffer to itself. */
static int
post_write(struct ibv_qp *qp, uint32_t bytes)
{
	struct ibv_sge sge = {(uintptr_t)side.buf, bytes, side.mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = (uintptr_t)qp,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_RDMA_WRITE,
				       .send_flags = IBV_SEND_SIGNALED};

	wr.wr.rdma.remote_addr = sge.addr;
	wr.wr.rdma.rkey = side.mr->rkey;
	return ibv_post_send(qp, &wr, &bad);
}

static void
neighbour(char **argv)
{
	uint64_t seconds = argv[0] != NULL ? strtoull(argv[0], NULL, 10) : 0;
	struct ibv_qp *qp;
	pthread_t thread;

	if (seconds == 0)
		die("neighbour: for how many seconds?");
	side_open(&side, device);
	qp = own_qp(side.cq);
	writes.end_ns = calls.end_ns = now_ns() + seconds * 1000000000u;
	if (pthread_create(&thread, NULL, call_on, NULL) != 0)
		die("no thread");
	while (now_ns() < writes.end_ns) {
		struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
		uint64_t since = now_ns();

		if (post_write(qp, 64) != 0)
			die("no WRITE: %m");
		while (ibv_poll_cq(side.cq, 1, &wc) == 0)
			;
		if (wc.status != IBV_WC_SUCCESS)
			die("a WRITE failed: %s", ibv_wc_status_str(wc.status));
		sample(&writes, since);
	}
	pthread_join(thread, NULL);
	putchar('{');
	samples_print("data", &writes);
	printf(", ");
	samples_print("control", &calls);
	puts("}");
}

/* --- attacks --------------------------------------------------------------------------------- */

static void
begin(void)
{
	puts("attacks");
	fflush(stdout);
}

/* Runs round in one child after the other: each begins with no context, and all that it made ends
 * with it.
 */
static void
children(void (*round)(void))
{
	for (unsigned i = 0;; i++) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			side_open(&side, device);
			round();
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			die("a child failed");
		if (i == 0)
			begin();
	}
}

/* Maps bytes of a new memfd that has so many. */
static uint8_t *
memfd_map(uint64_t bytes, uint64_t mapped)
{
	int fd = memfd_create("attacks", MFD_CLOEXEC);
	uint8_t *at = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 &&
	    posix_fallocate(fd, 0, (off_t)bytes) == 0)
		at = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		die("no memfd of %llu bytes: %m", (unsigned long long)bytes);
	close(fd);
	return at;
}

static struct ibv_mr *
region(uint8_t *at)
{
	struct ibv_mr *mr = ibv_reg_mr(side.pd, at, PAGE, SIDE_ACCESS);

	if (mr == NULL)
		die("no region: %m");
	return mr;
}

static void
regions_make(unsigned n)
{
	uint8_t *at = memfd_map(PAGE, PAGE);

	for (unsigned i = 0; i < n; i++)
		region(at);
}

static void
regions_round(void)
{
	regions_make(REGIONS);
}

static void
regions(char **argv)
{
	children(regions_round);
}

/* Registers and deregisters a page of a huge memfd. */
static void
pages(char **argv)
{
	uint8_t *at = memfd_map(HUGE_BYTES, HUGE_BYTES);

	side_open(&side, device);
	begin();
	for (uint64_t off = 0;; off = (off + PAGE) % HUGE_BYTES) {
		if (ibv_dereg_mr(region(at + off)) != 0)
			die("a region remains: %m");
	}
}

/* The child's mapping ends before its connection does, so the daemon frees the memory. */
static void
last_round(void)
{
	region(memfd_map(HUGE_BYTES, PAGE));
}

static void
last(char **argv)
{
	children(last_round);
}

static void
windows_make(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (ibv_alloc_mw(side.pd, IBV_MW_TYPE_2) == NULL)
			die("no window: %m");
	}
}

static void
windows_round(void)
{
	windows_make(WINDOWS / 20);
}

/* Contexts with windows end, while many other windows exist. */
static void
windows(char **argv)
{
	side_open(&side, device);
	windows_make(WINDOWS);
	children(windows_round);
}

/* Keeps the queues of n QPs full of WRITEs. */
static void
write_on(unsigned n, uint32_t bytes)
{
	struct ibv_wc wc[64];
	struct ibv_cq *cq;

	side_open(&side, device);
	cq = ibv_create_cq(side.ctx, (int)(n * SIDE_DEPTH), NULL, NULL, 0);
	if (cq == NULL)
		die("no CQ: %m");
	for (unsigned i = 0; i < n; i++) {
		struct ibv_qp *qp = own_qp(cq);

		while (post_write(qp, bytes) == 0)
			;
	}
	begin();
	for (;;) {
		int got = ibv_poll_cq(cq, 64, wc);

		for (int i = 0; i < got; i++) {
			if (wc[i].status != IBV_WC_SUCCESS)
				die("a WRITE failed: %s", ibv_wc_status_str(wc[i].status));
			post_write((void *)(uintptr_t)wc[i].wr_id, bytes);
		}
	}
}

static void *
compute(void *arg)
{
	for (volatile unsigned i = 0;; i++)
		;
	return arg;
}

/* As an honest program: transfers and computes. Most attacks take a core, too. */
static void
busy(char **argv)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, compute, NULL) != 0)
		die("no thread");
	write_on(1, BUSY_BYTES);
}

static void
writers(char **argv)
{
	write_on(WRITERS, SIDE_BYTES);
}

static void
contexts(char **argv)
{
	for (unsigned i = 0; i < CONTEXTS; i++) {
		if (verbs_open(device) == NULL)
			die("context %u: %m", i);
	}
	begin();
	for (;;)
		pause();
}

/* The first page of the provider's mapping of the doorbells has the first worker's ring. */
static struct uroce_db_ring *
doorbells(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long from, to, found = 0;
	char line[512];

	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
		if (strstr(line, " rw-s ") != NULL && strstr(line, "uroce-segment") != NULL &&
		    sscanf(line, "%lx-%lx", &from, &to) == 2 && to - from < (1 << 20))
			found = from;
	}
	if (maps == NULL || found == 0)
		die("the doorbells were not found");
	fclose(maps);
	return (void *)found;
}

static void
overflow(char **argv)
{
	struct uroce_db_ring *ring;

	side_open(&side, device);
	ring = doorbells();
	for (unsigned i = 0; i < QPS; i++)
		own_qp(side.cq);
	begin();
	for (;;) {
		__atomic_store_n(&ring->overflow, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&ring->prod, UROCE_DB_ENTRIES / 2, __ATOMIC_RELEASE);
	}
}

/* Fills a receive queue and moves the QP to the error state: all its requests are flushed. */
static void
flush_once(struct ibv_qp *qp)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = 1};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	unsigned flushed = 0, posted = 0;
	struct ibv_wc wc[64];

	if (side_init_state(qp) != 0)
		die("INIT: %m");
	while (ibv_post_recv(qp, &wr, &bad) == 0)
		posted++;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE) != 0)
		die("ERR: %m");
	while (flushed < posted) {
		int got = ibv_poll_cq(qp->recv_cq, 64, wc);

		flushed += got > 0 ? (unsigned)got : 0;
	}
	attr.qp_state = IBV_QPS_RESET;
	if (posted < DEEP || ibv_modify_qp(qp, &attr, IBV_QP_STATE) != 0)
		die("RESET after %u requests: %m", posted);
}

static void
flush(char **argv)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 1, .max_recv_wr = DEEP}};
	struct ibv_qp *qp;

	side_open(&side, device);
	attr.send_cq = attr.recv_cq = ibv_create_cq(side.ctx, DEEP + 1, NULL, NULL, 0);
	qp = attr.recv_cq != NULL ? ibv_create_qp(side.pd, &attr) : NULL;
	if (qp == NULL)
		die("no deep queue: %m");
	flush_once(qp);
	begin();
	for (;;)
		flush_once(qp);
}

/* Runs the command, which shows the regions, again and again. */
static void
shown(char **argv)
{
	side_open(&side, device);
	regions_make(SHOWN);
	for (unsigned i = 0;; i++) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (freopen("/dev/null", "w", stdout) != NULL)
				execv(argv[0], argv);
			_exit(127);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			die("%s failed", argv[0]);
		if (i == 0)
			begin();
	}
}

static void
members(char **argv)
{
	union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 239, [13] = 1}};
	struct ibv_qp *qp = NULL;

	side_open(&side, device);
	for (unsigned i = 0; i < MEMBERS; i++) {
		if (i % GROUPS == 0)
			qp = side_qp(side.pd, IBV_QPT_UD, side.cq);
		gid.raw[15] = (uint8_t)(i % GROUPS);
		if (qp == NULL || ibv_attach_mcast(qp, &gid, 0) != 0)
			die("member %u: %m", i);
	}
	begin();
	for (;;) {
		if (ibv_detach_mcast(qp, &gid, 0) != 0 || ibv_attach_mcast(qp, &gid, 0) != 0)
			die("the last member: %m");
	}
}

/* Keeps the lock of this process's mappings, which every copy needs, most of the time. */
static void *
lock_on(void *pages)
{
	for (;;) {
		mprotect(pages, GIB, PROT_NONE);
		mprotect(pages, GIB, PROT_READ);
	}
	return NULL;
}

static void
locked(char **argv)
{
	volatile uint8_t *pages =
		mmap(NULL, GIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
	struct ibv_cq *cq;
	pthread_t thread;

	setenv("UROCE_MR_MODE", "copy", 1);
	side_open(&side, device);
	cq = ibv_create_cq(side.ctx, LOCKED, NULL, NULL, 0);
	if (pages == MAP_FAILED || cq == NULL || madvise((void *)pages, GIB, MADV_NOHUGEPAGE) != 0)
		die("no memory: %m");
	for (size_t i = 0; i < GIB; i += PAGE) /* maps the page of zeroes */
		(void)pages[i];
	if (pthread_create(&thread, NULL, lock_on, (void *)pages) != 0)
		die("no thread");
	for (unsigned i = 0; i < LOCKED; i++) {
		if (post_write(own_qp(cq), 64) != 0)
			die("no WRITE: %m");
	}
	begin();
	for (;;) {
		if (ibv_poll_cq(cq, 1, &wc) == 0)
			usleep(100);
		else if (wc.status != IBV_WC_SUCCESS ||
			 post_write((struct ibv_qp *)(uintptr_t)wc.wr_id, 64) != 0)
			die("a WRITE failed: %s", ibv_wc_status_str(wc.status));
	}
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(char **argv);
	} modes[] = {
		{"neighbour", neighbour}, {"busy", busy},         {"regions", regions},
		{"pages", pages},         {"last", last},         {"windows", windows},
		{"writers", writers},     {"contexts", contexts}, {"overflow", overflow},
		{"flush", flush},         {"shown", shown},       {"members", members},
		{"locked", locked},
	};

	for (unsigned i = 0; argc >= 3 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[2], modes[i].name) != 0)
			continue;
		device = argv[1];
		modes[i].run(argv + 3);
		return 0;
	}
	die("usage: attacks DEVICE MODE [ARGUMENT..]");
}
