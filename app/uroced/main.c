/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced: starts, runs until a signal and removes everything that it created. Exit status: 0 after
 * SIGTERM or SIGINT, 1 if it cannot start, 2 for wrong options.
 */
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include "parts.h"
#include "cli/cli.h"
#include "control/balance.h"
#include "control/cm.h"
#include "control/daemon.h"
#include "control/device.h"
#include "control/log.h"
#include "control/log_event.h"
#include "control/handler.h"
#include "control/session.h"
#include "drivers/impair/impair.h"
#include "ipc/sockpath.h"
#include "map/sigbus.h"
#include "options.h"
#include "outbox.h"
#include "privilege.h"
#include "sandbox.h"
#include "sched/waiting.h"
#include "show.h"

#define EXIT_USAGE 2
#define MBUF_ROOM                                                                                  \
	(RTE_PKTMBUF_HEADROOM + 8320) /* af_packet wants room for its whole frame slot             \
				       */
#define MBUF_CACHE   256
#define PAIR_ENTRIES 2048

/* The requests that this program adds to the control plane. */
static void
port_released(struct device *dev)
{
	impair_detach(dev->port.id);
	impair_reap();
}

static const struct control_program program = {
	.show = show_request,
	.impair = impair_request,
	.capture = capture_request,
	.port_released = port_released,
};

static void
on_signal(struct watch *w, uint32_t events)
{
	struct daemon *d = WATCH_OF(w, struct daemon, signals);
	struct signalfd_siginfo info;

	if (read(w->fd, &info, sizeof(info)) == sizeof(info))
		d->loop.stop = true;
}

/* Call before threads start: they inherit the mask and leave the signals to the control thread. */
static int
signals_open(struct daemon *d)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN); /* virtio_user may write to a peer that has ended */
	signal(SIGXFSZ, SIG_IGN); /* at RLIMIT_FSIZE calls fail instead */
	signal(SIGCHLD, SIG_IGN); /* a broker that has ended leaves no zombie */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	d->signals.ready = on_signal;
	d->signals.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (d->signals.fd < 0)
		return -errno;
	return loop_add(&d->loop, &d->signals, EPOLLIN);
}

