/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What uroced tells the service manager that started it, by libsystemd: when it is ready and ends,
 * how it does (`systemctl status`), and that it still runs (WatchdogSec= of the unit). Does nothing
 * without a service manager. Control thread only.
 */
#ifndef UROCED_SERVICE_H
#define UROCED_SERVICE_H

struct daemon;

/*
 * The daemon is ready: reports that with its status. If there is a service manager, it gets the
 * status once a minute, and sooner if it watches the daemon: twice in each period of the watchdog.
 * Logs what fails.
 */
void service_ready(struct daemon *d);

/* The daemon ends: reports that, and stops the reports. */
void service_stopping(struct daemon *d);

#endif
