/* SPDX-License-Identifier: BSD-3-Clause */
/* Bench: a region that is accessed by operations (mem/mr.h), which fail or are late on request. */
#include <errno.h>
#include <string.h>
#include "harness.h"
#include "mem/fate.h"

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
ops_read_parts(void *ctx, const struct mem_part *part, uint32_t n, void *dst)
{
	struct bench_region *r = ctx;
	int rc = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (r->edge != 0 && part[i].va + part[i].len > r->edge)
			rc = r->error;
	}
	if (rc == 0)
		rc = ops_verdict(r);
	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		memcpy(dst, r->bytes + part[i].va, part[i].len);
		dst = (uint8_t *)dst + part[i].len;
	}
	return rc > 0 ? -EAGAIN : rc;
}

/* The stored result of an operation that is executed once. */
static bool
ops_kept(struct bench_region *r, uint64_t once)
{
	if (once == 0 || once != r->kept)
		return false;
	r->kept = 0;
	return true;
}

/* Ends the operation that was late, as lib/map does for each region that goes. */
static int
ops_settle(void *ctx)
{
	struct bench_region *r = ctx;
	struct mem_fate_result res = {.len = r->kept_len, .orig = r->kept_orig};

	if (r->runs)
		return r->error == -ETIMEDOUT ? -ETIMEDOUT : -EAGAIN;
	mem_fate_end(r->kept, 0, &res);
	return 0;
}

/* The operation was executed. late: its caller gets -EAGAIN. Returns its result. */
static int
ops_executed(struct bench_region *r, uint64_t once, uint32_t len, uint64_t orig, bool late)
{
	r->stores++;
	r->kept = once;
	r->kept_len = len;
	r->kept_orig = orig;
	if (late && once != 0)
		mem_fate_begin(once, NULL);
	if (r->drop != NULL) {
		region_drop(r->drop, r);
		ops_settle(r);
	}
	return late ? -EAGAIN : 0;
}

static int
ops_write_parts(void *ctx, const struct mem_part *part, uint32_t n, const struct mem_bytes *src,
		uint32_t nsrc, uint64_t once)
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
	if (ops_kept(r, once))
		return r->kept_len != len ? (int)r->kept_len : 0;
	if (rc == 0)
		rc = ops_verdict(r);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < n; i++) {
		memcpy(r->bytes + part[i].va, bytes, part[i].len);
		bytes += part[i].len;
	}
	return ops_executed(r, once, len, 0, rc > 0);
}

static int
ops_write(void *ctx, uint64_t va, const void *src, uint32_t len, uint64_t once)
{
	struct mem_part part = {.va = va, .len = len};
	struct mem_bytes bytes = {.at = src, .len = len};

	return ops_write_parts(ctx, &part, 1, &bytes, 1, once);
}

static int
ops_atomic(void *ctx, uint64_t va, const struct mem_atomic *a, uint64_t once, uint64_t *orig)
{
	struct bench_region *r = ctx;
	uint64_t next;
	int rc = 0;

	if (ops_kept(r, once)) {
		*orig = r->kept_orig;
		return 0;
	}
	rc = ops_verdict(r);
	if (rc < 0)
		return rc;
	memcpy(orig, r->bytes + va, sizeof(*orig));
	next = a->swap ? a->value : *orig + a->value;
	if (!a->swap || *orig == a->compare)
		memcpy(r->bytes + va, &next, sizeof(next));
	return ops_executed(r, once, sizeof(*orig), *orig, rc > 0);
}

void
region_by_ops(struct bench_region *r, uint32_t good)
{
	static const struct mem_ops ops = {.read = ops_read,
					   .read_parts = ops_read_parts,
					   .write = ops_write,
					   .write_parts = ops_write_parts,
					   .atomic = ops_atomic,
					   .settle = ops_settle};

	r->mr.host = NULL;
	r->mr.va = 0;
	r->mr.ops = &ops;
	r->mr.ops_ctx = r;
	r->good = good;
	r->error = -EFAULT;
}
