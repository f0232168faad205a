/* SPDX-License-Identifier: BSD-3-Clause */
/* The request IMPAIR: the fault injector of a device. */
#include "parts.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "control/daemon.h"
#include "control/device.h"
#include "control/handler.h"
#include "control/log.h"
#include "control/log_event.h"
#include "control/session.h"
#include "drivers/impair/impair.h"
#include "port/queue.h"
#include "show.h"

_Static_assert(sizeof(((struct uroce_impair_req *)0)->spec) == IMPAIR_SPEC_MAX,
	       "what a request can hold, a specification can be");

/* Of a port of kernel sockets. */
static const struct impair_hooks socket_hooks = {port_hook_add, port_hook_remove};

static int
impair_change(const struct session *s, struct device *dev, const struct uroce_impair_req *q,
	      struct uroce_impair_rep *rep)
{
	bool sockets = dev->port.kind == PORT_UDP || dev->port.kind == PORT_PACKET;
	struct log_fields f = {0};
	int rc = 0;

	if (q->flags == UROCE_IMPAIR_SET && strcmp(dev->port.name, "udp:lo") == 0) {
		snprintf(rep->error, sizeof(rep->error),
			 "its packets go to the device itself, inside uroced, where no fault can "
			 "act: use two devices, as of `uroced --pair`");
		return -EOPNOTSUPP;
	}
	if (q->flags == UROCE_IMPAIR_CLEAR)
		impair_detach(dev->port.id); /* fails when nothing is attached, which is fine */
	else
		rc = impair_attach(dev->port.id, dev->port.nrxq, sockets ? &socket_hooks : NULL,
				   q->spec, rep->error, sizeof(rep->error));
	/* Workers use the new configuration from their next burst on; then the old one can be
	 * freed. */
	worker_quiesce(s->d->workers);
	impair_reap();
	if (rc < 0)
		return rc;
	log_field(&f, "UROCE_DEVICE", "%s", dev->name);
	log_field_client(&f, s);
	log_event(RTE_LOG_NOTICE, LOG_EVENT_IMPAIRED, &f, "%s: impair: %s (pid %d, uid %u): %s",
		  dev->name, s->comm, s->peer.pid, s->peer.uid,
		  q->flags == UROCE_IMPAIR_CLEAR ? "cleared" : q->spec);
	return 0;
}

int
impair_request(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_impair_req *q = req->body;
	struct uroce_impair_rep *rep = rp->body;
	struct device *dev;

	if (memchr(q->device, '\0', sizeof(q->device)) == NULL ||
	    memchr(q->spec, '\0', sizeof(q->spec)) == NULL || q->flags > UROCE_IMPAIR_CLEAR)
		return EINVAL;
	dev = daemon_device_named(s->d, q->device);
	if (dev == NULL)
		return ENODEV;
	if (q->flags != UROCE_IMPAIR_SHOW && !session_may_change(s))
		return EPERM;
	if (q->flags != UROCE_IMPAIR_SHOW && impair_change(s, dev, q, rep) < 0)
		return 0; /* rep->error has the reason */
	return show_send(show_impair(dev), rp, &rep->bytes);
}
