/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fields.h"

int
sim_fields_set(const struct sim_field *f, size_t n, void *cfg, const char *text)
{
	const char *eq = strchr(text, '=');
	uint32_t v;
	size_t i;

	for (i = 0; eq != NULL && i < n; i++) {
		if (strlen(f[i].name) == (size_t)(eq - text) &&
		    memcmp(f[i].name, text, (size_t)(eq - text)) == 0) {
			v = (uint32_t)strtoul(eq + 1, NULL, 0);
			memcpy((char *)cfg + f[i].offset, &v, sizeof(v));
			return 0;
		}
	}
	return -EINVAL;
}

void
sim_fields_print(const struct sim_field *f, size_t n, const void *cfg)
{
	uint32_t v;
	size_t i;

	for (i = 0; i < n; i++) {
		memcpy(&v, (const char *)cfg + f[i].offset, sizeof(v));
		printf("%s=%u%s", f[i].name, v, i % 10 == 9 || i + 1 == n ? "\n" : " ");
	}
}

uint32_t
sim_draw_rate(struct sim_rng *r, uint32_t max)
{
	return sim_chance(r, 500000) ? 0 : sim_scale(r, 1000, max);
}

uint32_t
sim_clamp(uint32_t v, uint32_t lo, uint32_t hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}
