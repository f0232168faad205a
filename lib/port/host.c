/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/host.h"
#include <errno.h>
#include <ifaddrs.h>
#include <net/if_arp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

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

bool
host_mac(const char *netdev, uint8_t mac[6])
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq req = {0};
	bool found;

	memset(mac, 0, 6);
	if (fd < 0)
		return false;
	memcpy(req.ifr_name, netdev, strnlen(netdev, sizeof(req.ifr_name) - 1));
	found = ioctl(fd, SIOCGIFHWADDR, &req) == 0;
	if (found && req.ifr_hwaddr.sa_family == ARPHRD_ETHER)
		memcpy(mac, req.ifr_hwaddr.sa_data, 6);
	close(fd);
	return found;
}

bool
host_runs(const char *netdev)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	const short need = IFF_UP | IFF_RUNNING;
	struct ifreq req = {0};
	bool runs;

	if (fd < 0)
		return true;
	memcpy(req.ifr_name, netdev, strnlen(netdev, sizeof(req.ifr_name) - 1));
	runs = ioctl(fd, SIOCGIFFLAGS, &req) == 0 && (req.ifr_flags & need) == need;
	close(fd);
	return runs;
}
