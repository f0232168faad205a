/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions, each between guards, with contents that every input finds alike. */
#include <errno.h>
#include <string.h>
#include <rte_mbuf.h>
#include <sanitizer/asan_interface.h>
#include "world_parts.h"

#define GUARD       4096u
#define FAILS_AFTER (REGION_BYTES - 1024u) /* copies past it fail */
#define KEY_VARY    0x5a5u

static uint8_t *memory[WORLD_REGIONS]; /* guard, region, guard */
static uint8_t *pattern;               /* as large as the largest of them */

static uint32_t
bytes_of(uint32_t region)
{
	return region == REGION_LOCAL ? LOCAL_SLOTS * LOCAL_SLOT : REGION_BYTES;
}

static uint8_t *
host_of(uint32_t region)
{
	return memory[region] + GUARD;
}

void
memory_init(void)
{
	uint32_t i, r, n = bytes_of(REGION_LOCAL) + 2 * GUARD, x = 1;

	pattern = malloc(n);
	CHECK(pattern != NULL);
	for (i = 0; i < n; i++) {
		x = x * 1664525 + 1013904223;
		pattern[i] = (uint8_t)(x >> 24);
	}
	for (r = 0; r < REGION_WINDOW; r++) {
		memory[r] = malloc(bytes_of(r) + 2 * GUARD);
		CHECK(memory[r] != NULL);
	}
}

static const struct mem_ops copy_ops;

/*
 * Copies are late: they fail with -EAGAIN. The first write or atomic that may begin then has begun,
 * and ends, with its result, once copies are not late any more, as in map/copier.h.
 */
static bool late_now;
static struct {
	enum { JOB_NONE, JOB_BEGUN, JOB_DONE, JOB_FAILED } state;
	bool forgotten;
	bool atomic;
	struct mem_atomic op;
	uint64_t orig;
	struct mem_part part[MEM_MAX_PARTS];
	uint32_t n;
	uint8_t bytes[REGION_BYTES];
} job;

bool
memory_is_late(void)
{
	return late_now || job.state == JOB_BEGUN;
}

static bool
copy_ok(uint64_t va, uint32_t len)
{
	/* The engine has no business outside, whether or not a copy of it would fail. */
	CHECK(va >= GUARD && va - GUARD <= REGION_BYTES && len <= REGION_BYTES - (va - GUARD));
	return va - GUARD + len <= FAILS_AFTER;
}

static int
copy_out(void *ctx, uint64_t va, void *dst, uint32_t len)
{
	if (!copy_ok(va, len))
		return -EFAULT;
	if (memory_is_late())
		return -EAGAIN;
	memcpy(dst, memory[REGION_COPIED] + va, len);
	return 0;
}

static bool
job_may_begin(struct mem_late *late)
{
	if (late == NULL || job.state != JOB_NONE)
		return false;
	CHECK(late->state == MEM_LATE_NONE);
	*late = (struct mem_late){.state = MEM_LATE_PENDING, .since_ns = world.now};
	job.state = JOB_BEGUN;
	job.forgotten = false;
	return true;
}

static int
copy_lend(void *ctx, const struct mem_part *part, uint32_t n, struct mem_lent *lent)
{
	uint32_t len = 0, at = 0;
	uint8_t *bytes;
	int rc = 0;

	for (uint32_t i = 0; i < n; i++)
		len += part[i].len;
	bytes = malloc(len); /* so that a sanitizer detects a use after the release */
	CHECK(bytes != NULL);
	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		rc = copy_out(ctx, part[i].va, bytes + at, part[i].len);
		at += part[i].len;
	}
	if (rc == 0)
		*lent = (struct mem_lent){.bytes = bytes, .ops = &copy_ops, .at = bytes};
	else
		free(bytes);
	return rc;
}

static void
copy_release(struct mem_lent *lent)
{
	free(lent->at);
	*lent = (struct mem_lent){0};
}

