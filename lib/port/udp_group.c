/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast groups of a port udp. The first socket joins them: the kernel gives a datagram to a
 * group to every socket that has joined it.
 */
#include <errno.h>
#include <string.h>
#include "net/net.h"
#include "port/udp.h"

/* Joins or leaves a group. Returns 0 or -errno. */
static int
group_change(const struct port_udp *u, const uint8_t gid[16], bool join)
{
	struct ip_mreqn v4 = {.imr_ifindex = (int)u->ifindex};
	struct ipv6_mreq v6 = {.ipv6mr_interface = u->ifindex};
	int rc;

	if (net_gid_is_v4(gid)) {
		memcpy(&v4.imr_multiaddr, gid + 12, 4);
		rc = setsockopt(u->fd, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP,
				&v4, sizeof(v4));
	} else {
		memcpy(&v6.ipv6mr_multiaddr, gid, 16);
		rc = setsockopt(u->fd, IPPROTO_IPV6, join ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &v6,
				sizeof(v6));
	}
	return rc == 0 ? 0 : -errno;
}

bool
port_takes_groups(const struct port *p)
{
	return p->kind != PORT_UDP || p->udp->any;
}

int
port_group_join(const struct port *p, const uint8_t gid[16])
{
	if (p->kind != PORT_UDP)
		return 0;
	return p->udp->any ? group_change(p->udp, gid, true) : -EOPNOTSUPP;
}

void
port_group_leave(const struct port *p, const uint8_t gid[16])
{
	if (p->kind == PORT_UDP)
		(void)group_change(p->udp, gid, false);
}
