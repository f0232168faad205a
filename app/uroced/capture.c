/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A capture of a device, for urocectl: workers copy frames into rings (worker/capture.h), a thread
 * of the capture's own writes them to the file that urocectl gave: neither a worker nor the control
 * thread ever waits for a disk. The file is pcap with nanoseconds.
 */
#include "capture.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <rte_lcore.h>
#include "log.h"
#include "show.h"
#include "worker/capture.h"

#define RING_BYTES     (64u << 20) /* a worker's */
#define FILE_BYTES     (1u << 20)  /* of the file's buffer */
#define NAP_NS         500000      /* of the writer, when there was nothing */
#define NS_PER_S_U64   1000000000ull
#define PCAP_MAGIC_NS  0xa1b23c4du
#define PCAP_ETHERNET  1
#define PCAP_MAX_FRAME CAPTURE_MAX_FRAME

struct pcap_file_hdr {
	uint32_t magic;
	uint16_t major, minor;
	uint32_t zone, sigfigs;
	uint32_t snaplen, link;
};
struct pcap_frame_hdr {
	uint32_t sec, nsec;
	uint32_t len, frame_len;
};

struct device_capture {
	pthread_t writer;
	FILE *file;
	unsigned nrings;
	uint32_t stop;          /* workers have let go: write what is left, and end */
	uint64_t frames, bytes; /* written */
	uint32_t error;         /* errno of the first write that failed: nothing is written then */
	struct capture *ring[UROCE_MAX_WORKERS];
};

static void
write_frame(struct device_capture *dc, const struct capture_frame *f)
{
	struct pcap_frame_hdr hdr = {.sec = (uint32_t)(f->epoch_ns / NS_PER_S_U64),
				     .nsec = (uint32_t)(f->epoch_ns % NS_PER_S_U64),
				     .len = f->len,
				     .frame_len = f->frame_len};

	if (dc->error != 0)
		return;
	if (fwrite(&hdr, sizeof(hdr), 1, dc->file) != 1 ||
	    (f->len != 0 && fwrite(f->data, f->len, 1, dc->file) != 1)) {
		__atomic_store_n(&dc->error, (uint32_t)errno, __ATOMIC_RELAXED);
		return;
	}
	__atomic_store_n(&dc->bytes, dc->bytes + f->len, __ATOMIC_RELAXED);
	__atomic_store_n(&dc->frames, dc->frames + 1, __ATOMIC_RELAXED);
}

/* The oldest of the frames that wait: between workers the order is that of their clock. */
static bool
write_oldest(struct device_capture *dc)
{
	struct capture_frame oldest, f;
	struct capture *from = NULL;

	for (unsigned i = 0; i < dc->nrings; i++) {
		if (!capture_peek(dc->ring[i], &f))
			continue;
		if (from == NULL || f.epoch_ns < oldest.epoch_ns) {
			oldest = f;
			from = dc->ring[i];
		}
	}
	if (from == NULL)
		return false;
	write_frame(dc, &oldest);
	capture_done(from);
	return true;
}

static void *
writer_main(void *arg)
{
	static const struct timespec nap = {.tv_nsec = NAP_NS};
	struct device_capture *dc = arg;
	bool stop;

	do {
		stop = __atomic_load_n(&dc->stop, __ATOMIC_ACQUIRE);
		while (write_oldest(dc))
			;
		if (!stop)
			nanosleep(&nap, NULL);
	} while (!stop);
	return NULL;
}

static void
capture_close(struct device_capture *dc)
{
	for (unsigned i = 0; i < dc->nrings; i++)
		capture_free(dc->ring[i]);
	if (dc->file != NULL)
		fclose(dc->file);
	free(dc);
}

/* The file is ours from here on: a descriptor of its own, so that the message's can be closed. */
static int
file_open(struct device_capture *dc, int fd)
{
	static const struct pcap_file_hdr hdr = {.magic = PCAP_MAGIC_NS,
						 .major = 2,
						 .minor = 4,
						 .snaplen = PCAP_MAX_FRAME,
						 .link = PCAP_ETHERNET};
	struct stat st;
	int own;

	/* Not a pipe: the writer would wait for whoever reads it, and so would who stops it. */
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return EINVAL;
	if (ftruncate(fd, 0) < 0)
		return errno;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return errno;
	dc->file = fdopen(own, "w");
	if (dc->file == NULL) {
		close(own);
		return EINVAL;
	}
	setvbuf(dc->file, NULL, _IOFBF, FILE_BYTES);
	return fwrite(&hdr, sizeof(hdr), 1, dc->file) == 1 && fflush(dc->file) == 0 ? 0 : errno;
}

