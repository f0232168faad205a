/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_log.h>
#include <uroce_abi/ctrl.h>
#include "control/devspec.h"
#include "control/idtab.h"

#define SECTION         "uroced" /* of the configuration file */
#define FILE_PREFIX_MAX 48

static const char *const workers_names[] = {"auto", NULL}; /* 0 */
static const char *const idle_names[] = {"auto", "poll", "adaptive", NULL};
static const char *const quota_by_names[] = {"owner", "uid", "cgroup", NULL}; /* enum quota_by */
static const char *const sandbox_names[] = {"off", "on", "kill", NULL}; /* enum option_sandbox */
static const char *const log_names[] = {"error", "warning", "notice", "info", "debug", NULL};
_Static_assert(RTE_LOG_DEBUG - RTE_LOG_ERR == 4, "log_names are RTE_LOG_ERR to RTE_LOG_DEBUG");

static int
check_lcores(const char *value, char *err, size_t room)
{
	unsigned cpu[UROCE_MAX_WORKERS];

	if (options_cpus(value, cpu, UROCE_MAX_WORKERS) > 0)
		return 0;
	snprintf(err, room, "'%.200s' is not a list of 1 to %d CPUs like 1 or 0,2-3", value,
		 UROCE_MAX_WORKERS);
	return -EINVAL;
}

/* "none", or [DDDD:]BB:DD.F, optionally followed by a comma and arguments of the driver. */
static int
check_allow(const char *value, char *err, size_t room)
{
	unsigned domain = 0, bus, dev, function;
	int end = -1;

	if (sscanf(value, "%4x:%2x:%2x.%1x%n", &domain, &bus, &dev, &function, &end) != 4) {
		end = -1;
		(void)sscanf(value, "%2x:%2x.%1x%n", &bus, &dev, &function, &end);
	}
	if (strcmp(value, "none") == 0 || (end > 0 && (value[end] == '\0' || value[end] == ',')))
		return 0;
	snprintf(err, room, "'%.200s' is not a PCI address like 0000:03:00.0 (lspci -D), nor none",
		 value);
	return -EINVAL;
}

/* EAL creates a folder of this name, and a socket in it. */
static int
check_prefix(const char *value, char *err, size_t room)
{
	size_t len = strlen(value);

	if (len <= FILE_PREFIX_MAX && strchr(value, '/') == NULL)
		return 0;
	snprintf(err, room, "'%.80s%s' is not a name of 1 to %d characters without '/'", value,
		 len > 80 ? ".." : "", FILE_PREFIX_MAX);
	return -EINVAL;
}

static int
refuse_metrics(const char *value, char *err, size_t room)
{
	snprintf(err, room,
		 "uroced serves no metrics any more: remove this option, and run urocectl metrics "
		 "--listen %.100s, or start uroce-metrics.service",
		 value);
	return -EINVAL;
}

static int
check_dev(const char *value, char *err, size_t room)
{
	struct devspec spec;

	return devspec_parse(&spec, value, err, room);
}

#define ROW(option, kind, member) .name = option, .type = kind, CLI_AT(struct options, member)
#define NUMBER(option, member, unit, least, most, preset, text)                                    \
	{                                                                                          \
		ROW(option, CLI_NUMBER, member), .arg = unit, .min = least, .max = most,           \
						 .def = preset, .help = text                       \
	}
/* Limits for each uid except root, within the totals. */
#define PER_UID(option, kind, unit, text)                                                          \
	NUMBER(option, control.per_uid[kind], unit, 0, 1u << 30, "0", text)

