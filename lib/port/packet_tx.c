/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts frames to messages. If a kernel or NIC cuts a super-frame, its segment k gets the
 * identification in its header plus k. The ICRC of each frame is therefore changed to that, in a
 * copy: the frame stays as it is.
 */
#include <errno.h>
#include <string.h>
#include "port/log.h"
#include "port/packet.h"

/* Begins message i with len bytes of tx->head[i], at *space. */
static void
message_begin(struct packet_tx *tx, uint32_t i, uint32_t len, struct udp_pieces *space)
{
	space->iov[0] = (struct iovec){tx->head[i], len};
	space->n = 1;
}

/* Ends message i of n frames; moves *space behind it. */
static void
message_end(struct packet_tx *tx, uint32_t i, uint32_t n, struct udp_pieces *space)
{
	tx->msg[i].msg_hdr = (struct msghdr){.msg_iov = space->iov, .msg_iovlen = space->n};
	tx->frames[i] = n;
	space->iov += space->n;
}

/* Makes message i of m, which is no UDP packet or has options: as it is. */
static void
message_plain(struct packet_tx *tx, uint32_t i, const struct rte_mbuf *m, struct udp_pieces *space)
{
	memset(tx->head[i], 0, PACKET_VNET_LEN);
	message_begin(tx, i, PACKET_VNET_LEN, space);
	udp_frame_put(space, m, 0, 0);
	message_end(tx, i, 1, space);
}

/* Makes message i of the run m[0 .. n), whose first headers are *h. */
static void
message_make(struct packet_tx *tx, uint32_t i, struct rte_mbuf *const *m, uint32_t n,
	     const struct udp_head *h, struct udp_pieces *space)
{
	uint16_t id = (uint16_t)(h->ip[4] << 8 | h->ip[5]);
	uint32_t bytes = 0;

	for (uint32_t k = 0; k < n; k++)
		bytes += m[k]->pkt_len - h->hdr_len;
	message_begin(tx, i, packet_head_put(tx->head[i], h, bytes, n > 1 ? h->payload : 0), space);
	for (uint32_t k = 0; k < n; k++) {
		uint32_t payload = m[k]->pkt_len - h->hdr_len;

		udp_frame_put(space, m[k], h->hdr_len,
			      udp_icrc_change(&tx->rows, h, payload, (uint16_t)(id + k)));
	}
	message_end(tx, i, n, space);
}

/* Makes messages of m[0 .. n), n > 0, as many as there is space for. Returns how many. */
static uint32_t
messages_make(struct packet_tx *tx, struct rte_mbuf *const *m, uint32_t n)
{
	struct udp_pieces space = {.iov = tx->iov, .stage = tx->stage};
	uint32_t i = 0, at = 0;
	struct udp_head h;

	while (i < PACKET_TX_MSGS && at < n && space.iov <= tx->iov + PACKET_TX_IOVS &&
	       space.stage <= tx->stage + PACKET_TX_STAGE) {
		uint32_t run = 1;

		if (!udp_head_read(m[at], &h)) {
			message_plain(tx, i, m[at], &space);
		} else {
			if (tx->gso && tx->single <= at)
				run = udp_run(m + at, n - at, &h, UDP_SEGS_MAX);
			message_make(tx, i, m + at, run, &h, &space);
		}
		at += run;
		i++;
	}
	return i;
}

static void
lose(struct port_packet *u, uint32_t frames, int err)
{
	uint64_t *said = u->tx.said;

	__atomic_store_n(&u->stats.tx_lost, u->stats.tx_lost + frames, __ATOMIC_RELAXED);
	if (err <= 0 || err >= 192 || (said[err / 64] >> err % 64 & 1))
		return;
	said[err / 64] |= 1ull << err % 64;
	PORT_LOG(WARNING, u->name, "cannot send: %s; packets are lost (logged once)",
		 strerror(err));
}

/*
 * Handles a failed message of n frames, after `before` frames that are done. Returns true if it
 * must be made again, differently.
 */
static bool
refused(struct port_packet *u, uint32_t before, uint32_t n, int err)
{
	struct packet_tx *tx = &u->tx;

	if (n == 1 || (err != EINVAL && err != EMSGSIZE))
		return false;
	if (err == EINVAL && !tx->gso_seen) {
		PORT_LOG(NOTICE, u->name,
			 "this kernel takes no super-frames of UDP from packet sockets: sending "
			 "one frame a message, which is slower");
		tx->gso = false;
	}
	tx->single = before + n;
	return true;
}

/* Sends the messages. Returns the frames that are done, sent or lost. *blocked: socket full. */
static uint32_t
messages_send(struct port_packet *u, uint32_t n, bool *blocked)
{
	struct packet_tx *tx = &u->tx;
	uint32_t done = 0, i = 0, sent;

	while (i < n) {
		int rc = sendmmsg(u->fd, tx->msg + i, n - i, MSG_DONTWAIT), err = errno;

		for (sent = rc > 0 ? (uint32_t)rc : 0; sent > 0; sent--) {
			u->stats.tx_messages++;
			tx->gso_seen |= tx->frames[i] > 1;
			done += tx->frames[i++];
		}
		if (rc > 0 || err == EINTR)
			continue;
		*blocked = err == EAGAIN || err == ENOBUFS || err == ENOMEM;
		if (*blocked || refused(u, done, tx->frames[i], err))
			break;
		lose(u, tx->frames[i], err);
		done += tx->frames[i++];
	}
	return done;
}

uint16_t
port_packet_tx(struct port_packet *u, struct rte_mbuf **m, uint16_t n)
{
	bool blocked = false;
	uint32_t at = 0;

	while (at < n && !blocked) {
		uint32_t messages = messages_make(&u->tx, m + at, n - at);
		uint32_t done = messages_send(u, messages, &blocked);

		rte_pktmbuf_free_bulk(m + at, done);
		at += done;
		u->tx.single = u->tx.single > done ? u->tx.single - done : 0;
	}
	return (uint16_t)at;
}
