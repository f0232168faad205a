/* SPDX-License-Identifier: BSD-3-Clause */
/* watch: a topic again and again, with the rates of its counters. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "cli/cli.h"
#include "urocectl.h"

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
