/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's page, and arithmetic with it. On arm64 a kernel is built for pages of 4, 16 or 64
 * KiB. Daemon and client run on one kernel. Includes no other header of uroce.
 */
#ifndef UROCE_MAP_PAGE_H
#define UROCE_MAP_PAGE_H

#include <stddef.h>
#include <stdint.h>
#if !defined(__x86_64__)
#include <unistd.h>
#endif

#define PAGE_LEAST 4096u /* bytes: the smallest page of any kernel; sizes arrays of pages */
/* Bytes of the smallest huge page: of arm64 that of kernels with 4 KiB pages. Others have larger
 * ones. */
#if defined(__aarch64__)
#define HUGE_LEAST (64ull << 10)
#else
#define HUGE_LEAST (2ull << 20)
#endif

/* Returns the bytes of a page, a power of two >= PAGE_LEAST. Any thread, and signal handlers. */
static inline size_t
page_bytes(void)
{
#if defined(__x86_64__)
	return PAGE_LEAST;
#else
	return (size_t)getpagesize();
#endif
}

/* Returns the start of addr's page. page: bytes, a power of two. */
static inline uint64_t
page_floor(uint64_t addr, uint64_t page)
{
	return addr & ~(page - 1);
}

/* Returns the start of the first page that is not below addr, which is at most 2^64 - page. */
static inline uint64_t
page_ceil(uint64_t addr, uint64_t page)
{
	return page_floor(addr + page - 1, page);
}

/* Returns the largest power of two that divides va, len and most, a power of two. */
static inline uint64_t
page_common(uint64_t va, uint64_t len, uint64_t most)
{
	uint64_t bits = va | len | most;

	return bits & -bits;
}

/*
 * Returns the bytes of all pages that [addr, addr + len) touches. len is returned as it is if it is
 * 0 or the range ends in or behind the last page of the address space.
 */
static inline uint64_t
page_span(uint64_t addr, uint64_t len, uint64_t page)
{
	uint64_t end = addr + len;

	if (len == 0 || end < addr || end > UINT64_MAX - page)
		return len;
	return page_ceil(end, page) - page_floor(addr, page);
}

#endif
