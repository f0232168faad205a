/* SPDX-License-Identifier: BSD-3-Clause */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include "gate.h"
#include "harness.h"
#include "../../kit/unit.h"

#define GATE_EXPECTED 8u

static struct {
	uint8_t *bytes, *at; /* 2 * BENCH_BYTES; first protected byte */
	struct bench_region *region;
	uint32_t tail;
	struct {
		uint32_t off, len;
		const uint8_t *bytes;
	} expected[GATE_EXPECTED];
	uint32_t nexpected, missing; /* missing: expectations that were not met */
	volatile sig_atomic_t hits;
} gate;

static void
on_fault(int sig, siginfo_t *info, void *context)
{
	const uint8_t *at = info->si_addr;

	(void)context;
	if (at < gate.at || at >= gate.bytes + 2 * BENCH_BYTES) {
		signal(sig, SIG_DFL); /* another fault: it comes again */
		return;
	}
	for (uint32_t i = 0; i < gate.nexpected; i++)
		gate.missing += memcmp(gate_bytes(gate.expected[i].off), gate.expected[i].bytes,
				       gate.expected[i].len) != 0;
	gate.hits++;
	mprotect(gate.bytes, 2 * BENCH_BYTES, PROT_READ | PROT_WRITE);
}

/* Maps the memory, once a program. */
static void
gate_open(void)
{
	gate.bytes = mmap(NULL, 2 * BENCH_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(gate.bytes != MAP_FAILED);
	gate.at = gate.bytes + BENCH_BYTES;
}

void
gate_put(struct bench_region *r, uint32_t tail)
{
	struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

	if (gate.bytes == NULL)
		gate_open();
	/* cmocka has set its own handler at the beginning of the test. */
	assert_int_equal(sigaction(SIGSEGV, &sa, NULL), 0);
	gate.region = r;
	gate.tail = tail;
	gate.nexpected = gate.missing = 0;
	gate.hits = 0;
	memset(gate.bytes, 0xee, 2 * BENCH_BYTES);
	r->mr.host = gate.at - tail;
	assert_int_equal(mprotect(gate.at, BENCH_BYTES, PROT_NONE), 0);
}

void
gate_expect(uint32_t off, const uint8_t *expected, uint32_t len)
{
	assert_true(gate.nexpected < GATE_EXPECTED);
	gate.expected[gate.nexpected].off = off;
	gate.expected[gate.nexpected].len = len;
	gate.expected[gate.nexpected++].bytes = expected;
}

void
gate_passed_at(const char *file, int line)
{
	_assert_int_equal((uintmax_t)gate.hits, 1, file, line);
	_assert_int_equal(gate.missing, 0, file, line);
	gate.region->mr.host = gate.region->bytes;
}

const uint8_t *
gate_bytes(uint32_t off)
{
	return gate.at - gate.tail + off;
}
