/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/numa.h"

#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <rte_common.h>
#include "control/daemon.h"
#include "control/device.h"
#include "control/log.h"
#include "control/object.h"
#include "control/session.h"
#include "map/page.h"
#include "mem/mr.h"

#define REGIONS 4u  /* the first ones of a session are looked at */
#define PAGES   16u /* of each, spread over it */
#define LOOKS   20u

int
numa_elsewhere(const int *page, unsigned npages, const int *worker, unsigned nworkers)
{
	for (unsigned i = 0; i < npages; i++) {
		unsigned same = 0;
		bool here = page[i] < 0;

		for (unsigned k = 0; k < npages; k++)
			same += page[k] == page[i];
		for (unsigned k = 0; k < nworkers; k++)
			here |= worker[k] < 0 || worker[k] == page[i];
		if (!here && 2 * same > npages)
			return page[i];
	}
	return -1;
}

/* Returns the node of numa_elsewhere for mr. */
static int
node_of(const struct mr *mr, const int *worker, unsigned nworkers)
{
	int node[PAGES];
	unsigned n = (unsigned)RTE_MIN(mr->len / page_bytes() + 1, PAGES);
	void *page[PAGES];

	if (mr->host == NULL || mr->len == 0)
		return -1;
	for (unsigned i = 0; i < n; i++)
		page[i] = mr->host + (mr->len - 1) / n * i;
	if (syscall(SYS_move_pages, 0, n, page, NULL, node, 0) < 0)
		return -1;
	return numa_elsewhere(node, n, worker, nworkers);
}

static void
look(struct session *s, const int *worker)
{
	const struct obj_mr *m;
	uint32_t pos = 0;
	int node = -1;

	for (unsigned i = 0; i < REGIONS && node < 0; i++) {
		m = idtab_next(&s->mrs, &pos);
		if (m == NULL)
			return;
		node = node_of(&m->mr, worker, s->d->nworkers);
	}
	s->numa_looks++;
	if (node < 0)
		return;
	s->numa_looks = LOOKS;
	LOG(WARNING,
	    "%s (pid %d, uid %u): its memory is on NUMA node %d, where no worker runs: run it on "
	    "the workers' node (numactl), or give uroced CPUs of node %d (--lcores)",
	    s->comm, s->peer.pid, s->peer.uid, node, node);
}

void
numa_look(struct device *dev)
{
	struct daemon *d = dev->d;
	int worker[UROCE_MAX_WORKERS];
	struct session *s;

	for (uint32_t i = 0; i < d->nworkers; i++) {
		worker[i] = worker_node(worker_get(d->workers, i));
		if (worker[i] < 0)
			return;
	}
	TAILQ_FOREACH (s, &d->sessions, link) {
		if (s->dev == dev && s->numa_looks < LOOKS)
			look(s, worker);
	}
}
