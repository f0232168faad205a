/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel interface of a device (the exception path): a TAP with the device's MAC and
 * addresses. Received frames that are not the transport's go to the kernel, and frames that the
 * kernel sends leave by the device's port: so TCP and RDMA share one address on a port that the
 * kernel does not have.
 *
 * A separate thread copies frames between the TAP and rings of the workers, so that no worker
 * makes a system call for them. The kernel hands over long TCP segments and unfinished checksums
 * (virtio_net_hdr); the thread cuts and finishes them, and gives it long ones.
 *
 * Control thread, unless said otherwise. Needs CAP_NET_ADMIN and /dev/net/tun.
 */
#ifndef HOSTIF_HOSTIF_H
#define HOSTIF_HOSTIF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <rte_mempool.h>
#include "net/net.h"
#include "worker/worker.h"

struct hostif;

struct hostif_params {
	const char
		*name; /* of the interface, 1 .. 15 characters; there must be none of that name */
	uint16_t dev;  /* number of the device's port */
	const uint8_t *mac;
	uint32_t mtu;  /* bytes of IP packet */
	uint16_t vlan; /* VID of the device, or 0: the interface is inside that VLAN, untagged */
	struct rte_mempool *pool; /* its buffers hold a frame of mtu; any thread may use it */
	struct worker_set *workers;
};

/* Written by the interface's thread; any thread may read. */
struct hostif_stats {
	uint64_t to_kernel, from_kernel; /* frames */
	uint64_t to_kernel_lost;   /* the kernel refused them: the interface is down, no memory */
	uint64_t from_kernel_lost; /* no packet buffers, or a frame that no driver would send */
	uint64_t super_frames;     /* of the kernel, longer than the MTU: cut into from_kernel */
	uint64_t merged;           /* super-frames to the kernel, made of several of to_kernel */
};

/*
 * Makes the interface, down and without addresses, and announces its ring to the workers
 * (worker_set_host): before the device's port is added to them. It vanishes with hostif_close or
 * with the process. Returns 0, or -errno with the reason in err (room bytes).
 */
int hostif_open(struct hostif **h, const struct hostif_params *p, char *err, size_t room);
/* The device's port is removed from the workers. Frees everything; NULL is harmless. */
void hostif_close(struct hostif *h);

/*
 * Sets or removes an address of the interface. 0 or -errno of the kernel: -EEXIST, -EACCES or
 * -EOPNOTSUPP for IPv6 if it is disabled, -EADDRNOTAVAIL if there is none to remove.
 */
int hostif_addr_add(struct hostif *h, const struct net_addr *a);
int hostif_addr_del(struct hostif *h, const struct net_addr *a);

/* Brings the interface up and starts its thread. 0 or -errno. */
int hostif_start(struct hostif *h);
/* The interface's carrier follows the device's link. */
void hostif_set_link(struct hostif *h, bool up);
/* Gives the kernel a frame of the slow path. False: no space, m is still the caller's. */
bool hostif_give(struct hostif *h, struct rte_mbuf *m);

/* Any thread. */
const char *hostif_name(const struct hostif *h);
const struct hostif_stats *hostif_stats(const struct hostif *h);

#endif
