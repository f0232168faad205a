/* SPDX-License-Identifier: BSD-3-Clause */
/* watch: a topic again and again, with the rates of its counters. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "cli/cli.h"
#include "urocectl.h"

struct rate {
	const char *key, *name;
	unsigned bits; /* the counter wraps there */
};

#define RATES(name)                    static const struct rate rates_##name[] = {
#define RATE(counter, name, bits, doc) {counter, name, bits},
#define RATES_END                                                                                  \
	{                                                                                          \
		NULL, NULL, 0                                                                      \
	}                                                                                          \
	}                                                                                          \
	;
#include "../uroced/fields.h"

static const struct rates {
	const char *what;
	const char *id; /* finds the same object in the earlier answer */
	const struct rate *rate;
	const char *column[16];
} topics[] = {
	{"qp",
	 "qpn",
	 rates_qp,
	 {"qpn", "type", "state", "device", "pid", "program", "rates.tx_bytes", "rates.rx_bytes",
	  "rates.sends", "rates.receives", "sq_waiting", "rq_waiting", "error"}},
	{"cq",
	 "cq",
	 rates_cq,
	 {"cq", "device", "pid", "program", "rates.completions", "entries", "waiting", "error"}},
	{"worker",
	 "worker",
	 rates_worker,
	 {"worker", "lcore", "state", "qps", "rates.busy_percent", "rates.rx_frames",
	  "rates.rx_bytes", "rates.tx_frames", "rates.tx_bytes", "rates.doorbells"}},
};

static const struct rates *
rates_of(const char *what)
{
	for (unsigned i = 0; i < sizeof(topics) / sizeof(topics[0]); i++) {
		if (strcmp(topics[i].what, what) == 0)
			return &topics[i];
	}
	return NULL;
}

const char *const *
rates_columns(const char *what)
{
	const struct rates *r = rates_of(what);

	return r != NULL ? r->column : NULL;
}

/* The row whose member id equals that of row; NULL: none, or it is hidden. */
static const json_t *
same_in(const json_t *rows, const char *id, const json_t *row)
{
	const json_t *value = json_object_get(row, id), *one;
	size_t i;

	json_array_foreach(rows, i, one)
	{
		if (value != NULL && json_equal(json_object_get(one, id), value))
			return one;
	}
	return NULL;
}

static uint64_t
grown(const json_t *before, const json_t *after, const char *key, unsigned bits)
{
	uint64_t n = (uint64_t)row_int(after, key) - (uint64_t)row_int(before, key);

	return bits < 64 ? n & ((1ull << bits) - 1) : n;
}

static json_t *
a_second(uint64_t n, double seconds)
{
	return json_integer(llround((double)n / seconds));
}

static json_t *
busy_percent(const json_t *before, const json_t *after)
{
	double busy = (double)grown(before, after, "busy_ns", 64);
	double idle = (double)grown(before, after, "idle_ns", 64);

	/* two decimals; a worker that slept all the time has counted nothing */
	return json_real(busy + idle > 0 ? round(10000 * busy / (busy + idle)) / 100 : 0);
}

static json_t *
rates_row(const struct rates *r, const json_t *before, const json_t *after, double seconds)
{
	json_t *o;

	/* PSNs start anew when a QP is connected */
	if (before == NULL || (strcmp(r->what, "qp") == 0 &&
			       strcmp(row_text(before, "state"), row_text(after, "state")) != 0))
		return json_null();
	o = json_object();
	if (strcmp(r->what, "worker") == 0)
		json_object_set_new(o, "busy_percent", busy_percent(before, after));
	for (const struct rate *c = r->rate; c->key != NULL; c++)
		json_object_set_new(o, c->name,
				    a_second(grown(before, after, c->key, c->bits), seconds));
	return o;
}

/* Of the members of "total". */
static json_t *
counter_rates(const json_t *before, const json_t *row, double seconds)
{
	json_t *old = json_object_get(before, "total"), *o, *value;
	const char *key;

	if (old == NULL)
		return json_null();
	o = json_object();
	json_object_foreach(json_object_get(row, "total"), key, value)
	{
		json_object_set_new(o, key,
				    a_second(grown(old, json_object_get(row, "total"), key, 64),
					     seconds));
	}
	return o;
}

bool
rates_add(const char *what, const json_t *before, json_t *after, double seconds)
{
	const struct rates *r = rates_of(what);
	bool counters = topic_find("watch", what)->counters;
	json_t *row;
	size_t i;

	if (r == NULL && !counters)
		return false;
	json_array_foreach(after, i, row)
	{
		const json_t *old = same_in(before, counters ? "device" : r->id, row);

		json_object_set_new(row, "rates",
				    counters ? counter_rates(old, row, seconds)
					     : rates_row(r, old, row, seconds));
	}
	return true;
}

uint64_t
rates_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

