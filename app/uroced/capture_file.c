/* SPDX-License-Identifier: BSD-3-Clause */
#include "capture_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "worker/capture.h"

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

bool
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

int
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

bool
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

void
capture_file_close(struct capture_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	free(f->buffer);
}
