/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks the kernel for the route to a destination, over netlink. */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "port/host.h"

/* A request for the route to one destination. */
struct ask {
	struct nlmsghdr h;
	struct rtmsg r;
	uint8_t attrs[64];
};

static void
attr_add(struct ask *a, uint16_t type, const void *data, uint16_t len)
{
	struct rtattr *at = (struct rtattr *)((uint8_t *)a + NLMSG_ALIGN(a->h.nlmsg_len));

	at->rta_type = type;
	at->rta_len = (uint16_t)RTA_LENGTH(len);
	memcpy(RTA_DATA(at), data, len);
	a->h.nlmsg_len = NLMSG_ALIGN(a->h.nlmsg_len) + RTA_SPACE(len);
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

/* Sends the request and reads the answer. Returns 0 or -errno. */
static int
exchange(int fd, const struct ask *a, uint8_t hop[16])
{
	uint8_t answer[4096] __attribute__((aligned(8)));
	const struct nlmsghdr *h = (const struct nlmsghdr *)answer;
	ssize_t len;

	if (send(fd, a, a->h.nlmsg_len, 0) < 0)
		return -errno;
	len = recv(fd, answer, sizeof(answer), MSG_DONTWAIT); /* the kernel answers in send */
	if (len < 0)
		return -errno;
	if (!NLMSG_OK(h, (uint32_t)len))
		return -EPROTO;
	if (h->nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)NLMSG_DATA(h))->error;
	return h->nlmsg_type == RTM_NEWROUTE ? route_read(h, hop) : -EPROTO;
}

int
host_route(uint32_t ifindex, const uint8_t dgid[16], uint8_t hop[16])
{
	bool v4 = net_gid_is_v4(dgid);
	struct ask a = {
		.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(a.r)),
		      .nlmsg_type = RTM_GETROUTE,
		      .nlmsg_flags = NLM_F_REQUEST},
		.r = {.rtm_family = v4 ? AF_INET : AF_INET6, .rtm_dst_len = v4 ? 32 : 128},
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), rc;

	if (fd < 0)
		return -errno;
	attr_add(&a, RTA_DST, dgid + (v4 ? 12 : 0), v4 ? 4 : 16);
	attr_add(&a, RTA_OIF, &ifindex, sizeof(ifindex));
	memcpy(hop, dgid, 16);
	rc = exchange(fd, &a, hop);
	close(fd);
	return rc;
}
