/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The XDP program of af_xdp with share=yes: RoCEv2 goes to the AF_XDP socket of the queue, all the
 * rest to the kernel. Frames of VLANs, IPv4 options, IPv6 extension headers and fragments are the
 * kernel's: the device takes none of them. Compiled for BPF at build time; net_af_xdp (xdp_prog=)
 * looks for the map xsks_map.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct xdp_md { /* the kernel's, linux/bpf.h */
	u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

#define XDP_DROP      1
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

/* Offset of a UDP header after the IP header that follows Ethernet; 0: not of a plain datagram. */
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
	/* without a socket on this queue it is dropped, and not answered with port unreachable */
	return (int)redirect_map(&xsks_map, ctx->rx_queue_index, XDP_DROP);
}

char xdp_license[] SECTION("license") = "BSD-3-Clause";
