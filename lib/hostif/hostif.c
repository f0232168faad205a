/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_tun.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_ring.h>
#include "hostif/parts.h"
#include "port/host.h"

/* ---- the TAP ---- */

/* What the kernel may leave to us: see cut.c. */
#define OFFLOADS (TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6)

/* What to do about an error of the TAP; "": nothing in particular. */
static const char *
remedy(int error)
{
	switch (error) {
	case EPERM:
	case EACCES:
		return ": hostif= needs CAP_NET_ADMIN; run uroced as root, or with that capability";
	case ENOENT:
	case ENODEV:
	case ENXIO:
		return ": /dev/net/tun is missing; run `modprobe tun`, or give the device to the "
		       "container";
	default:
		return "";
	}
}

static int
failed(const struct hostif *h, const char *what, char *err, size_t room)
{
	int error = errno;

	snprintf(err, room, "hostif=%s: %s: %s%s", h->name, what, strerror(error), remedy(error));
	return -error;
}

static int
create(struct hostif *h, char *err, size_t room)
{
	struct ifreq req = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
	int vnet = sizeof(struct virtio_net_hdr);

	h->tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (h->tap < 0)
		return failed(h, "/dev/net/tun", err, room);
	strcpy(req.ifr_name, h->name);
	if (ioctl(h->tap, TUNSETIFF, &req) != 0)
		return failed(h, "cannot make the interface", err, room);
	if (ioctl(h->tap, TUNSETVNETHDRSZ, &vnet) != 0 ||
	    ioctl(h->tap, TUNSETOFFLOAD, OFFLOADS) != 0)
		return failed(h, "offloads", err, room);
	return 0;
}

/* MAC and MTU. */
static int
configure(const struct hostif *h, const struct hostif_params *p, char *err, size_t room)
{
	struct ifreq mac = {.ifr_hwaddr.sa_family = ARPHRD_ETHER}, mtu = {.ifr_mtu = (int)p->mtu};

	memcpy(mac.ifr_hwaddr.sa_data, p->mac, 6);
	errno = -host_ioctl(h->name, SIOCSIFHWADDR, &mac);
	if (errno != 0)
		return failed(h, "MAC", err, room);
	errno = -host_ioctl(h->name, SIOCSIFMTU, &mtu);
	return errno != 0 ? failed(h, "MTU", err, room) : 0;
}

/*
 * Writes a setting of the interface. A failure shows where it matters: an address is refused, or
 * goes with another one.
 */
static void
set(const struct hostif *h, const char *family, const char *key, const char *value)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/proc/sys/net/%s/conf/%s/%s", family, h->name, key);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, value, strlen(value)) < 0)
		errno = 0;
	close(fd);
}

static int
tap_open(struct hostif *h, const struct hostif_params *p, char *err, size_t room)
{
	int rc;

	if (if_nametoindex(h->name) != 0) {
		snprintf(err, room,
			 "hostif=%s: an interface of that name already exists; use another name",
			 h->name);
		return -EEXIST;
	}
	rc = create(h, err, room);
	if (rc == 0)
		rc = configure(h, p, err, room);
	if (rc != 0)
		return rc;
	/* the device has IPv6 addresses whatever the default for interfaces is */
	set(h, "ipv6", "disable_ipv6", "0");
	/* else the kernel removes the other addresses of a prefix with the first one */
	set(h, "ipv4", "promote_secondaries", "1");
	return 0;
}

static int
tap_up(const struct hostif *h)
{
	struct ifreq req = {0};
	int rc = host_ioctl(h->name, SIOCGIFFLAGS, &req);

	req.ifr_flags |= IFF_UP;
	return rc == 0 ? host_ioctl(h->name, SIOCSIFFLAGS, &req) : rc;
}

