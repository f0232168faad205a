/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocates whole cache lines, for objects that one worker writes for every packet or completion.
 * malloc may put objects of two workers into one line, which each then takes from the other.
 * `uroce-bench scale --lines` finds such lines.
 */
#ifndef QP_LINES_H
#define QP_LINES_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define QP_LINE_BYTES 64u

/* Control thread. Zeroed memory, freed by free(). NULL: no memory. */
static inline void *
qp_lines_zalloc(size_t bytes)
{
	size_t whole = (bytes + QP_LINE_BYTES - 1) / QP_LINE_BYTES * QP_LINE_BYTES;
	void *mem = aligned_alloc(QP_LINE_BYTES, whole);

	return mem == NULL ? NULL : memset(mem, 0, whole);
}

#endif
