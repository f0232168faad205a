/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Captures a device's frames for urocectl. Workers copy frames into rings (worker/capture.h), and a
 * separate thread writes them to the file that urocectl opened. No worker ever waits for the disk;
 * the control thread waits only when a capture ends.
 */
#include "parts.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <rte_common.h>
#include <rte_lcore.h>
#include "control/log.h"
#include "control/log_event.h"
#include "dpdk/compat.h"
#include "drivers/impair/impair.h"
#include "show.h"
#include "wire/parse.h"
#include "worker/capture.h"

/* --- the file: pcapng blocks, collected in a buffer and written together. If writing fails, the
 * file is cut behind its last whole block. */

struct capture_file {
	int fd; /* -1: none */
	uint8_t *buffer;
	size_t used;            /* bytes of whole blocks in the buffer */
	uint64_t frames, bytes; /* in the buffer and the file */
	int error;              /* errno of the first failed write; nothing is written after it */
};

#define BUFFER_BYTES (1u << 20)
#define COMMENT_ROOM 512u /* more than any comment */
#define NS_PER_S_U64 1000000000ull

/*
 * pcapng (draft-ietf-opsawg-pcapng): one section with one interface, whose times are in
 * nanoseconds, then a packet block for each frame with its direction and a comment, then the number
 * of lost frames. rte_pcapng of DPDK 22.11 writes no comments.
 */
#define NG_SECTION     0x0a0d0d0au
#define NG_INTERFACE   1u
#define NG_STATISTICS  5u
#define NG_PACKET      6u
#define NG_BYTE_ORDER  0x1a2b3c4du
#define NG_ETHERNET    1
#define NG_OPT_COMMENT 1
#define NG_OPT_FLAGS   2
#define NG_OPT_DROPS   5
#define NG_OPT_TSRESOL 9
#define NG_NANOSECONDS 9
#define NG_INBOUND     1u
#define NG_OUTBOUND    2u

struct ng_section {
	uint32_t type, len, byte_order;
	uint16_t major, minor;
	uint32_t section_len[2], len_again;
};
struct ng_interface {
	uint32_t type, len;
	uint16_t link, rsvd;
	uint32_t snaplen;
	uint16_t opt, opt_len;
	uint32_t tsresol;
	uint32_t opt_end, len_again;
};
struct ng_option { /* followed by its value, padded to 4 */
	uint16_t opt, opt_len;
};
struct ng_packet { /* followed by the frame, padded to 4, a comment, and struct ng_packet_end */
	uint32_t type, len, interface;
	uint32_t time_high, time_low;
	uint32_t kept, frame_len;
};
struct ng_packet_end {
	uint16_t opt, opt_len;
	uint32_t flags;
	uint32_t opt_end, len_again;
};
struct ng_statistics {
	uint32_t type, len, interface;
	uint32_t time_high, time_low;
	uint16_t opt, opt_len;
	uint32_t drops[2];
	uint32_t opt_end, len_again;
};
_Static_assert(sizeof(struct ng_section) == 28 && sizeof(struct ng_interface) == 32 &&
		       sizeof(struct ng_packet) == 28 && sizeof(struct ng_packet_end) == 16 &&
		       sizeof(struct ng_statistics) == 40,
	       "blocks of pcapng have no holes");

_Static_assert(sizeof(struct ng_packet) + CAPTURE_MAX_FRAME + COMMENT_ROOM < BUFFER_BYTES,
	       "the buffer holds every block");

/* Counts the whole blocks in the first `written` bytes of the buffer; returns their length. */
static size_t
whole_blocks(struct capture_file *f, size_t written)
{
	struct ng_packet p;
	size_t at = 0;

	f->frames = f->bytes = 0;
	while (written - at >= sizeof(p)) {
		memcpy(&p, f->buffer + at, sizeof(p));
		if (p.len > written - at)
			break;
		at += p.len;
		f->frames += p.type == NG_PACKET;
		f->bytes += p.type == NG_PACKET ? p.kept : 0;
	}
	return at;
}