bool
rates_sleep(double seconds, int tty)
{
	struct pollfd fd = {.fd = tty, .events = POLLIN};
	uint64_t end = rates_now_ns() + (uint64_t)(seconds * 1e9), now;

	while ((now = rates_now_ns()) < end) {
		int rc = poll(&fd, 1, (int)((end - now + 999999) / 1000000));

		if (rc > 0)
			return false;
		if (rc < 0 && errno != EINTR)
			return true;
	}
	return true;
}

double
rates_interval(const char *of, const char *word)
{
	char *end;
	double s = strtod(word, &end);

	if (*word < '0' || *word > '9' || *end != '\0' || !(s >= 0.1 && s <= 3600))
		usage_error("%s: interval '%s' is not a number of seconds from 0.1 to 3600", of,
			    word);
	return s;
}

#define LEGAL_REST "interval S, count N"

const char watch_help[] =
	"\nwatch WHAT: repeats show WHAT; adds rates per second to stats, drops, cm_stats, qp, cq, "
	"worker\n"
	"  interval S  seconds between two reports, 0.1 to 3600 [1]\n"
	"  count N     end after N reports, as option -n [no end]\n"
	"  PSNs: packets of requests; a READ counts with the packets of its response.\n";

bool
repeat_take(struct request *rq, const char *word)
{
	uint64_t n;

	if (rq->keyword == NULL) {
		if (strcmp(word, "interval") != 0 && strcmp(word, "count") != 0)
			return false;
		if (word[0] == 'i' ? rq->interval_s > 0 : rq->count > 0)
			usage_error("%s: %s is given twice", rq->cmd->name, word);
		rq->keyword = word;
		return true;
	}
	if (strcmp(rq->keyword, "interval") == 0)
		rq->interval_s = rates_interval(rq->cmd->name, word);
	else if (cli_number(word, 1, 1000000000, &n))
		rq->count = (uint32_t)n;
	else
		usage_error("%s: count '%s' is not a number from 1 to 1000000000", rq->cmd->name,
			    word);
	rq->keyword = NULL;
	return true;
}

static void
take_word(struct request *rq, unsigned nth, const char *word)
{
	char words[256];

	if (nth == 0) {
		show_take_topic(rq, word);
		return;
	}
	if ((rq->filters.waits == NULL && repeat_take(rq, word)) ||
	    filter_take(&rq->filters, rq->topic->filters, "watch", word))
		return;
	filter_words(rq->topic->filters, words, sizeof(words));
	usage_error("watch %s: unexpected argument '%s'; legal: %s%s" LEGAL_REST, rq->what, word,
		    words, words[0] != '\0' ? ", " : "");
}

static void
check(const struct request *rq)
{
	if (rq->what == NULL)
		usage_error("watch: nothing to watch; legal: watch %s", topic_names());
	if (rq->keyword != NULL)
		usage_error("watch %s: '%s' needs a value; legal: " LEGAL_REST, rq->what,
			    rq->keyword);
	filter_check(&rq->filters, "watch", rq->topic->states, rq->topic->types);
}

static void
print_text(const struct request *rq, json_t *rows, bool rates)
{
	const char *const *columns = rates_columns(rq->what);
	time_t now = time(NULL);
	char text[32] = "";
	struct tm tm;

	if (isatty(STDOUT_FILENO))
		printf("\033[H\033[J");
	if (localtime_r(&now, &tm) != NULL)
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	printf("%s  %s\n", text, rq->what);
	if (rq->topic->counters)
		table_print_counters(rows, rq->all, true);
	else if (rates && columns != NULL && !rq->details)
		table_print_columns(columns, rows);
	else
		show_print(rq, rows);
	printf("\n");
}

/* One report: from old, at *at_ns, to the returned answer; NULL with errno. */
static json_t *
report(struct ipc_client *c, const struct request *rq, const json_t *old, uint64_t *at_ns)
{
	json_t *new = show_ask(c, rq);
	uint64_t now_ns = rates_now_ns();
	bool rates;

	if (new == NULL)
		return NULL;
	rates = rates_add(rq->what, json_object_get(old, rq->what), json_object_get(new, rq->what),
			  (double)(now_ns - *at_ns) / 1e9);
	if (rq->json) {
		json_object_set_new(new, "interval_ns",
				    json_integer((json_int_t)(now_ns - *at_ns)));
		json_dumpf(new, stdout, JSON_COMPACT);
		printf("\n");
	} else {
		print_text(rq, json_object_get(new, rq->what), rates);
	}
	*at_ns = now_ns;
	return new;
}

static int
run(struct ipc_client *c, const struct request *rq)
{
	json_t *old = show_ask(c, rq), *new;
	uint64_t at_ns = rates_now_ns();

	for (uint32_t n = 0; old != NULL && (rq->count == 0 || n < rq->count); n++) {
		rates_sleep(rq->interval_s > 0 ? rq->interval_s : 1, -1);
		new = report(c, rq, old, &at_ns);
		json_decref(old);
		old = new;
		if (fflush(stdout) != 0)
			break; /* main prints the error */
	}
	if (old == NULL)
		return -1;
	json_decref(old);
	return EXIT_SUCCESS;
}

const struct command watch_command = {"watch", NULL, take_word, check, NULL, NULL, run};
