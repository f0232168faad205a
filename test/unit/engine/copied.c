/* SPDX-License-Identifier: BSD-3-Clause */
/* Bench: a region that is accessed by operations (mem/mr.h), which fail or are late on request. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "harness.h"

static const struct mem_ops region_ops;

/* Result of an access. 0: executed; 1: executed, but reported as -EAGAIN; -errno: failed. */
static int
ops_verdict(struct bench_region *r)
{
	if (r->late != 0) {
		r->late--;
		return r->late_done ? 1 : -EAGAIN;
	}
	if (r->good == 0)
		return r->error;
	r->good--;
	return 0;
}

static int
ops_read(void *ctx, uint64_t va, void *dst, uint32_t len)
{
	struct bench_region *r = ctx;
	int rc = r->edge != 0 && va + len > r->edge ? r->error : ops_verdict(r);

	if (rc == 0)
		memcpy(dst, r->bytes + va, len);
	return rc > 0 ? -EAGAIN : rc;
}

static int
ops_lend(void *ctx, const struct mem_part *part, uint32_t n, struct mem_lent *lent)
{
	struct bench_region *r = ctx;
	uint32_t len = 0;
	uint8_t *bytes;
	int rc = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (r->edge != 0 && part[i].va + part[i].len > r->edge)
			rc = r->error;
		len += part[i].len;
	}
	if (rc == 0)
		rc = ops_verdict(r);
	if (rc != 0)
		return rc > 0 ? -EAGAIN : rc;
	bytes = malloc(len); /* so that a sanitizer detects a use after the release */
	assert_non_null(bytes);
	*lent = (struct mem_lent){.bytes = bytes, .ops = &region_ops, .at = bytes};
	for (uint32_t i = 0; i < n; i++) {
		memcpy(bytes, r->bytes + part[i].va, part[i].len);
		bytes += part[i].len;
	}
	return 0;
}

static void
ops_release(struct mem_lent *lent)
{
	free(lent->at);
	*lent = (struct mem_lent){0};
}

static void
ops_late_poll(struct mem_late *late)
{
	const struct bench_region *r = late->at;

	if (r->runs)
		late->rc = r->error == -ETIMEDOUT ? -ETIMEDOUT : 0;
	else
		late->state = r->lost ? MEM_LATE_NONE : MEM_LATE_DONE;
}

static void
ops_late_forget(struct mem_late *late)
{
	struct bench_region *r = late->at;

	r->forgotten++;
}

/* The operation was executed. is_late: its caller gets -EAGAIN. Returns its result. */
static int
ops_executed(struct bench_region *r, struct mem_late *late, uint64_t orig, bool is_late)
{
	r->stores++;
	if (is_late && late != NULL) {
		assert_int_equal(late->state, MEM_LATE_NONE);
		*late = (struct mem_late){.state = MEM_LATE_PENDING, .orig = orig, .at = r};
	}
	if (r->drop != NULL)
		region_drop(r->drop, r);
	return is_late ? -EAGAIN : 0;
}

static int
ops_write_parts(void *ctx, const struct mem_part *part, uint32_t n, const struct mem_bytes *src,
		uint32_t nsrc, struct mem_late *late)
{
	static uint8_t joined[QP_AHEAD_BYTES];
	const uint8_t *bytes = joined;
	struct bench_region *r = ctx;
	uint32_t len = 0, left = sizeof(joined);
	int rc = 0;

	for (uint32_t i = 0; i < nsrc; i++) {
		assert_true(src[i].len <= left);
		left -= src[i].len;
	}
	mem_bytes_join(joined, src, nsrc);

	for (uint32_t i = 0; i < n; i++) {
		assert_int_not_equal(part[i].len, 0);
		if (r->edge != 0 && part[i].va + part[i].len > r->edge)
			rc = r->error;
		len += part[i].len;
	}
	assert_int_equal(len, sizeof(joined) - left);
	if (rc == 0)
		rc = ops_verdict(r);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < n; i++) {
		memcpy(r->bytes + part[i].va, bytes, part[i].len);
		bytes += part[i].len;
	}
	return ops_executed(r, late, 0, rc > 0);
}

static int
ops_write(void *ctx, uint64_t va, const void *src, uint32_t len, struct mem_late *late)
{
	struct mem_part part = {.va = va, .len = len};
	struct mem_bytes bytes = {.at = src, .len = len};

	return ops_write_parts(ctx, &part, 1, &bytes, 1, late);
}

static int
ops_atomic(void *ctx, uint64_t va, const struct mem_atomic *a, struct mem_late *late,
	   uint64_t *orig)
{
	struct bench_region *r = ctx;
	uint64_t next;
	int rc = 0;

	rc = ops_verdict(r);
	if (rc < 0)
		return rc;
	memcpy(orig, r->bytes + va, sizeof(*orig));
	next = a->swap ? a->value : *orig + a->value;
	if (!a->swap || *orig == a->compare)
		memcpy(r->bytes + va, &next, sizeof(next));
	return ops_executed(r, late, *orig, rc > 0);
}

static const struct mem_ops region_ops = {.read = ops_read,
					  .lend = ops_lend,
					  .release = ops_release,
					  .write = ops_write,
					  .write_parts = ops_write_parts,
					  .atomic = ops_atomic,
					  .late_poll = ops_late_poll,
					  .late_forget = ops_late_forget};

void
region_by_ops(struct bench_region *r, uint32_t good)
{
	r->mr.host = NULL;
	r->mr.va = 0;
	r->mr.ops = &region_ops;
	r->mr.ops_ctx = r;
	r->good = good;
	r->error = -EFAULT;
}
