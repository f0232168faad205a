/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports to the service manager that started uroced, through libsystemd: when it is ready and when
 * it ends, its status (`systemctl status`), and that it is alive (WatchdogSec= of the unit). Does
 * nothing without a service manager. Control thread only.
 */
#ifndef UROCED_SERVICE_H
#define UROCED_SERVICE_H

struct daemon;

/*
 * Prepares the reports: loads libsystemd, starts a thread and a timer. Call before sandbox_start.
 * Failures are logged.
 */
void service_open(struct daemon *d);

/*
 * Reports that the daemon is ready, with its status. From then on a service manager gets the status
 * once a minute or, if it watches the daemon, twice in each watchdog period.
 */
void service_ready(struct daemon *d);

/* Reports that the daemon is stopping, and ends the reports. */
void service_stopping(struct daemon *d);

#endif
