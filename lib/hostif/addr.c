/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "hostif/parts.h"

struct request {
	struct nlmsghdr head;
	struct ifaddrmsg addr;
	uint8_t attrs[64];
};

static void
put(struct request *q, uint16_t type, const void *bytes, uint16_t len)
{
	struct rtattr *a = (struct rtattr *)((uint8_t *)q + NLMSG_ALIGN(q->head.nlmsg_len));

	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(len);
	memcpy(RTA_DATA(a), bytes, len);
	q->head.nlmsg_len = NLMSG_ALIGN(q->head.nlmsg_len) + RTA_ALIGN(a->rta_len);
}

/* Sends q and reads the kernel's answer, which it gives before send returns. */
static int
call(const struct request *q)
{
	struct {
		struct nlmsghdr head;
		struct nlmsgerr err;
		uint8_t rest[512];
	} answer;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), rc = 0;
	ssize_t got;

	if (fd < 0)
		return -errno;
	if (send(fd, q, q->head.nlmsg_len, 0) < 0) {
		rc = -errno;
	} else {
		got = recv(fd, &answer, sizeof(answer), 0);
		if (got < 0)
			rc = -errno;
		else if ((size_t)got < NLMSG_LENGTH(sizeof(answer.err)) ||
			 answer.head.nlmsg_type != NLMSG_ERROR)
			rc = -EIO;
		else
			rc = answer.err.error;
	}
	close(fd);
	return rc;
}

static int
change(const struct hostif *h, const struct net_addr *a, uint16_t type, uint16_t flags)
{
	struct request q = {
		.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(q.addr)),
			 .nlmsg_type = type,
			 .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags)},
		.addr = {.ifa_family = a->v4 ? AF_INET : AF_INET6,
			 .ifa_prefixlen = a->plen,
			 .ifa_flags = IFA_F_NODAD,
			 .ifa_index = if_nametoindex(h->name)},
	};
	const uint8_t *ip = a->v4 ? a->gid + 12 : a->gid;

	/* the operator has moved it to another network namespace, or renamed it */
	if (q.addr.ifa_index == 0)
		return -ENODEV;
	put(&q, IFA_LOCAL, ip, a->v4 ? 4 : 16);
	put(&q, IFA_ADDRESS, ip, a->v4 ? 4 : 16);
	return call(&q);
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
