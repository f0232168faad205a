/* SPDX-License-Identifier: BSD-3-Clause */
/* What test_table.c expects of each cell of the state tables. */
#ifndef TEST_CM_WANTS_H
#define TEST_CM_WANTS_H

#include <stddef.h>
#include <stdint.h>

/* What is expected of a cell. Cells that are not listed refuse. */
struct want {
	uint8_t state, input;
	const char *sent; /* the message, "" none */
	uint8_t next;     /* CM_GONE, or the state that follows */
	uint8_t event;
};

extern const struct want wants[];
extern const size_t nwants;
/* For the alternate path of an ESTABLISHED id: states are those of the LAP. */
extern const struct want lap_wants[];
extern const size_t nlap_wants;

#endif
