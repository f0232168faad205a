/* SPDX-License-Identifier: BSD-3-Clause */
/* mem_store (mem/store.h), instruction by instruction. */
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <ucontext.h>
#include "mem/store.h"
#include "../../kit/unit.h"

#define MOST 4200u

static uint8_t src[MOST], room[MOST + 128];

/* The store under observation: src to dst. */
static struct {
	const uint8_t *dst;
	uint32_t len;
	volatile uint32_t steps, torn; /* instructions; those behind which dst was wrong */
} watched;

static bool
stored(uint32_t i)
{
	return watched.dst[i] == src[i];
}

/* Of the last n bytes, were some stored and others not? */
static bool
in_part(uint32_t n)
{
	uint32_t from = watched.len - n, i;

	for (i = from + 1; i < watched.len; i++) {
		if (stored(i) != stored(from))
			return true;
	}
	return false;
}

/* Is a byte of the tail stored, and one in front of it not? Is a word at the end seen in part? */
static bool
wrong(void)
{
	uint32_t tail = watched.len < MEM_STORE_TAIL ? watched.len : MEM_STORE_TAIL, n, i;
	bool whole = memcmp(watched.dst, src, watched.len - tail) == 0;

	for (i = watched.len - tail; i < watched.len; i++) {
		if (stored(i) && !whole)
			return true;
		whole = whole && stored(i);
	}
	for (n = 2; n <= 8; n *= 2) {
		if (n <= watched.len && ((uintptr_t)(watched.dst + watched.len) % n) == 0 &&
		    in_part(n))
			return true;
	}
	return false;
}

static void
on_step(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	(void)context;
	watched.steps++;
	watched.torn += wrong();
}

#ifdef __x86_64__
#define TRAP_FLAG 0x100

/* Ask for a SIGTRAP behind each instruction from now on, or no longer. */
static inline __attribute__((always_inline)) void
single_steps(bool on)
{
	if (on)
		__asm__ volatile("sub $128, %%rsp; pushfq; orq %0, (%%rsp); popfq; add $128, %%rsp"
				 :
				 : "i"(TRAP_FLAG)
				 : "memory", "cc");
	else
		__asm__ volatile("sub $128, %%rsp; pushfq; andq %0, (%%rsp); popfq; add $128, %%rsp"
				 :
				 : "i"(~TRAP_FLAG)
				 : "memory", "cc");
}
#else
static inline void
single_steps(bool on)
{
	(void)on;
}
#endif

static void
store_watched(uint8_t *dst, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		dst[i] = (uint8_t)~src[i];
	watched.dst = dst;
	watched.len = len;
	single_steps(true);
	mem_store(dst, src, len);
	single_steps(false);
	assert_memory_equal(dst, src, len);
}

static int
setup(void **state)
{
	struct sigaction sa = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};

	for (uint32_t i = 0; i < MOST; i++)
		src[i] = (uint8_t)(i * 7 + i / 256 + 1);
	return sigaction(SIGTRAP, &sa, NULL);
}

/* Each length around those at which memmove's method changes, at each alignment. */
REQUIREMENT("RSP-08")
UNIT_TEST(no_instruction_stores_the_tail_early)
{
	static const uint32_t more[] = {100, 127, 128, 129,  200,  255,  256,  257,
					500, 511, 904, 1000, 1024, 2047, 3000, 4096};
	uint8_t *at = room + 64 - (uintptr_t)room % 64;

	for (uint32_t off = 0; off < 8; off++) {
		for (uint32_t len = 0; len <= 80; len++)
			store_watched(at + off, len);
		for (uint32_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
			store_watched(at + off, more[i]);
	}
	assert_int_equal(watched.torn, 0);
#ifdef __x86_64__
	assert_true(watched.steps > 8 * 80 * 5); /* each call has more than 5 instructions */
#endif
}

/* What is in front of dst and behind it stays; src may overlap dst in either direction. */
UNIT_TEST(stored_bytes_are_those_of_memmove)
{
	static uint8_t was[512], expected[512], is[512];

	for (uint32_t i = 0; i < sizeof(was); i++)
		was[i] = (uint8_t)(i * 5 + i / 256);
	for (uint32_t len = 0; len <= 100; len++) {
		for (uint32_t off = 0; off <= 240; off++) {
			memcpy(expected, was, sizeof(was));
			memmove(expected + off, expected + 120, len);
			memcpy(is, was, sizeof(was));
			mem_store(is + off, is + 120, len);
			assert_memory_equal(is, expected, sizeof(is));
		}
	}
}

UNIT_PROGRAM(setup, NULL);
