/* SPDX-License-Identifier: BSD-3-Clause */
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <rte_lcore.h>
#include "control/device.h"
#include "control/log.h"
#include "dpdk/compat.h"

#define TERMS    8
#define TEXT_MAX 32
#define TEMP     ".new" /* renamed to the final name, so that readers never see half a file */

/* A term of a sum: a counter or a drop reason. 0 ends the list. */
#define C(id) (1 + COUNTER_##id)
#define D(id) (1 + COUNTER_NUM + DROP_##id)

static const char counters_dir[] = "counters", hw_dir[] = "hw_counters";

/*
 * Counters under the names that tools expect: those of InfiniBand's port counters and, in
 * hw_counters, those of NIC drivers. uroced's own counters are there under urocectl's names.
 */
static const struct figure {
	const char *dir, *name;
	uint8_t term[TERMS];
	uint8_t shift; /* port data counts in units of 4 bytes */
} figures[] = {
	{counters_dir, "port_rcv_data", {C(RX_BYTES)}, 2},
	{counters_dir, "port_rcv_packets", {C(RX_FRAMES)}, 0},
	{counters_dir, "port_xmit_data", {C(TX_BYTES)}, 2},
	{counters_dir, "port_xmit_packets", {C(TX_FRAMES)}, 0},
	{counters_dir, "port_xmit_wait", {C(TX_BUSY)}, 0},
	{counters_dir,
	 "port_xmit_discards",
	 {C(TX_PORT_DOWN), C(TX_NO_NEIGHBOUR), C(TX_CONTROL_LOST)},
	 0},
	{counters_dir,
	 "port_rcv_errors",
	 {D(RUNT), D(BAD_IP), D(BAD_UDP), D(BAD_TVER), D(BAD_OPCODE), D(BAD_PAD), D(BAD_LENGTH),
	  D(BAD_ICRC)},
	 0},
	{counters_dir, "port_rcv_constraint_errors", {D(BAD_PKEY)}, 0},
	{counters_dir, "port_xmit_constraint_errors", {0}, 0},
	{counters_dir, "port_rcv_remote_physical_errors", {0}, 0},
	{counters_dir, "port_rcv_switch_relay_errors", {0}, 0},
	{counters_dir, "excessive_buffer_overrun_errors", {D(NO_MBUF)}, 0},
	{counters_dir, "local_link_integrity_errors", {0}, 0},
	{counters_dir, "link_error_recovery", {0}, 0},
	{counters_dir, "symbol_error", {0}, 0},
	{counters_dir, "VL15_dropped", {0}, 0},
	{hw_dir, "duplicate_request", {C(RSP_DUP)}, 0},
	{hw_dir, "out_of_sequence", {C(RSP_OUT_OF_SEQ)}, 0},
	{hw_dir, "out_of_buffer", {C(RSP_RNR_NAK), D(NO_RECV_WQE)}, 0},
	{hw_dir, "packet_seq_err", {C(REQ_SEQ_NAK)}, 0},
	{hw_dir, "implied_nak_seq_err", {C(REQ_READ_GAP)}, 0},
	{hw_dir, "local_ack_timeout_err", {C(REQ_TIMEOUT)}, 0},
	{hw_dir, "rnr_nak_retry_err", {C(REQ_RNR_NAK)}, 0},
	{hw_dir, "rx_icrc_encapsulated", {D(BAD_ICRC)}, 0},
};

#define NFIGURES (sizeof(figures) / sizeof(figures[0]))
#define NOWN     (COUNTER_NUM + DROP_NUM)
#define NFILES   (NFIGURES + NOWN)

struct live_device {
	const struct device *dev;
	int dir; /* descriptor of SOCKET.sysfs/DEVICE, or -1 */
	bool up;
	uint64_t value[NFILES]; /* last written value; UINT64_MAX: none */
	bool failed; /* the failure was logged; a later success allows the next message */
};

static struct live {
	struct daemon *d;
	char path[256];
	int root; /* descriptor of SOCKET.sysfs */
	struct live_device dev[UROCE_MAX_DEVICES];
	uint32_t ndevs;
	struct dpdk_thread thread;
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	bool running, stop; /* stop: under mutex */
} live = {.mutex = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .root = -1};

