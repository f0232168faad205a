/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of libFuzzer's interface that is used: it has no header for C. */
#ifndef FUZZ_FUZZ_RX_H
#define FUZZ_FUZZ_RX_H

#include <stddef.h>
#include <stdint.h>

/* Ours. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
				 uint8_t *out, size_t max_out, unsigned int seed);

/* libFuzzer's: its own mutations. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

#endif
