/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts frames to messages. If somebody cuts a super-frame, its segment k gets the
 * identification in its header plus k. The ICRC of each frame is therefore changed to that, in the
 * frame, before the message is sent; and changed back if the frame stays with the caller.
 */
#include <errno.h>
#include <string.h>
#include "port/log.h"
#include "port/packet.h"

/* Changes the ICRCs of the n frames of a message, the first of which has the headers *h, or back.
 */
static void
icrcs_turn(struct packet_tx *tx, struct rte_mbuf *const *m, uint32_t n, const struct udp_head *h)
{
	uint16_t id = (uint16_t)(h->ip[4] << 8 | h->ip[5]);
	struct udp_head next;

	for (uint32_t k = 1; k < n; k++) {
		if (udp_head_read(m[k], &next))
			udp_icrc_turn(&tx->rows, m[k], &next, (uint16_t)(id + k));
	}
}

/*
 * Makes message i of m[0], which is no UDP packet or has options: as it is. Returns the number of
 * iovecs used.
 */
static uint32_t
message_plain(struct packet_tx *tx, uint32_t i, const struct rte_mbuf *m, struct iovec *iov)
{
	memset(tx->head[i], 0, PACKET_VNET_LEN);
	iov[0] = (struct iovec){tx->head[i], PACKET_VNET_LEN};
	tx->frames[i] = 1;
	return 1 + udp_gather(m, 0, iov + 1);
}

/*
 * Makes message i of the run m[0 .. n), whose first headers are *h. iov has space for 4 per frame.
 * Returns the number of iovecs used.
 */
static uint32_t
message_make(struct packet_tx *tx, uint32_t i, struct rte_mbuf *const *m, uint32_t n,
	     const struct udp_head *h, struct iovec *iov)
{
	uint32_t niov = 1, bytes = 0;

	for (uint32_t k = 0; k < n; k++) {
		bytes += m[k]->pkt_len - h->hdr_len;
		niov += udp_gather(m[k], h->hdr_len, iov + niov);
	}
	iov[0] = (struct iovec){
		.iov_base = tx->head[i],
		.iov_len = packet_head_put(tx->head[i], h, bytes, n > 1 ? h->payload : 0),
	};
	icrcs_turn(tx, m, n, h);
	tx->frames[i] = n;
	return niov;
}

/* Makes messages of m[0 .. n), n > 0, as many as there is space for. Returns how many. */
static uint32_t
messages_make(struct packet_tx *tx, struct rte_mbuf *const *m, uint32_t n)
{
	uint32_t i = 0, niov = 0, at = 0;
	struct udp_head h;

	while (i < PACKET_TX_MSGS && at < n && niov <= PACKET_TX_IOVS) {
		struct iovec *iov = tx->iov + niov;
		uint32_t run = 1, used;

		if (!udp_head_read(m[at], &h)) {
			used = message_plain(tx, i, m[at], iov);
		} else {
			if (tx->gso && tx->single <= at)
				run = udp_run(m + at, n - at, &h, UDP_SEGS_MAX);
			used = message_make(tx, i, m + at, run, &h, iov);
		}
		tx->msg[i].msg_hdr = (struct msghdr){.msg_iov = iov, .msg_iovlen = used};
		niov += used;
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
	PORT_LOG(WARNING, u->name, "cannot send: %s; packets are lost (said once)", strerror(err));
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
messages_send(struct port_packet *u, struct rte_mbuf *const *m, uint32_t n, bool *blocked)
{
	struct packet_tx *tx = &u->tx;
	uint32_t done = 0, i = 0, sent;
	struct udp_head h;

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
	for (uint32_t at = done; i < n; at += tx->frames[i++]) {
		if (udp_head_read(m[at], &h))
			icrcs_turn(tx, m + at, tx->frames[i], &h);
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
		uint32_t done = messages_send(u, m + at, messages, &blocked);

		rte_pktmbuf_free_bulk(m + at, done);
		at += done;
		u->tx.single = u->tx.single > done ? u->tx.single - done : 0;
	}
	return (uint16_t)at;
}
