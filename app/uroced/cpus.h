/* SPDX-License-Identifier: BSD-3-Clause */
/* How many workers --workers auto means. Needs no EAL. */
#ifndef UROCED_CPUS_H
#define UROCED_CPUS_H

struct cpus_found {
	unsigned allowed; /* CPUs of the process's affinity */
	unsigned quota;   /* whole CPUs of its cgroup's quota, at least 1; 0: no quota */
	unsigned lcores;  /* CPUs of --lcores; 0: not given */
};

/*
 * Returns the number of workers, 1 .. UROCE_MAX_WORKERS: one for each CPU of --lcores or, without
 * it, for each CPU that the process may use but one, which is left to the control thread. queues:
 * what the port with the most queues has.
 */
unsigned cpus_workers(const struct cpus_found *f, unsigned queues);

/*
 * Returns the whole CPUs, at least 1, of the quota in the text of a cpu.max ("200000 100000"); 0:
 * no quota ("max 100000"), or text of another form.
 */
unsigned cpus_of_quota(const char *cpu_max);

/* Finds out. lcores: the value of --lcores, or NULL. */
void cpus_find(struct cpus_found *f, const char *lcores);

#endif
