/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include "prng.h"

static uint64_t
rng_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void
sim_rng_init(struct sim_rng *r, uint64_t seed, uint64_t stream)
{
	r->state = rng_mix(seed ^ rng_mix(stream + 1));
}

uint64_t
sim_rand(struct sim_rng *r)
{
	r->state += 0x9e3779b97f4a7c15u;
	return rng_mix(r->state);
}

uint32_t
sim_below(struct sim_rng *r, uint32_t n)
{
	return (uint32_t)(((sim_rand(r) >> 32) * n) >> 32);
}

uint32_t
sim_between(struct sim_rng *r, uint32_t lo, uint32_t hi)
{
	return lo + sim_below(r, hi - lo + 1);
}

bool
sim_chance(struct sim_rng *r, uint32_t ppm)
{
	return ppm != 0 && sim_below(r, 1000000) < ppm;
}

uint32_t
sim_scale(struct sim_rng *r, uint32_t lo, uint32_t hi)
{
	uint32_t steps = 0, top;

	while (steps < 31 && (uint64_t)lo << (steps + 1) <= hi)
		steps++;
	lo <<= sim_below(r, steps + 1);
	top = lo > hi / 2 ? hi : 2 * lo - 1;
	return sim_between(r, lo, top < lo ? lo : top);
}

void
sim_rand_fill(struct sim_rng *r, void *buf, size_t bytes)
{
	uint8_t *p = buf;

	while (bytes > 0) {
		uint64_t v = sim_rand(r);
		size_t n = bytes < sizeof(v) ? bytes : sizeof(v);

		memcpy(p, &v, n);
		p += n;
		bytes -= n;
	}
}
