/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem/store.h"

typedef uint32_t __attribute__((may_alias)) store_half;
typedef uint16_t __attribute__((may_alias)) store_quarter;

/* Stores 1, 2 or 4 bytes at dst, which is a multiple of n, behind all earlier stores. */
static void
store_piece(uint8_t *dst, const uint8_t *src, uint32_t n)
{
	store_half half;
	store_quarter quarter;

	__atomic_thread_fence(__ATOMIC_RELEASE);
	switch (n) {
	case sizeof(half):
		memcpy(&half, src, sizeof(half));
		__atomic_store_n((store_half *)dst, half, __ATOMIC_RELAXED);
		break;
	case sizeof(quarter):
		memcpy(&quarter, src, sizeof(quarter));
		__atomic_store_n((store_quarter *)dst, quarter, __ATOMIC_RELAXED);
		break;
	default:
		__atomic_store_n(dst, *src, __ATOMIC_RELAXED);
		break;
	}
}

/* The most bytes, 1, 2 or 4, that one aligned store at dst may have if left bytes remain. */
static uint32_t
piece_len(const uint8_t *dst, uint32_t left)
{
	if (((uintptr_t)dst & 3) == 0 && left >= 4)
		return 4;
	return ((uintptr_t)dst & 1) == 0 && left >= 2 ? 2 : 1;
}

void
mem_store_ragged(uint8_t *dst, const uint8_t *src, size_t len)
{
	size_t body = len > MEM_STORE_TAIL ? len - MEM_STORE_TAIL : 0;
	uint32_t left = (uint32_t)(len - body);
	uint8_t tail[MEM_STORE_TAIL];
	const uint8_t *from = tail;

	memcpy(tail, src + body, left);          /* before memmove: src may overlap */
	__atomic_thread_fence(__ATOMIC_RELEASE); /* behind the stores of the last call */
	memmove(dst, src, body);
	for (dst += body; left != 0;) {
		uint32_t n = piece_len(dst, left);

		store_piece(dst, from, n);
		dst += n;
		from += n;
		left -= n;
	}
}