/* Writes the buffer. Returns false after a failure, with the file cut behind a whole block. */
static bool
flush(struct capture_file *f)
{
	uint64_t frames = f->frames, bytes = f->bytes, all_frames, all_bytes;
	off_t start = lseek(f->fd, 0, SEEK_CUR);
	size_t done = 0;
	ssize_t n = 0;

	while (done < f->used && f->error == 0) {
		n = write(f->fd, f->buffer + done, f->used - done);
		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && errno != EINTR)
			f->error = errno;
	}
	if (f->error != 0) {
		(void)whole_blocks(f, f->used);
		all_frames = f->frames;
		all_bytes = f->bytes;
		(void)!ftruncate(f->fd, start + (off_t)whole_blocks(f, done));
		f->frames += frames - all_frames;
		f->bytes += bytes - all_bytes;
	}
	f->used = 0;
	return f->error == 0;
}

/* Makes room for a block of len bytes and returns its place; NULL after a failure. */
static uint8_t *
block(struct capture_file *f, uint32_t len)
{
	uint8_t *at;

	if (f->error != 0 || (f->used + len > BUFFER_BYTES && !flush(f)))
		return NULL;
	at = f->buffer + f->used;
	f->used += len;
	return at;
}

/* Copies len bytes to *at and moves it behind them and zeros up to a multiple of 4. */
static void
put(uint8_t **at, const void *bytes, uint32_t len)
{
	if (len != 0)
		memcpy(*at, bytes, len);
	memset(*at + len, 0, -len & 3);
	*at += len + (-len & 3);
}

/* Adds a frame; comment: "" for none. Returns false if f has failed. */
static bool
capture_file_frame(struct capture_file *f, const struct capture_frame *c, const char *comment)
{
	uint32_t clen = (uint32_t)strlen(comment);
	uint32_t option = clen != 0 ? (uint32_t)sizeof(struct ng_option) + clen + (-clen & 3) : 0;
	struct ng_packet p = {.type = NG_PACKET,
			      .len = (uint32_t)sizeof(p) + c->len + (-c->len & 3) + option +
				     (uint32_t)sizeof(struct ng_packet_end),
			      .time_high = (uint32_t)(c->epoch_ns >> 32),
			      .time_low = (uint32_t)c->epoch_ns,
			      .kept = c->len,
			      .frame_len = c->frame_len};
	struct ng_packet_end end = {.opt = NG_OPT_FLAGS,
				    .opt_len = sizeof(end.flags),
				    .flags = c->sent ? NG_OUTBOUND : NG_INBOUND,
				    .len_again = p.len};
	struct ng_option o = {.opt = NG_OPT_COMMENT, .opt_len = (uint16_t)clen};
	uint8_t *at = block(f, p.len);

	if (at == NULL)
		return false;
	put(&at, &p, sizeof(p));
	put(&at, c->data, c->len);
	if (clen != 0) {
		put(&at, &o, sizeof(o));
		put(&at, comment, clen);
	}
	put(&at, &end, sizeof(end));
	f->frames++;
	f->bytes += c->len;
	return true;
}

/*
 * Starts a file in fd, empty and open for writing, which f owns from now on, also after an error.
 * Returns 0 or an errno.
 */
static int
capture_file_open(struct capture_file *f, int fd)
{
	struct ng_section sec = {.type = NG_SECTION,
				 .len = sizeof(sec),
				 .byte_order = NG_BYTE_ORDER,
				 .major = 1,
				 .section_len = {UINT32_MAX, UINT32_MAX}, /* not known yet */
				 .len_again = sizeof(sec)};
	struct ng_interface ifc = {.type = NG_INTERFACE,
				   .len = sizeof(ifc),
				   .link = NG_ETHERNET,
				   .snaplen = CAPTURE_MAX_FRAME,
				   .opt = NG_OPT_TSRESOL,
				   .opt_len = 1,
				   .tsresol = NG_NANOSECONDS,
				   .len_again = sizeof(ifc)};
	uint8_t *at;

	*f = (struct capture_file){.fd = fd, .buffer = malloc(BUFFER_BYTES)};
	if (f->buffer == NULL)
		return ENOMEM;
	at = block(f, sizeof(sec) + sizeof(ifc));
	put(&at, &sec, sizeof(sec));
	put(&at, &ifc, sizeof(ifc));
	return flush(f) ? 0 : f->error;
}

