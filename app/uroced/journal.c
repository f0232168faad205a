/* SPDX-License-Identifier: BSD-3-Clause */
#include "parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <rte_common.h>
#include <rte_log.h>
#include "control/log_event.h"
#include "outbox.h"

#define HEAD       "uroced: " /* prefix of the daemon's lines; not needed in the journal */
#define FIELD_MAX  1200
#define OWN_FIELDS 4 /* before the fields of an event */

static const char identifier[] = "SYSLOG_IDENTIFIER=uroced";

static bool used;
_Static_assert(OWN_FIELDS + LOG_FIELDS_MAX == OUTBOX_FIELDS, "an event fits a message");

/* Returns true if standard error is connected to the journal. */
static bool
stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;
	char end;

	return stream != NULL && sscanf(stream, "%llu:%llu%c", &dev, &ino, &end) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

/* Converts a level of rte_log, which counts from 1 (emergency), to a syslog priority. */
static int
priority(uint32_t level)
{
	return level == 0 ? 0 : (int)level - 1;
}

static void
send_line(uint32_t level, const char *line, size_t len)
{
	char text[FIELD_MAX], prio[24];
	const char *const field[] = {text, prio, identifier};

	if (len > strlen(HEAD) && strncmp(line, HEAD, strlen(HEAD)) == 0) {
		line += strlen(HEAD);
		len -= strlen(HEAD);
	}
	if (len == 0)
		return;
	snprintf(text, sizeof(text), "MESSAGE=%.*s", (int)len, line);
	snprintf(prio, sizeof(prio), "PRIORITY=%d", priority(level));
	outbox_add(OUTBOX_JOURNAL, field, RTE_DIM(field));
}

/* Writes the lines that rte_log has formatted. */
static ssize_t
on_log(void *cookie, const char *text, size_t len)
{
	int level = rte_log_cur_msg_loglevel(); /* negative: unknown */
	size_t left = len;

	(void)cookie;
	while (left != 0) {
		const char *end = memchr(text, '\n', left);
		size_t n = end != NULL ? (size_t)(end - text) : left;

		send_line(level < 0 ? RTE_LOG_NOTICE : (uint32_t)level, text, n);
		n += end != NULL;
		text += n;
		left -= n;
	}
	return (ssize_t)len;
}

static void
on_event(uint32_t level, enum log_event kind, const char *text, const struct log_fields *f)
{
	char message[FIELD_MAX], prio[24], id[64];
	const char *field[OUTBOX_FIELDS] = {message, prio, id, identifier};
	unsigned n = OWN_FIELDS;

	snprintf(message, sizeof(message), "MESSAGE=%s", text);
	snprintf(prio, sizeof(prio), "PRIORITY=%d", priority(level));
	snprintf(id, sizeof(id), "MESSAGE_ID=%s", log_event_message_id[kind]);
	for (unsigned i = 0; i < f->n; i++)
		field[n++] = f->text[i];
	outbox_add(OUTBOX_JOURNAL, field, n);
}

void
journal_open(void)
{
	static const cookie_io_functions_t io = {.write = on_log};
	FILE *log = stderr_is_journal() ? fopencookie(NULL, "w", io) : NULL;

	used = log != NULL && outbox_open(OUTBOX_JOURNAL) == 0;
	/* Never to syslog, which is where EAL logs by default. */
	rte_openlog_stream(used ? log : stderr);
	if (used)
		log_event_set_sink(on_event);
}

bool
journal_used(void)
{
	return used;
}
