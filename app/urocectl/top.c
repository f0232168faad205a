/* SPDX-License-Identifier: BSD-3-Clause */
/* top: workers, clients and queue pairs by traffic, again and again. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include "urocectl.h"

#define CTRL_C 3
#define LEGAL  "interval S, count N, sort KEY"

const char top_help[] =
	"\ntop: workers' time, and clients and QPs by their traffic; interval and count as watch\n"
	"  sort KEY    tx rx sends receives pid qpn [tx]; t r s e p n on the keyboard, q ends\n"
	"  tx and rx are Gb/s of frames with their headers, also of those sent again.\n";

/* What rows are sorted by; the names of the command and the key on the keyboard. */
static const struct sort {
	const char *name, *rate, *key;
	char letter;
} sorts[] = {
	{"tx", "tx_bytes", NULL, 't'}, {"rx", "rx_bytes", NULL, 'r'},
	{"sends", "sends", NULL, 's'}, {"receives", "receives", NULL, 'e'},
	{"pid", NULL, "pid", 'p'},     {"qpn", NULL, "qpn", 'n'},
};
#define NSORTS (sizeof(sorts) / sizeof(sorts[0]))

static const char *const traffic[] = {"tx_bytes", "rx_bytes", "tx_psns", "rx_psns",
				      "sends",    "receives", NULL};

static const char *const client_columns[] = {"client",
					     "pid",
					     "uid",
					     "program",
					     "device",
					     "qps",
					     "rates.tx_bytes",
					     "rates.rx_bytes",
					     "rates.sends",
					     "rates.receives",
					     NULL};

/* One look at the daemon. */
struct look {
	json_t *worker, *client, *qp;
	uint64_t at_ns;
};

static const struct sort *
sort_named(const char *name)
{
	for (unsigned i = 0; i < NSORTS; i++) {
		if (strcmp(sorts[i].name, name) == 0)
			return &sorts[i];
	}
	return NULL;
}

static void
take_word(struct request *rq, unsigned nth, const char *word)
{
	if (rq->keyword != NULL && strcmp(rq->keyword, "sort") == 0) {
		if (sort_named(word) == NULL)
			usage_error("top: sort key '%s' is unknown; legal: tx rx sends receives "
				    "pid qpn",
				    word);
		rq->sort = word;
		rq->keyword = NULL;
	} else if (rq->keyword == NULL && strcmp(word, "sort") == 0) {
		if (rq->sort != NULL)
			usage_error("top: sort is given twice");
		rq->keyword = word;
	} else if (!repeat_take(rq, word)) {
		usage_error("top: unexpected argument '%s'; legal: " LEGAL, word);
	}
}

static void
check(const struct request *rq)
{
	if (rq->keyword != NULL)
		usage_error("top: '%s' needs a value; legal: " LEGAL, rq->keyword);
}

static void
look_end(struct look *l)
{
	json_decref(l->worker);
	json_decref(l->client);
	json_decref(l->qp);
}

/* False with errno. */
static bool
look(struct ipc_client *c, struct look *l)
{
	*l = (struct look){.worker = query_rows(c, "worker")};
	l->client = l->worker != NULL ? query_rows(c, "client") : NULL;
	l->qp = l->client != NULL ? query_rows(c, "qp") : NULL;
	l->at_ns = rates_now_ns();
	if (l->qp != NULL)
		return true;
	look_end(l);
	return false;
}

/* A client's traffic is that of its QPs. */
static void
client_rates(json_t *clients, const json_t *qps)
{
	json_t *client, *qp, *rates;
	size_t i, k;

	json_array_foreach(clients, i, client)
	{
		rates = json_object();
		for (unsigned t = 0; traffic[t] != NULL; t++) {
			long long sum = 0;

			json_array_foreach(qps, k, qp)
			{
				if (json_equal(json_object_get(qp, "client"),
					       json_object_get(client, "client")))
					sum += row_int(json_object_get(qp, "rates"), traffic[t]);
			}
			json_object_set_new(rates, traffic[t], json_integer(sum));
		}
		json_object_set_new(client, "rates", rates);
	}
}

static const struct sort *order; /* of sort_rows; qsort passes no argument */

static int
by_order(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	long long p, q;

	if (order->key != NULL) {
		p = row_int(y, order->key); /* ascending */
		q = row_int(x, order->key);
	} else {
		p = row_int(json_object_get(x, "rates"), order->rate);
		q = row_int(json_object_get(y, "rates"), order->rate);
	}
	return p > q ? -1 : p < q;
}

