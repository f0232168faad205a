/* SPDX-License-Identifier: BSD-3-Clause */
#include <ifaddrs.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "parts.h"

/* Finds the IPv4 default route with the lowest metric. netdev has IF_NAMESIZE bytes. */
static bool
default_route_v4(char *netdev)
{
	unsigned long to, mask, best = ~0ul;
	char line[256], name[IF_NAMESIZE];
	FILE *f = fopen("/proc/net/route", "re");
	unsigned flags, metric;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "%15s %lx %*x %x %*d %*d %u %lx", name, &to, &flags, &metric,
			   &mask) != 5 ||
		    to != 0 || mask != 0 || !(flags & RTF_UP) || metric >= best)
			continue;
		best = metric;
		strcpy(netdev, name);
	}
	if (f != NULL)
		fclose(f);
	return best != ~0ul;
}

static bool
default_route_v6(char *netdev)
{
	char line[256], to[33], name[IF_NAMESIZE];
	FILE *f = fopen("/proc/net/ipv6_route", "re");
	unsigned plen, metric, flags, best = ~0u;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		/* The kernel also lists unreachable routes: with RTF_REJECT, or on lo. */
		if (sscanf(line, "%32s %x %*s %*x %*s %x %*x %*x %x %15s", to, &plen, &metric,
			   &flags, name) != 5 ||
		    plen != 0 || strspn(to, "0") != 32 || !(flags & RTF_UP) ||
		    (flags & RTF_REJECT) || strcmp(name, "lo") == 0 || metric >= best)
			continue;
		best = metric;
		strcpy(netdev, name);
	}
	if (f != NULL)
		fclose(f);
	return best != ~0u;
}

/* Returns true for an interface other than lo that is up and has a non-link-local address. */
static bool
is_offered(const struct ifaddrs *i)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)i->ifa_addr;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)i->ifa_addr;

	if (i->ifa_addr == NULL || !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK))
		return false;
	if (i->ifa_addr->sa_family == AF_INET)
		return ntohl(v4->sin_addr.s_addr) >> 16 != 0xa9fe; /* 169.254.0.0/16 */
	return i->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

/*
 * Adds a device on the interface of an entry, unless it has one. Returns the number of devices. The
 * entry's name is that of its interface, or the label of its address (eth0:1).
 */
static uint32_t
add(char spec[DEFAULTS_MAX][DEFAULTS_SPEC_MAX], uint32_t n, const struct ifaddrs *entry)
{
	int len = (int)strcspn(entry->ifa_name, ":");
	char text[DEFAULTS_SPEC_MAX];

	for (uint32_t i = 0; i < n; i++) {
		snprintf(text, sizeof(text), "name=uroce%u,port=udp,iface=%.*s", i, len,
			 entry->ifa_name);
		if (strcmp(text, spec[i]) == 0)
			return n;
	}
	if (n == DEFAULTS_MAX - 1) /* the last is for lo */
		return n;
	snprintf(spec[n], DEFAULTS_SPEC_MAX, "name=uroce%u,port=udp,iface=%.*s", n, len,
		 entry->ifa_name);
	return n + 1;
}

/* Returns true if the entry is of this interface. */
static bool
is_of(const struct ifaddrs *entry, const char *netdev)
{
	size_t len = strcspn(entry->ifa_name, ":");

	return strlen(netdev) == len && strncmp(entry->ifa_name, netdev, len) == 0;
}

uint32_t
defaults_devices(char spec[DEFAULTS_MAX][DEFAULTS_SPEC_MAX])
{
	char first[IF_NAMESIZE] = "";
	struct ifaddrs *list;
	uint32_t n = 0;

	if (getifaddrs(&list) != 0)
		list = NULL;
	if (default_route_v4(first) || default_route_v6(first)) {
		for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next)
			if (is_offered(i) && is_of(i, first))
				n = add(spec, n, i);
	}
	for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next)
		if (is_offered(i) && strpbrk(i->ifa_name, ",=") == NULL)
			n = add(spec, n, i);
	if (list != NULL)
		freeifaddrs(list);
	snprintf(spec[n], DEFAULTS_SPEC_MAX, "name=uroce_lo,port=udp,iface=lo");
	return n + 1;
}
