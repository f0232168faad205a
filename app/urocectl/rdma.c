/* SPDX-License-Identifier: BSD-3-Clause */
/* rdma: devices, links and resources for scripts that were written for rdma(8). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "cli/cli.h"
#include "urocectl.h"

#define MOST_WORDS 40
#define OBJECTS    "pd cq qp cm_id mr ctx srq"

const char rdma_help[] = "\nrdma: the lines and, with --json, the JSON of rdma(8) of iproute2\n"
			 "  dev [show [DEV]]        devices\n"
			 "  link [show [DEV[/1]]]   ports\n"
			 "  statistic [show [DEV[/1]]]  counters\n"
			 "  res [show [DEV]]        how many objects of each kind\n"
			 "  res show OBJECT [dev DEV | link DEV[/1]] [FILTER VALUE]..\n"
			 "    OBJECT: qp cq mr pd srq cm_id ctx; FILTER: a name in its lines, like "
			 "lqpn, pid, state\n";

/*
 * Output in the form of rdma(8), iproute2 6.1: a line of "name value " pairs for each object, or a
 * JSON array of objects with the same names, in the same order.
 */
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

static void
line_begin(struct rdma_out *o)
{
	o->row = json_object();
	rewind(o->out);
}

/* False: no memory. */
static bool
rdma_out_begin(struct rdma_out *o)
{
	o->out = open_memstream(&o->line, &o->size);
	if (o->out == NULL)
		return false;
	o->rows = json_array();
	line_begin(o);
	return true;
}

/* Prints the JSON, if that is asked for, and frees everything. */
static void
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

/* In JSON only. */
static void
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

/* "dev NAME "; index: of the device. */
static void
rdma_out_dev(struct rdma_out *o, uint32_t index, const char *name)
{
	name_of_dev(o, index, name);
	fprintf(o->out, "dev %s ", name);
}

/* "link NAME/1 ", or "link NAME/- " without port. */
static void
rdma_out_link(struct rdma_out *o, uint32_t index, const char *name, bool port)
{
	name_of_dev(o, index, name);
	if (port)
		rdma_out_json_int(o, "port", 1);
	fprintf(o->out, "link %s/%s ", name, port ? "1" : "-");
}

/* "N: NAME: ", of a summary and of devices. */
static void
rdma_out_index(struct rdma_out *o, uint32_t index, const char *name)
{
	name_of_dev(o, index, name);
	fprintf(o->out, "%u: %s: ", index, name);
}

static void
rdma_out_int(struct rdma_out *o, const char *name, long long value)
{
	rdma_out_json_int(o, name, value);
	fprintf(o->out, "%s %lld ", name, value);
}

static void
rdma_out_text(struct rdma_out *o, const char *name, const char *value)
{
	json_object_set_new(o->row, name, json_string(value));
	fprintf(o->out, "%s %s ", name, value);
}

/* "name 0x1234 "; in JSON a string of digits without 0x, as rdma(8) prints it. */
static void
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

/* The object is complete. */
static void
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

/* What the daemon said, and what is asked. */
struct tables {
	json_t *device, *port, *rows;
};

struct object {
	const char *name;  /* of rdma(8) */
	const char *topic; /* of the daemon */
	void (*print)(struct rdma_out *o, const struct tables *t, const json_t *row);
	const char *filters; /* names in its lines */
};

/* The number of a device in the daemon's list, as an ifindex. */
static uint32_t
index_of(const struct tables *t, const char *name)
{
	json_t *row;
	size_t i;

	json_array_foreach(t->device, i, row)
	{
		if (strcmp(row_text(row, "device"), name) == 0)
			return (uint32_t)i;
	}
	return 0;
}

static void
print_of_dev(struct rdma_out *o, const struct tables *t, const json_t *row)
{
	const char *dev = row_text(row, "device");

	rdma_out_dev(o, index_of(t, dev), dev);
}

static void
print_of_link(struct rdma_out *o, const struct tables *t, const json_t *row, bool bound)
{
	const char *dev = bound ? row_text(row, "device") : "";

	rdma_out_link(o, index_of(t, dev), dev, bound);
}

static bool
is_connected(const json_t *row)
{
	return strcmp(row_text(row, "type"), "UD") != 0;
}