static const struct cli_field table[] = {
	{ROW("config", CLI_TEXT, config), .arg = "FILE", .args_only = true,
	 .help = "read options from FILE first; the command line wins"},
	{ROW("daemon", CLI_SWITCH, daemon), .args_only = true,
	 .help = "return when the daemon is ready; its log goes to SOCKET.log then"},
	{ROW("socket", CLI_TEXT, control.socket), .arg = "PATH",
	 .help = "control socket that clients connect to [" UROCE_DEFAULT_SOCK ", or, for an\n"
		 "ordinary user, $XDG_RUNTIME_DIR/uroce/uroced.sock or "
		 "/tmp/uroce-UID/uroced.sock]"},
	{ROW("socket-mode", CLI_OCTAL, control.socket_mode), .arg = "MODE", .def = "0660",
	 .max = 0777, .help = "permissions of the socket, octal"},
	{ROW("socket-group", CLI_TEXT, control.socket_group), .arg = "GROUP",
	 .help = "group that owns the socket, by name or number"},
	{ROW("broker-socket", CLI_TEXT, control.broker_socket), .arg = "PATH",
	 .help = "socket of a service that starts brokers (unit uroced-broker.socket); default: "
		 "uroced\n"
		 "starts them itself, with its own privileges"},
	{ROW("dev", CLI_LIST, dev), .arg = "SPEC", .check = check_dev,
	 .help = "a verbs device: name=uroce0,port=PORT[,addr=IP/LEN].. "
		 "[,mac=M][,mtu=N][,gateway=IP]..\n"
		 "[,vlan=ID][,pkey=KEY]..[,peer=IP/LEN]..[,loopback=wire][,sr=off][,probe=off];\n"
		 "or name=uroce0,port=udp,addr=IP (or iface=NAME)[,strict=yes]: UDP sockets on the "
		 "host's\n"
		 "own address, no privilege; or name=uroce0,port=packet,iface=NAME[,share=yes]: a "
		 "packet\n"
		 "socket, with share the host's addresses; without any --dev each port becomes a "
		 "device;\n"
		 "without any port, each interface of the host by a UDP socket (may be repeated)"},
	{ROW("vdev", CLI_LIST, vdev), .arg = "ARGS",
	 .help = "a DPDK virtual device, as EAL's --vdev (may be repeated)"},
	{ROW("allow", CLI_LIST, allow), .arg = "PCI", .check = check_allow,
	 .help = "a PCI device to use, as EAL's --allow; none: no PCI (may be repeated)"},
	{ROW("pair", CLI_LIST, pair), .arg = "NAME",
	 .help = "two ports net_ring_NAMEa and net_ring_NAMEb, joined in memory (may be repeated)"},
	{ROW("workers", CLI_NUMBER, workers), .arg = "N", .min = 1, .max = UROCE_MAX_WORKERS,
	 .def = "1", .names = workers_names,
	 .help = "worker threads; auto: one for each CPU of --lcores or, without it, for each that "
		 "the\n"
		 "affinity and the cgroup of uroced allow, less one; not more than a port has "
		 "queues"},
	{ROW("lcores", CLI_TEXT, lcores), .arg = "LIST", .check = check_lcores,
	 .help = "CPUs of the workers, one each in turn; default: all CPUs, unpinned if they are "
		 "few"},
	{ROW("idle", CLI_CHOICE, idle), .arg = "POLICY", .def = "auto", .names = idle_names,
	 .help = "poll: workers spin; adaptive: they yield and sleep; auto: poll if there are "
		 "enough CPUs"},
	{ROW("no-huge", CLI_SWITCH, no_huge),
	 .help = "use no huge pages, which is also what happens when too few are free"},
	NUMBER("mem", mem_mib, "MIB", 64, 1u << 20, "256", "memory for packet buffers"),
	NUMBER("mbufs", mbufs, "N", 1024, 1u << 22, "16384", "packet buffers"),
	NUMBER("max-clients", control.max_clients, "N", 1, 65536, "1024", "connections at a time"),
	NUMBER("max-qps", control.max_qps, "N", 1, 1u << 18, "4096",
	       "queue pairs, all clients together"),
	NUMBER("max-cqs", control.max_cqs, "N", 1, IDTAB_MAX, "8192",
	       "completion queues, all clients together"),
	NUMBER("max-mrs", control.max_mrs, "N", 1, (1u << 20) - 1, "65535",
	       "memory regions and windows, all clients together"),
	NUMBER("max-pds", control.max_pds, "N", 1, IDTAB_MAX, "8192",
	       "protection domains, all clients together"),
	NUMBER("max-srqs", control.max_srqs, "N", 1, IDTAB_MAX, "4096", "shared receive queues"),
	NUMBER("max-ahs", control.max_ahs, "N", 1, 1u << 24, "262144", "address handles"),
	NUMBER("max-mcast", control.max_mcast, "N", 1, 1u << 20, "65536",
	       "memberships of queue pairs in multicast groups"),
	NUMBER("max-cm-channels", control.max_cm_channels, "N", 1, 65536, "4096",
	       "event channels of rdma_cm"),
	NUMBER("max-cm-ids", control.max_cm_ids, "N", 1, 1u << 18, "32768",
	       "ids and multicast memberships of rdma_cm"),
	NUMBER("max-channels", control.max_channels, "N", 1, 65536, "4096", "completion channels"),
	NUMBER("client-mem", control.client_mem_mib, "MIB", 2, 1u << 20, "1024",
	       "queue memory that one client may hold"),
	NUMBER("max-queue-mem", control.max_queue_mem_mib, "MIB", 0, 1u << 30, "0",
	       "queue memory, all clients together; 0: half of the RAM"),
	NUMBER("max-reg-mem", control.max_reg_mem_mib, "MIB", 0, 1u << 30, "0",
	       "registered memory, all clients together, each region with its length; 0: twice the "
	       "RAM"),
	NUMBER("max-maps", control.max_maps, "N", 0, 1u << 30, "0",
	       "mappings of client memory and queues in the daemon; 0: three quarters of "
	       "vm.max_map_count"),
	NUMBER("max-fds", control.max_fds, "N", 0, 1u << 30, "0",
	       "descriptors of the daemon for clients; 0: three quarters of RLIMIT_NOFILE"),
	NUMBER("hello-timeout", control.hello_timeout_s, "S", 1, 3600, "10",
	       "seconds that a connection may take to send its first request"),
	/* limits for each uid except root, within the totals above */
	PER_UID("max-clients-per-uid", QUOTA_CLIENTS, "N",
		"connections of a uid; 0: three quarters of max-clients"),
	PER_UID("max-new-per-uid", QUOTA_NEW, "N",
		"connections of a uid that have sent no request; 0: a sixteenth of max-clients"),
	PER_UID("max-contexts-per-uid", QUOTA_CONTEXTS, "N",
		"open devices of a uid; 0: three quarters of max-clients"),
	PER_UID("max-pds-per-uid", QUOTA_PDS, "N",
		"protection domains of a uid; 0: three quarters of max-pds"),
	PER_UID("max-mrs-per-uid", QUOTA_MRS, "N",
		"memory regions and windows of a uid; 0: three quarters of max-mrs"),
	PER_UID("max-channels-per-uid", QUOTA_CHANNELS, "N",
		"completion channels of a uid; 0: three quarters of max-channels"),
	PER_UID("max-cqs-per-uid", QUOTA_CQS, "N",
		"completion queues of a uid; 0: three quarters of max-cqs"),
	PER_UID("max-srqs-per-uid", QUOTA_SRQS, "N",
		"shared receive queues of a uid; 0: three quarters of max-srqs"),
	PER_UID("max-qps-per-uid", QUOTA_QPS, "N",
		"queue pairs of a uid; 0: three quarters of max-qps"),
	PER_UID("max-ahs-per-uid", QUOTA_AHS, "N",
		"address handles of a uid; 0: three quarters of max-ahs"),
	PER_UID("max-cm-channels-per-uid", QUOTA_CM_CHANNELS, "N",
		"event channels of rdma_cm of a uid; 0: three quarters of max-cm-channels"),
	PER_UID("max-cm-ids-per-uid", QUOTA_CM_IDS, "N",
		"ids of rdma_cm of a uid; 0: three quarters of max-cm-ids"),
	PER_UID("max-mcast-per-uid", QUOTA_MCAST, "N",
		"multicast memberships of a uid; 0: a sixteenth of max-mcast"),
	PER_UID("max-queue-mem-per-uid", QUOTA_QUEUE_MEM, "MIB",
		"queue memory of a uid; 0: half of max-queue-mem"),
	PER_UID("max-reg-mem-per-uid", QUOTA_REG_MEM, "MIB",
		"registered memory of a uid; 0: half of max-reg-mem"),
	PER_UID("max-fds-per-uid", QUOTA_FDS, "N",
		"descriptors of the daemon for a uid; 0: half of max-fds"),
	PER_UID("max-maps-per-uid", QUOTA_MAPS, "N",
		"mappings of client memory and queues of a uid; 0: half of max-maps"),
	{ROW("quota-by", CLI_CHOICE, control.quota_by), .arg = "WHAT", .def = "owner",
	 .names = quota_by_names,
	 .help = "who has a limit: owner: a uid with its subordinate uids (/etc/subuid); uid; "
		 "cgroup: a uid within a control group, for containers"},
	{ROW("copy-memory", CLI_SWITCH, control.copy_memory),
	 .help = "copy memory that clients register instead of mapping it: slower, but workers do "
		 "not wait for it"},
	{ROW("file-prefix", CLI_TEXT, file_prefix), .arg = "NAME", .def = "uroced",
	 .check = check_prefix, .help = "EAL's --file-prefix"},
	{ROW("metrics", CLI_TEXT, metrics), .arg = "WHERE", .check = refuse_metrics,
	 .help = "refused: urocectl metrics --listen WHERE serves metrics for Prometheus"},
	{ROW("no-telemetry", CLI_SWITCH, no_telemetry),
	 .help = "do not open DPDK's telemetry socket, as EAL's --no-telemetry"},
	{ROW("sandbox", CLI_CHOICE, sandbox), .arg = "MODE", .def = "on", .names = sandbox_names,
	 .help = "on: system calls that uroced does not need fail and are logged; kill: they end\n"
		 "uroced (for tests); off"},
	{ROW("core-dumps", CLI_SWITCH, core_dumps),
	 .help = "let a crash of uroced leave a core file, which has clients' data, and let its "
		 "user "
		 "attach\n"
		 "a debugger"},
	{ROW("log-level", CLI_CHOICE, log_level), .arg = "LEVEL", .def = "notice",
	 .names = log_names, .min = RTE_LOG_ERR, .help = "least severe messages to log"},
	{NULL},
};