static int
change(const struct hostif *h, const struct net_addr *a, uint16_t type, uint16_t flags)
{
	const struct ifaddrmsg addr = {.ifa_family = a->v4 ? AF_INET : AF_INET6,
				       .ifa_prefixlen = a->plen,
				       .ifa_flags = IFA_F_NODAD,
				       .ifa_index = if_nametoindex(h->name)};
	const uint8_t *ip = a->v4 ? a->gid + 12 : a->gid;
	uint8_t answer[1024] __attribute__((aligned(8)));
	size_t len = a->v4 ? 4 : 16;
	struct host_ask ask;
	int rc;

	/* the operator has moved it to another network namespace, or renamed it */
	if (addr.ifa_index == 0)
		return -ENODEV;
	host_ask_begin(&ask, type, (uint16_t)(NLM_F_ACK | flags), &addr, sizeof(addr));
	host_ask_add(&ask, IFA_LOCAL, ip, len);
	host_ask_add(&ask, IFA_ADDRESS, ip, len);
	rc = host_ask(&ask, answer, sizeof(answer));
	return rc > 0 ? -EIO : rc;
}

int
hostif_addr_add(struct hostif *h, const struct net_addr *a)
{
	return change(h, a, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
}

int
hostif_addr_del(struct hostif *h, const struct net_addr *a)
{
	return change(h, a, RTM_DELADDR, 0);
}

void
hostif_set_link(struct hostif *h, bool up)
{
	int carrier = up;

	(void)ioctl(h->tap, TUNSETCARRIER, &carrier);
}

/* ---- the interface as a whole ---- */

int
hostif_open(struct hostif **out, const struct hostif_params *p, char *err, size_t room)
{
	struct hostif *h = calloc(1, sizeof(*h));
	char ring[RTE_RING_NAMESIZE];
	int rc;

	if (h == NULL || strlen(p->name) >= sizeof(h->name)) {
		snprintf(err, room, "hostif=%s: no memory", p->name);
		free(h);
		return -ENOMEM;
	}
	strcpy(h->name, p->name);
	h->workers = p->workers;
	h->pool = p->pool;
	h->dev = p->dev;
	h->vlan = p->vlan;
	h->tap = -1;
	snprintf(ring, sizeof(ring), "host%u", p->dev);
	/* RTS: a preempted producer does not block the others. */
	h->host.ring = rte_ring_create(ring, HOSTIF_RING, SOCKET_ID_ANY,
				       RING_F_MP_RTS_ENQ | RING_F_SC_DEQ);
	h->host.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (h->host.ring == NULL || h->host.wake_fd < 0) {
		rc = h->host.ring == NULL ? -rte_errno : -errno;
		snprintf(err, room, "hostif=%s: %s", h->name, strerror(-rc));
	} else {
		rc = tap_open(h, p, err, room);
	}
	if (rc != 0) {
		hostif_close(h);
		return rc;
	}
	worker_set_host(h->workers, h->dev, &h->host);
	*out = h;
	return 0;
}

int
hostif_start(struct hostif *h)
{
	int rc = tap_up(h);

	if (rc == 0)
		rc = dpdk_thread_start(&h->thread, "hostif", hostif_move, h);
	h->started = rc == 0;
	return rc;
}

static void
stop(struct hostif *h)
{
	static const uint64_t one = 1;

	__atomic_store_n(&h->stop, 1, __ATOMIC_RELEASE);
	if (write(h->host.wake_fd, &one, sizeof(one)) < 0)
		errno = 0; /* full, hence readable */
	pthread_join(h->thread.id, NULL);
}

void
hostif_close(struct hostif *h)
{
	void *m;

	if (h == NULL)
		return;
	worker_set_host(h->workers, h->dev, NULL);
	if (h->started)
		stop(h);
	rte_pktmbuf_free_bulk(h->piece + h->piece_first, h->piece_n);
	while (h->host.ring != NULL && rte_ring_dequeue(h->host.ring, &m) == 0)
		rte_pktmbuf_free(m);
	rte_ring_free(h->host.ring);
	if (h->host.wake_fd >= 0)
		close(h->host.wake_fd);
	if (h->tap >= 0)
		close(h->tap); /* the interface is gone */
	free(h);
}

bool
hostif_give(struct hostif *h, struct rte_mbuf *m)
{
	return worker_host_put(&h->host, m);
}

const char *
hostif_name(const struct hostif *h)
{
	return h->name;
}

const struct hostif_stats *
hostif_stats(const struct hostif *h)
{
	return &h->stats;
}
