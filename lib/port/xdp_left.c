/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Removes the XDP program of a uroced that was killed. The driver attaches the program for good,
 * and the kernel refuses a second one.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "port/log.h"
#include "port/xdp.h"

#define OUR_PROGRAM "uroce_share" /* the function's name in xdp_share.bpf.c */

struct ask {
	struct nlmsghdr h;
	struct ifinfomsg i;
	uint8_t attrs[32];
};

/* Finds the attribute of this type in attributes of len bytes. */
static const struct rtattr *
attr_find(const struct rtattr *a, int len, uint16_t type)
{
	for (; RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if ((a->rta_type & NLA_TYPE_MASK) == type)
			return a;
	}
	return NULL;
}

/* Sends a request and receives the answer. Returns its bytes, or -errno. */
static ssize_t
exchange(int fd, const struct ask *a, void *answer, size_t room)
{
	ssize_t len;

	if (send(fd, a, a->h.nlmsg_len, 0) < 0)
		return -errno;
	len = recv(fd, answer, room, MSG_DONTWAIT); /* the kernel answers in send */
	return len < 0 ? -errno : len;
}

/* Returns the id of the interface's XDP program and its mode (XDP_ATTACHED_..); 0: none. */
static uint32_t
attached(int fd, uint32_t ifindex, uint8_t *mode)
{
	struct ask a = {
		.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(a.i)),
		      .nlmsg_type = RTM_GETLINK,
		      .nlmsg_flags = NLM_F_REQUEST},
		.i = {.ifi_family = AF_UNSPEC, .ifi_index = (int)ifindex},
	};
	uint8_t answer[16384] __attribute__((aligned(8)));
	const struct nlmsghdr *h = (const struct nlmsghdr *)answer;
	const struct rtattr *xdp, *id, *how;
	ssize_t len = exchange(fd, &a, answer, sizeof(answer));
	uint32_t number = 0;

	if (len < 0 || !NLMSG_OK(h, (uint32_t)len) || h->nlmsg_type != RTM_NEWLINK)
		return 0;
	xdp = attr_find(IFLA_RTA(NLMSG_DATA(h)), (int)IFLA_PAYLOAD(h), IFLA_XDP);
	if (xdp == NULL)
		return 0;
	id = attr_find(RTA_DATA(xdp), (int)RTA_PAYLOAD(xdp), IFLA_XDP_PROG_ID);
	how = attr_find(RTA_DATA(xdp), (int)RTA_PAYLOAD(xdp), IFLA_XDP_ATTACHED);
	if (id == NULL || how == NULL || RTA_PAYLOAD(id) < sizeof(number))
		return 0;
	memcpy(&number, RTA_DATA(id), sizeof(number));
	*mode = *(const uint8_t *)RTA_DATA(how);
	return number;
}

/* Returns true if the program with this id is uroced's. */
static bool
is_ours(uint32_t id)
{
	struct bpf_prog_info info = {0};
	union bpf_attr by_id = {.prog_id = id}, about = {0};
	int fd = (int)syscall(SYS_bpf, BPF_PROG_GET_FD_BY_ID, &by_id, sizeof(by_id));
	bool ours;

	if (fd < 0)
		return false;
	about.info.bpf_fd = (uint32_t)fd;
	about.info.info_len = sizeof(info);
	about.info.info = (uint64_t)(uintptr_t)&info;
	ours = syscall(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &about, sizeof(about)) == 0 &&
	       strncmp(info.name, OUR_PROGRAM, sizeof(info.name)) == 0;
	close(fd);
	return ours;
}

/* Detaches the interface's program. Returns 0 or -errno. */
static int
detach(int fd, uint32_t ifindex, uint8_t mode)
{
	struct {
		struct rtattr head, fd_head;
		int32_t fd;
		struct rtattr flags_head;
		uint32_t flags;
	} xdp = {
		.head = {.rta_len = sizeof(xdp), .rta_type = IFLA_XDP | NLA_F_NESTED},
		.fd_head = {.rta_len = RTA_LENGTH(4), .rta_type = IFLA_XDP_FD},
		.fd = -1,
		.flags_head = {.rta_len = RTA_LENGTH(4), .rta_type = IFLA_XDP_FLAGS},
		.flags = mode == XDP_ATTACHED_SKB ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE,
	};
	struct ask a = {
		.h = {.nlmsg_len = NLMSG_LENGTH(sizeof(a.i)) + sizeof(xdp),
		      .nlmsg_type = RTM_SETLINK,
		      .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
		.i = {.ifi_family = AF_UNSPEC, .ifi_index = (int)ifindex},
	};
	uint8_t answer[1024] __attribute__((aligned(8)));
	const struct nlmsghdr *h = (const struct nlmsghdr *)answer;
	ssize_t len;

	memcpy(a.attrs, &xdp, sizeof(xdp));
	len = exchange(fd, &a, answer, sizeof(answer));
	if (len < 0)
		return (int)len;
	if (!NLMSG_OK(h, (uint32_t)len) || h->nlmsg_type != NLMSG_ERROR)
		return -EPROTO;
	return ((const struct nlmsgerr *)NLMSG_DATA(h))->error;
}

void
port_xdp_remove_left(const struct port *p)
{
	uint32_t ifindex = if_nametoindex(p->netdev), id;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), rc;
	uint8_t mode;

	if (fd < 0)
		return;
	id = attached(fd, ifindex, &mode);
	if (id != 0 && is_ours(id)) {
		rc = detach(fd, ifindex, mode);
		PORT_LOG(NOTICE, p->name, "%s has the XDP program of a uroced that was killed: %s",
			 p->netdev, rc == 0 ? "removed" : strerror(-rc));
	}
	close(fd);
}
