/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/log_event.h"

#include <stdarg.h>
#include <stdio.h>
#include "control/log.h"
#include "control/session.h"

#define TEXT_MAX                   1024

#define MESSAGE_ID(id, message_id) message_id,
const char *const log_event_message_id[LOG_EVENT_NUM] = {LOG_EVENT_LIST(MESSAGE_ID)};

static log_event_sink *the_sink;

void
log_event_set_sink(log_event_sink *sink)
{
	the_sink = sink;
}

void
log_field(struct log_fields *f, const char *name, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (f->n == LOG_FIELDS_MAX)
		return;
	n = snprintf(f->text[f->n], LOG_FIELD_LEN, "%s=", name);
	va_start(ap, fmt);
	vsnprintf(f->text[f->n] + n, LOG_FIELD_LEN - (size_t)n, fmt, ap);
	va_end(ap);
	f->n++;
}

void
log_field_client(struct log_fields *f, const struct session *s)
{
	log_field(f, "UROCE_CLIENT_COMM", "%s", s->comm);
	log_field(f, "UROCE_CLIENT_PID", "%d", s->peer.pid);
	log_field(f, "UROCE_CLIENT_UID", "%u", s->peer.uid);
}

void
log_event(uint32_t level, enum log_event kind, const struct log_fields *f, const char *fmt, ...)
{
	char text[TEXT_MAX];
	va_list ap;

	if (!rte_log_can_log((uint32_t)daemon_logtype, level))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (the_sink != NULL)
		the_sink(level, kind, text, f);
	else
		rte_log(level, daemon_logtype, "uroced: %s\n", text);
}
