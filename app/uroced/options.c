/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <rte_log.h>
#include <uroce_abi/ctrl.h>
#include "control/devspec.h"
#include "control/idtab.h"

enum option_type {
	OPT_TEXT,
	OPT_NUMBER, /* decimal */
	OPT_OCTAL,
	OPT_SWITCH, /* yes or no; alone on the command line: yes */
	OPT_CHOICE, /* one of names */
	OPT_LIST,   /* may be given again */
};

struct choice {
	const char *name;
	uint32_t value;
};

struct option_desc {
	const char *name;
	const char *arg; /* how --help calls the value */
	enum option_type type;
	size_t offset; /* in struct options */
	uint32_t min, max;
	const struct choice *choices; /* ends with a NULL name */
	const char *def;              /* NULL: none */
	/* Further check of a value: NULL or what is wrong with it. */
	bool (*check)(const char *value, char err[OPTIONS_ERR_MAX]);
	const char *help;
};

static const struct choice idle_choices[] = {
	{"auto", OPTION_IDLE_AUTO},
	{"poll", OPTION_IDLE_POLL},
	{"adaptive", OPTION_IDLE_ADAPTIVE},
	{NULL, 0},
};
static const struct choice log_choices[] = {
	{"error", RTE_LOG_ERR}, {"warning", RTE_LOG_WARNING}, {"notice", RTE_LOG_NOTICE},
	{"info", RTE_LOG_INFO}, {"debug", RTE_LOG_DEBUG},     {NULL, 0},
};

static bool
check_lcores(const char *value, char err[OPTIONS_ERR_MAX])
{
	unsigned cpu[UROCE_MAX_WORKERS];

	if (options_cpus(value, cpu, UROCE_MAX_WORKERS) > 0)
		return true;
	snprintf(err, OPTIONS_ERR_MAX, "'%s' is not a list of 1 to %d CPUs like 1 or 0,2-3", value,
		 UROCE_MAX_WORKERS);
	return false;
}

static bool
check_dev(const char *value, char err[OPTIONS_ERR_MAX])
{
	struct devspec spec;

	return devspec_parse(&spec, value, err, OPTIONS_ERR_MAX) == 0;
}

#define AT(field) offsetof(struct options, field)

