/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/cm.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include "control/cm_parts.h"
#include "control/log.h"

#define MEM_ALIGN 64u
#define DRAIN_NS  100000000ull /* for DREQs and REJs when the daemon ends */

static bool
find_device(void *ctx, uint16_t port, struct rcm_dev *out)
{
	const struct cm_service *svc = ctx;
	const struct device *dev = daemon_device(svc->d, port);

	if (dev == NULL)
		return false;
	out->guid = be64toh(device_guid(dev));
	out->ack_delay = DEVICE_ACK_DELAY;
	return true;
}

int
cms_open(struct daemon *d)
{
	static const struct rcm_ops ops = {
		.send = cms_send,
		.readable = cms_readable,
		.bind = cms_bind,
		.resolve = cms_resolve,
		.route = cms_route,
		.cancel = cms_cancel,
		.dev = find_device,
		.mcast = cms_change_group,
		.charge = cms_charge,
		.discharge = cms_discharge,
	};
	const struct control_config *cfg = d->cfg;
	struct rcm_config config = {
		.max_channels = cfg->max_cm_channels,
		.max_ids = cfg->max_cm_ids,
		.max_groups = cfg->max_cm_ids,
		/* ids that ended are in TIMEWAIT, or answer copies */
		.cm = {.max_ids = 2 * cfg->max_cm_ids,
		       /* a host may have many ranks: as many as a listener may hold */
		       .max_peer_pending = RCM_MAX_BACKLOG,
		       .seed = (uint64_t)random_u32() << 32 | random_u32()},
	};
	struct cm_service *svc = calloc(1, sizeof(*svc));
	size_t bytes = rcm_bytes(&config);
	int rc;

	if (svc == NULL)
		return -ENOMEM;
	svc->d = d;
	svc->group_key = (uint64_t)random_u32() << 32 | random_u32();
	svc->mem = aligned_alloc(MEM_ALIGN, (bytes + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN);
	if (svc->mem == NULL) {
		LOG(ERR, "no memory for %u connection ids (option max-cm-ids)", cfg->max_cm_ids);
		free(svc);
		return -ENOMEM;
	}
	svc->rcm = rcm_init(svc->mem, &config, &ops, svc);
	rc = cms_inputs_open(svc);
	if (rc < 0) {
		LOG(ERR, "connection manager: %s", strerror(-rc));
		free(svc->mem);
		free(svc);
		return rc;
	}
	d->cms = svc;
	return 0;
}

void
cms_close(struct daemon *d)
{
	struct cm_service *svc = d->cms;

	if (svc == NULL)
		return;
	svc->drain_until_ns = daemon_now_ns() + DRAIN_NS;
	cms_channels_close(svc);
	cms_drain(svc, 0);
	cms_inputs_close(svc);
	cms_groups_forget(svc, NULL);
	d->cms = NULL;
	free(svc->mem);
	free(svc);
}
