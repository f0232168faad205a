/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/packet_seg.h"
#include <string.h>
#include "wire/csum.h"
#include "wire/hdr.h"

#define UDP_CSUM_OFFSET 6

/* Adds n bytes, an even number, to a one's complement sum. */
static uint32_t
sum_bytes(uint32_t sum, const uint8_t *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i += 2) {
		uint16_t word;

		memcpy(&word, p + i, sizeof(word));
		sum += word;
	}
	return sum;
}

/* Returns the sum of the pseudo-header of ip's UDP packet of len bytes, in network order. */
static uint16_t
pseudo_sum(const uint8_t *ip, bool v6, rte_be16_t len)
{
	uint32_t sum = len + rte_cpu_to_be_16(WIRE_IPPROTO_UDP);

	if (v6)
		sum = sum_bytes(sum, ip + 8, 32);
	else
		sum = sum_bytes(sum, ip + 12, 8);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)(sum + (sum >> 16));
}

void
packet_lengths_put(uint8_t *ip, bool v6, uint32_t payload)
{
	rte_be16_t udp_len = rte_cpu_to_be_16((uint16_t)(WIRE_UDP_LEN + payload));
	struct wire_ipv4 *v4 = (struct wire_ipv4 *)ip;

	if (v6) {
		((struct wire_ipv6 *)ip)->payload_len = udp_len;
		((struct wire_udp *)(ip + WIRE_IPV6_LEN))->len = udp_len;
		return;
	}
	v4->total_len = rte_cpu_to_be_16((uint16_t)(WIRE_IPV4_LEN + WIRE_UDP_LEN + payload));
	v4->csum = 0;
	v4->csum = (rte_be16_t)~wire_ipv4_sum(v4);
	((struct wire_udp *)(ip + WIRE_IPV4_LEN))->len = udp_len;
}

uint32_t
packet_head_put(uint8_t *out, const struct udp_head *h, uint32_t bytes, uint32_t gso)
{
	uint8_t *ip = out + PACKET_VNET_LEN + (h->ip - h->l2);
	struct virtio_net_hdr vnet = {0};
	uint32_t udp_at = h->hdr_len - WIRE_UDP_LEN;
	struct wire_udp *udp = (struct wire_udp *)(out + PACKET_VNET_LEN + udp_at);

	memcpy(out + PACKET_VNET_LEN, h->l2, h->hdr_len);
	if (gso != 0) {
		packet_lengths_put(ip, h->v6, bytes);
		vnet.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4;
		vnet.gso_size = (uint16_t)gso;
	}
	if (gso != 0 || h->v6) {
		vnet.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
		vnet.hdr_len = h->hdr_len;
		vnet.csum_start = (uint16_t)udp_at;
		vnet.csum_offset = UDP_CSUM_OFFSET;
		udp->csum = pseudo_sum(ip, h->v6, udp->len);
	}
	memcpy(out, &vnet, sizeof(vnet));
	return PACKET_VNET_LEN + h->hdr_len;
}