static const struct option_desc table[] = {
	{"config", "FILE", OPT_TEXT, AT(config), 0, 0, NULL, NULL, NULL,
	 "read options from FILE first; the command line wins"},
	{"socket", "PATH", OPT_TEXT, AT(control.socket), 0, 0, NULL, UROCE_DEFAULT_SOCK, NULL,
	 "control socket that clients connect to"},
	{"socket-mode", "MODE", OPT_OCTAL, AT(control.socket_mode), 0, 0777, NULL, "0660", NULL,
	 "permissions of the socket, octal"},
	{"socket-group", "GROUP", OPT_TEXT, AT(control.socket_group), 0, 0, NULL, NULL, NULL,
	 "group that owns the socket, by name or number"},
	{"dev", "SPEC", OPT_LIST, AT(dev), 0, 0, NULL, NULL, check_dev,
	 "a verbs device: name=uroce0,port=PORT[,addr=IP/LEN].. [,mac=M][,mtu=N][,gateway=IP]..\n"
	 "[,vlan=ID][,pkey=KEY]..[,loopback=wire]; without any --dev each port becomes a device\n"
	 "(may be repeated)"},
	{"vdev", "ARGS", OPT_LIST, AT(vdev), 0, 0, NULL, NULL, NULL,
	 "a DPDK virtual device, as EAL's --vdev (may be repeated)"},
	{"allow", "PCI", OPT_LIST, AT(allow), 0, 0, NULL, NULL, NULL,
	 "a PCI device to use, as EAL's --allow; none: no PCI (may be repeated)"},
	{"pair", "NAME", OPT_LIST, AT(pair), 0, 0, NULL, NULL, NULL,
	 "two ports net_ring_NAMEa and net_ring_NAMEb, joined in memory (may be repeated)"},
	{"workers", "N", OPT_NUMBER, AT(workers), 1, UROCE_MAX_WORKERS, NULL, "1", NULL,
	 "worker threads"},
	{"lcores", "LIST", OPT_TEXT, AT(lcores), 0, 0, NULL, NULL, check_lcores,
	 "CPUs of the workers, one each in turn; default: all CPUs, unpinned if they are few"},
	{"idle", "POLICY", OPT_CHOICE, AT(idle), 0, 0, idle_choices, "auto", NULL,
	 "poll: workers spin; adaptive: they yield and sleep; auto: poll if there are CPUs enough"},
	{"no-huge", NULL, OPT_SWITCH, AT(no_huge), 0, 0, NULL, "no", NULL,
	 "use no huge pages, which is also what happens when too few are free"},
	{"mem", "MIB", OPT_NUMBER, AT(mem_mib), 64, 1u << 20, NULL, "256", NULL,
	 "memory for packet buffers"},
	{"mbufs", "N", OPT_NUMBER, AT(mbufs), 1024, 1u << 22, NULL, "16384", NULL,
	 "packet buffers"},
	{"max-clients", "N", OPT_NUMBER, AT(control.max_clients), 1, 65536, NULL, "1024", NULL,
	 "connections at a time"},
	{"max-qps", "N", OPT_NUMBER, AT(control.max_qps), 1, 1u << 18, NULL, "4096", NULL,
	 "queue pairs, all clients together"},
	{"max-cqs", "N", OPT_NUMBER, AT(control.max_cqs), 1, IDTAB_MAX, NULL, "8192", NULL,
	 "completion queues, all clients together"},
	{"max-mrs", "N", OPT_NUMBER, AT(control.max_mrs), 1, (1u << 20) - 1, NULL, "65535", NULL,
	 "memory regions and windows, all clients together"},
	{"max-pds", "N", OPT_NUMBER, AT(control.max_pds), 1, IDTAB_MAX, NULL, "8192", NULL,
	 "protection domains, all clients together"},
	{"max-srqs", "N", OPT_NUMBER, AT(control.max_srqs), 1, IDTAB_MAX, NULL, "4096", NULL,
	 "shared receive queues"},
	{"max-ahs", "N", OPT_NUMBER, AT(control.max_ahs), 1, 1u << 24, NULL, "262144", NULL,
	 "address handles"},
	{"max-mcast", "N", OPT_NUMBER, AT(control.max_mcast), 1, 1u << 20, NULL, "65536", NULL,
	 "memberships of queue pairs in multicast groups"},
	{"max-channels", "N", OPT_NUMBER, AT(control.max_channels), 1, 65536, NULL, "4096", NULL,
	 "completion channels"},
	{"client-mem", "MIB", OPT_NUMBER, AT(control.client_mem_mib), 2, 1u << 20, NULL, "1024",
	 NULL, "queue memory that one client may hold"},
	{"max-queue-mem", "MIB", OPT_NUMBER, AT(control.max_queue_mem_mib), 0, 1u << 30, NULL, "0",
	 NULL, "queue memory, all clients together; 0: half of the RAM"},
	{"max-reg-mem", "MIB", OPT_NUMBER, AT(control.max_reg_mem_mib), 0, 1u << 30, NULL, "0",
	 NULL,
	 "registered memory, all clients together, each region with its length; 0: twice the RAM"},
	{"max-maps", "N", OPT_NUMBER, AT(control.max_maps), 0, 1u << 30, NULL, "0", NULL,
	 "mappings of client memory and queues in the daemon; 0: three quarters of "
	 "vm.max_map_count"},
	{"max-fds", "N", OPT_NUMBER, AT(control.max_fds), 0, 1u << 30, NULL, "0", NULL,
	 "descriptors of the daemon for clients; 0: three quarters of RLIMIT_NOFILE"},
	{"hello-timeout", "S", OPT_NUMBER, AT(control.hello_timeout_s), 1, 3600, NULL, "10", NULL,
	 "seconds that a connection may take to send its first request"},
	/* limits for each uid but root, within the totals above */
	{"max-clients-per-uid", "N", OPT_NUMBER, AT(control.per_uid[QUOTA_CLIENTS]), 0, 1u << 30,
	 NULL, "0", NULL, "connections of a uid; 0: three quarters of max-clients"},
	{"max-new-per-uid", "N", OPT_NUMBER, AT(control.per_uid[QUOTA_NEW]), 0, 1u << 30, NULL, "0",
	 NULL, "connections of a uid that have sent no request; 0: a sixteenth of max-clients"},
	{"max-contexts-per-uid", "N", OPT_NUMBER, AT(control.per_uid[QUOTA_CONTEXTS]), 0, 1u << 30,
	 NULL, "0", NULL, "open devices of a uid; 0: three quarters of max-clients"},
	{"max-pds-per-uid", "N", OPT_NUMBER, AT(control.per_uid[QUOTA_PDS]), 0, 1u << 30, NULL, "0",
	 NULL, "protection domains of a uid; 0: three quarters of max-pds"},
	{"max-mrs-per-uid", "N", OPT_NUMBER, AT(control.per_uid[QUOTA_MRS]), 0, 1u << 30, NULL, "0",
	 NULL, "memory regions and windows of a uid; 0: three quarters of max-mrs"},
	{"max-channels-per-uid", "N", OPT_NUMBER, AT(control.per_uid[QUOTA_CHANNELS]), 0, 1u << 30,
	 NULL, "0", NULL, "completion channels of a uid; 0: three quarters of max-channels"},
	{"max-cqs-per-uid", "N", OPT_NUMBER, AT(control.per_uid[QUOTA_CQS]), 0, 1u << 30, NULL, "0",
	 NULL, "completion queues of a uid; 0: three quarters of max-cqs"},
	{"max-srqs-per-uid", "N", OPT_NUMBER, AT(control.per_uid[QUOTA_SRQS]), 0, 1u << 30, NULL,
	 "0", NULL, "shared receive queues of a uid; 0: three quarters of max-srqs"},
	{"max-qps-per-uid", "N", OPT_NUMBER, AT(control.per_uid[QUOTA_QPS]), 0, 1u << 30, NULL, "0",
	 NULL, "queue pairs of a uid; 0: three quarters of max-qps"},
	{"max-ahs-per-uid", "N", OPT_NUMBER, AT(control.per_uid[QUOTA_AHS]), 0, 1u << 30, NULL, "0",
	 NULL, "address handles of a uid; 0: three quarters of max-ahs"},
	{"max-mcast-per-uid", "N", OPT_NUMBER, AT(control.per_uid[QUOTA_MCAST]), 0, 1u << 30, NULL,
	 "0", NULL, "multicast memberships of a uid; 0: a sixteenth of max-mcast"},
	{"max-queue-mem-per-uid", "MIB", OPT_NUMBER, AT(control.per_uid[QUOTA_QUEUE_MEM]), 0,
	 1u << 30, NULL, "0", NULL, "queue memory of a uid; 0: half of max-queue-mem"},
	{"max-reg-mem-per-uid", "MIB", OPT_NUMBER, AT(control.per_uid[QUOTA_REG_MEM]), 0, 1u << 30,
	 NULL, "0", NULL, "registered memory of a uid; 0: half of max-reg-mem"},
	{"max-fds-per-uid", "N", OPT_NUMBER, AT(control.per_uid[QUOTA_FDS]), 0, 1u << 30, NULL, "0",
	 NULL, "descriptors of the daemon for a uid; 0: half of max-fds"},
	{"max-maps-per-uid", "N", OPT_NUMBER, AT(control.per_uid[QUOTA_MAPS]), 0, 1u << 30, NULL,
	 "0", NULL, "mappings of client memory and queues of a uid; 0: half of max-maps"},
	{"file-prefix", "NAME", OPT_TEXT, AT(file_prefix), 0, 0, NULL, "uroced", NULL,
	 "EAL's --file-prefix"},
	{"log-level", "LEVEL", OPT_CHOICE, AT(log_level), 0, 0, log_choices, "notice", NULL,
	 "least severe messages to log"},
	{"help", NULL, OPT_SWITCH, AT(help), 0, 0, NULL, "no", NULL, "print this and exit"},
	{"version", NULL, OPT_SWITCH, AT(version), 0, 0, NULL, "no", NULL,
	 "print the version and exit"},
};
#define NOPTIONS (sizeof(table) / sizeof(table[0]))

