/* SPDX-License-Identifier: BSD-3-Clause */
#include "cpus.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <rte_common.h>
#include <uroce_abi/ctrl.h>
#include "options.h"

#define CGROUPS "/sys/fs/cgroup" /* version 2 */

unsigned
cpus_workers(const struct cpus_found *f, unsigned queues)
{
	unsigned n = f->quota != 0 ? RTE_MIN(f->allowed, f->quota) : f->allowed;

	n = f->lcores != 0 ? f->lcores : n - (n > 1);
	n = RTE_MIN(n, RTE_MIN(queues, (unsigned)UROCE_MAX_WORKERS));
	return RTE_MAX(n, 1u);
}

unsigned
cpus_of_quota(const char *cpu_max)
{
	unsigned long long quota, period;

	if (sscanf(cpu_max, "%llu %llu", &quota, &period) != 2 || period == 0)
		return 0;
	return (unsigned)RTE_MIN(RTE_MAX(quota / period, 1ull), (unsigned long long)UINT_MAX);
}

static unsigned
quota_of_file(const char *path)
{
	FILE *f = fopen(path, "re");
	char line[64] = "";

	if (f == NULL)
		return 0;
	if (fgets(line, sizeof(line), f) == NULL)
		line[0] = '\0';
	fclose(f);
	return cpus_of_quota(line);
}

/* Returns the least quota of a cgroup and those above it. Changes its path. */
static unsigned
quota_of_cgroup(char *cgroup)
{
	char path[PATH_MAX + 32], *end;
	unsigned least = 0, n;

	do {
		snprintf(path, sizeof(path), CGROUPS "%s/cpu.max", cgroup);
		n = quota_of_file(path);
		if (n != 0 && (least == 0 || n < least))
			least = n;
		end = strrchr(cgroup, '/');
		if (end != NULL)
			*end = '\0';
	} while (end != NULL);
	return least;
}

static unsigned
quota_find(void)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX];
	unsigned n = 0;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "0::", 3) == 0)
			n = quota_of_cgroup(line + 3);
	}
	if (f != NULL)
		fclose(f);
	return n;
}

void
cpus_find(struct cpus_found *f, const char *lcores)
{
	unsigned cpu[UROCE_MAX_WORKERS];
	cpu_set_t set;

	memset(f, 0, sizeof(*f));
	f->allowed = sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
	f->quota = quota_find();
	if (lcores != NULL)
		f->lcores = (unsigned)RTE_MAX(options_cpus(lcores, cpu, UROCE_MAX_WORKERS), 0);
}