static const struct cli_program program = {
	.name = "uroced",
	.usage = "usage: uroced [options]\n"
		 "RoCEv2 daemon: gives ports to verbs programs as devices uroce0 ..; without "
		 "options, UDP\n"
		 "sockets on the interfaces of this host\n",
	.more = "The same names are used in the configuration file, section [" SECTION "].\n",
	.options = table,
};

const char *
options_name(unsigned i)
{
	return table[i].name;
}

bool
options_get(const struct options *o, unsigned i, const char **name, const char **def, char *value,
	    size_t room)
{
	*name = table[i].name;
	*def = table[i].def;
	if (*name != NULL)
		cli_text(&table[i], o, value, room);
	return *name != NULL;
}

int
options_set(struct options *o, const char *name, const char *value, char err[OPTIONS_ERR_MAX])
{
	const struct cli_field *f = cli_find(table, name, strlen(name));
	char why[OPTIONS_ERR_MAX];

	if (f == NULL)
		snprintf(err, OPTIONS_ERR_MAX, "unknown option %.64s (--help lists them)", name);
	else if (cli_set(f, o, value, why, sizeof(why)) < 0)
		snprintf(err, OPTIONS_ERR_MAX, "option %s: %.400s", name, why);
	else
		return 0;
	return -EINVAL;
}