static bool
is_up(const json_t *row)
{
	return strcmp(row_text(row, "link"), "up") == 0;
}

/* The row of a device or port, by name. */
static const json_t *
row_of(const json_t *rows, const char *dev)
{
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		if (strcmp(row_text(row, "device"), dev) == 0)
			return row;
	}
	return NULL;
}

static const json_t *
port_of(const struct tables *t, const json_t *row)
{
	return row_of(t->port, row_text(row, "device"));
}

/* The kernel's names of two states differ. */
static const char *
cm_state(const char *state)
{
	return strcmp(state, "BOUND") == 0     ? "ADDR_BOUND"
	       : strcmp(state, "REMOVED") == 0 ? "DEVICE_REMOVAL"
					       : state;
}

#define TOPIC(name)                                                                                \
	static void print_##name(struct rdma_out *o, const struct tables *t, const json_t *row)    \
	{
#define END  }
#define DEV  print_of_dev(o, t, row);
#define LINK print_of_link(o, t, row, true);
#define DEV_NUMBERED                                                                               \
	rdma_out_index(o, index_of(t, row_text(row, "device")), row_text(row, "device"));
#define LINK_IF(cond)                        print_of_link(o, t, row, cond);
#define UINT(name, who, unit, doc, ...)      rdma_out_int(o, name, __VA_ARGS__);
#define TEXT(name, who, doc, ...)            rdma_out_text(o, name, __VA_ARGS__);
#define WORD(name, who, words, doc, ...)     TEXT(name, who, doc, __VA_ARGS__)
#define HEX_TEXT(name, who, doc, ...)        rdma_out_hex(o, name, __VA_ARGS__);
#define JSON_UINT(name, who, unit, doc, ...) rdma_out_json_int(o, name, __VA_ARGS__);
#define IF(cond)                             if (cond) {
#define FI                                   }
#include "fields.h"

/* The names in the lines of an object, each after a blank. */
#define RDMA_OBJECTS
#define TOPIC(name)                     static const char filters_##name[] = ""
#define END                             ;
#define UINT(name, who, unit, doc, ...) " " name
#define TEXT(name, who, doc, ...)       " " name
#include "fields.h"

#define RDMA_OBJECTS
#define UINT(name, who, unit, doc, ...) name " "
static const char numbers[] =
#include "fields.h"
	"";

#define OBJECT(name, topic)                                                                        \
	{                                                                                          \
#name, topic, print_rdma_res_##name, filters_rdma_res_##name                       \
	}
static const struct object objects[] = {
	OBJECT(pd, "pd"), OBJECT(cq, "cq"),      OBJECT(qp, "qp"),   OBJECT(cm_id, "cm"),
	OBJECT(mr, "mr"), OBJECT(ctx, "client"), OBJECT(srq, "srq"),
};
#define NOBJECTS (sizeof(objects) / sizeof(objects[0]))

/* The words after rdma, kept because each decides what the next may be. */
static struct {
	const char *word[MOST_WORDS];
	unsigned n;
	const char *kind;            /* "dev", "link", "statistic" or "res" */
	const struct object *object; /* of res; NULL: all */
	char dev[UROCE_DEV_NAME_MAX];
	struct rdma_out out;
} ask_for;

static void
take_word(struct request *rq, unsigned nth, const char *word)
{
	if (nth >= MOST_WORDS)
		usage_error("rdma: more than %d words", MOST_WORDS);
	ask_for.word[ask_for.n++] = word;
}

/* "uroce0" or "uroce0/1". */
static void
take_dev(const char *word, bool port)
{
	size_t len = strcspn(word, "/");

	if (ask_for.dev[0] != '\0')
		usage_error("rdma res show %s: %s '%s', but '%s' is given, too",
			    ask_for.object->name, port ? "link" : "dev", word, ask_for.dev);
	if (len == 0 || len >= sizeof(ask_for.dev))
		usage_error("rdma %s: '%s' is not a device name", ask_for.kind, word);
	if (word[len] != '\0' && (!port || strcmp(word + len, "/1") != 0))
		usage_error("rdma %s: '%s': a device has no port '%s'; legal: %.*s%s", ask_for.kind,
			    word, word + len + 1, (int)len, word, port ? "/1" : "");
	memcpy(ask_for.dev, word, len);
}

static bool
is_word_of(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = list; len > 0 && (at = strstr(at, word)) != NULL; at += len) {
		if ((at == list || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
			return true;
	}
	return false;
}

/* A filter other than dev and link. Each is given once, hence there is room. */
static void
take_filter(const struct object *x, const char *name, const char *value)
{
	struct rdma_out *o = &ask_for.out;
	uint64_t n;

	for (unsigned i = 0; i < o->nfilters; i++) {
		if (strcmp(o->filter[i].name, name) == 0)
			usage_error("rdma res show %s: %s is given twice", x->name, name);
	}
	if (is_word_of(numbers, name) && !cli_number(value, 0, INT64_MAX, &n))
		usage_error("rdma res show %s: %s '%s' is not a number from 0 to %lld", x->name,
			    name, value, (long long)INT64_MAX);
	o->filter[o->nfilters].name = name;
	o->filter[o->nfilters++].value = value;
}

/* Pairs from word i on. */
static void
take_filters(unsigned i)
{
	const struct object *x = ask_for.object;

	for (; i < ask_for.n; i += 2) {
		const char *name = ask_for.word[i];
		bool link = strcmp(name, "link") == 0, dev = strcmp(name, "dev") == 0;

		if (!link && !dev && !is_word_of(x->filters, name))
			usage_error("rdma res show %s: unknown filter '%s'; legal: dev link%s",
				    x->name, name, x->filters);
		if (i + 1 == ask_for.n)
			usage_error("rdma res show %s: filter %s needs a value", x->name, name);
		if (link || dev)
			take_dev(ask_for.word[i + 1], link);
		else
			take_filter(x, name, ask_for.word[i + 1]);
	}
}

/* The words after "show". */
static void
take_shown(unsigned i)
{
	if (i == ask_for.n)
		return;
	for (unsigned k = 0; k < NOBJECTS && strcmp(ask_for.kind, "res") == 0; k++) {
		if (strcmp(objects[k].name, ask_for.word[i]) == 0)
			ask_for.object = &objects[k];
	}
	if (ask_for.object != NULL) {
		take_filters(i + 1);
		return;
	}
	/* as in rdma(8): "statistic show link uroce0/1" */
	if (strcmp(ask_for.kind, "statistic") == 0 && strcmp(ask_for.word[i], "link") == 0 &&
	    i + 1 < ask_for.n)
		i++;
	take_dev(ask_for.word[i],
		 strcmp(ask_for.kind, "link") == 0 || strcmp(ask_for.kind, "statistic") == 0);
	if (i + 1 < ask_for.n)
		usage_error("rdma %s show: unexpected argument '%s'%s", ask_for.kind,
			    ask_for.word[i + 1],
			    strcmp(ask_for.kind, "res") == 0 ? "; objects are " OBJECTS : "");
}

static void
check(const struct request *rq)
{
	static const char legal[] = "dev, link, statistic, res";
	unsigned i = 1;

	if (ask_for.n == 0)
		usage_error("rdma: nothing to show; legal: %s", legal);
	if (strcmp(ask_for.word[0], "dev") == 0 || strcmp(ask_for.word[0], "link") == 0 ||
	    strcmp(ask_for.word[0], "res") == 0)
		ask_for.kind = ask_for.word[0];
	else if (strcmp(ask_for.word[0], "statistic") == 0 || strcmp(ask_for.word[0], "stat") == 0)
		ask_for.kind = "statistic";
	else if (strcmp(ask_for.word[0], "resource") == 0)
		ask_for.kind = "res";
	else
		usage_error("rdma: unknown '%s'; legal: %s", ask_for.word[0], legal);
	if (i < ask_for.n && strcmp(ask_for.word[i], "show") != 0 &&
	    strcmp(ask_for.word[i], "list") != 0)
		usage_error("rdma %s: unknown '%s'; legal: show, list", ask_for.kind,
			    ask_for.word[i]);
	take_shown(i + 1 < ask_for.n ? i + 1 : ask_for.n);
}

static bool
wanted(const char *dev)
{
	return ask_for.dev[0] == '\0' || strcmp(ask_for.dev, dev) == 0;
}

static void
print_links(struct rdma_out *o, const struct tables *t)
{
	json_t *dev;
	size_t i;

	json_array_foreach(t->device, i, dev)
	{
		if (!wanted(row_text(dev, "device")))
			continue;
		print_rdma_link(o, t, dev);
		rdma_out_newline(o);
	}
}

static void
print_devs(struct rdma_out *o, const struct tables *t)
{
	json_t *dev;
	size_t i;

	json_array_foreach(t->device, i, dev)
	{
		if (!wanted(row_text(dev, "device")))
			continue;
		print_rdma_dev(o, t, dev);
		rdma_out_newline(o);
	}
}

/* Every counter of each device. False with errno. */
static bool
print_statistics(struct ipc_client *c, struct rdma_out *o, struct tables *t)
{
	json_t *dev, *value;
	const char *name;
	size_t i;

	t->rows = query_rows(c, "stats");
	json_array_foreach(t->rows, i, dev)
	{
		if (!wanted(row_text(dev, "device")))
			continue;
		rdma_out_link(o, index_of(t, row_text(dev, "device")), row_text(dev, "device"),
			      true);
		json_object_foreach(json_object_get(dev, "total"), name, value)
			rdma_out_int(o, name, json_integer_value(value));
		rdma_out_newline(o);
	}
	return t->rows != NULL;
}

/* How many rows of the topic are of that device. False with errno. */
static bool
print_count(struct ipc_client *c, struct rdma_out *o, const struct object *x, const char *dev)
{
	json_t *rows = query_rows(c, x->topic), *row;
	long long n = 0;
	size_t i;

	if (rows == NULL)
		return false;
	json_array_foreach(rows, i, row) n += strcmp(row_text(row, "device"), dev) == 0;
	json_decref(rows);
	rdma_out_int(o, x->name, n);
	return true;
}

static bool
print_summary(struct ipc_client *c, struct rdma_out *o, const struct tables *t)
{
	json_t *dev;
	size_t i;

	json_array_foreach(t->device, i, dev)
	{
		if (!wanted(row_text(dev, "device")))
			continue;
		rdma_out_index(o, (uint32_t)i, row_text(dev, "device"));
		for (unsigned k = 0; k < NOBJECTS; k++) {
			if (!print_count(c, o, &objects[k], row_text(dev, "device")))
				return false;
		}
		rdma_out_newline(o);
	}
	return true;
}

/* Objects of other users, whose numbers are hidden, are left out. */
static bool
print_objects(struct ipc_client *c, struct rdma_out *o, struct tables *t)
{
	json_t *row;
	size_t i;

	t->rows = query_rows(c, ask_for.object->topic);
	json_array_foreach(t->rows, i, row)
	{
		if (json_object_get(row, "pid") == NULL || !wanted(row_text(row, "device")))
			continue;
		ask_for.object->print(o, t, row);
		rdma_out_newline(o);
	}
	return t->rows != NULL;
}

static int
run(struct ipc_client *c, const struct request *rq)
{
	struct tables t = {.device = query_rows(c, "device")};
	struct rdma_out *o = &ask_for.out;
	bool good = t.device != NULL;
	char of[128];

	o->json = rq->json;
	o->pretty = rq->pretty;
	if (good && ask_for.dev[0] != '\0' && row_of(t.device, ask_for.dev) == NULL) {
		snprintf(of, sizeof(of), "rdma %s%s", ask_for.kind,
			 strcmp(ask_for.kind, "res") == 0 && ask_for.object == NULL
				 ? ": not an object (" OBJECTS ")"
				 : "");
		device_is_known(c, of, ask_for.dev);
		json_decref(t.device);
		return EXIT_FAILURE;
	}
	good = good && (t.port = query_rows(c, "port")) != NULL && rdma_out_begin(o);
	if (good && strcmp(ask_for.kind, "link") == 0)
		print_links(o, &t);
	else if (good && strcmp(ask_for.kind, "dev") == 0)
		print_devs(o, &t);
	else if (good && strcmp(ask_for.kind, "statistic") == 0)
		good = print_statistics(c, o, &t);
	else if (good)
		good = ask_for.object != NULL ? print_objects(c, o, &t) : print_summary(c, o, &t);
	if (good)
		rdma_out_end(o);
	json_decref(t.device);
	json_decref(t.port);
	json_decref(t.rows);
	return good ? EXIT_SUCCESS : -1;
}

const struct command rdma_command = {"rdma", NULL, take_word, check, NULL, NULL, run};
