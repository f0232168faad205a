/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output in the form of rdma(8), iproute2 6.1: a line of "name value " pairs for each object, or a
 * JSON array of objects with the same names, in the same order.
 */
#ifndef UROCECTL_RDMA_PRINT_H
#define UROCECTL_RDMA_PRINT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <jansson.h>

#define RDMA_FILTERS 10

/* The caller sets json, pretty and the filters; the rest is private. */
struct rdma_out {
	bool json, pretty;
	/* only objects whose members have these values (case is ignored) are printed */
	struct {
		const char *name, *value;
	} filter[RDMA_FILTERS];
	unsigned nfilters;
	json_t *rows, *row;
	char *line; /* of the object being printed */
	size_t size;
	FILE *out; /* writes it */
};

/* False: no memory. */
bool rdma_out_begin(struct rdma_out *o);
/* Prints the JSON, if that is asked for, and frees everything. */
void rdma_out_end(struct rdma_out *o);

/* "dev NAME "; "link NAME/1 ", or "link NAME/- " without port. index: of the device. */
void rdma_out_dev(struct rdma_out *o, uint32_t index, const char *name);
void rdma_out_link(struct rdma_out *o, uint32_t index, const char *name, bool port);
/* "N: NAME: ", of a summary and of devices. */
void rdma_out_index(struct rdma_out *o, uint32_t index, const char *name);

void rdma_out_int(struct rdma_out *o, const char *name, long long value);
void rdma_out_text(struct rdma_out *o, const char *name, const char *value);
/* "name 0x1234 "; in JSON a string of digits without 0x, as rdma(8) prints it. */
void rdma_out_hex(struct rdma_out *o, const char *name, uint64_t value);
/* In JSON only. */
void rdma_out_json_int(struct rdma_out *o, const char *name, long long value);
/* The object is complete. */
void rdma_out_newline(struct rdma_out *o);

#endif
