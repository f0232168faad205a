/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/neigh.h"

#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <rte_cycles.h>
#include <rte_mbuf.h>
#include "control/device.h"
#include "control/log.h"
#include "control/session.h"

void
neigh_send(struct device *dev, const struct net_frame *f)
{
	struct rte_mbuf *m;
	char *to;

	if (f->len == 0)
		return;
	m = rte_pktmbuf_alloc(dev->d->pool);
	if (m == NULL) {
		worker_control_obs(dev->d->workers, dev->port.id)->ctr[COUNTER_TX_CONTROL_LOST]++;
		return;
	}
	to = rte_pktmbuf_append(m, (uint16_t)f->len);
	if (to == NULL) {
		rte_pktmbuf_free(m);
		return;
	}
	memcpy(to, f->bytes, f->len);
	/*
	 * Full queue: the frame is dropped, as on a link, and counted; requests are retransmitted.
	 */
	(void)worker_send_frame(dev->d->workers, dev->port.id, m);
}

/* Lists the GID indexes that are not empty, as far as room allows. */
static const char *
used_indexes(const struct net_dev *net, char *list, size_t room)
{
	size_t len = 0;

	snprintf(list, room, "none");
	for (unsigned i = 0; i < UROCE_MAX_GIDS && len + 8 < room; i++) {
		if (net->gid[i].used)
			len += (size_t)snprintf(list + len, room - len, "%s%u", len > 0 ? ", " : "",
						i);
	}
	return list;
}

void
neigh_why(const struct session *s, const struct uroce_ah_attr *ah, const char *what,
	  char why[UROCE_CTRL_MAX_WHY])
{
	const char *path = net_path_why(&s->dev->net, ah);
	char list[96];

	if (path == NULL)
		return;
	if (!ah->is_global)
		snprintf(why, UROCE_CTRL_MAX_WHY, "%s%s", what, path);
	else if (ah->sgid_index >= UROCE_MAX_GIDS || !s->dev->net.gid[ah->sgid_index].used)
		snprintf(why, UROCE_CTRL_MAX_WHY, "%sGID index %u of %s is empty; indexes: %s",
			 what, ah->sgid_index, s->dev->name,
			 used_indexes(&s->dev->net, list, sizeof(list)));
	else
		snprintf(why, UROCE_CTRL_MAX_WHY, "%sGID index %u of %s: %s", what, ah->sgid_index,
			 s->dev->name, path);
}

/* Requests the MAC of hop. Returns false if its user gets no neighbour entry now. */
static bool
ask(struct device *dev, const uint8_t hop[16], uid_t uid)
{
	struct net_frame out = {0};

	if (!net_neigh_ask(&dev->net, hop, uid, daemon_now_ns(), &out))
		return false;
	neigh_send(dev, &out);
	return true;
}

/*
 * Requests the next hop of one of s's handles. Once the neighbour table has refused a user an
 * entry, the user's other handles wait for the next round.
 */
static void
ask_for(struct device *dev, const uint8_t hop[16], struct session *s)
{
	if (!s->user->no_neigh)
		s->user->no_neigh = !ask(dev, hop, s->user->uid);
}

/* Requests again the neighbours that lib/net has given up and clients still wait for. */
static void
ask_for_waiting(struct device *dev)
{
	static const uint8_t none[16];
	struct session *s;
	struct obj_qp *q;

	TAILQ_FOREACH (s, &dev->d->sessions, link)
		s->user->no_neigh = false;
	TAILQ_FOREACH (q, &dev->qps, dev_link) {
		if (!q->path_ok && memcmp(q->hop, none, 16) != 0)
			ask_for(dev, q->hop, q->o.s);
		if (!q->alt_path_ok && memcmp(q->alt_hop, none, 16) != 0)
			ask_for(dev, q->alt_hop, q->o.s);
	}
	TAILQ_FOREACH (s, &dev->d->sessions, link) {
		struct obj_ah *o;
		uint32_t pos = 0;

		if (s->dev != dev)
			continue;
		while (!s->user->no_neigh && (o = idtab_next(&s->ah_ids, &pos)) != NULL) {
			if (!o->ah->path_ok)
				ask_for(dev, o->hop, s);
		}
	}
}

/* Sends the requests that are due and sets the timer for the next. */
static void
tick(struct device *dev)
{
	struct itimerspec at = {0};
	struct net_frame out = {0};
	uint64_t next_ns;

	while (net_tick(&dev->net, daemon_now_ns(), &out, &next_ns))
		neigh_send(dev, &out);
	if (dev->next_link_ns < next_ns)
		next_ns = dev->next_link_ns;
	if (next_ns == 0)
		next_ns = 1; /* zero would stop the timer */
	at.it_value.tv_sec = (time_t)(next_ns / NS_PER_S);
	at.it_value.tv_nsec = (long)(next_ns % NS_PER_S);
	timerfd_settime(dev->tick.fd, TFD_TIMER_ABSTIME, &at, NULL);
}

void
neigh_ask_for(struct device *dev, const uint8_t hop[16], uid_t uid)
{
	(void)ask(dev, hop, uid);
	tick(dev);
}

void
neigh_ask(struct session *s, const uint8_t hop[16])
{
	neigh_ask_for(s->dev, hop, s->user->uid);
}

void
neigh_announce_one(struct device *dev, uint32_t index)
{
	struct net_frame out = {0};

	if (net_announce(&dev->net, index, &out))
		neigh_send(dev, &out);
}

void
neigh_announce(struct device *dev)
{
	for (uint32_t i = 0; i < UROCE_MAX_GIDS; i++)
		neigh_announce_one(dev, i);
}

void
neigh_tick(struct device *dev)
{
	if (daemon_now_ns() >= dev->next_ask_ns) {
		dev->next_ask_ns = daemon_now_ns() + NS_PER_S;
		ask_for_waiting(dev);
	}
	tick(dev);
}