/* Writes everything, and the number of lost frames. Returns false if f has failed. */
static bool
capture_file_end(struct capture_file *f, uint64_t lost)
{
	struct timespec t;
	struct ng_statistics st = {.type = NG_STATISTICS,
				   .len = sizeof(st),
				   .opt = NG_OPT_DROPS,
				   .opt_len = sizeof(st.drops),
				   .drops = {(uint32_t)lost, (uint32_t)(lost >> 32)},
				   .len_again = sizeof(st)};
	uint8_t *at = block(f, sizeof(st));
	uint64_t now;

	if (at == NULL)
		return false;
	clock_gettime(CLOCK_REALTIME, &t);
	now = (uint64_t)t.tv_sec * NS_PER_S_U64 + (uint64_t)t.tv_nsec;
	st.time_high = (uint32_t)(now >> 32);
	st.time_low = (uint32_t)now;
	put(&at, &st, sizeof(st));
	return flush(f);
}

static void
capture_file_close(struct capture_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	free(f->buffer);
}

/* --- captures */

#define RING_BYTES  (64u << 20) /* for each worker */
#define COMMENT_MAX 320
#define FAULT_MAX   200    /* of impair_fate_text */
#define NAP_NS      500000 /* pause of the writer when the rings are empty */

_Static_assert(sizeof(struct impair_fate) <= sizeof(struct capture_fault),
	       "a capture has room for what the injector did");

struct device_capture {
	struct dpdk_thread writer;
	struct capture_file file;
	struct watch failed; /* an eventfd: the writer could not write */
	struct device *dev;
	unsigned nrings;
	uint32_t qpn;  /* frames of this QP only; 0: all */
	uint32_t stop; /* workers have stopped: write the remaining frames and end */
	/* of file, for the control thread */
	uint64_t frames, bytes;
	uint32_t error;
	struct capture *ring[UROCE_MAX_WORKERS];
};

/* Words of the flags of a frame (worker/capture.h). */
static const struct {
	uint16_t flag;
	const char *text;
} flag_text[] = {
	{CAPTURE_AGAIN, "sent again"},
	{CAPTURE_DUPLICATE, "duplicate request"},
	{CAPTURE_OUT_OF_SEQ, "out of sequence"},
	{CAPTURE_STALE, "stale response"},
	{CAPTURE_RNR, "receiver not ready"},
	{CAPTURE_SLOW_PATH, "to the control thread or the kernel"},
};

/* Returns the local QP of a frame: that of its BTH, if it was received. 0: none. */
static uint32_t
local_qpn(const struct capture_frame *f)
{
	struct wire_pkt pkt;
	enum wire_verdict v;

	if (f->sent)
		return f->note.qpn;
	v = wire_parse(f->data, f->len, &pkt);
	return v == WIRE_OK || wire_bad_form(v) ? pkt.qpn : 0;
}

/* Appends to the comment, with a separator unless it is empty. */
static void
say(char comment[COMMENT_MAX], const char *a, const char *b)
{
	size_t len = strlen(comment);

	snprintf(comment + len, COMMENT_MAX - len, "%s%s%s", len != 0 ? "; " : "", a, b);
}

static void
make_comment(const struct capture_frame *f, uint32_t qpn, char comment[COMMENT_MAX])
{
	struct impair_fate fate;
	char text[FAULT_MAX];

	comment[0] = '\0';
	if (qpn != 0)
		snprintf(comment, COMMENT_MAX, "QP %u (0x%x)", qpn, qpn);
	for (unsigned i = 0; i < RTE_DIM(flag_text); i++) {
		if (f->note.flags & flag_text[i].flag)
			say(comment, flag_text[i].text, "");
	}
	memcpy(&fate, &f->note.fault, sizeof(fate));
	if (fate.faults != 0) {
		impair_fate_text(&fate, text, sizeof(text));
		say(comment, "impaired: ", text);
	}
	if (f->note.drop < DROP_NUM)
		say(comment, "dropped: ", drop_reason_name[f->note.drop]);
}

