/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A warning for a client whose memory is on another NUMA node than all workers: each access crosses
 * between processors. On a machine with one node nothing is looked at.
 */
#ifndef CONTROL_NUMA_H
#define CONTROL_NUMA_H

struct device;

/*
 * Returns the node that has more than half of the pages, if no worker runs there; -1: none, or
 * unknown. page: node of each page, negative: unknown (not in memory yet). worker: node on which
 * each worker runs (worker_node).
 */
int numa_elsewhere(const int *page, unsigned npages, const int *worker, unsigned nworkers);

/*
 * Control thread, twice a second. Looks at regions of dev's clients until their pages are in
 * memory, 20 times at most, because the daemon maps pages when they are used. Warns once a session.
 */
void numa_look(struct device *dev);

#endif
