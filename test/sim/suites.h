/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Named runs of the simulator: a requirement, a range of seeds, and a configuration that tests the
 * requirement. meson registers each as a test (test/sim/meson.build).
 */
#ifndef SIM_SUITES_H
#define SIM_SUITES_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_SUITE_SETS 12

struct sim_suite {
	const char *name;
	uint32_t runs;
	const char *set[SIM_SUITE_SETS]; /* NULL terminated */
	bool mesh;                       /* of mesh/mesh.h */
};

/* NULL terminated by name. */
extern const struct sim_suite sim_suites[];
/* NULL: no suite of that name. */
const struct sim_suite *sim_suite_find(const char *name);

#endif
