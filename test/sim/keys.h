/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of regions and windows from a simulator's random stream. */
#ifndef SIM_KEYS_H
#define SIM_KEYS_H

#include <errno.h>
#include "mem/mr.h"
#include "prng.h"

/* Low bits of a key that do not select its slot, in a table as small as the simulator's. */
#define SIM_KEY_LOW_BITS 12

/* 0 or -ENOMEM, as mr_table_add. One draw, so that other draws do not depend on collisions. */
static inline int
sim_key_add(struct mr_table *t, struct mr *mr, struct sim_rng *r)
{
	uint32_t key = (uint32_t)sim_rand(r);
	int rc;

	while ((rc = mr_table_add(t, mr, key)) == -EEXIST)
		key = key * 0x9e3779b1u + 1;
	return rc;
}

#endif
