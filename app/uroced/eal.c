/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <uroce_abi/ctrl.h>
#include "parts.h"
#include "control/devspec.h"
#include "control/log.h"
#include "map/page.h"
#include "port/port.h"
#include "vdev.h"

#define MAX_ARGS 128

/* Free huge pages of 2 MiB and 1 GiB, in MiB. */
static unsigned long
huge_free_mib(void)
{
	static const struct {
		const char *path;
		unsigned long mib;
	} size[] = {
		{"/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", 2},
		{"/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", 1024},
	};
	unsigned long sum = 0, n;

	for (unsigned i = 0; i < 2; i++) {
		FILE *f = fopen(size[i].path, "re");

		if (f == NULL)
			continue;
		if (fscanf(f, "%lu", &n) == 1)
			sum += n * size[i].mib;
		fclose(f);
	}
	return sum;
}

/* The value of vm.nr_hugepages, in pages of the default size, that leaves mib MiB free. */
static unsigned
huge_pages_wanted(unsigned mib)
{
	unsigned long total = 0, avail = 0, kib = 2048;
	char line[128];
	FILE *f = fopen("/proc/meminfo", "re");

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		(void)sscanf(line, "HugePages_Total: %lu", &total);
		(void)sscanf(line, "HugePages_Free: %lu", &avail);
		(void)sscanf(line, "Hugepagesize: %lu kB", &kib);
	}
	if (f != NULL)
		fclose(f);
	if (kib == 0)
		kib = 2048;
	return (unsigned)(total - avail + (mib * 1024ul + kib - 1) / kib);
}

int
eal_plan_make(struct eal_plan *plan, const struct options *o)
{
	cpu_set_t set;
	int cpus;

	memset(plan, 0, sizeof(*plan));
	cpus_find(&plan->cpus, o->lcores);
	plan->workers = o->workers != 0 ? o->workers : cpus_workers(&plan->cpus, UINT_MAX);
	for (unsigned i = 0; i < plan->workers; i++)
		plan->lcore[i] = i + 1;
	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return -errno;
	cpus = CPU_COUNT(&set);
	/* A spinning worker needs a dedicated CPU; clients and the control thread need another. */
	plan->shared_cores = o->idle == OPTION_IDLE_ADAPTIVE ||
			     (o->idle == OPTION_IDLE_AUTO && cpus < (int)plan->workers + 2);
	plan->huge = !o->no_huge && huge_free_mib() >= o->mem_mib;
	if (!plan->huge && !o->no_huge)
		LOG(NOTICE,
		    "fewer than %u MiB of huge pages are free: using ordinary ones, which are "
		    "slower (`sysctl vm.nr_hugepages=%u`, --mem or --no-huge)",
		    o->mem_mib, huge_pages_wanted(o->mem_mib));
	return 0;
}

/* "(0,1,3)": the CPUs that this process may use. */
static void
put_all_cpus(FILE *out)
{
	const char *sep = "(";
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &set))
			continue;
		fprintf(out, "%s%u", sep, cpu);
		sep = ",";
	}
	fprintf(out, ")");
}

/*
 * Builds EAL's --lcores. lcore 0 is the control thread, which may run on any CPU. Workers are
 * pinned to the CPUs of our option --lcores or, without it, to consecutive CPUs of the process.
 * Workers that share CPUs are not pinned.
 */
static char *
lcores_arg(const struct eal_plan *plan, const struct options *o)
{
	unsigned cpu[UROCE_MAX_WORKERS], n = 0;
	char *text = NULL;
	size_t len;
	cpu_set_t set;
	FILE *out = open_memstream(&text, &len);

	if (out == NULL)
		return NULL;
	if (o->lcores != NULL) {
		n = (unsigned)options_cpus(o->lcores, cpu, UROCE_MAX_WORKERS);
	} else if (!plan->shared_cores) {
		sched_getaffinity(0, sizeof(set), &set);
		/* start with the last CPU: interrupts and other processes use the first ones */
		for (unsigned i = CPU_SETSIZE; i-- > 0 && n < plan->workers;) {
			if (CPU_ISSET(i, &set))
				cpu[n++] = i;
		}
	}
	fprintf(out, "0@");
	put_all_cpus(out);
	for (unsigned i = 0; i < plan->workers; i++) {
		fprintf(out, ",%u@", plan->lcore[i]);
		if (n > 0)
			fprintf(out, "%u", cpu[i % n]);
		else
			put_all_cpus(out);
	}
	fclose(out);
	return text;
}

