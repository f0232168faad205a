/* SPDX-License-Identifier: BSD-3-Clause */
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
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

/*
 * Returns why fd cannot be the control socket, or NULL. In that case path is the socket's path, and
 * fd does not block and is closed on exec.
 */
static const char *
socket_wrong(int fd, char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1])
{
	struct sockaddr_un at = {.sun_family = AF_UNSPEC};
	socklen_t len = sizeof(at), word = sizeof(int);
	int type = 0, listens = 0, flags = fcntl(fd, F_GETFL);

	if (getsockname(fd, (struct sockaddr *)&at, &len) < 0 || at.sun_family != AF_UNIX ||
	    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &word) < 0 || type != SOCK_SEQPACKET ||
	    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &word) < 0 || listens == 0)
		return "is no listening SOCK_SEQPACKET socket of AF_UNIX: "
		       "ListenSequentialPacket=/PATH";
	snprintf(path, sizeof(at.sun_path) + 1, "%.*s", (int)sizeof(at.sun_path), at.sun_path);
	if (path[0] != '/' || strlen(path) == sizeof(at.sun_path))
		return "has no absolute path of at most 107 characters";
	if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return strerror(errno);
	return NULL;
}

int
service_socket(struct control_config *cfg)
{
	static char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
	const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS"), *wrong;

	if (pid == NULL || n == NULL || strtol(pid, NULL, 10) != getpid())
		return 0;
	if (strcmp(n, "1") != 0) {
		fprintf(stderr,
			"uroced: LISTEN_FDS=%s: uroced takes 1 socket, its control socket\n", n);
		return -EINVAL;
	}
	wrong = socket_wrong(SD_LISTEN_FDS_START, path);
	if (wrong != NULL) {
		fprintf(stderr, "uroced: the socket of the service manager %s\n", wrong);
		return -EINVAL;
	}
	if (cfg->socket != NULL && strcmp(cfg->socket, path) != 0) {
		fprintf(stderr, "uroced: --socket %s: the socket of the service manager is %s\n",
			cfg->socket, path);
		return -EINVAL;
	}
	cfg->socket = path;
	cfg->listener = SD_LISTEN_FDS_START;
	return 0;
}

void
service_socket_again(const struct control_config *cfg)
{
	char pid[16];

	if (cfg->listener == 0)
		return;
	snprintf(pid, sizeof(pid), "%d", getpid()); /* another one since --daemon */
	setenv("LISTEN_PID", pid, 1);
	fcntl(cfg->listener, F_SETFD, 0);
}

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
