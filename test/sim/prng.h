/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random numbers of the simulator: a 64-bit counter through a mixing function (splitmix64), so that
 * a stream is one word, and streams that start from different words are independent. Everything
 * that a schedule does at random comes from streams made of its seed.
 */
#ifndef SIM_PRNG_H
#define SIM_PRNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_rng {
	uint64_t state;
};

/* Stream number `stream` of `seed`. */
void sim_rng_init(struct sim_rng *r, uint64_t seed, uint64_t stream);
uint64_t sim_rand(struct sim_rng *r);
/* 0 .. n-1; 0 for n 0. */
uint32_t sim_below(struct sim_rng *r, uint32_t n);
/* lo .. hi, both included. */
uint32_t sim_between(struct sim_rng *r, uint32_t lo, uint32_t hi);
/* True ppm times in a million. */
bool sim_chance(struct sim_rng *r, uint32_t ppm);
/* lo .. hi, each power of two with the same probability: many small values, few large ones. */
uint32_t sim_scale(struct sim_rng *r, uint32_t lo, uint32_t hi);
void sim_rand_fill(struct sim_rng *r, void *buf, size_t bytes);

#endif
