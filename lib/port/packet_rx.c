/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <string.h>
#include "port/packet.h"
#include "port/socket.h"

#define BULK_MSGS 4 /* per recvmmsg while long super-frames come: more would leave the cache */

/* Prepares up to n messages. Returns how many got buffers. */
static uint32_t
slots_fill(struct packet_rx *rx, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct packet_slot *s = &rx->slot[i];

		if (!packet_slot_fill(&rx->cutter, s))
			return i;
		rx->msg[i].msg_hdr = (struct msghdr){
			.msg_iov = s->iov,
			.msg_iovlen = s->nm + 2,
			.msg_control = rx->control[i],
			.msg_controllen = sizeof(rx->control[i]),
		};
	}
	return n;
}

/* Reads what the kernel says of a message of len bytes. */
static struct packet_about
message_read(struct port_packet *u, struct msghdr *msg, uint32_t len)
{
	struct packet_about about = {.len = len, .truncated = (msg->msg_flags & MSG_TRUNC) != 0};
	struct tpacket_auxdata aux;
	uint32_t drops;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL &&
		    c->cmsg_len >= CMSG_LEN(sizeof(drops))) {
			memcpy(&drops, CMSG_DATA(c), sizeof(drops));
			u->stats.rx_socket_full = drops;
		}
		if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA ||
		    c->cmsg_len < CMSG_LEN(sizeof(aux)))
			continue;
		memcpy(&aux, CMSG_DATA(c), sizeof(aux));
		about.tagged = (aux.tp_status & TP_STATUS_VLAN_VALID) != 0;
		about.tci = aux.tp_vlan_tci;
		about.tpid = (aux.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0 ? aux.tp_vlan_tpid
									      : ETH_P_8021Q;
	}
	return about;
}

/* Receives waiting messages, at most one batch. */
static void
receive(struct port_packet *u)
{
	struct packet_rx *rx = &u->rx;
	struct packet_cutter *c = &rx->cutter;
	uint32_t n = slots_fill(rx, c->bulk != 0 ? BULK_MSGS : PACKET_RX_MSGS);
	int got;

	c->ready_n = c->ready_at = 0;
	if (n == 0) {
		u->stats.rx_no_buffer++;
		return;
	}
	got = recvmmsg(u->fd, rx->msg, n, MSG_DONTWAIT, NULL);
	if (got < 0 && errno != EAGAIN && errno != EINTR)
		port_socket_failed(u->name, errno, rx->said, &u->stats.rx_errors);
	if (got <= 0)
		return;
	if (c->bulk != 0)
		c->bulk--;
	for (int i = 0; i < got; i++) {
		struct packet_about about =
			message_read(u, &rx->msg[i].msg_hdr, rx->msg[i].msg_len);

		packet_cut(c, &rx->slot[i], &about);
	}
}

uint16_t
port_packet_rx(struct port_packet *u, struct rte_mbuf **m, uint16_t n)
{
	struct packet_cutter *c = &u->rx.cutter;

	if (c->ready_at == c->ready_n)
		receive(u);
	return port_ready_take(m, n, c->ready, &c->ready_at, c->ready_n);
}
