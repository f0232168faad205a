/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Captures a device's frames for urocectl. Workers copy frames into rings (worker/capture.h), and a
 * separate thread writes them to the file that urocectl opened. No worker ever waits for the disk;
 * the control thread waits only when a capture ends.
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
#include <rte_common.h>
#include <rte_lcore.h>
#include "control/log_event.h"
#include "dpdk/compat.h"
#include "drivers/impair/impair.h"
#include "show.h"
#include "wire/parse.h"
#include "worker/capture.h"

#define RING_BYTES   (64u << 20) /* for each worker */
#define COMMENT_MAX  320
#define FAULT_MAX    200        /* of impair_fate_text */
#define FILE_BYTES   (1u << 20) /* buffer of the file */
#define NAP_NS       500000     /* pause of the writer when the rings are empty */
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

_Static_assert(sizeof(struct impair_fate) <= sizeof(struct capture_fault),
	       "a capture has room for what the injector did");

struct device_capture {
	struct dpdk_thread writer;
	FILE *file;
	unsigned nrings;
	uint32_t qpn;           /* frames of this QP only; 0: all */
	uint32_t stop;          /* workers have stopped: write the remaining frames and end */
	uint64_t frames, bytes; /* written */
	uint32_t error;         /* errno of the first failed write; nothing is written after it */
	struct capture *ring[UROCE_MAX_WORKERS];
};

static bool
put(struct device_capture *dc, const void *bytes, uint32_t len)
{
	return len == 0 || fwrite(bytes, len, 1, dc->file) == 1;
}

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
		snprintf(comment, COMMENT_MAX, "QP %u", qpn);
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

static bool
put_comment(struct device_capture *dc, const char *text, uint32_t len)
{
	static const char zero[4];
	struct ng_option o = {.opt = NG_OPT_COMMENT, .opt_len = (uint16_t)len};

	return len == 0 ||
	       (put(dc, &o, sizeof(o)) && put(dc, text, len) && put(dc, zero, -len & 3));
}

static bool
put_frame(struct device_capture *dc, const struct capture_frame *f, const char *comment)
{
	static const uint8_t zero[4];
	uint32_t pad = -f->len & 3, clen = (uint32_t)strlen(comment);
	uint32_t option = clen != 0 ? (uint32_t)sizeof(struct ng_option) + clen + (-clen & 3) : 0;
	struct ng_packet p = {.type = NG_PACKET,
			      .len = sizeof(p) + f->len + pad + option +
				     sizeof(struct ng_packet_end),
			      .time_high = (uint32_t)(f->epoch_ns >> 32),
			      .time_low = (uint32_t)f->epoch_ns,
			      .kept = f->len,
			      .frame_len = f->frame_len};
	struct ng_packet_end end = {.opt = NG_OPT_FLAGS,
				    .opt_len = sizeof(end.flags),
				    .flags = f->sent ? NG_OUTBOUND : NG_INBOUND,
				    .len_again = p.len};

	return put(dc, &p, sizeof(p)) && put(dc, f->data, f->len) && put(dc, zero, pad) &&
	       put_comment(dc, comment, clen) && put(dc, &end, sizeof(end));
}

static void
write_frame(struct device_capture *dc, const struct capture_frame *f)
{
	uint32_t qpn = local_qpn(f);
	char comment[COMMENT_MAX];

	if (dc->error != 0 || (dc->qpn != 0 && qpn != dc->qpn))
		return;
	make_comment(f, qpn, comment);
	if (!put_frame(dc, f, comment)) {
		__atomic_store_n(&dc->error, (uint32_t)errno, __ATOMIC_RELAXED);
		return;
	}
	__atomic_store_n(&dc->bytes, dc->bytes + f->len, __ATOMIC_RELAXED);
	__atomic_store_n(&dc->frames, dc->frames + 1, __ATOMIC_RELAXED);
}

static bool
put_head(struct device_capture *dc)
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

	return put(dc, &sec, sizeof(sec)) && put(dc, &ifc, sizeof(ifc)) && fflush(dc->file) == 0;
}

static bool
put_tail(struct device_capture *dc, uint64_t lost)
{
	struct timespec t;
	struct ng_statistics st = {.type = NG_STATISTICS,
				   .len = sizeof(st),
				   .opt = NG_OPT_DROPS,
				   .opt_len = sizeof(st.drops),
				   .drops = {(uint32_t)lost, (uint32_t)(lost >> 32)},
				   .len_again = sizeof(st)};
	uint64_t now;

	clock_gettime(CLOCK_REALTIME, &t);
	now = (uint64_t)t.tv_sec * NS_PER_S_U64 + (uint64_t)t.tv_nsec;
	st.time_high = (uint32_t)(now >> 32);
	st.time_low = (uint32_t)now;
	return put(dc, &st, sizeof(st)) && fflush(dc->file) == 0;
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
		if (!stop)
			nanosleep(&nap, NULL);
	} while (!stop);
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
	if (own < 0)
		return errno;
	dc->file = fdopen(own, "w");
	if (dc->file == NULL) {
		close(own);
		return EINVAL;
	}
	setvbuf(dc->file, NULL, _IOFBF, FILE_BYTES);
	return put_head(dc) ? 0 : errno;
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

static int
capture_open(struct device *dev, int fd, uint32_t qpn)
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
	if (!put_tail(dc, lost(dc)) && dc->error == 0)
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
	uint32_t qpn = ((const struct uroce_capture_req *)req->body)->qpn;
	struct log_fields f = {0};
	int rc;

	if (req->nfds != 1)
		return EINVAL;
	if (dev->capture != NULL)
		return EBUSY;
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
	struct device *dev;
	int rc = 0;

	if (memchr(q->device, '\0', sizeof(q->device)) == NULL || q->flags > UROCE_CAPTURE_STOP ||
	    q->qpn > 0xffffff || (q->qpn != 0 && q->flags != UROCE_CAPTURE_START))
		return EINVAL;
	dev = daemon_device_named(s->d, q->device);
	if (dev == NULL)
		return ENODEV;
	/* A capture contains the data of every client. */
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