static int
copy_in_parts(void *ctx, const struct mem_part *part, uint32_t n, const struct mem_bytes *src,
	      uint32_t nsrc, struct mem_late *late)
{
	static uint8_t joined[1 << 20];
	const uint8_t *bytes = joined;
	uint64_t left = sizeof(joined);
	int rc = 0;

	for (uint32_t i = 0; i < nsrc; i++) {
		CHECK(src[i].len <= left);
		left -= src[i].len;
	}
	mem_bytes_join(joined, src, nsrc);
	for (uint32_t i = 0; rc == 0 && i < n; i++)
		rc = copy_ok(part[i].va, part[i].len) ? 0 : -EFAULT;
	if (rc == 0 && memory_is_late()) {
		CHECK(sizeof(joined) - left <= sizeof(job.bytes) && n <= MEM_MAX_PARTS);
		if (job_may_begin(late)) {
			job.atomic = false;
			job.n = n;
			memcpy(job.part, part, n * sizeof(part[0]));
			memcpy(job.bytes, joined, sizeof(joined) - left);
		}
		return -EAGAIN;
	}
	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		memcpy(memory[REGION_COPIED] + part[i].va, bytes, part[i].len);
		bytes += part[i].len;
	}
	return rc;
}

static int
copy_in(void *ctx, uint64_t va, const void *src, uint32_t len, struct mem_late *late)
{
	struct mem_part part = {.va = va, .len = len};
	struct mem_bytes bytes = {.at = src, .len = len};

	return copy_in_parts(ctx, &part, 1, &bytes, 1, late);
}

static int
copy_atomic(void *ctx, uint64_t va, const struct mem_atomic *a, struct mem_late *late,
	    uint64_t *orig)
{
	int rc = copy_out(ctx, va, orig, sizeof(*orig));
	uint64_t next = a->swap ? a->value : *orig + a->value;

	if (rc == -EAGAIN && job_may_begin(late)) {
		job.atomic = true;
		job.op = *a;
		job.part[0].va = va;
	}
	if (rc == 0 && (!a->swap || *orig == a->compare))
		rc = copy_in(ctx, va, &next, sizeof(next), NULL);
	return rc;
}

/* The thread has done the job. */
static void
job_end(void)
{
	const uint8_t *bytes = job.bytes;
	int rc = 0;

	if (job.state != JOB_BEGUN)
		return;
	job.state = JOB_DONE; /* not late any more */
	if (job.atomic)
		rc = copy_atomic(NULL, job.part[0].va, &job.op, NULL, &job.orig);
	for (uint32_t i = 0; !job.atomic && rc == 0 && i < job.n; i++) {
		rc = copy_in(NULL, job.part[i].va, bytes, job.part[i].len, NULL);
		bytes += job.part[i].len;
	}
	job.state = job.forgotten ? JOB_NONE : rc == 0 ? JOB_DONE : JOB_FAILED;
}

static void
job_poll(struct mem_late *late)
{
	CHECK(late->state == MEM_LATE_PENDING && job.state != JOB_NONE && !job.forgotten);
	if (job.state == JOB_BEGUN)
		return;
	late->state = job.state == JOB_DONE ? MEM_LATE_DONE : MEM_LATE_NONE;
	late->orig = job.orig;
	job.state = JOB_NONE;
}

static void
job_forget(struct mem_late *late)
{
	CHECK(late->state == MEM_LATE_PENDING && job.state != JOB_NONE && !job.forgotten);
	job.forgotten = true;
	if (job.state != JOB_BEGUN)
		job.state = JOB_NONE;
}

void
memory_late(bool on)
{
	late_now = on;
	if (!on)
		job_end();
}

static const struct mem_ops copy_ops = {.read = copy_out,
					.lend = copy_lend,
					.release = copy_release,
					.write = copy_in,
					.write_parts = copy_in_parts,
					.atomic = copy_atomic,
					.late_poll = job_poll,
					.late_forget = job_forget};

