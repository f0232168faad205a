/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TEST_NET_SUITE_H
#define TEST_NET_SUITE_H

#include <string.h>
#include <arpa/inet.h>
#include "net/net.h"
#include "../../kit/unit.h"

/* The device of every test: 02:..:01, fe80::ff:fe00:1, 10.0.0.1/24, fd00::1/64. */
static const uint8_t our_mac[6] = {2, 0, 0, 0, 0, 1};
static const uint8_t peer_mac[6] = {2, 0, 0, 0, 0, 2};

static inline void
make_dev(struct net_dev *d)
{
	net_dev_init(d, our_mac);
	assert_int_equal(net_addr_add(d, "10.0.0.1/24"), 1);
	assert_int_equal(net_addr_add(d, "fd00::1/64"), 2);
}

/* "10.0.0.2" or "fd00::2" as a GID. */
static inline const uint8_t *
gid_of(const char *text, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (inet_pton(AF_INET, text, gid + 12) == 1)
		gid[10] = gid[11] = 0xff;
	else
		assert_int_equal(inet_pton(AF_INET6, text, gid), 1);
	return gid;
}

#endif
