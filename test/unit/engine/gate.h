/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a client whose stores a test observes without another thread. From a chosen address on,
 * the memory is protected: the first store there faults, and the handler of the fault checks that
 * the bytes in front of it are complete.
 */
#ifndef TEST_UNIT_ENGINE_GATE_H
#define TEST_UNIT_ENGINE_GATE_H

#include <stdint.h>

struct bench_region;

/*
 * The region's bytes from iova + tail on are protected, and the region's other bytes are in front
 * of them; all are 0xee. tail: below BENCH_BYTES.
 */
void gate_put(struct bench_region *r, uint32_t tail);
/*
 * At the first store into the protected bytes, the len bytes at iova + off must be those of
 * expected. May be called several times for one gate.
 */
void gate_expect(uint32_t off, const uint8_t *expected, uint32_t len);
/*
 * Fails unless there was a store into the protected bytes, and all that gate_expect named was there
 * before it. The memory is then no longer protected, and the gate's expectations are forgotten.
 */
void gate_passed_at(const char *file, int line);
#define gate_passed() gate_passed_at(__FILE__, __LINE__)

/* Byte of the region at iova + off. Bytes behind the gate may be read once it was passed. */
const uint8_t *gate_bytes(uint32_t off);

#endif
