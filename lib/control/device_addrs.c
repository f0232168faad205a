/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of a device's addresses and groups for its workers. Each change builds a new list and
 * publishes it to all workers; the old list is freed when no worker uses it any more.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "control/device.h"
#include "control/object.h"

/* Publishes a. Workers may use the old list until the end of their burst. */
static void
addrs_publish(struct device *dev, const struct engine_addrs *a)
{
	struct worker_set *ws = dev->d->workers;

	for (unsigned i = 0; i < worker_count(ws); i++)
		engine_set_addrs(worker_engine(worker_get(ws, i)), dev->port.id, a);
}

/* Allocates the list as one block: header, GIDs, members. */
static struct engine_addrs *
addrs_make(const struct device *dev)
{
	uint32_t n = 0, nmembers = 0;
	const struct obj_member *o;
	struct engine_member *member;
	struct engine_addrs *a;
	uint8_t(*gid)[16];

	TAILQ_FOREACH (o, &dev->members, dev_link)
		nmembers++;
	a = calloc(1, sizeof(*a) + UROCE_MAX_GIDS * 16 + nmembers * sizeof(*member));
	if (a == NULL)
		return NULL;
	gid = (uint8_t(*)[16])(a + 1);
	member = (struct engine_member *)(gid + UROCE_MAX_GIDS);
	a->gid = (const uint8_t(*)[16])gid;
	a->member = member;
	for (uint32_t i = 0; i < UROCE_MAX_GIDS; i++) {
		if (dev->net.gid[i].used)
			memcpy(gid[n++], dev->net.gid[i].gid, 16);
	}
	a->ngids = n;
	a->nmembers = nmembers;
	TAILQ_FOREACH (o, &dev->members, dev_link) {
		memcpy(member->gid, o->gid, 16);
		member->qpn = o->q->qp->conn.qpn;
		member++;
	}
	return a;
}

int
device_addrs_update(struct device *dev)
{
	struct engine_addrs *a = addrs_make(dev);
	void *old = dev->addrs;

	if (a == NULL)
		return -ENOMEM;
	addrs_publish(dev, a);
	dev->addrs = a;
	if (old != NULL)
		defer_free(dev->d, &old, 1);
	return 0;
}

void
device_addrs_clear(struct device *dev)
{
	addrs_publish(dev, NULL);
	worker_wait_readers(dev->d->workers);
	free(dev->addrs);
	dev->addrs = NULL;
}
