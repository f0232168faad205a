/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of a device's addresses and groups that its workers go by: made anew at each change and
 * handed to every worker in turn; then nobody has the old one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "control/device.h"
#include "control/object.h"

struct addrs_call {
	const struct engine_addrs *addrs;
	uint16_t dev;
};

static void
set_on_worker(struct worker *w, void *arg)
{
	const struct addrs_call *c = arg;

	engine_set_addrs(worker_engine(w), c->dev, c->addrs);
}

/* One block: the head, the GIDs, the members. */
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
	struct engine_addrs *a = addrs_make(dev), *old = dev->addrs;
	struct addrs_call c = {a, dev->port.id};

	if (a == NULL)
		return -ENOMEM;
	worker_call_all(dev->d->workers, set_on_worker, &c);
	dev->addrs = a;
	free(old);
	return 0;
}

void
device_addrs_clear(struct device *dev)
{
	struct addrs_call c = {NULL, dev->port.id};

	worker_call_all(dev->d->workers, set_on_worker, &c);
	free(dev->addrs);
	dev->addrs = NULL;
}
