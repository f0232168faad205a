/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_cm_random [RUNS [SEED]]: random inputs for fuzz_cm.c, where there is no clang. */
#include <stdio.h>
#include <stdlib.h>
#include "fuzz_rx.h"

#define INPUT_MAX 2048
#define RUNS      20000

static uint64_t
random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Steps with short bodies, most of them messages and calls. */
static size_t
make(uint64_t *rng, uint8_t *out)
{
	static const uint8_t ops[] = {0, 1, 1, 1, 1, 1, 2, 3, 3, 3, 4};
	size_t used = 0, steps = random_next(rng) % 120;

	while (steps-- > 0 && used + 300 < INPUT_MAX) {
		uint8_t len = random_next(rng) % 4 == 0 ? (uint8_t)(random_next(rng) % 12) : 0;

		out[used++] = ops[random_next(rng) % sizeof(ops)];
		out[used++] = (uint8_t)random_next(rng);
		out[used++] = (uint8_t)random_next(rng);
		out[used++] = len;
		while (len-- > 0)
			out[used++] = (uint8_t)random_next(rng);
	}
	return used;
}

int
main(int argc, char **argv)
{
	uint64_t runs = argc > 1 ? strtoull(argv[1], NULL, 0) : RUNS;
	uint64_t rng = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	static uint8_t input[INPUT_MAX];

	for (uint64_t i = 0; i < runs; i++)
		LLVMFuzzerTestOneInput(input, make(&rng, input));
	printf("%llu inputs hold\n", (unsigned long long)runs);
	return EXIT_SUCCESS;
}
