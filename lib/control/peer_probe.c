/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/peer_probe.h"

#include <errno.h>
#include <string.h>
#include "control/device.h"
#include "control/obj.h"
#include "control/slow_path.h"
#include "control/vendor_mad.h"

#define ATTRIBUTE 0x5052u
#define VERSION   1u
#define PATH_MTU  42 /* 2 bytes */
#define LEN_MAX   4096u

static uint32_t
path_mtu(const struct device *dev)
{
	return 128u << dev->max_mtu;
}

/* Sends a question or an answer with like's addresses, P_Key and length. Returns 0 or -errno. */
static int
send_mad(const struct slow_datagram *like, uint8_t method, uint64_t tid, uid_t uid)
{
	static uint8_t mad[LEN_MAX]; /* large, and there is one control thread */
	struct slow_datagram g = *like;

	memset(mad, 0, like->len);
	vendor_mad_init(mad, method, ATTRIBUTE, tid);
	mad[VENDOR_MAD_VERSION] = VERSION;
	mad[PATH_MTU] = (uint8_t)(path_mtu(like->dev) >> 8);
	mad[PATH_MTU + 1] = (uint8_t)path_mtu(like->dev);
	g.local_qpn = g.remote_qpn = WIRE_GSI_QPN;
	g.qkey = WIRE_GSI_QKEY;
	g.hop_limit = 0;
	g.payload = mad;
	return slow_path_send(&g, uid);
}

static struct peer_probe *
find(struct daemon *d, uint64_t tid)
{
	for (uint32_t i = 0; i < PEER_PROBES; i++) {
		if (tid != 0 && d->probes.probe[i].tid == tid)
			return &d->probes.probe[i];
	}
	return NULL;
}

bool
peer_probe_rx(const struct slow_datagram *g)
{
	const uint8_t *mad = g->payload;
	struct peer_probe *p;
	uint64_t tid;

	if (!vendor_mad_is(g, ATTRIBUTE) || mad[VENDOR_MAD_VERSION] != VERSION || g->len > LEN_MAX)
		return false;
	memcpy(&tid, mad + VENDOR_MAD_TID, sizeof(tid));
	if (mad[VENDOR_MAD_METHOD] == VENDOR_MAD_ASK) {
		/* Without the asker's MAC there is no answer; the ARP request helps the next one.
		 */
		(void)send_mad(g, VENDOR_MAD_ANSWER, tid, (uid_t)-1);
		return true;
	}
	p = find(g->dev->d, tid);
	if (mad[VENDOR_MAD_METHOD] == VENDOR_MAD_ANSWER && p != NULL && p->answered_ns == 0 &&
	    memcmp(p->remote, g->remote, 16) == 0) {
		p->answered_ns = daemon_now_ns();
		p->path_mtu = (uint16_t)(mad[PATH_MTU] << 8 | mad[PATH_MTU + 1]);
	}
	return true;
}

/* Explains why no path leads to the peer. Returns the errno. */
static int
refuse(struct ctrl_rep *rp, const struct device *dev, const struct uroce_ask_peer_req *q, int err)
{
	struct uroce_ah_attr ah = {.sgid_index = (uint8_t)q->gid_index,
				   .is_global = 1,
				   .port_num = 1};
	const char *why;

	memcpy(ah.dgid, q->remote, 16);
	why = net_path_why(&dev->net, &ah);
	return ctrl_refuse(rp, err, "%s", why != NULL ? why : strerror(err));
}

static int
ask(struct session *s, struct device *dev, const struct uroce_ask_peer_req *q, struct ctrl_rep *rp)
{
	struct peer_probes *all = &s->d->probes;
	struct uroce_ask_peer_rep *rep = rp->body;
	struct slow_datagram g = {.dev = dev, .pkey = dev->pkey[0], .len = q->len};
	struct peer_probe p = {.tid = (uint64_t)random_u32() << 32 | random_u32() | 1,
			       .sent_ns = daemon_now_ns()};
	int rc;

	memcpy(g.local, dev->net.gid[q->gid_index].gid, 16);
	memcpy(g.remote, q->remote, 16);
	memcpy(p.remote, q->remote, 16);
	rep->number = p.tid;
	/* before it is sent: over loopback the answer may come at once */
	all->probe[all->next++ % PEER_PROBES] = p;
	rc = send_mad(&g, VENDOR_MAD_ASK, p.tid, s->user->uid);
	if (rc != 0 && rc != -EAGAIN)
		return refuse(rp, dev, q, -rc);
	rep->state = rc == 0 ? UROCE_ASK_SENT : UROCE_ASK_NO_MAC;
	return 0;
}

int
peer_probe_request(struct session *s, const struct ctrl_req *req, struct ctrl_rep *rp)
{
	const struct uroce_ask_peer_req *q = req->body;
	struct uroce_ask_peer_rep *rep = rp->body;
	const struct peer_probe *p = find(s->d, q->number);
	struct device *dev;

	if (q->len == 0 && p == NULL)
		return ENOENT;
	if (q->len == 0) {
		rep->number = p->tid;
		rep->state = p->answered_ns != 0 ? UROCE_ASK_ANSWERED : UROCE_ASK_SENT;
		rep->rtt_ns = p->answered_ns != 0 ? p->answered_ns - p->sent_ns : 0;
		rep->path_mtu = p->path_mtu;
		return 0;
	}
	if (memchr(q->device, '\0', sizeof(q->device)) == NULL)
		return EINVAL;
	dev = daemon_device_named(s->d, q->device);
	if (dev == NULL)
		return ENODEV;
	if (q->len < WIRE_MAD_LEN || q->len > path_mtu(dev) || q->len % 4 != 0)
		return ctrl_refuse(rp, EINVAL, "len is %u, not a multiple of 4 in %u .. %u", q->len,
				   WIRE_MAD_LEN, path_mtu(dev));
	if (q->gid_index >= UROCE_MAX_GIDS || !dev->net.gid[q->gid_index].used)
		return ctrl_refuse(rp, EINVAL, "GID index %u is empty", q->gid_index);
	return ask(s, dev, q, rp);
}
