/* SPDX-License-Identifier: BSD-3-Clause */
#include "parts.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <rte_telemetry.h>
#include "control/daemon.h"
#include "control/device.h"
#include "control/log.h"
#include "control/obj.h"
#include "dpdk/compat.h"
#include "show.h"
#include "wire/hdr.h"

#define PARAMS_MAX 64
#define KEY_MAX    64

/* Control thread. Makes the reply to a request; NULL: the parameter is missing or names nothing. */
typedef json_t *make_fn(struct daemon *d, const char *params);

static struct telemetry {
	pthread_mutex_t turn;  /* one request at a time */
	pthread_mutex_t mutex; /* protects the fields below, except watch and d */
	pthread_cond_t done;
	enum { IDLE, ASKED, ANSWERED } state;
	bool open;
	make_fn *make;
	char params[PARAMS_MAX];
	json_t *reply;
	struct watch watch;
	struct daemon *d;
} tel = {.turn = PTHREAD_MUTEX_INITIALIZER,
	 .mutex = PTHREAD_MUTEX_INITIALIZER,
	 .done = PTHREAD_COND_INITIALIZER,
	 .watch.fd = -1};

/* Returns a new reference to the element of a topic whose member key has this value, or NULL. */
static json_t *
pick(struct daemon *d, const char *topic, const char *name)
{
	json_t *all = show_all(d, topic, -1), *row, *found = NULL;
	size_t i;

	json_array_foreach(json_object_get(all, topic), i, row)
	{
		if (strcmp(json_string_value(json_object_get(row, "device")), name) == 0)
			found = json_incref(row);
	}
	json_decref(all);
	return found;
}

static json_t *
make_list(struct daemon *d, const char *params)
{
	json_t *out = json_array();

	for (uint32_t i = 0; i < d->ndevs; i++)
		json_array_append_new(out, json_string(d->dev[i]->name));
	return out;
}

static json_t *
make_device(struct daemon *d, const char *params)
{
	return pick(d, "device", params);
}

static json_t *
make_port(struct daemon *d, const char *params)
{
	return pick(d, "port", params);
}

/* "DEVICE" or "DEVICE,WORKER". */
static json_t *
counters(struct daemon *d, const char *topic, const char *params)
{
	char name[PARAMS_MAX];
	const char *comma = strchr(params, ',');
	json_t *row, *out;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(params, ","), params);
	row = pick(d, topic, name);
	out = comma == NULL ? json_object_get(row, "total")
			    : json_array_get(json_object_get(row, "workers"),
					     strtoul(comma + 1, NULL, 10));
	json_incref(out);
	json_decref(row);
	return out;
}

static json_t *
make_stats(struct daemon *d, const char *params)
{
	return counters(d, "stats", params);
}

static json_t *
make_drops(struct daemon *d, const char *params)
{
	return counters(d, "drops", params);
}

static json_t *
make_qps(struct daemon *d, const char *params)
{
	json_t *out = json_array();
	struct obj_qp *q;

	for (uint32_t i = 0; i < d->ndevs; i++) {
		TAILQ_FOREACH (q, &d->dev[i]->qps, dev_link) {
			if (json_array_size(out) == RTE_TEL_MAX_ARRAY_ENTRIES)
				return out;
			json_array_append_new(out, json_integer(q->qp->conn.qpn));
		}
	}
	return out;
}

static json_t *
make_qp(struct daemon *d, const char *params)
{
	unsigned long qpn;
	json_t *all, *out;
	char *end;

	if (!isdigit((unsigned char)*params))
		return NULL;
	qpn = strtoul(params, &end, 0);
	if (*end != '\0' || qpn > WIRE_QPN_MASK)
		return NULL;
	all = show_all(d, "qp", (int64_t)qpn);
	out = json_incref(json_array_get(json_object_get(all, "qp"), 0));
	json_decref(all);
	return out;
}

static json_t *
make_workers(struct daemon *d, const char *params)
{
	json_t *out = json_array();

	for (uint32_t w = 0; w < d->nworkers; w++)
		json_array_append_new(out, json_integer(w));
	return out;
}

/* Returns the counters of one worker, summed over all devices. */
static json_t *
make_worker(struct daemon *d, const char *params)
{
	unsigned long w = isdigit((unsigned char)*params) ? strtoul(params, NULL, 10) : d->nworkers;
	json_t *out;

	if (w >= d->nworkers)
		return NULL;
	out = json_object();
	for (unsigned i = 0; i < COUNTER_NUM; i++) {
		uint64_t sum = 0;

		for (uint32_t k = 0; k < d->ndevs; k++)
			sum += counters_read(&worker_counters(worker_get(d->workers, (unsigned)w),
							      d->dev[k]->port.id)
						      ->ctr[i]);
		json_object_set_new(out, counter_name[i], json_integer((json_int_t)sum));
	}
	return out;
}

static const struct command {
	const char *cmd;
	make_fn *make;
	const char *help;
} commands[] = {
	{"/uroce/list", make_list, "Names of the verbs devices. Takes no parameters"},
	{"/uroce/device", make_device, "A device. Parameters: string device"},
	{"/uroce/port", make_port, "Port, GIDs, P_Keys of a device. Parameters: string device"},
	{"/uroce/stats", make_stats, "Counters. Parameters: string device[,int worker]"},
	{"/uroce/drops", make_drops, "Dropped packets. Parameters: string device[,int worker]"},
	{"/uroce/qps", make_qps, "Numbers of the queue pairs, at most 512. Takes no parameters"},
	{"/uroce/qp", make_qp, "A queue pair. Parameters: int QPN"},
	{"/uroce/workers", make_workers, "Numbers of the workers. Takes no parameters"},
	{"/uroce/worker", make_worker, "Counters of a worker, all devices. Parameters: int worker"},
};

