/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/cm.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include "control/cm_parts.h"
#include "control/log.h"
#include "control/worker_events.h"

#define MEM_ALIGN 64u
/* When the daemon ends: time limit for DREPs, and retransmission interval of DREQs. */
#define DRAIN_NS 2000000000ull
#define AGAIN_NS (DRAIN_NS / (CM_DEFAULT_RETRIES + 1))

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
		.low_port = cms_low_port,
	};
	const struct control_config *cfg = d->cfg;
	struct rcm_config config = {
		.max_channels = cfg->max_cm_channels,
		.max_ids = cfg->max_cm_ids,
		.max_groups = cfg->max_cm_ids,
		/* ids that ended are in TIMEWAIT, or answer copies */
		.cm = {.max_ids = 2 * cfg->max_cm_ids,
		       /* a host may run many ranks: allow as many as a listener may hold */
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

/*
 * Waits for the DREPs of all connections, at most until svc->drain_until_ns. DREQs are
 * retransmitted meanwhile, because MADs may be lost, for instance in a peer's full queues.
 */
static void
await_dreps(struct cm_service *svc)
{
	const struct cm *cm = rcm_cm(svc->rcm);
	uint64_t now_ns;

	while (cm_disconnecting(cm) != 0 && (now_ns = daemon_now_ns()) < svc->drain_until_ns) {
		uint64_t until_ns = rcm_next_ns(svc->rcm);

		if (until_ns > svc->drain_until_ns)
			until_ns = svc->drain_until_ns;
		worker_events_wait(svc->d, until_ns > now_ns ? until_ns - now_ns : 0);
		rcm_tick(svc->rcm, daemon_now_ns());
	}
}

void
cms_close(struct daemon *d)
{
	struct cm_service *svc = d->cms;

	if (svc == NULL)
		return;
	svc->drain_until_ns = daemon_now_ns() + DRAIN_NS;
	rcm_hurry(svc->rcm, AGAIN_NS, daemon_now_ns());
	cms_channels_close(svc);
	await_dreps(svc);
	cms_drain(svc, 0);
	cms_inputs_close(svc);
	defer_cancel(d, &svc->resolved_turn);
	cms_groups_forget(svc, NULL);
	d->cms = NULL;
	free(svc->mem);
	free(svc);
}
