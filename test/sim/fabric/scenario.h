/* SPDX-License-Identifier: BSD-3-Clause */
/* The fabric of all measurements: rates, delays, buffer and marks of a data centre's switch. */
#ifndef FABRIC_SCENARIO_H
#define FABRIC_SCENARIO_H

#include "fabric.h"
#include "runs.h"

/* Thresholds for 25 Gb/s, as in HPCC's scripts; both grow with the rate. */
#define SCENARIO_KMIN     100000u
#define SCENARIO_KMAX     400000u
#define SCENARIO_PMAX_PPM 200000u
#define SCENARIO_DELAY_NS 1000u

struct fabric *scenario_open(const struct runs_options *o, uint32_t hosts);

#endif
