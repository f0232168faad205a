/* SPDX-License-Identifier: BSD-3-Clause */
/* Figures of a run. */
#ifndef FABRIC_MEASURE_H
#define FABRIC_MEASURE_H

#include <stdint.h>

/* Jain's index of n shares, 1/n .. 1; 1 if all of them are 0. */
double measure_jain(const double *share, uint32_t n);
/* Smallest v[i] that at least `percent` (1 .. 100) of n > 0 values do not exceed. Sorts v. */
uint32_t measure_percentile(uint32_t *v, uint32_t n, uint32_t percent);

#endif
