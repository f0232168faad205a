/* SPDX-License-Identifier: BSD-3-Clause */
/* What --dev says about one verbs device: key=value pairs joined by commas. Needs no EAL. */
#ifndef UROCED_DEVSPEC_H
#define UROCED_DEVSPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uroce_abi/ctrl.h>

#define DEVSPEC_MAX_ADDRS (UROCE_MAX_GIDS - 2)

struct devspec {
	char name[UROCE_DEV_NAME_MAX];
	char port[64];
	char addr[DEVSPEC_MAX_ADDRS][64]; /* "10.9.0.1/24": checked */
	uint32_t naddrs;
	char gateway[2][64]; /* checked when the device is made: it must be on-link */
	uint32_t ngateways;
	uint8_t mac[6];
	bool has_mac;
	uint16_t mtu;  /* largest path MTU: 256 .. 4096; 0: what the port carries */
	uint16_t vlan; /* 0: none */
};

/* 0, or -EINVAL with what is wrong and what is legal in err (room bytes). */
int devspec_parse(struct devspec *spec, const char *text, char *err, size_t room);

#endif
