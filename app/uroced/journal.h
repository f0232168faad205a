/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log in the systemd journal. If standard error is connected to the journal (JOURNAL_STREAM),
 * the daemon's log and DPDK's go there through libsystemd, each line with its priority, and events
 * with their MESSAGE_ID and fields (control/log_event.h). Otherwise the log is plain text on
 * standard error.
 */
#ifndef UROCED_JOURNAL_H
#define UROCED_JOURNAL_H

#include <stdbool.h>

/*
 * Chooses where the log goes. Call once, before the first line is logged and before other threads
 * start. The journal needs the outbox (outbox.h).
 */
void journal_open(void);

/* Returns true if the log goes to the journal. */
bool journal_used(void);

#endif
