/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log lines of events that an operator may search for. Each has a kind, and fields that name the
 * objects involved. Without a sink they are ordinary log lines (control/log.h). The program that
 * runs the control plane may set a sink, which also gets kind and fields.
 */
#ifndef CONTROL_LOG_EVENT_H
#define CONTROL_LOG_EVENT_H

#include <stdint.h>
#include <rte_log.h>

struct session;

/*
 * Kinds, each with its MESSAGE_ID in the systemd journal. An id never changes its meaning, because
 * operators filter by it; config/uroce.catalog explains each.
 */
#define LOG_EVENT_LIST(X)                                                                          \
	X(READY, "9fb55764a1cd494aab41b679050e50a9")                                               \
	X(QP_FAILED, "dbc5a6fce9f243469aac15765e9c514f")                                           \
	X(LINK, "cbba607111dc407dbee15f13081207fb")                                                \
	X(REFUSED, "228240dec76d4f7a83ca0fd3851c198a")                                             \
	X(BROKER_LOST, "5b511df97617482aa0bf795eb3a5b211")                                         \
	X(CHANGED, "adca41446fb040ae899d73c56372fd55")                                             \
	X(IMPAIRED, "442da2ea7a954316892b518f05675a26")                                            \
	X(CAPTURE, "261f26cc015948c5830d3418c7015f9a")

#define LOG_EVENT_ENUM(id, message_id) LOG_EVENT_##id,
enum log_event { LOG_EVENT_LIST(LOG_EVENT_ENUM) LOG_EVENT_NUM };
#undef LOG_EVENT_ENUM

/* MESSAGE_ID of each kind, 32 hexadecimal digits. */
extern const char *const log_event_message_id[LOG_EVENT_NUM];

#define LOG_FIELDS_MAX 16
#define LOG_FIELD_LEN  128

/* Fields of one event; starts as {0}. Each is text "NAME=value". */
struct log_fields {
	unsigned n;
	char text[LOG_FIELDS_MAX][LOG_FIELD_LEN];
};

/*
 * Adds a field, whose name consists of capital letters, digits and underscores. Truncates a long
 * value. Ignores the field if there are LOG_FIELDS_MAX already.
 */
void log_field(struct log_fields *f, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Adds the fields that name the client of s: its program, process id and uid. */
void log_field_client(struct log_fields *f, const struct session *s);

/* Gets each event: level is RTE_LOG_*; text is one line without a newline. Any thread. */
typedef void log_event_sink(uint32_t level, enum log_event kind, const char *text,
			    const struct log_fields *f);

/* Sets the sink, before threads start. NULL (default): the ordinary log. */
void log_event_set_sink(log_event_sink *sink);

/* Any thread. Logs an event at level RTE_LOG_*, unless the daemon's log level excludes it. */
void log_event(uint32_t level, enum log_event kind, const struct log_fields *f, const char *fmt,
	       ...) __attribute__((format(printf, 4, 5)));

#endif
