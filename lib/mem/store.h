/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stores received data in a client's memory. A program may poll that memory instead of a
 * completion queue: it takes a message as complete once it sees the message's last bytes. memmove
 * must not store those, because it stores the tail of its destination first for some lengths.
 *
 * The stores of a thread become visible in this order, as those of a NIC do: the bytes of one call
 * before any byte of the next one, and within a call the tail last (doc/memory-order.md).
 */
#ifndef MEM_STORE_H
#define MEM_STORE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MEM_STORE_TAIL 8u /* bytes that are stored last */

typedef uint64_t __attribute__((may_alias)) mem_store_word;

/* Worker. As mem_store, for data that ends within an aligned word or has less than one. */
void mem_store_ragged(uint8_t *dst, const uint8_t *src, size_t len);

/*
 * Worker. Copies *len bytes to dst, which is a client's memory. src may overlap dst. The last
 * MEM_STORE_TAIL bytes, or all if there are fewer, are stored last, behind a release fence and in
 * ascending order: who sees one of them, and reads with acquire order, sees all bytes in front of
 * it. They are one store if they end at a multiple of 8, else few, each of them aligned. An aligned
 * word of 2, 4 or 8 bytes at the end is therefore never seen in part. Returns *len, which is read
 * again behind the copy: no register has to keep it.
 */
static inline __attribute__((always_inline)) uint32_t
mem_store_of(uint8_t *dst, const uint8_t *src, const uint32_t *len)
{
	size_t body = (size_t)*len - MEM_STORE_TAIL;
	uint64_t tail;
	uint32_t n;

	if (__builtin_expect(*len < MEM_STORE_TAIL, 0))
		goto ragged;
	if (__builtin_expect(((uintptr_t)(dst + body) & 7) != 0, 0))
		goto ragged;
	memcpy(&tail, src + body, sizeof(tail)); /* before memmove: src may overlap */
	__atomic_thread_fence(__ATOMIC_RELEASE); /* behind the stores of the last call */
	dst = memmove(dst, src, body);
	n = *len;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n((mem_store_word *)(dst + n - MEM_STORE_TAIL), tail, __ATOMIC_RELAXED);
	return n;
ragged:
	mem_store_ragged(dst, src, *len);
	return *len;
}

/* The same, len bytes. */
static inline __attribute__((always_inline)) void
mem_store(uint8_t *dst, const uint8_t *src, uint32_t len)
{
	(void)mem_store_of(dst, src, &len);
}

#endif
