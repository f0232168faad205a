/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts frames to messages. The segments of a super-frame get IPv4 identifications that the
 * engine did not choose: segment k has k (PORT_UDP, because the socket is not connected and sets
 * DF; a single datagram has 0), or the one in the super-frame's header plus k (PORT_PACKET). The
 * ICRC of each frame is therefore changed to that, in a copy: the frame stays as it is.
 */
#include <errno.h>
#include <string.h>
#include "port/log.h"
#include "port/socket.h"

/* Makes message i of m, which is no UDP packet or has options: as it is. PORT_PACKET only. */
static void
message_plain(struct socket_tx *tx, uint32_t i, const struct rte_mbuf *m, struct udp_pieces *space)
{
	memset(tx->head[i], 0, PACKET_VNET_LEN);
	space->iov[0] = (struct iovec){tx->head[i], PACKET_VNET_LEN};
	space->n = 1;
	udp_frame_put(space, m, 0, 0);
}

/* Makes message i of the run m[0 .. n), whose first headers are *h. */
static void
message_run(struct port_socket *s, uint32_t i, struct rte_mbuf *const *m, uint32_t n,
	    const struct udp_head *h, struct udp_pieces *space)
{
	struct socket_tx *tx = &s->tx;
	uint16_t gso = n > 1 ? h->payload : 0, id = 0;
	uint32_t bytes = 0;

	space->n = 0;
	if (s->packet) {
		id = (uint16_t)(h->ip[4] << 8 | h->ip[5]);
		space->iov[space->n++] = (struct iovec){tx->head[i], PACKET_VNET_LEN + h->hdr_len};
	}
	for (uint32_t k = 0; k < n; k++) {
		uint32_t payload = m[k]->pkt_len - h->hdr_len;

		udp_frame_put(space, m[k], h->hdr_len,
			      udp_icrc_change(&s->rows, h, payload, (uint16_t)(id + k)));
		bytes += payload;
	}
	if (s->packet)
		packet_head_put(tx->head[i], h, bytes, gso);
	else
		udp_message_put(s, h, gso, &tx->msg[i].msg_hdr);
}

/*
 * Makes messages of m[0 .. n), n > 0, as many as there is space for. Returns how many; 0: m[0] is
 * not UDP, and the socket sends nothing else.
 */
static uint32_t
messages_make(struct port_socket *s, struct rte_mbuf *const *m, uint32_t n)
{
	struct socket_tx *tx = &s->tx;
	struct udp_pieces space = {.iov = tx->iov, .stage = tx->stage};
	uint32_t i = 0, at = 0;
	struct udp_head h;

	for (; i < SOCKET_TX_MSGS && at < n && space.iov <= tx->iov + SOCKET_TX_IOVS &&
	       space.stage <= tx->stage + SOCKET_TX_STAGE;
	     i++) {
		struct msghdr *msg = &tx->msg[i].msg_hdr;
		uint32_t run = 1;

		msg->msg_iov = space.iov;
		if (udp_head_read(m[at], &h)) {
			if (at + 1 < n && tx->gso && tx->single <= at)
				run = udp_run(m + at, n - at, &h, UDP_SEGS_MAX);
			message_run(s, i, m + at, run, &h, &space);
		} else if (s->packet) {
			message_plain(tx, i, m[at], &space);
		} else {
			break;
		}
		msg->msg_iovlen = space.n;
		space.iov += space.n;
		tx->frames[i] = run;
		at += run;
	}
	return i;
}

static void
lose(struct port_socket *s, uint32_t frames, int err)
{
	__atomic_store_n(&s->stats.tx_lost, s->stats.tx_lost + frames, __ATOMIC_RELAXED);
	if (socket_say_once(s->tx.said, err))
		PORT_LOG(WARNING, s->name, "cannot send: %s; packets are lost (logged once)",
			 strerror(err));
}

/*
 * Handles a failed message of n frames, after `before` frames that are done. Returns true if it
 * must be made again, differently.
 */
static bool
refused(struct port_socket *s, uint32_t before, uint32_t n, int err)
{
	struct socket_tx *tx = &s->tx;
	bool always = s->packet ? err == EINVAL && !tx->gso_seen : err == EIO;

	if (n == 1 || (!always && err != EINVAL && err != EMSGSIZE))
		return false;
	if (always) {
		PORT_LOG(NOTICE, s->name, "%s, which is slower",
			 s->packet ? "this kernel takes no super-frames of UDP from packet "
				     "sockets: sending one frame a message"
				   : "the kernel does not segment (UDP_SEGMENT) on this route: "
				     "sending one datagram per call");
		tx->gso = false;
	}
	tx->single = before + n;
	return true;
}

/* Sends the messages. Returns the frames that are done, sent or lost. *blocked: socket full. */
static uint32_t
messages_send(struct port_socket *s, uint32_t n, bool *blocked)
{
	struct socket_tx *tx = &s->tx;
	uint32_t done = 0, i = 0;

	while (i < n) {
		int rc = sendmmsg(s->fd, tx->msg + i, n - i, MSG_DONTWAIT), err = errno;

		if (rc > 0)
			s->stats.tx_messages += (uint32_t)rc;
		for (int sent = 0; sent < rc; sent++) {
			tx->gso_seen |= tx->frames[i] > 1;
			done += tx->frames[i++];
		}
		if (rc > 0 || err == EINTR)
			continue;
		*blocked = err == EAGAIN || err == ENOBUFS || err == ENOMEM;
		if (*blocked || refused(s, done, tx->frames[i], err))
			break;
		lose(s, tx->frames[i], err);
		done += tx->frames[i++];
	}
	return done;
}

uint16_t
port_socket_tx(struct port_socket *s, struct rte_mbuf **m, uint16_t n)
{
	bool blocked = false;
	uint32_t at = 0;

	while (at < n && !blocked) {
		uint32_t messages = messages_make(s, m + at, n - at), done;

		if (messages == 0) { /* not UDP: the kernel sends such packets itself */
			rte_pktmbuf_free(m[at++]);
			continue;
		}
		done = messages_send(s, messages, &blocked);
		rte_pktmbuf_free_bulk(m + at, done);
		at += done;
		s->tx.single = s->tx.single > done ? s->tx.single - done : 0;
	}
	return (uint16_t)at;
}
