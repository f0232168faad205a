/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma_print.h"
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void
line_begin(struct rdma_out *o)
{
	o->row = json_object();
	rewind(o->out);
}

bool
rdma_out_begin(struct rdma_out *o)
{
	o->out = open_memstream(&o->line, &o->size);
	if (o->out == NULL)
		return false;
	o->rows = json_array();
	line_begin(o);
	return true;
}

void
rdma_out_end(struct rdma_out *o)
{
	if (o->json) {
		json_dumpf(o->rows, stdout, o->pretty ? JSON_INDENT(4) : JSON_COMPACT);
		printf("\n");
	}
	json_decref(o->rows);
	json_decref(o->row);
	fclose(o->out);
	free(o->line);
}

void
rdma_out_json_int(struct rdma_out *o, const char *name, long long value)
{
	json_object_set_new(o->row, name, json_integer(value));
}

static void
name_of_dev(struct rdma_out *o, uint32_t index, const char *name)
{
	rdma_out_json_int(o, "ifindex", index);
	json_object_set_new(o->row, "ifname", json_string(name));
}

void
rdma_out_dev(struct rdma_out *o, uint32_t index, const char *name)
{
	name_of_dev(o, index, name);
	fprintf(o->out, "dev %s ", name);
}

void
rdma_out_link(struct rdma_out *o, uint32_t index, const char *name, bool port)
{
	name_of_dev(o, index, name);
	if (port)
		rdma_out_json_int(o, "port", 1);
	fprintf(o->out, "link %s/%s ", name, port ? "1" : "-");
}

void
rdma_out_index(struct rdma_out *o, uint32_t index, const char *name)
{
	name_of_dev(o, index, name);
	fprintf(o->out, "%u: %s: ", index, name);
}

void
rdma_out_int(struct rdma_out *o, const char *name, long long value)
{
	rdma_out_json_int(o, name, value);
	fprintf(o->out, "%s %lld ", name, value);
}

void
rdma_out_text(struct rdma_out *o, const char *name, const char *value)
{
	json_object_set_new(o->row, name, json_string(value));
	fprintf(o->out, "%s %s ", name, value);
}

void
rdma_out_hex(struct rdma_out *o, const char *name, uint64_t value)
{
	json_object_set_new(o->row, name, json_sprintf("%llx", (unsigned long long)value));
	fprintf(o->out, "%s 0x%llx ", name, (unsigned long long)value);
}

static bool
has_value(const json_t *member, const char *value)
{
	uint64_t n;

	if (json_is_string(member))
		return strcasecmp(json_string_value(member), value) == 0;
	return json_is_integer(member) && cli_number(value, 0, INT64_MAX, &n) &&
	       json_integer_value(member) == (json_int_t)n;
}

static bool
matches(const struct rdma_out *o)
{
	for (unsigned i = 0; i < o->nfilters; i++) {
		if (!has_value(json_object_get(o->row, o->filter[i].name), o->filter[i].value))
			return false;
	}
	return true;
}

void
rdma_out_newline(struct rdma_out *o)
{
	fflush(o->out); /* size is that of the line; longer ones before it have left their ends */
	if (matches(o)) {
		json_array_append(o->rows, o->row);
		if (!o->json)
			printf("%.*s\n", (int)o->size, o->line);
	}
	json_decref(o->row);
	line_begin(o);
}
