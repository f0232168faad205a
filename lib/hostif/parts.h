/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of a host interface. Private to lib/hostif.
 *
 *   hostif.c  the interface as a whole; the TAP: its MAC, MTU, state and addresses
 *   move.c    its thread
 *   cut.c     frames of the kernel: long ones are cut, checksums are finished
 *   merge.c   frames for the kernel: TCP segments in a row become one long one
 */
#ifndef HOSTIF_PARTS_H
#define HOSTIF_PARTS_H

#include <net/if.h>
#include <sys/uio.h>
#include <linux/virtio_net.h>
#include <rte_mbuf.h>
#include "dpdk/compat.h"
#include "hostif/hostif.h"

#define HOSTIF_RING  512   /* frames to the kernel that wait; a power of two */
#define HOSTIF_BURST 64    /* of these, in a turn; 64 KiB of TCP segments of MTU 1108 */
#define HOSTIF_READS 8     /* frames of the kernel, super-frames included, in a turn */
#define HOSTIF_SUPER 65600 /* longest frame of the kernel: 64 KiB of IP and its Ethernet header */
#define HOSTIF_PIECES                                                                              \
	1536 /* of one super-frame; the kernel's smallest TCP segment has 48 bytes                 \
	      */

struct hostif {
	struct worker_host host;
	struct worker_set *workers;
	struct rte_mempool *pool;
	int tap;
	uint16_t dev, vlan;
	char name[IF_NAMESIZE];

	struct dpdk_thread thread;
	bool started;
	uint32_t stop; /* atomic */

	/* of the thread */
	struct hostif_stats stats;
	struct rte_mbuf *piece[HOSTIF_PIECES]; /* cut, not taken by the worker yet */
	uint32_t piece_first, piece_n;
	uint8_t frame[sizeof(struct virtio_net_hdr) + HOSTIF_SUPER];
};

/* move.c. The thread's function; arg: the struct hostif. */
void hostif_move(void *arg);

/*
 * cut.c. Makes frames for the wire of what the kernel gave: frame[0 .. len) with its header vh. A
 * frame longer than the MTU is one of TCP and becomes several; unfinished checksums are finished.
 * Every length in vh and frame is checked. Stores the frames, of buffers of pool, in m[0 .. max).
 * How many, or 0: malformed, too many, or no buffers. Any thread.
 */
uint32_t hostif_cut(const struct virtio_net_hdr *vh, const uint8_t *frame, uint32_t len,
		    struct rte_mempool *pool, struct rte_mbuf **m, uint32_t max);

/*
 * merge.c. Makes one frame for the kernel of m[0 .. k), 1 <= k <= n: the longest run of TCP
 * segments of one stream, in order, with right checksums and equal headers; else k is 1 and the
 * frame is unchanged. vh: its header; v[0 .. k): its parts, which lie in the mbufs. Changes headers
 * in m[0]. Returns k. Frames have no VLAN tag. Any thread.
 */
uint32_t hostif_merge(struct rte_mbuf *const *m, uint32_t n, struct virtio_net_hdr *vh,
		      struct iovec *v);

#endif
