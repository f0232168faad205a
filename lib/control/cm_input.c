/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs of the connection manager other than commands: MADs, timers, changes of devices. */
#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <rte_cycles.h>
#include "control/cm_parts.h"
#include "control/peer_probe.h"
#include "control/slow_path.h"

#define TICK_STEP 100000ull /* the timer is not moved for a deadline that is earlier by less */

void
ucma_arm(struct cm_service *svc)
{
	uint64_t next_ns = cma_next_ns(svc->cma);
	struct itimerspec at = {0};

	if (svc->groups_next_ns < next_ns)
		next_ns = svc->groups_next_ns;
	/* A timer that expires too early costs one needless tick. */
	if (next_ns == CM_NEVER || next_ns + TICK_STEP >= svc->armed_ns)
		return;
	svc->armed_ns = next_ns;
	if (next_ns == 0)
		next_ns = 1; /* zero would stop the timer */
	at.it_value.tv_sec = (time_t)(next_ns / NS_PER_S);
	at.it_value.tv_nsec = (long)(next_ns % NS_PER_S);
	timerfd_settime(svc->timer.fd, TFD_TIMER_ABSTIME, &at, NULL);
}

static void
on_timer(struct watch *w, uint32_t events)
{
	struct cm_service *svc = WATCH_OF(w, struct cm_service, timer);
	uint64_t n;

	if (read(w->fd, &n, sizeof(n)) < 0)
		return;
	svc->armed_ns = CM_NEVER;
	cma_tick(svc->cma, daemon_now_ns());
	ucma_groups_tick(svc, daemon_now_ns());
	ucma_arm(svc);
}

static bool
on_datagram(void *ctx, const struct slow_datagram *g)
{
	struct cm_service *svc = ctx;
	struct cm_rx_info info = {
		.addr = {.dev = g->dev->port.id,
			 .pkey = g->pkey,
			 .flow_label = g->flow_label,
			 .traffic_class = g->traffic_class,
			 .hop_limit = g->hop_limit},
		.qkey = g->qkey,
		.src_qpn = g->remote_qpn,
	};
	bool useful;

	if (sr_peer_rx(g) || peer_probe_rx(g))
		return false;
	memcpy(info.addr.local, g->local, 16);
	memcpy(info.addr.remote, g->remote, 16);
	useful = cma_rx(svc->cma, &info, g->payload, g->len, daemon_now_ns());
	ucma_arm(svc);
	return useful;
}

int
ucma_inputs_open(struct cm_service *svc)
{
	struct daemon *d = svc->d;
	int rc;

	svc->armed_ns = CM_NEVER;
	svc->groups_next_ns = CM_NEVER;
	svc->timer.ready = on_timer;
	svc->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (svc->timer.fd < 0)
		return -errno;
	rc = loop_add(&d->loop, &svc->timer, EPOLLIN);
	if (rc == 0)
		rc = slow_path_register(d, WIRE_GSI_QPN, on_datagram, svc);
	if (rc < 0)
		close(svc->timer.fd);
	return rc;
}

void
ucma_inputs_close(struct cm_service *svc)
{
	slow_path_unregister(svc->d, WIRE_GSI_QPN);
	loop_del(&svc->d->loop, &svc->timer);
	close(svc->timer.fd);
}

void
ucma_group_queried(struct device *dev, const struct net_query *q)
{
	struct cm_service *svc = dev->d->ucma;

	if (svc == NULL)
		return;
	ucma_groups_query(svc, dev, q, daemon_now_ns());
	ucma_arm(svc);
}

void
ucma_device_gone(struct device *dev)
{
	struct cm_service *svc = dev->d->ucma;

	if (svc == NULL)
		return;
	cma_device_removed(svc->cma, dev->port.id, daemon_now_ns());
	ucma_groups_forget(svc, dev);
	ucma_arm(svc);
}

void
ucma_address_gone(struct device *dev, const uint8_t gid[16])
{
	if (dev->d->ucma != NULL)
		cma_address_removed(dev->d->ucma->cma, dev->port.id, gid);
}

static void
on_resolved_turn(struct defer *df)
{
	struct cm_service *svc = WATCH_OF(df, struct cm_service, resolved_turn);

	if (ucma_lookups_report(svc, daemon_now_ns()))
		defer_turn(svc->d, df);
	ucma_arm(svc);
}

void
ucma_hop_resolved(struct device *dev, const uint8_t ip[16])
{
	struct cm_service *svc = dev->d->ucma;

	if (svc == NULL)
		return;
	ucma_send_held(svc, dev, daemon_now_ns());
	ucma_lookups_resolved(svc, dev, ip);
	svc->resolved_turn.then = on_resolved_turn;
	if (!svc->resolved_turn.waiting)
		on_resolved_turn(&svc->resolved_turn);
}

bool
ucma_qpn_is_free(const struct device *dev, uint32_t qpn)
{
	const struct cm_service *svc = dev->d->ucma;

	return svc == NULL || !cm_qpn_held(cma_cm(svc->cma), dev->port.id, qpn);
}
