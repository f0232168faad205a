/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/host.h"
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

uint32_t
host_addrs(const char *netdev, const uint8_t *gid, struct net_addr *addr, uint32_t max)
{
	struct ifaddrs *list;
	struct net_addr a;
	uint32_t n = 0;

	if (getifaddrs(&list) != 0)
		return 0;
	for (const struct ifaddrs *i = list; i != NULL && n < max; i = i->ifa_next) {
		if (strcmp(i->ifa_name, netdev) != 0 || !addr_of(i, &a) ||
		    (gid != NULL && memcmp(gid, a.gid, 16) != 0))
			continue;
		addr[n++] = a;
	}
	freeifaddrs(list);
	return n;
}

bool
host_netdev_of(const uint8_t gid[16], char *netdev)
{
	struct ifaddrs *list;
	struct net_addr a;
	bool found = false;

	if (getifaddrs(&list) != 0)
		return false;
	for (const struct ifaddrs *i = list; i != NULL && !found; i = i->ifa_next) {
		found = addr_of(i, &a) && memcmp(gid, a.gid, 16) == 0;
		if (found)
			memcpy(netdev, i->ifa_name, strnlen(i->ifa_name, IF_NAMESIZE - 1) + 1);
	}
	freeifaddrs(list);
	return found;
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