struct arg_list {
	char *v[MAX_ARGS];
	int n;
};

static void
arg_add(struct arg_list *args, const char *name, const char *value)
{
	args->v[args->n++] = strdup(name);
	if (value != NULL)
		args->v[args->n++] = strdup(value);
}

/* Returns true if a device shares the interface of this --vdev with the kernel. */
static bool
is_shared(const struct options *o, const char *vdev)
{
	char err[OPTIONS_ERR_MAX];
	struct devspec spec;

	for (uint32_t i = 0; i < o->dev.n; i++) {
		if (devspec_parse(&spec, o->dev.v[i], err, sizeof(err)) == 0 && spec.share &&
		    strcspn(vdev, ",") == strlen(spec.port) &&
		    strncmp(vdev, spec.port, strlen(spec.port)) == 0)
			return true;
	}
	return false;
}

/*
 * For an af_xdp port with share=yes: appends the XDP program that passes all but RoCE to the
 * kernel. Consumes text. NULL: failed, logged.
 */
static char *
share_af_xdp(const struct options *o, char *text)
{
	char path[40], *more = NULL;
	int rc;

	if (strncmp(text, "net_af_xdp", strlen("net_af_xdp")) != 0 || !is_shared(o, text))
		return text;
	if (strstr(text, ",xdp_prog=") != NULL) {
		LOG(ERR, "share=yes on %s: remove xdp_prog=, share=yes loads its own XDP program",
		    text);
		free(text);
		return NULL;
	}
	rc = port_xdp_share_program(path, sizeof(path));
	if (rc == 0 && asprintf(&more, "%s,xdp_prog=%s", text, path) < 0)
		rc = -ENOMEM;
	if (rc != 0)
		LOG(ERR, "share=yes on %s: %s", text,
		    rc == -ENOTSUP ? "this uroced was built without clang, which compiles its XDP "
				     "program"
				   : strerror(-rc));
	free(text);
	return rc == 0 ? more : NULL;
}

/* 0, or -errno with the reason logged. */
static int
vdevs_add(struct arg_list *args, const struct options *o)
{
	char err[OPTIONS_ERR_MAX], *text;

	for (uint32_t i = 0; i < o->vdev.n; i++) {
		text = vdev_prepare(o->vdev.v[i], (uint32_t)page_bytes(), err, sizeof(err));
		if (text == NULL) {
			LOG(ERR, "%s", err);
			return -EINVAL;
		}
		text = share_af_xdp(o, text);
		if (text == NULL)
			return -EINVAL;
		arg_add(args, "--vdev", text);
		free(text);
	}
	return 0;
}

/*
 * Returns true if EAL can create the folder of its telemetry socket; if it cannot, it refuses to
 * start. EAL's default folder may belong to another user: /tmp/dpdk.
 */
