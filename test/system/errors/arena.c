/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "errmatrix.h"

size_t
area_bytes(enum area a)
{
	if (a == AREA_FOLLOW || a >= AREA_RECV)
		return RECV_BYTES;
	return TARGET_BYTES;
}

size_t
area_offset(enum area a)
{
	size_t off = GUARD_BYTES;

	for (int i = 0; i < (int)a; i++)
		off += area_bytes(i) + GUARD_BYTES;
	return off;
}

void
arena_open(struct arena *a)
{
	a->bytes = area_offset(AREAS);
	a->mem = mmap(NULL, a->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	a->image = malloc(a->bytes);
	a->free = malloc(a->bytes);
	if (a->mem == MAP_FAILED || !a->image || !a->free)
		die("no memory for %zu bytes", a->bytes);
}

/* Fills the bytes from off on; off is a multiple of 8. */
static void
pattern(uint8_t *to, size_t off, size_t len, uint32_t row, bool requester)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t z = ((uint64_t)row << 33) + ((uint64_t)requester << 32) + off + i;

		z = (z + 1) * 0x9e3779b97f4a7c15ull;
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
		z ^= z >> 31;
		memcpy(to + i, &z, len - i < 8 ? len - i : 8);
	}
}

void
arena_fill(struct arena *a, uint32_t row, bool requester)
{
	pattern(a->image, 0, a->bytes, row, requester);
	memcpy(a->mem, a->image, a->bytes);
	memset(a->free, 0, a->bytes);
}

void
arena_expect(struct arena *a, enum area to, size_t to_off, enum area from, size_t from_off,
	     size_t len, uint32_t row, bool from_requester)
{
	pattern(a->image + area_offset(to) + to_off, area_offset(from) + from_off, len, row,
		from_requester);
}

void
arena_any(struct arena *a, enum area area, size_t off, size_t len)
{
	memset(a->free + area_offset(area) + off, 1, len);
}

int64_t
arena_differs(const struct arena *a)
{
	for (size_t i = 0; i < a->bytes; i++)
		if (!a->free[i] && ((volatile uint8_t *)a->mem)[i] != a->image[i])
			return (int64_t)i;
	return -1;
}
