/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/sr_peer.h"

#include <errno.h>
#include <string.h>
#include "control/device.h"
#include "control/obj.h"
#include "control/slow_path.h"
#include "control/vendor_mad.h"
#include "wire/sack.h"

#define AGAIN_NS   100000000ull  /* between two queries */
#define GIVE_UP_NS 5000000000ull /* longest wait for the next hop's MAC */

/* Values of the fields of a MAD (doc/selective-repeat.md). */
#define ATTRIBUTE      0x5352u
#define FLAG_SELECTIVE 1u
#define BUFFER         42   /* offset: receive buffer in units of QP_PEER_BUFFER_BYTES .. */
#define BUFFER_MOST    255u /* .. or more, which limits no window */

static struct sr_peer *
find(const struct device *dev, const uint8_t local[16], const uint8_t remote[16])
{
	for (uint32_t i = 0; i < SR_PEERS; i++) {
		const struct sr_peer *p = &dev->sr.peer[i];

		if (p->tid != 0 && memcmp(p->remote, remote, 16) == 0 &&
		    memcmp(p->local, local, 16) == 0)
			return (struct sr_peer *)p;
	}
	return NULL;
}

enum qp_sr_state
sr_peer_state(const struct device *dev, const uint8_t local[16], const uint8_t remote[16],
	      uint8_t *buffer)
{
	const struct sr_peer *p;

	*buffer = 0;
	if (!dev->sr.on)
		return QP_SR_OFF;
	p = find(dev, local, remote);
	if (p == NULL || !p->agreed)
		return QP_SR_CAN;
	*buffer = p->buffer;
	return daemon_now_ns() - p->told_ns >= SR_PEER_FRESH_NS ? QP_SR_CAN : QP_SR_ON;
}

static int
send_mad(struct device *dev, const uint8_t local[16], const uint8_t remote[16], uint16_t pkey,
	 uint8_t method, uint64_t tid, uid_t uid)
{
	uint8_t mad[WIRE_MAD_LEN] = {0};
	struct slow_datagram g = {
		.dev = dev,
		.local_qpn = WIRE_GSI_QPN,
		.remote_qpn = WIRE_GSI_QPN,
		.qkey = WIRE_GSI_QKEY,
		.pkey = pkey,
		.payload = mad,
		.len = sizeof(mad),
	};

	vendor_mad_init(mad, method, ATTRIBUTE, tid);
	mad[VENDOR_MAD_VERSION] = WIRE_SACK_VERSION;
	mad[VENDOR_MAD_FLAGS] = dev->sr.on ? FLAG_SELECTIVE : 0;
	mad[BUFFER] = (uint8_t)RTE_MIN(port_socket_buffer(&dev->port) / QP_PEER_BUFFER_BYTES,
				       BUFFER_MOST);
	memcpy(g.local, local, 16);
	memcpy(g.remote, remote, 16);
	return slow_path_send(&g, uid);
}

static void
ask(struct device *dev, struct sr_peer *p)
{
	int rc = send_mad(dev, p->local, p->remote, dev->pkey[0], VENDOR_MAD_ASK, p->tid, p->uid);

	p->asked_ns = daemon_now_ns();
	p->unsent = rc == -EAGAIN;
	/* While the next hop's MAC is unknown, no query is sent; it may stay unknown. */
	if ((!p->unsent || p->asked_ns - p->first_ns >= GIVE_UP_NS) && p->tries != 0)
		p->tries--;
}

/* The entry for another pair: a free one, or the oldest one of the user with the most entries. */
static struct sr_peer *
take_entry(struct sr_peers *sr)
{
	uint16_t entries[QP_USERS] = {0};
	struct sr_peer *oldest = NULL;
	uint32_t most = 0;

	for (uint32_t i = 0; i < SR_PEERS; i++) {
		uint8_t place = qp_user_place(sr->peer[i].uid);

		if (sr->peer[i].tid == 0)
			return &sr->peer[i];
		if (++entries[place] > entries[most])
			most = place;
	}
	for (uint32_t i = 0; i < SR_PEERS; i++) {
		struct sr_peer *p = &sr->peer[i];

		if (qp_user_place(p->uid) == most &&
		    (oldest == NULL || p->first_ns < oldest->first_ns))
			oldest = p;
	}
	return oldest;
}

void
sr_peer_ask(struct device *dev, const uint8_t local[16], const uint8_t remote[16], uid_t uid)
{
	struct sr_peer *p = find(dev, local, remote);

	if (p != NULL && p->tries != 0 && daemon_now_ns() - p->asked_ns < AGAIN_NS)
		return;
	if (p == NULL) {
		p = take_entry(&dev->sr);
		memset(p, 0, sizeof(*p));
		memcpy(p->local, local, 16);
		memcpy(p->remote, remote, 16);
	}
	p->uid = uid;
	p->tries = SR_PEER_TRIES;
	p->first_ns = daemon_now_ns();
	p->tid = (uint64_t)random_u32() << 32 | random_u32() | 1;
	ask(dev, p);
}

static int
send_reply(struct device *dev, const struct sr_owed *o)
{
	return send_mad(dev, o->local, o->remote, o->pkey, VENDOR_MAD_ANSWER, o->tid, o->uid);
}