/* Publishes the counters of the file after a write. */
static void
publish(struct device_capture *dc)
{
	__atomic_store_n(&dc->error, (uint32_t)dc->file.error, __ATOMIC_RELAXED);
	__atomic_store_n(&dc->bytes, dc->file.bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&dc->frames, dc->file.frames, __ATOMIC_RELAXED);
}

static void
write_frame(struct device_capture *dc, const struct capture_frame *f)
{
	uint32_t qpn = local_qpn(f);
	char comment[COMMENT_MAX];

	if (dc->file.error != 0 || (dc->qpn != 0 && qpn != dc->qpn))
		return;
	make_comment(f, qpn, comment);
	(void)capture_file_frame(&dc->file, f, comment);
	publish(dc);
}

/* Write the oldest waiting frame. The clock of the workers orders frames of different workers. */
static bool
write_oldest(struct device_capture *dc)
{
	struct capture_frame oldest = {0}, f;
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

static void
writer_main(void *arg)
{
	static const struct timespec nap = {.tv_nsec = NAP_NS};
	struct device_capture *dc = arg;
	bool stop;

	do {
		stop = __atomic_load_n(&dc->stop, __ATOMIC_ACQUIRE);
		while (write_oldest(dc))
			;
		if (!stop && dc->file.error != 0) {
			/* the control thread ends the capture; until then the rings overflow */
			if (eventfd_write(dc->failed.fd, 1) < 0)
				LOG(ERR, "capture: %s", strerror(errno));
			return;
		}
		if (!stop)
			nanosleep(&nap, NULL);
	} while (!stop);
}

static void
capture_close(struct device_capture *dc)
{
	for (unsigned i = 0; i < dc->nrings; i++)
		capture_free(dc->ring[i]);
	if (dc->failed.fd >= 0) {
		loop_del(&dc->dev->d->loop, &dc->failed);
		close(dc->failed.fd);
	}
	capture_file_close(&dc->file);
	free(dc);
}

/* Open the file from a duplicate of fd, because the caller closes fd with its message. */
static int
file_open(struct device_capture *dc, int fd)
{
	struct stat st;
	int own;

	/* A pipe is refused: the writer, and the thread that stops it, would wait for the reader.
	 */
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return EINVAL;
	if (ftruncate(fd, 0) < 0)
		return errno;
	own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return own < 0 ? errno : capture_file_open(&dc->file, own);
}

/* Callback of impair_set_watch. */
static void
on_fault(void *arg, uint16_t queue, const struct rte_mbuf *m, const struct impair_fate *fate)
{
	const struct device *dev = arg;
	struct capture_fault fault = {.bytes = {0}};

	memcpy(&fault, fate, sizeof(*fate));
	worker_capture_fault(dev->d->workers, dev->port.id, queue, m, &fault,
			     fate->faults & IMPAIR_LOST);
}

static void on_failure(struct watch *w, uint32_t events);

/* Lets the writer tell the control thread that it failed. Returns 0 or an errno. */
static int
watch_open(struct device_capture *dc)
{
	int rc;

	dc->failed.ready = on_failure;
	dc->failed.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (dc->failed.fd < 0)
		return errno;
	rc = loop_add(&dc->dev->d->loop, &dc->failed, EPOLLIN);
	if (rc < 0) {
		close(dc->failed.fd);
		dc->failed.fd = -1;
	}
	return -rc;
}

static int
capture_open(struct device *dev, int fd, uint32_t qpn)
{
	struct device_capture *dc = calloc(1, sizeof(*dc));
	char name[RTE_MAX_THREAD_NAME_LEN];
	int rc = ENOMEM;

	if (dc != NULL) {
		dc->dev = dev;
		dc->failed.fd = dc->file.fd = -1;
		rc = file_open(dc, fd);
	}
	if (rc == 0)
		rc = watch_open(dc);
	for (unsigned i = 0; rc == 0 && i < dev->d->nworkers; i++) {
		dc->ring[i] = capture_create(RING_BYTES);
		if (dc->ring[i] == NULL)
			rc = ENOMEM;
		else
			dc->nrings++;
	}
	if (dc != NULL)
		dc->qpn = qpn;
	snprintf(name, sizeof(name), "capture-%.7s", dev->name);
	if (rc == 0)
		rc = -dpdk_thread_start(&dc->writer, name, writer_main, dc);
	if (rc != 0) {
		if (dc != NULL)
			capture_close(dc);
		return rc;
	}
	dev->capture = dc;
	worker_capture(dev->d->workers, dev->port.id, dc->ring);
	impair_set_watch(dev->port.id, on_fault, dev);
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

/* End the capture but keep its counters. */
static void
capture_end(struct device *dev)
{
	struct device_capture *dc = dev->capture;

	impair_set_watch(dev->port.id, NULL, NULL);
	worker_capture(dev->d->workers, dev->port.id, NULL);
	__atomic_store_n(&dc->stop, 1, __ATOMIC_RELEASE);
	pthread_join(dc->writer.id, NULL);
	(void)capture_file_end(&dc->file, lost(dc));
	publish(dc);
}

/* The writer has failed: the capture ends, and its counters remain for urocectl. */
static void
on_failure(struct watch *w, uint32_t events)
{
	struct device_capture *dc = WATCH_OF(w, struct device_capture, failed);
	struct log_fields f = {0};

	if (dc->stop)
		return;
	capture_end(dc->dev);
	loop_set(&dc->dev->d->loop, w, 0);
	log_field(&f, "UROCE_DEVICE", "%s", dc->dev->name);
	log_event(RTE_LOG_ERR, LOG_EVENT_CAPTURE, &f,
		  "%s: capture ended: %s; the file has %llu whole frames", dc->dev->name,
		  strerror((int)dc->error), (unsigned long long)dc->frames);
}

void
capture_stop(struct device *dev)
{
	if (dev->capture == NULL)
		return;
	if (!dev->capture->stop)
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
	uint32_t qpn = ((const struct uroce_capture_req *)req->body)->qpn;
	struct log_fields f = {0};
	int rc;

	if (req->nfds != 1)
		return EINVAL;
	if (dev->capture != NULL && !dev->capture->stop)
		return EBUSY;
	capture_stop(dev); /* one that failed */
	rc = capture_open(dev, req->fds[0], qpn);
	if (rc != 0)
		return rc;
	log_field(&f, "UROCE_DEVICE", "%s", dev->name);
	log_field_client(&f, s);
	log_event(RTE_LOG_NOTICE, LOG_EVENT_CAPTURE, &f, "%s: capture started (%s, pid %d, uid %u)",
		  dev->name, s->comm, s->peer.pid, s->peer.uid);
	return 0;
}

int
capture_request(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_capture_req *q = req->body;
	bool steps = (q->flags & UROCE_CAPTURE_STEPS) != 0;
	struct device *dev;
	int rc = 0;

	if (memchr(q->device, '\0', sizeof(q->device)) == NULL ||
	    (q->flags & ~UROCE_CAPTURE_STEPS) > UROCE_CAPTURE_STOP || q->qpn > 0xffffff ||
	    (q->qpn != 0 && q->flags != UROCE_CAPTURE_START && !steps))
		return EINVAL;
	dev = daemon_device_named(s->d, q->device);
	if (dev == NULL)
		return ENODEV;
	/* A capture contains the data of every client. */
	if (!session_may_change(s))
		return EPERM;
	if (steps)
		return steps_request(dev, req, rp->body);
	if (q->flags == UROCE_CAPTURE_START)
		rc = start(s, dev, req);
	if (q->flags == UROCE_CAPTURE_STOP && dev->capture == NULL)
		rc = ENOENT;
	if (q->flags == UROCE_CAPTURE_STOP && rc == 0 && !dev->capture->stop)
		capture_end(dev);
	if (rc == 0)
		fill(dev, rp->body);
	if (q->flags == UROCE_CAPTURE_STOP && rc == 0) {
		capture_close(dev->capture);
		dev->capture = NULL;
	}
	return rc;
}
