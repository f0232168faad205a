/* SPDX-License-Identifier: BSD-3-Clause */
/* A configuration as a table of fields, each a uint32_t with a name. */
#ifndef SIM_FIELDS_H
#define SIM_FIELDS_H

#include <stddef.h>
#include <stdint.h>
#include "prng.h"

struct sim_field {
	const char *name;
	size_t offset; /* in the configuration */
};

/* Parses "name=value" into cfg. 0, or -EINVAL: no such field. */
int sim_fields_set(const struct sim_field *f, size_t n, void *cfg, const char *text);
/* Prints all fields on a few lines of standard output. */
void sim_fields_print(const struct sim_field *f, size_t n, const void *cfg);

/* A rate of faults: often 0, else from one in a thousand up to max (ppm). */
uint32_t sim_draw_rate(struct sim_rng *r, uint32_t max);
uint32_t sim_clamp(uint32_t v, uint32_t lo, uint32_t hi);

#endif