static const struct option_desc *
option_find(const char *name, size_t len)
{
	for (unsigned i = 0; i < NOPTIONS; i++) {
		if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0)
			return &table[i];
	}
	return NULL;
}

const char *
options_name(unsigned i)
{
	return i < NOPTIONS ? table[i].name : NULL;
}

static void *
option_field(struct options *o, const struct option_desc *d)
{
	return (char *)o + d->offset;
}

static void
list_clear(struct option_list *list)
{
	while (list->n > 0)
		free(list->v[--list->n]);
}

static bool
set_text(char **field, const char *value, char err[OPTIONS_ERR_MAX])
{
	char *copy;

	if (*value == '\0') {
		snprintf(err, OPTIONS_ERR_MAX, "the value is empty");
		return false;
	}
	copy = strdup(value);
	if (copy == NULL) {
		snprintf(err, OPTIONS_ERR_MAX, "out of memory");
		return false;
	}
	free(*field);
	*field = copy;
	return true;
}

static bool
set_number(const struct option_desc *d, uint32_t *field, const char *value,
	   char err[OPTIONS_ERR_MAX])
{
	int base = d->type == OPT_OCTAL ? 8 : 10;
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(value, &end, base);
	/* strtoull takes a sign and leading space, which no number here has */
	if (*value >= '0' && *value <= '9' && *end == '\0' && errno == 0 && n >= d->min &&
	    n <= d->max) {
		*field = (uint32_t)n;
		return true;
	}
	snprintf(err, OPTIONS_ERR_MAX,
		 base == 8 ? "'%s' is not an octal number from %o to %o"
			   : "'%s' is not a number from %u to %u",
		 value, d->min, d->max);
	return false;
}

