/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/cm.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include "control/cm_parts.h"
#include "control/log.h"
#include "control/daemon.h"

#define MEM_ALIGN 64u
/* When the daemon ends: time limit for DREPs, and retransmission interval of DREQs. */
#define DRAIN_NS 2000000000ull
#define AGAIN_NS (DRAIN_NS / (CM_DEFAULT_RETRIES + 1))

static bool
find_device(void *ctx, uint16_t port, struct cma_dev *out)
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
ucma_open(struct daemon *d)
{
	static const struct cma_ops ops = {
		.send = ucma_send,
		.readable = ucma_readable,
		.bind = ucma_bind,
		.resolve = ucma_resolve,
		.route = ucma_route,
		.label = ucma_label,
		.cancel = ucma_cancel,
		.dev = find_device,
		.mcast = ucma_change_group,
		.charge = ucma_charge,
		.discharge = ucma_discharge,
		.low_port = ucma_low_port,
	};
	const struct control_config *cfg = d->cfg;
	struct cma_config config = {
		.max_channels = cfg->max_cm_channels,
		.max_ids = cfg->max_cm_ids,
		.max_groups = cfg->max_cm_ids,
		/* ids that ended are in TIMEWAIT, or answer copies */
		.cm = {.max_ids = 2 * cfg->max_cm_ids,
		       /* a host may run many ranks: allow as many as a listener may hold */
		       .max_peer_pending = CMA_MAX_BACKLOG,
		       .seed = (uint64_t)random_u32() << 32 | random_u32()},
	};
	struct cm_service *svc = calloc(1, sizeof(*svc));
	size_t bytes = cma_bytes(&config);
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
	svc->cma = cma_init(svc->mem, &config, &ops, svc);
	rc = ucma_inputs_open(svc);
	if (rc < 0) {
		LOG(ERR, "connection manager: %s", strerror(-rc));
		free(svc->mem);
		free(svc);
		return rc;
	}
	d->ucma = svc;
	return 0;
}

/*
 * Waits for the DREPs of all connections, at most until svc->drain_until_ns. DREQs are
 * retransmitted meanwhile, because MADs may be lost, for instance in a peer's full queues.
 */
static void
await_dreps(struct cm_service *svc)
{
	const struct cm *cm = cma_cm(svc->cma);
	uint64_t now_ns;

	while (cm_disconnecting(cm) != 0 && (now_ns = daemon_now_ns()) < svc->drain_until_ns) {
		uint64_t until_ns = cma_next_ns(svc->cma);

		if (until_ns > svc->drain_until_ns)
			until_ns = svc->drain_until_ns;
		worker_events_wait(svc->d, until_ns > now_ns ? until_ns - now_ns : 0);
		cma_tick(svc->cma, daemon_now_ns());
	}
}

void
ucma_close(struct daemon *d)
{
	struct cm_service *svc = d->ucma;

	if (svc == NULL)
		return;
	svc->drain_until_ns = daemon_now_ns() + DRAIN_NS;
	cma_hurry(svc->cma, AGAIN_NS, daemon_now_ns());
	ucma_channels_close(svc);
	await_dreps(svc);
	ucma_drain(svc, 0);
	ucma_inputs_close(svc);
	defer_cancel(d, &svc->resolved_turn);
	ucma_groups_forget(svc, NULL);
	d->ucma = NULL;
	free(svc->mem);
	free(svc);
}