/* Control thread. */
static void
on_asked(struct watch *w, uint32_t events)
{
	uint64_t n;

	if (read(w->fd, &n, sizeof(n)) != sizeof(n))
		return;
	pthread_mutex_lock(&tel.mutex);
	if (tel.state == ASKED) {
		tel.reply = tel.make(tel.d, tel.params);
		tel.state = ANSWERED;
		pthread_cond_signal(&tel.done);
	}
	pthread_mutex_unlock(&tel.mutex);
}

/* DPDK's thread. Returns the control thread's reply, or NULL. */
static json_t *
ask(make_fn *make, const char *params)
{
	static const uint64_t one = 1;
	struct timespec until;
	json_t *reply = NULL;
	int rc = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += TELEMETRY_WAIT_S;
	pthread_mutex_lock(&tel.mutex);
	if (tel.open) {
		tel.make = make;
		snprintf(tel.params, sizeof(tel.params), "%s", params != NULL ? params : "");
		tel.state = ASKED;
		if (write(tel.watch.fd, &one, sizeof(one)) != sizeof(one))
			rc = EIO;
		while (rc == 0 && tel.state == ASKED && tel.open)
			rc = pthread_cond_clockwait(&tel.done, &tel.mutex, CLOCK_MONOTONIC, &until);
		if (tel.state == ANSWERED)
			reply = tel.reply;
		tel.state = IDLE;
		tel.reply = NULL;
	}
	pthread_mutex_unlock(&tel.mutex);
	return reply;
}

/* Adds value to a dictionary, joining the names of nested members: DPDK allows no deep nesting. */
static void
put_dict(struct rte_tel_data *to, const char *name, const json_t *value)
{
	char sub[KEY_MAX], text[RTE_TEL_MAX_STRING_LEN];
	const char *key;
	json_t *v;
	size_t i;

	if (json_is_object(value)) {
		json_object_foreach((json_t *)(uintptr_t)value, key, v)
		{
			snprintf(sub, sizeof(sub), "%s%s%s", name, *name != '\0' ? "_" : "", key);
			put_dict(to, sub, v);
		}
	} else if (json_is_array(value)) {
		json_array_foreach(value, i, v)
		{
			snprintf(sub, sizeof(sub), "%.40s_%zu", name, i);
			put_dict(to, sub, v);
		}
	} else if (json_is_integer(value)) {
		rte_tel_data_add_dict_uint(to, name, (uint64_t)json_integer_value(value));
	} else if (json_is_boolean(value)) {
		rte_tel_data_add_dict_int(to, name, json_is_true(value));
	} else {
		snprintf(text, sizeof(text), "%s",
			 json_is_string(value) ? json_string_value(value) : "");
		rte_tel_data_add_dict_string(to, name, text);
	}
}

static void
put_array(struct rte_tel_data *to, const json_t *from)
{
	bool text = json_is_string(json_array_get(from, 0));
	json_t *v;
	size_t i;

	rte_tel_data_start_array(to, text ? RTE_TEL_STRING_VAL : RTE_TEL_UINT_VAL);
	json_array_foreach(from, i, v)
	{
		if (text)
			rte_tel_data_add_array_string(to, json_string_value(v));
		else
			rte_tel_data_add_array_uint(to, (uint64_t)json_integer_value(v));
	}
}

/* DPDK's thread. */
static int
on_command(const char *cmd, const char *params, struct rte_tel_data *data)
{
	json_t *reply = NULL;

	pthread_mutex_lock(&tel.turn);
	for (unsigned i = 0; i < RTE_DIM(commands); i++) {
		if (strcmp(commands[i].cmd, cmd) == 0)
			reply = ask(commands[i].make, params);
	}
	pthread_mutex_unlock(&tel.turn);
	if (reply == NULL)
		return -ENOENT;
	if (json_is_array(reply)) {
		put_array(data, reply);
	} else {
		rte_tel_data_start_dict(data);
		put_dict(data, "", reply);
	}
	json_decref(reply);
	return 0;
}

void
telemetry_start(struct daemon *d)
{
	int rc = 0;

	tel.d = d;
	tel.watch.ready = on_asked;
	tel.watch.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (tel.watch.fd < 0)
		rc = -errno;
	else
		rc = loop_add(&d->loop, &tel.watch, EPOLLIN);
	pthread_mutex_lock(&tel.mutex);
	tel.open = rc == 0;
	pthread_mutex_unlock(&tel.mutex);
	for (unsigned i = 0; i < RTE_DIM(commands) && rc == 0; i++)
		rc = rte_telemetry_register_cmd(commands[i].cmd, on_command, commands[i].help);
	if (rc != 0)
		LOG(WARNING, "telemetry: %s: some commands are missing", strerror(-rc));
}

void
telemetry_stop(struct daemon *d)
{
	if (tel.watch.fd < 0)
		return;
	loop_del(&d->loop, &tel.watch);
	pthread_mutex_lock(&tel.mutex);
	tel.open = false;
	pthread_cond_signal(&tel.done);
	close(tel.watch.fd);
	tel.watch.fd = -1;
	pthread_mutex_unlock(&tel.mutex);
}