static bool
set_switch(bool *field, const char *value, char err[OPTIONS_ERR_MAX])
{
	*field = strcmp(value, "yes") == 0;
	if (*field || strcmp(value, "no") == 0)
		return true;
	snprintf(err, OPTIONS_ERR_MAX, "'%s' is not yes or no", value);
	return false;
}

static bool
set_choice(const struct option_desc *d, uint32_t *field, const char *value,
	   char err[OPTIONS_ERR_MAX])
{
	int len;

	for (const struct choice *c = d->choices; c->name != NULL; c++) {
		if (strcmp(c->name, value) == 0) {
			*field = c->value;
			return true;
		}
	}
	len = snprintf(err, OPTIONS_ERR_MAX, "'%s' is not one of", value);
	for (const struct choice *c = d->choices; c->name != NULL && len < OPTIONS_ERR_MAX; c++)
		len += snprintf(err + len, OPTIONS_ERR_MAX - (size_t)len, " %s", c->name);
	return false;
}

static bool
add_to_list(struct option_list *list, const char *value, char err[OPTIONS_ERR_MAX])
{
	if (list->n == OPTIONS_LIST_MAX) {
		snprintf(err, OPTIONS_ERR_MAX, "given more than %d times", OPTIONS_LIST_MAX);
		return false;
	}
	list->v[list->n] = NULL;
	if (!set_text(&list->v[list->n], value, err))
		return false;
	list->n++;
	return true;
}

static bool
option_set(struct options *o, const struct option_desc *d, const char *value,
	   char err[OPTIONS_ERR_MAX])
{
	void *field = option_field(o, d);

	switch (d->type) {
	case OPT_TEXT:
		return (d->check == NULL || d->check(value, err)) && set_text(field, value, err);
	case OPT_NUMBER:
	case OPT_OCTAL:
		return set_number(d, field, value, err) &&
		       (d->check == NULL || d->check(value, err));
	case OPT_SWITCH:
		return set_switch(field, value, err);
	case OPT_CHOICE:
		return set_choice(d, field, value, err);
	case OPT_LIST:
		return (d->check == NULL || d->check(value, err)) && add_to_list(field, value, err);
	}
	return false;
}

/* option_set, with the option named in the message. */
static int
option_set_named(struct options *o, const struct option_desc *d, const char *dashes,
		 const char *value, char err[OPTIONS_ERR_MAX])
{
	char why[OPTIONS_ERR_MAX];

	if (option_set(o, d, value, why))
		return 0;
	snprintf(err, OPTIONS_ERR_MAX, "option %s%s: %.400s", dashes, d->name, why);
	return -EINVAL;
}

int
options_set(struct options *o, const char *name, const char *value, char err[OPTIONS_ERR_MAX])
{
	const struct option_desc *d = option_find(name, strlen(name));

	if (d == NULL) {
		snprintf(err, OPTIONS_ERR_MAX, "unknown option %.64s (uroced --help lists them)",
			 name);
		return -EINVAL;
	}
	return option_set_named(o, d, "", value, err);
}

