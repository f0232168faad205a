/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "port/host.h"

/* Gets the IP address of an entry. Returns false if it has none. */
static bool
addr_of(const struct ifaddrs *i, struct net_addr *a)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	const uint8_t *mask;
	uint32_t bytes;

	if (i->ifa_addr == NULL || i->ifa_netmask == NULL)
		return false;
	memset(a, 0, sizeof(*a));
	if (i->ifa_addr->sa_family == AF_INET) {
		memcpy(a->gid, mapped, sizeof(mapped));
		memcpy(a->gid + 12, &((const struct sockaddr_in *)i->ifa_addr)->sin_addr, 4);
		mask = (const uint8_t *)&((const struct sockaddr_in *)i->ifa_netmask)->sin_addr;
		bytes = 4;
		a->v4 = true;
	} else if (i->ifa_addr->sa_family == AF_INET6) {
		memcpy(a->gid, &((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr, 16);
		mask = (const uint8_t *)&((const struct sockaddr_in6 *)i->ifa_netmask)->sin6_addr;
		bytes = 16;
	} else {
		return false;
	}
	while (bytes-- > 0)
		a->plen = (uint8_t)(a->plen + __builtin_popcount(*mask++));
	a->used = true;
	return true;
}

/*
 * Copies the name of the interface that an entry belongs to, at most IF_NAMESIZE bytes. An IPv4
 * address with a label (eth0:1) has that as its name.
 */
static void
netdev_of(const struct ifaddrs *i, char *netdev)
{
	size_t len = strcspn(i->ifa_name, ":");

	if (len >= IF_NAMESIZE)
		len = IF_NAMESIZE - 1;
	memcpy(netdev, i->ifa_name, len);
	netdev[len] = '\0';
}

int
host_addrs(const char *netdev, const uint8_t *gid, struct net_addr *addr, uint32_t max)
{
	char name[IF_NAMESIZE];
	struct ifaddrs *list;
	struct net_addr a;
	uint32_t n = 0;

	if (getifaddrs(&list) != 0)
		return -errno;
	for (const struct ifaddrs *i = list; i != NULL && n < max; i = i->ifa_next) {
		netdev_of(i, name);
		if ((netdev != NULL && strcmp(name, netdev) != 0) || !addr_of(i, &a) ||
		    (gid != NULL && memcmp(gid, a.gid, 16) != 0))
			continue;
		addr[n++] = a;
		if (gid != NULL) /* more than one interface may have it */
			break;
	}
	freeifaddrs(list);
	return (int)n;
}

int
host_netdev_of(const uint8_t gid[16], char *netdev)
{
	int rc = -EADDRNOTAVAIL;
	struct ifaddrs *list;
	struct net_addr a;

	if (getifaddrs(&list) != 0)
		return -errno;
	for (const struct ifaddrs *i = list; i != NULL && rc != 0; i = i->ifa_next) {
		if (!addr_of(i, &a) || memcmp(gid, a.gid, 16) != 0)
			continue;
		netdev_of(i, netdev);
		rc = 0;
	}
	freeifaddrs(list);
	return rc;
}

int
host_ifindex(const char *netdev, uint32_t *ifindex)
{
	*ifindex = if_nametoindex(netdev);
	if (*ifindex != 0)
		return 0;
	return errno == ENXIO ? -ENODEV : -errno;
}

/* Asks through a socket, because sysfs may show another namespace's interfaces. */
int
host_ioctl(const char *netdev, unsigned long what, struct ifreq *req)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	memset(req->ifr_name, 0, sizeof(req->ifr_name));
	memcpy(req->ifr_name, netdev, strnlen(netdev, sizeof(req->ifr_name) - 1));
	rc = ioctl(fd, what, req) == 0 ? 0 : -errno;
	close(fd);
	return rc;
}

bool
host_mac(const char *netdev, uint8_t mac[6])
{
	struct ifreq req = {0};
	bool found = host_ioctl(netdev, SIOCGIFHWADDR, &req) == 0;

	memset(mac, 0, 6);
	if (found && req.ifr_hwaddr.sa_family == ARPHRD_ETHER)
		memcpy(mac, req.ifr_hwaddr.sa_data, 6);
	return found;
}

uint32_t
host_mtu(const char *netdev)
{
	struct ifreq req = {0};

	return host_ioctl(netdev, SIOCGIFMTU, &req) == 0 && req.ifr_mtu > 0 ? (uint32_t)req.ifr_mtu
									    : 0;
}

bool
host_runs(const char *netdev)
{
	const short need = IFF_UP | IFF_RUNNING;
	struct ifreq req = {0};
	int rc = host_ioctl(netdev, SIOCGIFFLAGS, &req);

	return rc == 0 ? (req.ifr_flags & need) == need : rc != -ENODEV;
}

