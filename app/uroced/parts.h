/* SPDX-License-Identifier: BSD-3-Clause */
/* What main.c calls of the daemon's other files. */
#ifndef UROCED_PARTS_H
#define UROCED_PARTS_H

#include <stdbool.h>
#include <stdint.h>
#include "control/config.h"
#include "control/daemon.h"
#include "control/device.h"
#include "control/handler.h"
#include "cpus.h"
#include "options.h"
#include "uroce_abi/ctrl.h"

/* --- defaults.c */

#define DEFAULTS_MAX      8  /* devices, including the one on lo */
#define DEFAULTS_SPEC_MAX 64 /* bytes of a specification */

/*
 * Chooses the devices of a uroced without any port option. Writes their specifications (--dev), all
 * on the port udp, to spec[DEFAULTS_MAX] and returns their number: uroce0 on the interface of the
 * default route; uroce1 .. on the other interfaces that are up and have an address that is not
 * link-local, in the kernel's order; uroce_lo on lo. Interfaces beyond DEFAULTS_MAX are left out.
 * Reads /proc/net and the kernel's interfaces, in the network namespace of the process. Control
 * thread.
 */
uint32_t defaults_devices(char spec[DEFAULTS_MAX][DEFAULTS_SPEC_MAX]);

/* --- detach.c */

/*
 * --daemon: the process that was started returns when the daemon is ready, or has failed, and has
 * printed what the daemon printed until then. Later output goes to SOCKET.log, unless standard
 * error is the journal.
 */

/*
 * Call before threads start. In the daemon returns 0, or -errno. The first process does not return:
 * it exits with the daemon's status, or 0 when the daemon is ready.
 */
int detach_start(void);
/* Opens SOCKET.log, before the sandbox. socket: the control socket's path. */
void detach_log(const char *socket);
/* The daemon is ready: ends the first process. */
void detach_ready(void);
/* Before an execv that starts the daemon again: the first process goes on waiting. */
void detach_again(void);

/* --- eal.c */

/* EAL's arguments, made from the daemon's options, and the CPU of each thread. */

struct eal_plan {
	bool huge;         /* start with huge pages */
	bool shared_cores; /* workers share CPUs with other threads: they are not pinned, and they
			      yield */
	struct cpus_found cpus;            /* --workers auto */
	unsigned workers;                  /* at most; with auto, ports may have fewer queues */
	unsigned lcore[UROCE_MAX_WORKERS]; /* EAL lcore of each worker */
};

/* Choose pages and CPUs. Logs each fallback. 0, or -errno with the reason logged. */
int eal_plan_make(struct eal_plan *plan, const struct options *o);

/*
 * Call rte_eal_init as planned, once in a process. 0, or -errno with the reason logged. -ERESTART:
 * the huge pages that were free cannot be used, because another process took them meanwhile or a
 * cgroup limits them; the program must be started again with --no-huge.
 */
int eal_start(struct eal_plan *plan, const struct options *o);

/* --- journal.c */

/*
 * The log in the systemd journal. If standard error is connected to the journal (JOURNAL_STREAM),
 * the daemon's log and DPDK's go there through libsystemd, each line with its priority, and events
 * with their MESSAGE_ID and fields (control/log_event.h). Otherwise the log is plain text on
 * standard error.
 */

/*
 * Chooses where the log goes. Call once, before the first line is logged and before other threads
 * start. The journal needs the outbox (outbox.h).
 */
void journal_open(void);

/* Returns true if the log goes to the journal. */
bool journal_used(void);

/* --- live.c */

/*
 * Files with a device's port state and counters, which programs read in /sys/class/infiniband and
 * which change while they run. The provider answers libibverbs' own reads. For all other readers
 * the daemon keeps files beside its control socket, in SOCKET.sysfs/DEVICE, and uroce-run links to
 * them. A separate thread writes the files every LIVE_PERIOD_MS, because a write may block in the
 * file system. It writes only files whose contents have changed.
 */

#define LIVE_PERIOD_MS 1000

/*
 * Control thread. Writes the files of all devices and starts the thread. Called between
 * listen_start and listen_stop, while this daemon owns the socket's path. A failure is logged; the
 * daemon works without the files.
 */
void live_start(struct daemon *d);
/* Control thread. Ends the thread and removes the files. Safe without live_start. */
void live_stop(struct daemon *d);

/* --- service.c */

/*
 * The service manager that started uroced. It may pass the control socket. It gets reports through
 * libsystemd: when uroced is ready and when it ends, its status (`systemctl status`), and that it
 * is alive (WatchdogSec= of the unit). Does nothing without a service manager. Control thread only.
 */

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

/* --- telemetry.c */

/*
 * Commands of DPDK's telemetry socket (dpdk-telemetry.py) under /uroce/. DPDK calls them on its
 * threads, which do not access the daemon's state: they hand the request to the control thread and
 * wait at most TELEMETRY_WAIT_S for the reply.
 */

#define TELEMETRY_WAIT_S 2

/* Control thread. Registers the commands. Failures are logged: the daemon works without them. */
void telemetry_start(struct daemon *d);
/* Control thread. Refuses further commands, which DPDK cannot unregister. */
void telemetry_stop(struct daemon *d);

/* --- impair.c */

/* Handler of IMPAIR. */
ctrl_handler impair_request;

/* --- capture.c */

/* Captures of devices into files. Control thread only. */

/* Handler of CAPTURE. */
ctrl_handler capture_request;

/*
 * End the capture of dev, if one is running. On return all captured frames are in the file, which
 * is closed.
 */
void capture_stop(struct device *dev);

/* --- steps.c */

/* Steps of QPs that are followed, into files (worker/steps.h). Control thread only. */

/*
 * Handles a checked CAPTURE with STEPS, from a client that may start a capture. Fills in *rep.
 * Returns 0 or a positive errno.
 */
int steps_request(struct device *dev, const struct ctrl_req *req, struct uroce_capture_rep *rep);

/* Ends following the QPs of dev. */
void steps_stop(const struct device *dev);

#endif
