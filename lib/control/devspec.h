/* SPDX-License-Identifier: BSD-3-Clause */
/* Parser of --dev, one verbs device: key=value pairs joined by commas. Needs no EAL. */
#ifndef CONTROL_DEVSPEC_H
#define CONTROL_DEVSPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uroce_abi/ctrl.h>
#include "cc/cc.h"
#include "engine/engine.h"

#define DEVSPEC_MAX_ADDRS (UROCE_MAX_GIDS - 2)

/* Selective repeat with peers that agree to it. */
enum devspec_sr {
	DEVSPEC_SR_AUTO, /* unless the device has probe=off */
	DEVSPEC_SR_OFF,
	DEVSPEC_SR_ON, /* excludes probe=off */
};

struct devspec {
	char name[UROCE_DEV_NAME_MAX];
	char port[64];
	char addr[DEVSPEC_MAX_ADDRS][64]; /* "10.9.0.1/24": checked */
	bool bare_addr;                   /* at least one has no prefix length */
	uint32_t naddrs;
	char gateway[2][64]; /* checked when the device is created: must be on-link */
	uint32_t ngateways;
	uint16_t pkey[UROCE_MAX_PKEYS]; /* entries of the P_Key table from 0 on */
	uint32_t npkeys;                /* 0: only the default key */
	uint8_t mac[6];
	bool has_mac;
	uint16_t mtu;  /* largest path MTU: 256 .. 4096; 0: the port's maximum */
	uint16_t vlan; /* 0: none */
	bool hairpin;  /* frames to its own addresses leave by the port */
	/*
	 * port=udp: a kernel socket on addr[0], which needs no prefix length, or on all addresses
	 * of iface. Exactly one of these two is set.
	 */
	bool udp;
	bool packet; /* port=packet: a packet socket on iface */
	bool share;  /* port=packet or net_af_xdp: with the interface's MAC and addresses */
	char iface[16];
	struct engine_peers peers; /* the only hosts whose packets it accepts; n 0: all */
	bool strict;               /* port=udp: accept only packets whose ICRC is exact */
	enum devspec_sr sr;
	bool probe_off;      /* QPs retransmit only as the specification says; not with sr=on */
	struct cc_param cc;  /* congestion policy of its QPs, filled (cc/param.h) */
	uint32_t cnp_us;     /* shortest interval between two CNPs of a QP; 0: send none */
	uint8_t cnp_dscp;    /* of CNPs: 0 .. 63 */
	const char *cc_text; /* while the text is parsed; else NULL */
	char hostif[16];     /* name of the device's kernel interface (lib/hostif), or "" */
};

/*
 * Parses a P_Key in hexadecimal (0x8001) or decimal: 15 bits of partition, not all zero, and bit 15
 * for a full member. Returns 0 if it is invalid.
 */
uint16_t devspec_pkey(const char *text);

/* Returns 0, or -EINVAL with the error and the legal values in err (room bytes). */
int devspec_parse(struct devspec *spec, const char *text, char *err, size_t room);

#endif