/* ---- rtnetlink ---- */

void
host_ask_begin(struct host_ask *a, uint16_t type, uint16_t flags, const void *head, size_t len)
{
	*a = (struct host_ask){.h = {.nlmsg_len = (uint32_t)NLMSG_LENGTH(len),
				     .nlmsg_type = type,
				     .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags)}};
	memcpy(a->body, head, len);
}

void
host_ask_add(struct host_ask *a, uint16_t type, const void *data, size_t len)
{
	struct rtattr *at = (struct rtattr *)((uint8_t *)a + NLMSG_ALIGN(a->h.nlmsg_len));

	at->rta_type = type;
	at->rta_len = (uint16_t)RTA_LENGTH(len);
	memcpy(RTA_DATA(at), data, len);
	a->h.nlmsg_len = (uint32_t)(NLMSG_ALIGN(a->h.nlmsg_len) + RTA_SPACE(len));
}

int
host_ask(const struct host_ask *a, void *answer, size_t room)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), rc;
	const struct nlmsghdr *h = answer;
	ssize_t len = -1;

	if (fd < 0)
		return -errno;
	/* the kernel answers before send returns */
	if (send(fd, a, a->h.nlmsg_len, 0) >= 0)
		len = recv(fd, answer, room, MSG_DONTWAIT);
	rc = len < 0 ? -errno : (int)len;
	close(fd);
	if (rc < 0)
		return rc;
	if (!NLMSG_OK(h, (uint32_t)rc))
		return -EPROTO;
	if (h->nlmsg_type != NLMSG_ERROR)
		return rc;
	return h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr))
		       ? ((const struct nlmsgerr *)NLMSG_DATA(h))->error
		       : -EPROTO;
}

const struct rtattr *
host_attr(const struct rtattr *a, size_t len, uint16_t type)
{
	for (; RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if ((a->rta_type & NLA_TYPE_MASK) == type)
			return a;
	}
	return NULL;
}

/* Converts an address of this family to a GID. Returns false if its length is wrong. */
static bool
gid_of(uint8_t gid[16], int family, const void *address, uint32_t len)
{
	memset(gid, 0, 16);
	if (family == AF_INET6) {
		if (len == 16)
			memcpy(gid, address, 16);
		return len == 16;
	}
	memset(gid + 10, 0xff, 2);
	if (len == 4)
		memcpy(gid + 12, address, 4);
	return len == 4;
}

/* Reads the gateway of a route of len bytes into hop. Without a gateway, leaves hop unchanged. */
static int
route_read(const struct nlmsghdr *h, uint8_t hop[16])
{
	const struct rtmsg *r = NLMSG_DATA(h);
	int left = (int)RTM_PAYLOAD(h);

	if (r->rtm_type != RTN_UNICAST && r->rtm_type != RTN_MULTICAST)
		return -ENETUNREACH;
	for (const struct rtattr *a = RTM_RTA(r); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		const struct rtvia *via = RTA_DATA(a);

		if (a->rta_type == RTA_GATEWAY &&
		    !gid_of(hop, r->rtm_family, RTA_DATA(a), RTA_PAYLOAD(a)))
			return -EPROTO;
		if (a->rta_type == RTA_VIA && (RTA_PAYLOAD(a) < sizeof(*via) ||
					       !gid_of(hop, via->rtvia_family, via->rtvia_addr,
						       (uint32_t)(RTA_PAYLOAD(a) - sizeof(*via)))))
			return -EPROTO;
	}
	return 0;
}

int
host_route(uint32_t ifindex, const uint8_t dgid[16], uint8_t hop[16])
{
	uint8_t answer[4096] __attribute__((aligned(8)));
	bool v4 = net_gid_is_v4(dgid);
	const struct rtmsg r = {.rtm_family = v4 ? AF_INET : AF_INET6,
				.rtm_dst_len = v4 ? 32 : 128};
	struct host_ask a;
	int rc;

	host_ask_begin(&a, RTM_GETROUTE, 0, &r, sizeof(r));
	host_ask_add(&a, RTA_DST, dgid + (v4 ? 12 : 0), v4 ? 4 : 16);
	host_ask_add(&a, RTA_OIF, &ifindex, sizeof(ifindex));
	memcpy(hop, dgid, 16);
	rc = host_ask(&a, answer, sizeof(answer));
	if (rc < 0)
		return rc;
	return rc > 0 && ((const struct nlmsghdr *)answer)->nlmsg_type == RTM_NEWROUTE
		       ? route_read((const struct nlmsghdr *)answer, hop)
		       : -EPROTO;
}
