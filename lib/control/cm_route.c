/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's routing table. Connecting a datagram socket looks up a route and sends nothing. The
 * kernel then reports the source address and the MTU. It applies everything that affects packets of
 * this process: rules, metrics, preferred sources. Unlike a netlink query, it takes no lock that
 * others hold for long.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "control/cm_parts.h"
#include "wire/hdr.h"

union any_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static socklen_t
addr_put(union any_addr *a, const uint8_t gid[16], bool v4, uint32_t scope, uint16_t port)
{
	memset(a, 0, sizeof(*a));
	if (v4) {
		a->in.sin_family = AF_INET;
		a->in.sin_port = htons(port);
		memcpy(&a->in.sin_addr, gid + 12, 4);
		return sizeof(a->in);
	}
	a->in6.sin6_family = AF_INET6;
	a->in6.sin6_port = htons(port);
	memcpy(&a->in6.sin6_addr, gid, 16);
	a->in6.sin6_scope_id = scope; /* the kernel ignores it unless the address is link-local */
	return sizeof(a->in6);
}

static void
found_put(uint8_t found[16], const union any_addr *a)
{
	memset(found, 0, 16);
	if (a->sa.sa_family == AF_INET6) {
		memcpy(found, &a->in6.sin6_addr, 16);
		return;
	}
	found[10] = found[11] = 0xff;
	memcpy(found + 12, &a->in.sin_addr, 4);
}

static int
look(int fd, const uint8_t src[16], const uint8_t dst[16], uint32_t scope, uint8_t tos,
     uint8_t found[16], uint32_t *mtu)
{
	static const uint8_t any[16];
	bool v4 = net_gid_is_v4(dst);
	int class = tos, size = 0;
	socklen_t len, size_len = sizeof(size);
	union any_addr a;

	(void)setsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS, &class,
			 sizeof(class));
	len = addr_put(&a, src, v4, scope, 0);
	if (memcmp(src, any, 16) != 0 && bind(fd, &a.sa, len) < 0)
		return -errno;
	len = addr_put(&a, dst, v4, scope, WIRE_UDP_PORT);
	if (connect(fd, &a.sa, len) < 0)
		return -errno;
	if (getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &size,
		       &size_len) < 0)
		return -errno;
	len = sizeof(a);
	if (getsockname(fd, &a.sa, &len) < 0)
		return -errno;
	found_put(found, &a);
	*mtu = (uint32_t)size;
	return 0;
}

int
ucma_host_route(const uint8_t src[16], const uint8_t dst[16], uint32_t scope, uint8_t tos,
		uint8_t found[16], uint32_t *mtu)
{
	int fd = socket(net_gid_is_v4(dst) ? AF_INET : AF_INET6,
			SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc;

	if (fd < 0)
		return -errno;
	rc = look(fd, src, dst, scope, tos, found, mtu);
	close(fd);
	return rc;
}
