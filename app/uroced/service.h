/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The service manager that started uroced. It may pass the control socket. It gets reports through
 * libsystemd: when uroced is ready and when it ends, its status (`systemctl status`), and that it
 * is alive (WatchdogSec= of the unit). Does nothing without a service manager. Control thread only.
 */
#ifndef UROCED_SERVICE_H
#define UROCED_SERVICE_H

#include "control/config.h"

struct daemon;

/*
 * Takes the control socket if the service manager has made it (socket activation):
 * sets cfg->listener, and cfg->socket to the socket's path. Called before
 * cfg->socket has a default. Returns 0, also if no socket was passed, or -EINVAL after printing
 * what is wrong with it.
 */
int service_socket(struct control_config *cfg);

/* Leaves that socket to the program that this process executes next. */
void service_socket_again(const struct control_config *cfg);

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
