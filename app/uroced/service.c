/* SPDX-License-Identifier: BSD-3-Clause */
#include "service.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>
#include "control/daemon.h"
#include "control/device.h"
#include "control/log.h"
#include "control/session.h"
#include "outbox.h"

#define STATUS_MAX    256
#define USEC_PER_S    1000000ull
#define STATUS_PERIOD (60 * USEC_PER_S)

static struct service {
	struct watch timer;
	struct daemon *d;
	bool opened;
	bool watched;            /* the manager expects WATCHDOG=1 */
	char status[STATUS_MAX]; /* the last one sent */
} service = {.timer.fd = -1};

static void
status_text(const struct daemon *d, char text[STATUS_MAX])
{
	const struct session *s;
	unsigned up = 0, clients = 0;

	for (uint32_t i = 0; i < d->ndevs; i++)
		up += d->dev[i]->port.link_up;
	TAILQ_FOREACH (s, &d->sessions, link)
		clients += s->state == IPC_STATE_CONTEXT;
	snprintf(text, STATUS_MAX,
		 "%u device%s (%u up), %u worker%s, %u client%s, %llu queue pairs", d->ndevs,
		 d->ndevs == 1 ? "" : "s", up, d->nworkers, d->nworkers == 1 ? "" : "s", clients,
		 clients == 1 ? "" : "s", (unsigned long long)d->quota.used_all[QUOTA_QPS]);
}

static void
report(const char *text)
{
	outbox_add(OUTBOX_MANAGER, &text, 1);
}

/* Reports the status after other lines. Without such lines, reports it only if it has changed. */
static void
report_status(const struct daemon *d, const char *lines)
{
	char status[STATUS_MAX], all[STATUS_MAX + 32];

	status_text(d, status);
	if (*lines == '\0' && strcmp(status, service.status) == 0)
		return;
	strcpy(service.status, status);
	snprintf(all, sizeof(all), "%sSTATUS=%s", lines, status);
	report(all);
}

static void
on_timer(struct watch *w, uint32_t events)
{
	uint64_t n;

	if (read(w->fd, &n, sizeof(n)) == sizeof(n))
		report_status(service.d, service.watched ? "WATCHDOG=1\n" : "");
}

static int
timer_open(struct daemon *d, uint64_t period_us)
{
	const struct timespec period = {.tv_sec = (time_t)(period_us / USEC_PER_S),
					.tv_nsec = (long)(period_us % USEC_PER_S) * 1000};
	const struct itimerspec at = {.it_interval = period, .it_value = period};

	service.timer.ready = on_timer;
	service.timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (service.timer.fd < 0 || timerfd_settime(service.timer.fd, 0, &at, NULL) < 0)
		return -errno;
	return loop_add(&d->loop, &service.timer, EPOLLIN);
}

/* Starts the periodic reports, at the pace that the manager wants. */
static void
periods_start(struct daemon *d)
{
	uint64_t watchdog_us = 0, period_us = STATUS_PERIOD;
	__typeof__(&sd_watchdog_enabled) watchdog_enabled;
	int rc;

	watchdog_enabled = outbox_libsystemd("sd_watchdog_enabled");
	rc = watchdog_enabled != NULL ? watchdog_enabled(0, &watchdog_us) : -ELIBACC;
	if (rc < 0)
		LOG(WARNING, "WATCHDOG_USEC or WATCHDOG_PID: %s: no watchdog", strerror(-rc));
	service.watched = rc > 0 && watchdog_us >= 2;
	if (service.watched && watchdog_us / 2 < period_us)
		period_us = watchdog_us / 2;
	rc = timer_open(d, period_us);
	if (rc < 0)
		LOG(WARNING, "no reports to the service manager: %s", strerror(-rc));
}

void
service_open(struct daemon *d)
{
	int rc;

	service.d = d;
	if (getenv("NOTIFY_SOCKET") == NULL)
		return;
	rc = outbox_open(OUTBOX_MANAGER);
	service.opened = rc == 0;
	if (service.opened)
		periods_start(d);
	else
		LOG(ERR, "no reports to the service manager, not even that uroced is ready: %s%s",
		    strerror(rc), rc == ELIBACC ? " (libsystemd.so.0)" : "");
}

void
service_ready(struct daemon *d)
{
	if (service.opened)
		report_status(d, "READY=1\n");
}

void
service_stopping(struct daemon *d)
{
	if (getenv("NOTIFY_SOCKET") != NULL)
		report("STOPPING=1");
	if (service.timer.fd < 0)
		return;
	loop_del(&d->loop, &service.timer);
	close(service.timer.fd);
	service.timer.fd = -1;
}