/* Make or open directory name in dir, which only this user may write to. Descriptor or -errno. */
static int
own_dir(int dir, const char *name)
{
	struct stat st;
	int fd;

	if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* world-readable like sysfs, regardless of the umask */
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 022) == 0 &&
	    fchmod(fd, 0755) == 0)
		return fd;
	close(fd);
	return -EPERM;
}

/* Replace the contents of dir/name by text and a newline. 0 or -errno. */
static int
put(int dir, const char *name, const char *text)
{
	char line[TEXT_MAX];
	int n = snprintf(line, sizeof(line), "%s\n", text), rc = 0, fd;

	fd = openat(dir, TEMP, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	if (write(fd, line, (size_t)n) != n || fchmod(fd, 0644) < 0 ||
	    renameat(dir, TEMP, dir, name) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

/* File i of NFILES: returns its directory and stores its name in name. */
static const char *
file_name(size_t i, char name[64])
{
	size_t own = i - NFIGURES;

	if (i < NFIGURES) {
		snprintf(name, 64, "%s", figures[i].name);
		return figures[i].dir;
	}
	if (own < COUNTER_NUM)
		snprintf(name, 64, "%s", counter_name[own]);
	else
		snprintf(name, 64, "drop_%s", drop_reason_name[own - COUNTER_NUM]);
	return hw_dir;
}

/* Adds up the counts of all workers and the control thread: counters first, then drop reasons. */
static void
sums_of(const struct device *dev, uint64_t sum[NOWN])
{
	const struct counter_block *control = worker_control_obs(dev->d->workers, dev->port.id);

	memset(sum, 0, NOWN * sizeof(sum[0]));
	for (unsigned i = 0; i < COUNTER_NUM; i++)
		sum[i] = counters_read(&control->ctr[i]);
	for (uint32_t w = 0; w < dev->d->nworkers; w++) {
		const struct counter_block *b =
			worker_counters(worker_get(dev->d->workers, w), dev->port.id);

		for (unsigned i = 0; i < COUNTER_NUM; i++)
			sum[i] += counters_read(&b->ctr[i]);
		for (unsigned i = 0; i < DROP_NUM; i++)
			sum[COUNTER_NUM + i] += counters_read(&b->drop[i]);
	}
}

static uint64_t
value_of(size_t i, const uint64_t sum[NOWN])
{
	const struct figure *f;
	uint64_t v = 0;

	if (i >= NFIGURES)
		return sum[i - NFIGURES];
	f = &figures[i];
	for (unsigned t = 0; t < TERMS && f->term[t] != 0; t++)
		v += sum[f->term[t] - 1];
	return v >> f->shift;
}

/* Write the files of one directory whose value has changed. 0, or -errno of the first failure. */
static int
write_figures(struct live_device *l, const char *which, const uint64_t sum[NOWN])
{
	char name[64], text[TEXT_MAX];
	int rc = 0, dir = own_dir(l->dir, which);

	if (dir < 0)
		return dir;
	for (size_t i = 0; i < NFILES && rc == 0; i++) {
		uint64_t v = value_of(i, sum);

		if (v == l->value[i] || file_name(i, name) != which)
			continue;
		snprintf(text, sizeof(text), "%" PRIu64, v);
		rc = put(dir, name, text);
		if (rc == 0)
			l->value[i] = v;
	}
	close(dir);
	return rc;
}

static int
write_state(struct live_device *l, bool up)
{
	int rc = put(l->dir, "phys_state", up ? "5: LinkUp" : "2: Polling");

	if (rc == 0)
		rc = put(l->dir, "state", up ? "4: ACTIVE" : "1: DOWN");
	if (rc == 0)
		l->up = up;
	return rc;
}

static void
refresh(struct live_device *l, bool first)
{
	bool up = __atomic_load_n(&l->dev->port.link_up, __ATOMIC_RELAXED);
	uint64_t sum[NOWN];
	int rc = 0;

	sums_of(l->dev, sum);
	if (first || up != l->up)
		rc = write_state(l, up);
	if (rc == 0)
		rc = write_figures(l, counters_dir, sum);
	if (rc == 0)
		rc = write_figures(l, hw_dir, sum);
	if (rc < 0 && !l->failed)
		LOG(WARNING, "%s/%s: %s: programs that read sysfs see old counters", live.path,
		    l->dev->name, strerror(-rc));
	l->failed = rc < 0;
}

static void
live_main(void *arg)
{
	struct timespec at;

	(void)arg;
	pthread_mutex_lock(&live.mutex);
	while (!live.stop) {
		clock_gettime(CLOCK_MONOTONIC, &at);
		at.tv_sec += LIVE_PERIOD_MS / 1000;
		if (pthread_cond_clockwait(&live.wake, &live.mutex, CLOCK_MONOTONIC, &at) !=
		    ETIMEDOUT)
			continue;
		pthread_mutex_unlock(&live.mutex);
		for (uint32_t i = 0; i < live.ndevs; i++)
			refresh(&live.dev[i], live.dev[i].failed);
		pthread_mutex_lock(&live.mutex);
	}
	pthread_mutex_unlock(&live.mutex);
}

static int
device_open(struct live_device *l, const struct device *dev)
{
	static const char text[] =
		"1000"; /* milliseconds: how old the counters may be, as NIC drivers report it */
	int rc, hw;

	memset(l->value, 0xff, sizeof(l->value));
	l->dev = dev;
	l->failed = false;
	l->dir = own_dir(live.root, dev->name);
	if (l->dir < 0)
		return l->dir;
	hw = own_dir(l->dir, hw_dir);
	rc = hw < 0 ? hw : put(hw, "lifespan", text);
	if (hw >= 0)
		close(hw);
	if (rc == 0)
		refresh(l, true);
	return rc;
}

void
live_start(struct daemon *d)
{
	int rc = 0;

	live.d = d;
	if ((size_t)snprintf(live.path, sizeof(live.path), "%s" UROCE_LIVE_SUFFIX,
			     d->cfg->socket) >= sizeof(live.path))
		rc = -ENAMETOOLONG;
	if (rc == 0)
		rc = live.root = own_dir(AT_FDCWD, live.path);
	for (uint32_t i = 0; i < d->ndevs && rc >= 0; i++) {
		live.ndevs = i + 1;
		rc = device_open(&live.dev[i], d->dev[i]);
	}
	if (rc >= 0)
		rc = dpdk_thread_start(&live.thread, "live", live_main, NULL);
	live.running = rc == 0;
	if (rc != 0)
		LOG(WARNING,
		    "%s: %s: programs that read sysfs see no counters (it must be a directory that "
		    "belongs to the daemon's user, and that no other user may write to)",
		    live.path, strerror(rc < 0 ? -rc : rc));
}

static void
device_close(struct live_device *l)
{
	static const char *const dirs[] = {counters_dir, hw_dir};
	char name[64];

	for (unsigned k = 0; k < 2 && l->dir >= 0; k++) {
		int dir = own_dir(l->dir, dirs[k]);

		for (size_t i = 0; i < NFILES && dir >= 0; i++) {
			if (file_name(i, name) == dirs[k])
				unlinkat(dir, name, 0);
		}
		if (dir >= 0) {
			unlinkat(dir, "lifespan", 0);
			close(dir);
		}
		unlinkat(l->dir, dirs[k], AT_REMOVEDIR);
	}
	if (l->dir < 0)
		return;
	unlinkat(l->dir, "state", 0);
	unlinkat(l->dir, "phys_state", 0);
	close(l->dir);
	unlinkat(live.root, l->dev->name, AT_REMOVEDIR);
}

void
live_stop(struct daemon *d)
{
	(void)d;
	if (live.running) {
		pthread_mutex_lock(&live.mutex);
		live.stop = true;
		pthread_cond_signal(&live.wake);
		pthread_mutex_unlock(&live.mutex);
		pthread_join(live.thread.id, NULL);
		live.running = false;
	}
	for (uint32_t i = 0; i < live.ndevs; i++)
		device_close(&live.dev[i]);
	live.ndevs = 0;
	if (live.root >= 0) {
		close(live.root);
		rmdir(live.path);
	}
	live.root = -1;
}