static int
capture_open(struct device *dev, int fd)
{
	struct device_capture *dc = calloc(1, sizeof(*dc));
	char name[RTE_MAX_THREAD_NAME_LEN];
	int rc = dc == NULL ? ENOMEM : file_open(dc, fd);

	for (unsigned i = 0; rc == 0 && i < dev->d->nworkers; i++) {
		dc->ring[i] = capture_create(RING_BYTES);
		if (dc->ring[i] == NULL)
			rc = ENOMEM;
		else
			dc->nrings++;
	}
	snprintf(name, sizeof(name), "capture-%.7s", dev->name);
	if (rc == 0)
		rc = -rte_ctrl_thread_create(&dc->writer, name, NULL, writer_main, dc);
	if (rc != 0) {
		if (dc != NULL)
			capture_close(dc);
		return rc;
	}
	dev->capture = dc;
	worker_capture(dev->d->workers, dev->port.id, dc->ring);
	return 0;
}

static uint64_t
lost(const struct device_capture *dc)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < dc->nrings; i++)
		sum += capture_lost(dc->ring[i]);
	return sum;
}

/* Ends it, but leaves its figures. */
static void
capture_end(struct device *dev)
{
	struct device_capture *dc = dev->capture;

	worker_capture(dev->d->workers, dev->port.id, NULL);
	__atomic_store_n(&dc->stop, 1, __ATOMIC_RELEASE);
	pthread_join(dc->writer, NULL);
	if (fflush(dc->file) != 0 && dc->error == 0)
		dc->error = (uint32_t)errno;
}

void
capture_stop(struct device *dev)
{
	if (dev->capture == NULL)
		return;
	capture_end(dev);
	capture_close(dev->capture);
	dev->capture = NULL;
}

static void
fill(const struct device *dev, struct uroce_capture_rep *rep)
{
	const struct device_capture *dc = dev->capture;

	if (dc == NULL)
		return;
	rep->running = !dc->stop;
	rep->frames = __atomic_load_n(&dc->frames, __ATOMIC_RELAXED);
	rep->bytes = __atomic_load_n(&dc->bytes, __ATOMIC_RELAXED);
	rep->error = __atomic_load_n(&dc->error, __ATOMIC_RELAXED);
	rep->lost = lost(dc);
}

static int
start(struct session *s, struct device *dev, const struct ctrl_req *req)
{
	int rc;

	if (req->nfds != 1)
		return EINVAL;
	if (dev->capture != NULL)
		return EBUSY;
	rc = capture_open(dev, req->fds[0]);
	if (rc == 0)
		LOG(NOTICE, "%s: capture started (%s, pid %d, uid %u)", dev->name, s->comm,
		    s->peer.pid, s->peer.uid);
	return rc;
}

int
capture(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_capture_req *q = req->body;
	struct device *dev;
	int rc = 0;

	if (memchr(q->device, '\0', sizeof(q->device)) == NULL || q->flags > UROCE_CAPTURE_STOP)
		return EINVAL;
	dev = daemon_device_named(s->d, q->device);
	if (dev == NULL)
		return ENODEV;
	/* A capture shows every client's data. */
	if (!session_may_change(s))
		return EPERM;
	if (q->flags == UROCE_CAPTURE_START)
		rc = start(s, dev, req);
	if (q->flags == UROCE_CAPTURE_STOP && dev->capture == NULL)
		rc = ENOENT;
	if (q->flags == UROCE_CAPTURE_STOP && rc == 0)
		capture_end(dev);
	if (rc == 0)
		fill(dev, rp->body);
	if (q->flags == UROCE_CAPTURE_STOP && rc == 0) {
		capture_close(dev->capture);
		dev->capture = NULL;
	}
	return rc;
}