void
options_init(struct options *o)
{
	memset(o, 0, sizeof(*o));
	cli_defaults(table, o);
}

void
options_free(struct options *o)
{
	free(o->file_text);
	memset(o, 0, sizeof(*o));
}

int
options_load(struct options *o, const char *path, char err[OPTIONS_ERR_MAX])
{
	return cli_file(table, o, path, SECTION, &o->file_text, err, OPTIONS_ERR_MAX);
}

int
options_parse(struct options *o, int argc, char **argv, char err[OPTIONS_ERR_MAX])
{
	struct options line =
		*o; /* parsed first, for --config: the file comes before the command line */
	int rc = cli_args(&program, &line, argc, argv, err, OPTIONS_ERR_MAX);

	if (rc > 0) {
		snprintf(err, OPTIONS_ERR_MAX, "'%.200s' is not an option: all start with --",
			 argv[1]);
		return -EINVAL;
	}
	if (rc == 0 && line.config != NULL)
		rc = options_load(o, line.config, err);
	return rc == 0 ? cli_args(&program, o, argc, argv, err, OPTIONS_ERR_MAX) : rc;
}

int
options_cpus(const char *text, unsigned *cpu, unsigned max)
{
	unsigned n = 0;

	do {
		char *end;
		unsigned long from, to;

		if (*text < '0' || *text > '9')
			return -EINVAL;
		from = to = strtoul(text, &end, 10);
		if (*end == '-' && end[1] >= '0' && end[1] <= '9')
			to = strtoul(end + 1, &end, 10);
		if (to < from || to > 4095 || (*end != '\0' && *end != ',') || to - from >= max - n)
			return -EINVAL;
		while (from <= to)
			cpu[n++] = (unsigned)from++;
		text = *end == ',' ? end + 1 : NULL;
	} while (text != NULL);
	return (int)n;
}
