/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The XDP program of af_xdp with share=yes. It passes RoCEv2 to the AF_XDP socket of the queue and
 * everything else to the kernel. This includes frames with a VLAN tag, IPv4 options or IPv6
 * extension headers, and fragments, which the device does not accept. Compiled for BPF at build
 * time; net_af_xdp (xdp_prog=) looks for the map xsks_map.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct xdp_md { /* as in linux/bpf.h */
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

#define XDP_PASS      2
#define MAP_XSKMAP    17 /* the kernel's number of this type of map */

#define SECTION(name) __attribute__((section(name), used))
#define BE16(x)       __builtin_bswap16(x)
#define ETH_LEN       14
#define ROCE_PORT     4791
#define UDP           17

struct {
	int (*type)[MAP_XSKMAP];
	int (*key_size)[4];
	int (*value_size)[4];
	int (*max_entries)[64];
} xsks_map SECTION(".maps");

static long (*const redirect_map)(void *map, u64 key, u64 flags) = (void *)51;

/* Returns the offset of the UDP header in a plain UDP datagram; 0 for any other frame. */
static __attribute__((always_inline)) u32
udp_offset(const u8 *frame, const u8 *end)
{
	u16 type;

	if (frame + ETH_LEN + 20 > end)
		return 0;
	type = *(const u16 *)(frame + 12);
	if (type == BE16(0x0800)) {
		const u8 *ip = frame + ETH_LEN;

		if (ip[0] != 0x45 || ip[9] != UDP || (*(const u16 *)(ip + 6) & BE16(0x3fff)) != 0)
			return 0;
		return ETH_LEN + 20;
	}
	if (type == BE16(0x86dd) && frame[ETH_LEN + 6] == UDP)
		return ETH_LEN + 40;
	return 0;
}

SECTION("xdp") int uroce_share(struct xdp_md *ctx)
{
	const u8 *frame = (const u8 *)(long)ctx->data, *end = (const u8 *)(long)ctx->data_end;
	u32 at = udp_offset(frame, end);

	if (at == 0 || frame + at + 8 > end || *(const u16 *)(frame + at + 2) != BE16(ROCE_PORT))
		return XDP_PASS;
	/*
	 * Without a socket on this queue the kernel gets the packet: uroced holds the UDP port, so
	 * that no "port unreachable" is sent. The program outlives a uroced that was killed, and
	 * must not drop the RoCE of the next one.
	 */
	return (int)redirect_map(&xsks_map, ctx->rx_queue_index, XDP_PASS);
}

char xdp_license[] SECTION("license") = "BSD-3-Clause";