static bool
telemetry_has_folder(const struct options *o)
{
	const char *base = getenv("RUNTIME_DIRECTORY");
	char path[PATH_MAX];
	struct stat st;

	if (base == NULL)
		base = getuid() == 0 ? "/var/run" : getenv("XDG_RUNTIME_DIR");
	if (base == NULL)
		base = "/tmp";
	for (unsigned depth = 0; depth < 2; depth++) {
		int len = snprintf(path, sizeof(path), depth == 0 ? "%s/dpdk" : "%s/dpdk/%s", base,
				   o->file_prefix);

		if (len >= (int)sizeof(path) || (mkdir(path, 0700) < 0 && errno != EEXIST))
			return false;
	}
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

static int
args_make(struct arg_list *args, const struct eal_plan *plan, const struct options *o)
{
	char *lcores = lcores_arg(plan, o);
	char text[24];
	bool pci = false;

	arg_add(args, "uroced", NULL);
	if (o->no_telemetry || !telemetry_has_folder(o))
		arg_add(args, "--no-telemetry", NULL);
	arg_add(args, "--file-prefix", o->file_prefix);
	arg_add(args, "--lcores", lcores);
	free(lcores);
	snprintf(text, sizeof(text), "%u", o->mem_mib);
	arg_add(args, "-m", text);
	/* EAL takes only one of the two. Neither leaves files behind. */
	arg_add(args, plan->huge ? "--in-memory" : "--no-huge", NULL);
	arg_add(args, "--no-shconf", NULL);
	for (uint32_t i = 0; i < o->allow.n; i++) {
		if (strcmp(o->allow.v[i], "none") == 0) /* our word, not EAL's */
			continue;
		arg_add(args, "--allow", o->allow.v[i]);
		pci = true;
	}
	if (!pci) {
		arg_add(args, "--no-pci", NULL);
		arg_add(args, "--iova-mode=va", NULL);
	}
	snprintf(text, sizeof(text), "--log-level=%u", o->log_level);
	arg_add(args, text, NULL);
	/* at its start it warns that it has no callbacks, which is of no use */
	if (o->log_level < RTE_LOG_INFO)
		arg_add(args, "--log-level=lib.telemetry:error", NULL);
	return vdevs_add(args, o);
}

/* Checks --lcores, because EAL would print its usage text. Returns 0 or -EINVAL. */
static int
check_cpus(const struct options *o)
{
	unsigned cpu[UROCE_MAX_WORKERS];
	int n = o->lcores != NULL ? options_cpus(o->lcores, cpu, UROCE_MAX_WORKERS) : 0;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return 0;
	for (int i = 0; i < n; i++) {
		if (cpu[i] < CPU_SETSIZE && CPU_ISSET(cpu[i], &set))
			continue;
		LOG(ERR, "--lcores %s: CPU %u is not one of the %d on which this process may run",
		    o->lcores, cpu[i], CPU_COUNT(&set));
		return -EINVAL;
	}
	return 0;
}

/*
 * EAL keeps pointers to its arguments, so they are never freed. It also modifies the array, so it
 * gets a copy.
 */
static int
eal_init(const struct eal_plan *plan, const struct options *o)
{
	static struct arg_list args;
	char *argv[MAX_ARGS];
	int rc = check_cpus(o);

	if (rc == 0)
		rc = args_make(&args, plan, o);
	if (rc < 0)
		return rc;
	memcpy(argv, args.v, sizeof(argv));
	if (rte_eal_init(args.n, argv) >= 0)
		return 0;
	/* EACCES: no free huge page was found; ENOMEM: too few could be mapped */
	if (plan->huge && (rte_errno == EACCES || rte_errno == ENOMEM)) {
		LOG(NOTICE,
		    "%u MiB of huge pages were free, but cannot be used (taken by another process, "
		    "or limited by a cgroup): starting again with ordinary pages, which are slower",
		    o->mem_mib);
		return -ERESTART;
	}
	LOG(ERR, "EAL does not start: %s%s", rte_strerror(rte_errno),
	    o->vdev.n + o->allow.n != 0
		    ? " (its lines before this name the device; --vdev takes DRIVER and a number, "
		      "like net_af_packet0,iface=eth0)"
		    : "");
	return -rte_errno;
}

int
eal_start(struct eal_plan *plan, const struct options *o)
{
	rte_log_set_global_level(o->log_level);
	if (o->log_level > RTE_LOG_NOTICE)
		rte_log_set_level_pattern("uroce*", o->log_level);
	return eal_init(plan, o);
}