static void
add_region(uint32_t r)
{
	static const uint32_t access[WORLD_REGIONS] = {
		[REGION_RW] = MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ |
			      MEM_REMOTE_ATOMIC | MEM_MW_BIND,
		[REGION_RO] = MEM_REMOTE_READ,
		[REGION_LOCAL] = MEM_LOCAL_WRITE,
		[REGION_OTHER] =
			MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC,
		[REGION_COPIED] =
			MEM_LOCAL_WRITE | MEM_REMOTE_WRITE | MEM_REMOTE_READ | MEM_REMOTE_ATOMIC,
	};
	struct mr *mr = &world.mr[r];

	*mr = (struct mr){.pd = r == REGION_OTHER ? WORLD_PD + 1 : WORLD_PD, .access = access[r]};
	if (r == REGION_WINDOW) {
		mr->kind = MR_WINDOW_2;
	} else {
		mr->iova = REGION_IOVA(r);
		mr->len = bytes_of(r);
		mr->host = host_of(r);
	}
	if (r == REGION_COPIED) {
		mr->host = NULL;
		mr->va = GUARD;
		mr->ops = &copy_ops;
	}
	CHECK(mr_table_add(&world.mrs, mr, (r + 1) << 28 | (KEY_VARY + r)) == 0);
}

void
memory_reset(void)
{
	uint32_t r;

	CHECK(mr_table_init(&world.mrs, 16) == 0);
	for (r = 0; r < WORLD_REGIONS; r++)
		add_region(r);
	for (r = 0; r < REGION_WINDOW; r++) {
		uint32_t n = bytes_of(r);

		memcpy(memory[r], pattern, n + 2 * GUARD);
		ASAN_POISON_MEMORY_REGION(memory[r], GUARD);
		ASAN_POISON_MEMORY_REGION(host_of(r) + n, GUARD);
	}
}

static void
check_equal(uint32_t r, uint32_t off, uint32_t n)
{
	CHECK(memcmp(memory[r] + off, pattern + off, n) == 0);
}

void
memory_end(void)
{
	uint32_t r, i;

	CHECK(job.state == JOB_NONE);
	for (r = 0; r < REGION_WINDOW; r++) {
		ASAN_UNPOISON_MEMORY_REGION(memory[r], bytes_of(r) + 2 * GUARD);
		check_equal(r, 0, GUARD);
		check_equal(r, GUARD + bytes_of(r), GUARD);
	}
	check_equal(REGION_RO, 0, bytes_of(REGION_RO));
	check_equal(REGION_OTHER, 0, bytes_of(REGION_OTHER));
	for (i = 0; i < LOCAL_SLOTS && !world_hostile; i++)
		check_equal(REGION_LOCAL, GUARD + i * LOCAL_SLOT + LOCAL_SLOT_USE,
			    LOCAL_SLOT - LOCAL_SLOT_USE);
	mr_table_free(&world.mrs);
}

uint64_t
memory_sum(void)
{
	uint64_t sum = 0, word;
	uint32_t r, i;

	for (r = 0; r < REGION_WINDOW; r++) {
		for (i = 0; i < bytes_of(r); i += sizeof(word)) {
			memcpy(&word, host_of(r) + i, sizeof(word));
			sum = (sum ^ word) * 0x100000001b3;
		}
	}
	return sum;
}

void
memory_drop(uint32_t r)
{
	/* A region with a window on it cannot go, as the daemon has it. */
	if (world.gone[r] || world.mr[r].windows != 0)
		return;
	world.gone[r] = true;
	mr_table_del(&world.mrs, &world.mr[r]);
	if (r == REGION_WINDOW)
		mw_unbind(&world.mr[r]);
}

uint32_t
world_key(enum world_region r)
{
	return world.mr[r].key;
}

void
memory_fence_frame(struct rte_mbuf *m, bool on)
{
	uint8_t *buf = m->buf_addr, *data = rte_pktmbuf_mtod(m, uint8_t *);

	if (on) {
		ASAN_POISON_MEMORY_REGION(buf, m->data_off);
		ASAN_POISON_MEMORY_REGION(data + m->data_len,
					  m->buf_len - m->data_off - m->data_len);
	} else {
		ASAN_UNPOISON_MEMORY_REGION(buf, m->buf_len);
	}
}