static json_t *
sort_rows(json_t *rows, const struct sort *by)
{
	size_t n = json_array_size(rows);
	json_t **row = calloc(n + 1, sizeof(*row)), *sorted = json_array();

	for (size_t i = 0; i < n && row != NULL; i++)
		row[i] = json_array_get(rows, i);
	order = by;
	if (row != NULL)
		qsort(row, n, sizeof(*row), by_order);
	for (size_t i = 0; i < n && row != NULL; i++)
		json_array_append(sorted, row[i]);
	free(row);
	json_decref(rows);
	return sorted;
}

/* Leaves the first n rows. */
static void
shorten(json_t *rows, size_t n)
{
	while (json_array_size(rows) > n)
		json_array_remove(rows, json_array_size(rows) - 1);
}

/* A screen: clients and QPs share the lines that workers and headings leave. */
static void
fit(struct look *l)
{
	struct winsize w = {0};
	size_t workers = json_array_size(l->worker), clients, left;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 || w.ws_row == 0)
		return;
	left = w.ws_row > workers + 8 ? w.ws_row - workers - 8 : 2;
	clients = json_array_size(l->client);
	shorten(l->client, clients < left / 2 ? clients : left / 2);
	shorten(l->qp, left - json_array_size(l->client));
}

static void
print_text(struct look *l, const struct sort *by, bool screen)
{
	time_t now = time(NULL);
	char text[16] = "";
	struct tm tm;

	if (localtime_r(&now, &tm) != NULL)
		strftime(text, sizeof(text), "%H:%M:%S", &tm);
	printf("%surocectl top - %s, workers %zu, clients %zu, QPs %zu, by %s\n\n",
	       screen ? "\033[H\033[J" : "", text, json_array_size(l->worker),
	       json_array_size(l->client), json_array_size(l->qp), by->name);
	if (screen)
		fit(l);
	table_print_columns(rates_columns("worker"), l->worker);
	printf("\n");
	table_print_columns(client_columns, l->client);
	printf("\n");
	table_print_columns(rates_columns("qp"), l->qp);
	if (!screen)
		printf("\n");
}

static void
print_look(const struct look *l, uint64_t interval_ns)
{
	json_t *o = json_pack("{s:I, s:O, s:O, s:O}", "interval_ns", (json_int_t)interval_ns,
			      "worker", l->worker, "client", l->client, "qp", l->qp);

	json_dumpf(o, stdout, JSON_COMPACT);
	printf("\n");
	json_decref(o);
}

/* Reads a key that was pressed. Returns false if it ends the command. */
static bool
take_key(const struct sort **by)
{
	char key;

	if (read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q' || key == CTRL_C)
		return false;
	for (unsigned i = 0; i < NSORTS; i++) {
		if (sorts[i].letter == key)
			*by = &sorts[i];
	}
	return true;
}

/* One report. False with errno; errno 0: the user ends the command. */
static bool
report(struct ipc_client *c, const struct request *rq, struct look *old, const struct sort **by,
       bool screen)
{
	uint64_t interval_ns;
	struct look new;

	if (!rates_sleep(rq->interval_s > 0 ? rq->interval_s : 1, screen ? STDIN_FILENO : -1) &&
	    !take_key(by)) {
		errno = 0;
		return false;
	}
	if (!look(c, &new))
		return false;
	interval_ns = new.at_ns - old->at_ns;
	rates_add("worker", old->worker, new.worker, (double)interval_ns / 1e9);
	rates_add("qp", old->qp, new.qp, (double)interval_ns / 1e9);
	client_rates(new.client, new.qp);
	new.client =
		sort_rows(new.client, (*by)->key != NULL && (*by)->letter == 'n' ? &sorts[0] : *by);
	new.qp = sort_rows(new.qp, *by);
	if (rq->json)
		print_look(&new, interval_ns);
	else
		print_text(&new, *by, screen);
	look_end(old);
	*old = new;
	return true;
}

static int
repeat(struct ipc_client *c, const struct request *rq, bool screen)
{
	const struct sort *by = sort_named(rq->sort != NULL ? rq->sort : "tx");
	struct look old;
	bool good = true;

	if (!look(c, &old))
		return -1;
	for (uint32_t n = 0; good && (rq->count == 0 || n < rq->count); n++) {
		good = report(c, rq, &old, &by, screen);
		if (fflush(stdout) != 0)
			break; /* main prints the error */
	}
	look_end(&old);
	return good || errno == 0 ? EXIT_SUCCESS : -1;
}

static int
run(struct ipc_client *c, const struct request *rq)
{
	bool screen = !rq->batch && !rq->json && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
	struct termios before, raw;
	int status, err;

	if (screen && tcgetattr(STDIN_FILENO, &before) == 0) {
		raw = before;
		raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO | ISIG);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	} else {
		screen = false;
	}
	status = repeat(c, rq, screen);
	err = errno;
	if (screen)
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
	errno = err;
	return status;
}

const struct command top_command = {"top", NULL, take_word, check, NULL, NULL, run};