void
options_init(struct options *o)
{
	char err[OPTIONS_ERR_MAX];

	memset(o, 0, sizeof(*o));
	for (unsigned i = 0; i < NOPTIONS; i++) {
		if (table[i].def != NULL)
			option_set(o, &table[i], table[i].def, err);
	}
}

void
options_free(struct options *o)
{
	for (unsigned i = 0; i < NOPTIONS; i++) {
		if (table[i].type == OPT_TEXT)
			free(*(char **)option_field(o, &table[i]));
		else if (table[i].type == OPT_LIST)
			list_clear(option_field(o, &table[i]));
	}
	memset(o, 0, sizeof(*o));
}

/* One word of the command line, split; *value NULL where the next word is the value. */
static const struct option_desc *
arg_split(const char *arg, const char **value, char err[OPTIONS_ERR_MAX])
{
	const char *eq = strchr(arg, '=');
	const struct option_desc *d;

	*value = eq != NULL ? eq + 1 : NULL;
	if (strncmp(arg, "--", 2) != 0) {
		snprintf(err, OPTIONS_ERR_MAX, "'%.200s' is no option: all start with --", arg);
		return NULL;
	}
	d = option_find(arg + 2, eq != NULL ? (size_t)(eq - arg - 2) : strlen(arg + 2));
	if (d == NULL)
		snprintf(err, OPTIONS_ERR_MAX, "unknown option %.200s (--help lists them)", arg);
	else if (*value == NULL && d->type == OPT_SWITCH)
		*value = "yes";
	return d;
}

/* Walk the command line. only_config: nothing but --config is taken. */
static int
args_walk(struct options *o, int argc, char **argv, bool only_config, char err[OPTIONS_ERR_MAX])
{
	bool seen[NOPTIONS] = {false};

	for (int i = 1; i < argc; i++) {
		const char *value;
		const struct option_desc *d = arg_split(argv[i], &value, err);

		if (d == NULL)
			return -EINVAL;
		if (value == NULL && ++i == argc) {
			snprintf(err, OPTIONS_ERR_MAX, "option --%s: needs a value %s", d->name,
				 d->arg);
			return -EINVAL;
		}
		if (only_config && d->offset != AT(config))
			continue;
		if (d->type == OPT_LIST && !seen[d - table])
			list_clear(option_field(o, d));
		seen[d - table] = true;
		if (option_set_named(o, d, "--", value != NULL ? value : argv[i], err) < 0)
			return -EINVAL;
	}
	return 0;
}

int
options_parse(struct options *o, int argc, char **argv, char err[OPTIONS_ERR_MAX])
{
	int rc = args_walk(o, argc, argv, true, err);

	if (rc == 0 && o->config != NULL)
		rc = conf_load(o, o->config, err);
	return rc == 0 ? args_walk(o, argc, argv, false, err) : rc;
}

/* "  --name ARG   help", further lines of the help below it; range and default at the end. */
static void
help_one(FILE *out, const struct option_desc *d)
{
	char left[40];
	const char *p = d->help;

	snprintf(left, sizeof(left), "--%s %s", d->name, d->arg != NULL ? d->arg : "");
	fprintf(out, "  %-22s ", left);
	for (; *p != '\0'; p++) {
		fputc(*p, out);
		if (*p == '\n')
			fprintf(out, "%25s", "");
	}
	if (d->type == OPT_NUMBER)
		fprintf(out, " (%u..%u)", d->min, d->max);
	if (d->choices != NULL) {
		fprintf(out, " (");
		for (const struct choice *c = d->choices; c->name != NULL; c++)
			fprintf(out, "%s%s", c != d->choices ? "|" : "", c->name);
		fprintf(out, ")");
	}
	if (d->def != NULL && d->type != OPT_SWITCH)
		fprintf(out, " [%s]", d->def);
	fputc('\n', out);
}

void
options_help(FILE *out)
{
	fprintf(out, "usage: uroced [options]\n"
		     "RoCEv2 daemon: gives DPDK ports to verbs programs as devices uroce0 ..\n\n");
	for (unsigned i = 0; i < NOPTIONS; i++)
		help_one(out, &table[i]);
	fprintf(out, "\nThe same names serve in the configuration file, section [uroced].\n");
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
