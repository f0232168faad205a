/* SPDX-License-Identifier: BSD-3-Clause */
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <string.h>
#include <rte_ip.h>
#include "port/socket.h"
#include "wire/csum.h"
#include "wire/hdr.h"

#define MACS_LEN        12
#define UDP_CSUM_OFFSET 6

uint32_t
packet_head_put(uint8_t *out, const struct udp_head *h, uint32_t bytes, uint32_t gso)
{
	uint8_t *ip = out + PACKET_VNET_LEN + (h->ip - h->l2);
	struct virtio_net_hdr vnet = {0};
	uint32_t udp_at = h->hdr_len - WIRE_UDP_LEN;
	struct wire_udp *udp = (struct wire_udp *)(out + PACKET_VNET_LEN + udp_at);

	memcpy(out + PACKET_VNET_LEN, h->l2, h->hdr_len);
	if (gso != 0) {
		udp_lengths_put(ip, h->v6, bytes);
		vnet.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4;
		vnet.gso_size = (uint16_t)gso;
	}
	if (gso != 0 || h->v6) {
		vnet.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
		vnet.hdr_len = h->hdr_len;
		vnet.csum_start = (uint16_t)udp_at;
		vnet.csum_offset = UDP_CSUM_OFFSET;
		udp->csum = h->v6 ? rte_ipv6_phdr_cksum((const struct rte_ipv6_hdr *)ip, 0)
				  : rte_ipv4_phdr_cksum((const struct rte_ipv4_hdr *)ip, 0);
	}
	memcpy(out, &vnet, sizeof(vnet));
	return PACKET_VNET_LEN + h->hdr_len;
}

/*
 * Copies hdr_len bytes of headers at from to head->hdr. If the kernel has taken a VLAN tag out of
 * them (*aux), puts it back behind the MACs.
 */
static void
headers_take(struct socket_head *head, const uint8_t *from, uint32_t hdr_len,
	     const struct tpacket_auxdata *aux)
{
	uint8_t *to = head->hdr;
	rte_be16_t tag[2];

	head->in_len = head->hdr_len = hdr_len;
	if ((aux->tp_status & TP_STATUS_VLAN_VALID) == 0) {
		memcpy(to, from, hdr_len);
		return;
	}
	tag[0] = rte_cpu_to_be_16(aux->tp_status & TP_STATUS_VLAN_TPID_VALID ? aux->tp_vlan_tpid
									     : ETH_P_8021Q);
	tag[1] = rte_cpu_to_be_16(aux->tp_vlan_tci);
	memcpy(to, from, MACS_LEN);
	memcpy(to + MACS_LEN, tag, WIRE_VLAN_LEN);
	memcpy(to + MACS_LEN + WIRE_VLAN_LEN, from + MACS_LEN, hdr_len - MACS_LEN);
	head->hdr_len += WIRE_VLAN_LEN;
}

/* Reads the headers of a super-frame of len bytes. Returns false if they do not fit it. */
static bool
super_read(const struct socket_slot *slot, uint32_t len, const struct tpacket_auxdata *aux,
	   struct socket_head *head)
{
	struct rte_mbuf m = {
		.buf_addr = slot->iov[1].iov_base,
		.data_len = (uint16_t)RTE_MIN(len, slot->iov[1].iov_len),
		.pkt_len = len,
	};
	const struct wire_ipv4 *v4;
	struct wire_udp *udp;
	struct udp_head h;

	if (!udp_head_read(&m, &h))
		return false;
	headers_take(head, h.l2, h.hdr_len, aux);
	head->ip_at = (uint32_t)(h.ip - h.l2) + head->hdr_len - head->in_len;
	head->bytes = h.payload;
	head->gso = slot->vnet.gso_size;
	head->v6 = h.v6;
	v4 = (const struct wire_ipv4 *)(head->hdr + head->ip_at);
	udp = (struct wire_udp *)(head->hdr + head->hdr_len - WIRE_UDP_LEN);
	udp->csum = 0; /* the super-frame has only one, and the ICRC covers more */
	head->roce = udp->dport == rte_cpu_to_be_16(WIRE_UDP_PORT);
	head->id = h.v6 ? 0 : rte_be_to_cpu_16(v4->id);
	return head->gso != 0 && rte_be_to_cpu_16(udp->len) == WIRE_UDP_LEN + h.payload &&
	       (h.v6 || (v4->frag_off & rte_cpu_to_be_16(WIRE_IPV4_FRAG)) == 0);
}

bool
packet_message_read(struct port_socket *s, const struct socket_slot *slot, struct msghdr *msg,
		    uint32_t len, struct socket_head *head)
{
	struct tpacket_auxdata aux = {0};
	uint32_t drops;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL &&
		    c->cmsg_len >= CMSG_LEN(sizeof(drops))) {
			memcpy(&drops, CMSG_DATA(c), sizeof(drops));
			s->stats.rx_socket_full = drops;
		}
		if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_AUXDATA &&
		    c->cmsg_len >= CMSG_LEN(sizeof(aux)))
			memcpy(&aux, CMSG_DATA(c), sizeof(aux));
	}
	if (len < PACKET_VNET_LEN + WIRE_ETH_LEN)
		return false;
	len -= PACKET_VNET_LEN;
	if ((slot->vnet.gso_type & ~VIRTIO_NET_HDR_GSO_ECN) == VIRTIO_NET_HDR_GSO_UDP_L4)
		return super_read(slot, len, &aux, head);
	head->gso = head->bytes = len;
	head->in_len = head->hdr_len = 0;
	if (aux.tp_status & TP_STATUS_VLAN_VALID) {
		headers_take(head, slot->iov[1].iov_base, MACS_LEN, &aux);
		head->bytes -= MACS_LEN;
	}
	return slot->vnet.gso_type == VIRTIO_NET_HDR_GSO_NONE;
}