/* Raises the limit of open descriptors: each client needs several. */
static void
raise_fd_limit(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

/*
 * Returns a pool of n packet buffers, or NULL. Ordinary pages are addressed by virtual addresses
 * only, so buffers may extend across them. Without the flag a buffer must not, unless it is larger
 * than a page: it would take 16 KiB on a kernel with such pages, and the default --mem would be too
 * little.
 */
static struct rte_mempool *
packet_pool(unsigned n)
{
	struct rte_pktmbuf_pool_private priv = {.mbuf_data_room_size = MBUF_ROOM};
	struct rte_mempool *pool;

	if (rte_eal_has_hugepages())
		return rte_pktmbuf_pool_create("uroce", n, MBUF_CACHE, 0, MBUF_ROOM, SOCKET_ID_ANY);
	pool = rte_mempool_create_empty("uroce", n, sizeof(struct rte_mbuf) + MBUF_ROOM, MBUF_CACHE,
					sizeof(priv), SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_IOVA_CONTIG);
	if (pool == NULL)
		return NULL;
	rte_pktmbuf_pool_init(pool, &priv);
	if (rte_mempool_populate_default(pool) < 0) {
		rte_mempool_free(pool);
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

/* Allocates the tables that workers read, and the packet buffers. */
static int
tables_open(struct daemon *d, const struct options *o)
{
	d->pool = packet_pool(o->mbufs);
	if (d->pool == NULL) {
		LOG(ERR, "no memory for %u packet buffers: use more --mem or fewer --mbufs",
		    o->mbufs);
		return -ENOMEM;
	}
	return daemon_tables_open(d);
}

static int
workers_open(struct daemon *d, const struct eal_plan *plan)
{
	struct worker_params p = {
		.nworkers = d->nworkers,
		.lcores = plan->lcore,
		.idle = plan->shared_cores ? WORKER_IDLE_ADAPTIVE : WORKER_IDLE_POLL,
		.mrs = &d->mrs,
		.qps = &d->qps,
		.pool = d->pool,
		.qp_leaves = qp_leaves,
		.qp_comes = qp_comes,
	};
	int rc;

	d->huge = plan->huge;
	d->shared_cores = plan->shared_cores;
	d->workers = worker_set_create(&p);
	if (d->workers == NULL) {
		LOG(ERR, "workers: %s", strerror(errno));
		return -errno;
	}
	rc = worker_blame_start(d->workers);
	if (rc < 0) {
		LOG(ERR, "no thread that watches workers: %s", strerror(-rc));
		worker_set_destroy(d->workers);
	}
	return rc;
}

/* Returns true if port is an end of a --pair: each worker then has separate queues on both. */
static bool
is_of_pair(const struct options *o, const char *port)
{
	static const char prefix[] = "net_ring_";
	size_t len = strlen(port);

	if (strncmp(port, prefix, sizeof(prefix) - 1) != 0 ||
	    (port[len - 1] != 'a' && port[len - 1] != 'b'))
		return false;
	port += sizeof(prefix) - 1;
	len -= sizeof(prefix); /* without the suffix a or b */
	for (uint32_t i = 0; i < o->pair.n; i++) {
		if (strlen(o->pair.v[i]) == len && memcmp(o->pair.v[i], port, len) == 0)
			return true;
	}
	return false;
}

/* Without --dev: creates a device on every port, in EAL's order. */
static int
devices_of_all_ports(struct daemon *d, const struct options *o)
{
	struct devspec spec;
	unsigned n = 0;
	uint16_t port;

	RTE_ETH_FOREACH_DEV(port)
	{
		int rc;

		memset(&spec, 0, sizeof(spec));
		snprintf(spec.name, sizeof(spec.name), "uroce%u", n++);
		if (rte_eth_dev_get_name_by_port(port, spec.port) < 0)
			continue;
		rc = device_create(d, &spec, is_of_pair(o, spec.port));
		if (rc < 0)
			return rc;
	}
	return 0;
}

/*
 * Without any port: creates devices on the host's own interfaces. A failure is logged and does not
 * prevent the other devices.
 */
static int
devices_of_host(struct daemon *d)
{
	char spec[DEFAULTS_MAX][DEFAULTS_SPEC_MAX], err[OPTIONS_ERR_MAX];
	uint32_t n = defaults_devices(spec);
	struct devspec dev;

	for (uint32_t i = 0; i < n; i++) {
		if (devspec_parse(&dev, spec[i], err, sizeof(err)) == 0)
			(void)device_create(d, &dev, false);
		else
			LOG(NOTICE, "left out: %s", err);
	}
	if (d->ndevs != 0)
		return 0;
	LOG(ERR, "no interface of this host can be used, and no option names a port");
	return -ENODEV;
}

static int
devices_open(struct daemon *d, const struct options *o)
{
	char err[OPTIONS_ERR_MAX], a[32], b[32];
	struct devspec spec;
	int rc = 0;

	if (o->pair.n + o->dev.n + o->vdev.n + o->allow.n == 0)
		return devices_of_host(d);
	for (uint32_t i = 0; i < o->pair.n && rc == 0; i++) {
		snprintf(a, sizeof(a), "%.24sa", o->pair.v[i]);
		snprintf(b, sizeof(b), "%.24sb", o->pair.v[i]);
		rc = port_ring_pair(a, b, d->nworkers, PAIR_ENTRIES);
		if (rc < 0)
			LOG(ERR, "pair %s: %s", o->pair.v[i], strerror(-rc));
	}
	for (uint32_t i = 0; i < o->dev.n && rc == 0; i++) {
		rc = devspec_parse(&spec, o->dev.v[i], err, sizeof(err));
		if (rc == 0)
			rc = device_create(d, &spec, is_of_pair(o, spec.port));
	}
	if (rc == 0 && o->dev.n == 0)
		rc = devices_of_all_ports(d, o);
	if (rc == 0 && d->ndevs == 0) {
		LOG(ERR, "no port: give one with --vdev, --allow or --pair");
		rc = -ENODEV;
	}
	return rc;
}

static void
devices_close(struct daemon *d)
{
	while (d->ndevs > 0) {
		capture_stop(d->dev[d->ndevs - 1]);
		steps_stop(d->dev[d->ndevs - 1]);
		device_destroy(d->dev[d->ndevs - 1]);
	}
}

static void
say_ready(struct daemon *d)
{
	struct log_fields none = {0};
	char text[512], *end = text + sizeof(text), *at = text;

	for (uint32_t i = 0; i < d->ndevs && at < end; i++)
		at += snprintf(at, (size_t)(end - at), "%sdevice %s on %s", i > 0 ? ", " : "",
			       d->dev[i]->name, d->dev[i]->port.name);
	if (at < end)
		snprintf(at, (size_t)(end - at), "; socket %s; %u worker%s, %s; %s pages",
			 d->cfg->socket, d->nworkers, d->nworkers > 1 ? "s" : "",
			 d->shared_cores ? "adaptive" : "polling", d->huge ? "huge" : "ordinary");
	if (journal_used()) {
		log_event(RTE_LOG_NOTICE, LOG_EVENT_READY, &none, "ready (%s)", text);
	} else {
		printf("uroced: ready (%s)\n", text);
		fflush(stdout);
	}
	prctl(PR_SET_NAME, UROCED_NAME);
	service_ready(d);
	detach_ready();
}

/*
 * Returns how many queues the port with the most has. Workers have separate queues on the ports of
 * --pair and on kernel sockets, however many there are.
 */
static unsigned
queues_most(const struct options *o)
{
	struct rte_eth_dev_info info;
	char err[OPTIONS_ERR_MAX];
	struct devspec spec;
	unsigned most = 0;
	uint16_t port;

	if (o->pair.n != 0)
		return UROCE_MAX_WORKERS;
	for (uint32_t i = 0; i < o->dev.n; i++) {
		if (devspec_parse(&spec, o->dev.v[i], err, sizeof(err)) == 0 &&
		    (spec.udp || spec.packet))
			return UROCE_MAX_WORKERS;
	}
	RTE_ETH_FOREACH_DEV(port)
	{
		if (rte_eth_dev_info_get(port, &info) == 0)
			most = RTE_MAX(most, RTE_MIN(info.max_rx_queues, info.max_tx_queues));
	}
	return most != 0 ? most : UROCE_MAX_WORKERS; /* no port: devices_of_host */
}

/* Called after EAL has started: opens everything, runs, closes everything. Returns 0 or -errno. */
static int
serve(struct daemon *d, const struct options *o, const struct eal_plan *plan)
{
	int rc;

	d->nworkers = o->workers != 0 ? plan->workers : cpus_workers(&plan->cpus, queues_most(o));
	rc = tables_open(d, o);
	if (rc < 0)
		goto out_tables;
	rc = workers_open(d, plan);
	if (rc < 0)
		goto out_tables;
	rc = worker_events_start(d);
	if (rc < 0)
		goto out_workers;
	rc = devices_open(d, o);
	if (rc < 0)
		goto out_devices;
	rc = ucma_open(d);
	if (rc < 0)
		goto out_devices;
	rc = listen_start(d);
	if (rc < 0)
		goto out_devices;
	if (!o->no_telemetry)
		telemetry_start(d);
	live_start(d);
	service_open(d);
	if (d->shared_cores)
		sched_slice_set(
			SCHED_SLICE_SHORT_NS); /* clients wait for events from this thread */
	detach_log(d->cfg->socket);
	privilege_drop(o);
	rc = sandbox_start(d, o, privilege_families(o));
	if (rc < 0)
		goto out_running;
	say_ready(d);
	loop_run(&d->loop);
	service_stopping(d);
out_running:
	sandbox_stop(d);
	live_stop(d);
	telemetry_stop(d);
	listen_stop(d);
out_devices:
	balance_stop(d);
	ucma_close(d);
	devices_close(d);
	worker_events_stop(d);
out_workers:
	worker_set_destroy(d->workers);
out_tables:
	/* The end of the process frees d->pool. rte_mempool_free would write zeros to it first. */
	daemon_tables_close(d);
	return rc;
}

static int
run(struct daemon *d, const struct options *o)
{
	struct eal_plan plan;
	int rc = eal_plan_make(&plan, o);

	if (rc == 0)
		rc = loop_init(&d->loop);
	if (rc < 0)
		return rc;
	raise_fd_limit();
	privilege_limit(o);
	rc = signals_open(d);
	if (rc == 0)
		rc = sigbus_guard_install();
	if (rc == 0)
		rc = broker_open(d, request_found, sandbox_broker_refused, sandbox_broker_arg(o));
	privilege_lower(o);
	if (rc == 0)
		rc = eal_start(&plan, o);
	if (rc == 0) {
		rc = serve(d, o, &plan);
		/*
		 * No rte_eal_cleanup(): it unmaps memory, including a memif's interrupt handles,
		 * that EAL's interrupt thread still uses. Nothing stops that thread: it would
		 * fault.
		 */
	}
	broker_close(d);
	close(d->signals.fd);
	loop_close(&d->loop);
	return rc;
}

/*
 * Sets the socket's path if no option did. Returns false and prints why if no safe path exists.
 */
static bool
find_socket(struct control_config *cfg)
{
	if (cfg->socket == NULL)
		cfg->socket = ipc_socket_to_make();
	if (cfg->socket == NULL)
		fprintf(stderr,
			"uroced: the folder of %s belongs to another user, or others may write to "
			"it: give --socket PATH\n",
			ipc_own_socket());
	return cfg->socket != NULL;
}

/*
 * Returns true if CAP_NET_ADMIN tells the machine's root from a container's: this process has it
 * itself, or had it before it was executed again.
 */
static bool
root_is_told_apart(void)
{
	static const char had[] = "UROCED_HAD_NET_ADMIN";
	uint64_t effective, permitted;

	privilege_get(&effective, &permitted);
	if ((effective >> CAP_NET_ADMIN & 1) != 0)
		setenv(had, "1", 1);
	return getenv(had) != NULL;
}

int
main(int argc, char **argv)
{
	static struct daemon d;
	static char **plain; /* the command line of execv */
	struct quota_machine machine;
	struct options opt;
	char err[OPTIONS_ERR_MAX];
	int status = EXIT_SUCCESS, rc;

	cli_streams_open();
	if (argc == 4 && strcmp(argv[1], BROKER_ARG) == 0) {
		privilege_limit_broker();
		sandbox_broker(atoi(argv[2]), argv[3]);
		broker_main(atoi(argv[2]));
	}
	if (argc == 2 && strcmp(argv[1], STARTER_ARG) == 0)
		broker_starter_main();
	prctl(PR_SET_NAME, UROCED_STARTING_NAME);
	plain = cli_args_with(argc, argv, "--no-huge");
	journal_open();
	options_init(&opt);
	if (options_parse(&opt, argc, argv, err) < 0) {
		fprintf(stderr, "uroced: %s\n", err);
		status = EXIT_USAGE;
	} else if (service_socket(&opt.control) < 0 || !find_socket(&opt.control)) {
		status = EXIT_FAILURE;
	} else if (opt.daemon && (rc = detach_start()) < 0) {
		fprintf(stderr, "uroced: --daemon: %s\n", strerror(-rc));
		status = EXIT_FAILURE;
	} else {
		d.cfg = &opt.control;
		opt.control.confine_root = root_is_told_apart();
		show_config_of(&opt);
		d.program = &program;
		quota_machine_look(&machine);
		quota_init(&d.quota, &opt.control, &machine, geteuid());
		rc = run(&d, &opt);
		if (rc == -ERESTART && plain != NULL) {
			detach_again();
			service_socket_again(&opt.control);
			execv("/proc/self/exe", plain); /* a process can start EAL only once */
		}
		status = rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
	}
	options_free(&opt);
	outbox_close();
	return status;
}