/*
 * Keeps a reply until the MAC of its next hop is known. A repeated query has one reply. known: a QP
 * of ours has this peer. Any host can send queries, so the replies to others have a half of the
 * places.
 */
static void
owe_reply(struct sr_peers *sr, const struct sr_owed *reply, bool known)
{
	uint32_t first = known ? 0 : SR_PEER_OWED / 2;
	struct sr_owed *o = &sr->owed[first + sr->owed_next++ % (SR_PEER_OWED / 2)];

	for (uint32_t i = first; i < first + SR_PEER_OWED / 2; i++) {
		struct sr_owed *other = &sr->owed[i];

		if (other->since_ns == 0)
			o = other;
		else if (memcmp(other->remote, reply->remote, 16) == 0 &&
			 memcmp(other->local, reply->local, 16) == 0) {
			o = other;
			break;
		}
	}
	*o = *reply;
}

static void
send_owed(struct device *dev, uint64_t now_ns)
{
	for (uint32_t i = 0; i < SR_PEER_OWED; i++) {
		struct sr_owed *o = &dev->sr.owed[i];

		if (o->since_ns != 0 &&
		    (now_ns - o->since_ns >= GIVE_UP_NS || send_reply(dev, o) != -EAGAIN))
			o->since_ns = 0;
	}
}

void
sr_peer_tick(struct device *dev)
{
	uint64_t now_ns = daemon_now_ns();

	send_owed(dev, now_ns);
	if (!dev->sr.on)
		return;
	for (uint32_t i = 0; i < SR_PEERS; i++) {
		struct sr_peer *p = &dev->sr.peer[i];

		/* A neighbour that has answered may be the next hop. */
		if (p->tid != 0 && p->tries != 0 && (p->unsent || now_ns - p->asked_ns >= AGAIN_NS))
			ask(dev, p);
	}
}

struct agree_call {
	struct device *dev;
	const struct sr_peer *peer;
};

/* Worker. Enables selective repeat on all of its QPs with this pair that can use it. */
static void
agree_on_worker(struct worker *w, void *arg)
{
	const struct agree_call *c = arg;
	struct obj_qp *q;

	TAILQ_FOREACH (q, &c->dev->qps, dev_link) {
		struct qp *qp = q->qp;

		if (qp_worker(qp) == worker_index(w) && qp->conn.sr.state == QP_SR_CAN &&
		    memcmp(qp->conn.sgid, c->peer->local, 16) == 0 &&
		    memcmp(qp->conn.dgid, c->peer->remote, 16) == 0) {
			qp_sr_agree(&worker_engine(w)->env, qp);
			qp_sr_told(qp, c->peer->buffer);
		}
	}
}

static void
on_answer(const struct slow_datagram *g, uint64_t tid)
{
	struct sr_peer *p = find(g->dev, g->local, g->remote);
	struct agree_call c = {g->dev, p};

	if (p == NULL || p->tries == SR_PEER_TRIES || p->tid != tid ||
	    (p->told_ns != 0 && p->told_ns >= p->asked_ns))
		return;
	p->told_ns = daemon_now_ns();
	p->tries = 0;
	p->agreed = (g->payload[VENDOR_MAD_FLAGS] & FLAG_SELECTIVE) != 0;
	p->buffer = g->payload[BUFFER] == BUFFER_MOST ? 0 : g->payload[BUFFER];
	if (p->agreed)
		worker_call_qps(g->dev->d->workers, agree_on_worker, &c);
}

/*
 * Replies to a query. Also queries the peer, if it has restarted or its QP began later than ours,
 * because QPs of ours may wait for a reply.
 */
static void
on_question(const struct slow_datagram *g, uint64_t tid)
{
	struct sr_peer *p = find(g->dev, g->local, g->remote);
	struct sr_owed reply = {.tid = tid,
				.since_ns = daemon_now_ns(),
				.uid = p != NULL ? p->uid : (uid_t)-1,
				.pkey = g->pkey};

	memcpy(reply.local, g->local, 16);
	memcpy(reply.remote, g->remote, 16);
	if (send_reply(g->dev, &reply) == -EAGAIN)
		owe_reply(&g->dev->sr, &reply, p != NULL);
	if (p != NULL && (!p->agreed || daemon_now_ns() - p->told_ns >= SR_PEER_FRESH_NS) &&
	    daemon_now_ns() - p->asked_ns >= AGAIN_NS)
		sr_peer_ask(g->dev, p->local, p->remote, p->uid);
}

bool
sr_peer_rx(const struct slow_datagram *g)
{
	const uint8_t *mad = g->payload;
	uint64_t tid;

	if (g->len != WIRE_MAD_LEN || !vendor_mad_is(g, ATTRIBUTE) ||
	    mad[VENDOR_MAD_VERSION] != WIRE_SACK_VERSION)
		return false;
	memcpy(&tid, mad + VENDOR_MAD_TID, sizeof(tid));
	if (mad[VENDOR_MAD_METHOD] == VENDOR_MAD_ANSWER)
		on_answer(g, tid);
	else if (mad[VENDOR_MAD_METHOD] == VENDOR_MAD_ASK)
		on_question(g, tid);
	else
		return false;
	return true;
}
