/* SPDX-License-Identifier: BSD-3-Clause */
/* The order in which a copier's thread writes: the kernel gets the last bytes by themselves. */
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include "map/copier.h"
#include "mem/store.h"
#include "../../kit/unit.h"

#define MOST   9000u
#define PIECES 16u

static uint8_t src[MOST], dst[MOST + 64];

/* What was written, in this order. most: bytes of one call, as if memory behind them were busy. */
static struct {
	struct {
		uint64_t va;
		uint64_t len;
	} piece[PIECES];
	uint32_t n;
	uint64_t most;
} written;

static ssize_t
write_piece(const uint8_t *from, uint64_t len, uint64_t va)
{
	assert_true(written.n < PIECES);
	written.piece[written.n].va = va;
	written.piece[written.n++].len = len;
	memcpy((uint8_t *)(uintptr_t)va, from, len);
	return (ssize_t)len;
}

/* Replace libc's. The file is this process's memory. */
ssize_t
pwrite(int fd, const void *from, size_t len, off_t va)
{
	(void)fd;
	return write_piece(from, len < written.most ? len : written.most, (uint64_t)va);
}

ssize_t
pwritev(int fd, const struct iovec *v, int n, off_t va)
{
	uint64_t left = written.most;
	ssize_t sum = 0;

	(void)fd;
	for (int i = 0; i < n && left != 0; i++) {
		uint64_t len = v[i].iov_len < left ? v[i].iov_len : left;

		sum += write_piece(v[i].iov_base, len, (uint64_t)va + (uint64_t)sum);
		left -= len;
	}
	return sum;
}

static uint64_t
last_word(uint64_t end, uint32_t len)
{
	if (end % 8 == 0 && len >= 8)
		return 8;
	return end % 4 == 0 && len >= 4 ? 4 : 1;
}

/* The pieces are in ascending order and without gaps, and none but the last has the last word. */
static void
pieces_expect(uint64_t va, uint32_t len)
{
	uint64_t end = va + len, at = va;

	for (uint32_t i = 0; i < written.n; i++) {
		uint64_t last = end - (len < MEM_STORE_TAIL ? len : MEM_STORE_TAIL);

		assert_true(written.piece[i].va == at);
		/* No piece has bytes of the tail and bytes in front of it. */
		assert_false(at < last && at + written.piece[i].len > last);
		at += written.piece[i].len;
	}
	assert_true(at == end);
	assert_true(written.piece[written.n - 1].len == last_word(end, len));
}

static void
write_watched(uint32_t off, uint32_t len)
{
	uint8_t *at = dst + 16 - (uintptr_t)dst % 16 + off;

	memset(dst, 0xee, sizeof(dst));
	written.n = 0;
	assert_int_equal(copier_mem_write(-1, (uintptr_t)at, src, len), 0);
	assert_memory_equal(at, src, len);
	assert_int_equal(at[len], 0xee);
	pieces_expect((uintptr_t)at, len);
}

REQUIREMENT("RSP-08")
UNIT_TEST(tail_is_written_behind_the_rest)
{
	written.most = UINT64_MAX;
	for (uint32_t off = 0; off < 8; off++) {
		for (uint32_t len = 1; len < 40; len++)
			write_watched(off, len);
		write_watched(off, 4096);
		write_watched(off, MOST);
		assert_true(written.n <= 3);
	}
	write_watched(0, 8); /* one word needs one call */
	assert_int_equal(written.n, 1);
}

/* The kernel writes less than it was asked for. */
REQUIREMENT("RSP-08")
UNIT_TEST(tail_is_written_last_after_a_short_write)
{
	for (uint32_t len = 8; len < 40; len += 8) {
		written.most = 16;
		write_watched(0, len);
	}
	written.most = 4096;
	write_watched(0, 8192);
}

int
main(void)
{
	for (uint32_t i = 0; i < MOST; i++)
		src[i] = (uint8_t)(i * 7 + i / 256 + 1);
	return unit_run();
}
