/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/devspec.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cc/param.h"
#include "cli/cli.h"

#define CNP_US   50
#define CNP_DSCP 48

/* Copies a name of letters, digits and _-.: if it fits room bytes. */
static bool
copy_name(char *to, size_t room, const char *value)
{
	static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_-.:";
	size_t len = strlen(value);

	if (len == 0 || len >= room || strspn(value, legal) != len)
		return false;
	memcpy(to, value, len + 1);
	return true;
}

static bool
take_name(void *spec, const char *value)
{
	struct devspec *s = spec;

	return strncmp(value, "uroce", 5) == 0 && copy_name(s->name, sizeof(s->name), value);
}

static bool
take_port(void *spec, const char *value)
{
	struct devspec *s = spec;

	s->udp = strcmp(value, "udp") == 0;
	s->packet = strcmp(value, "packet") == 0;
	return copy_name(s->port, sizeof(s->port), value);
}

static bool
take_addr(void *spec, const char *value)
{
	struct devspec *s = spec;
	char ip[64];
	uint8_t bin[16];
	const char *slash = strchr(value, '/');
	uint64_t bits;

	if (strlen(value) >= sizeof(ip) || s->naddrs == DEVSPEC_MAX_ADDRS)
		return false;
	if (slash == NULL) {
		s->bare_addr = true;
		strcpy(s->addr[s->naddrs++], value);
		return inet_pton(AF_INET, value, bin) == 1 || inet_pton(AF_INET6, value, bin) == 1;
	}
	memcpy(ip, value, (size_t)(slash - value));
	ip[slash - value] = '\0';
	if (!(inet_pton(AF_INET, ip, bin) == 1 && cli_number(slash + 1, 0, 32, &bits)) &&
	    !(inet_pton(AF_INET6, ip, bin) == 1 && cli_number(slash + 1, 0, 128, &bits)))
		return false;
	strcpy(s->addr[s->naddrs++], value);
	return true;
}

/* As take_addr, but the rest of the address must be zero: a typing error would refuse peers. */
static bool
take_peer(void *spec, const char *value)
{
	struct engine_peers *p = &((struct devspec *)spec)->peers;
	const char *slash = strchr(value, '/');
	uint8_t gid[16] = {[10] = 0xff, [11] = 0xff};
	uint64_t bits, most = 32;
	char ip[64];

	if (strlen(value) >= sizeof(ip) || p->n == ENGINE_PEERS)
		return false;
	strcpy(ip, value);
	if (slash != NULL)
		ip[slash - value] = '\0';
	if (inet_pton(AF_INET, ip, gid + 12) != 1) {
		if (inet_pton(AF_INET6, ip, gid) != 1)
			return false;
		most = 128;
	}
	bits = most;
	if (slash != NULL && !cli_number(slash + 1, 0, most, &bits))
		return false;
	bits += 128 - most;
	for (uint64_t i = bits; i < 128; i++)
		if (gid[i / 8] & 0x80u >> i % 8)
			return false;
	memcpy(p->of[p->n].gid, gid, sizeof(gid));
	p->of[p->n++].bits = (uint8_t)bits;
	return true;
}

static bool
take_gateway(void *spec, const char *value)
{
	struct devspec *s = spec;
	uint8_t bin[16];

	if (s->ngateways == 2 || strlen(value) >= sizeof(s->gateway[0]) ||
	    (inet_pton(AF_INET, value, bin) != 1 && inet_pton(AF_INET6, value, bin) != 1))
		return false;
	strcpy(s->gateway[s->ngateways++], value);
	return true;
}

static bool
take_mac(void *mac, const char *value)
{
	static const char legal[] = "0123456789abcdefABCDEF:"; /* scanf takes signs and blanks */
	unsigned b[6];
	int used = 0;

	if (strspn(value, legal) != strlen(value) ||
	    sscanf(value, "%2x:%2x:%2x:%2x:%2x:%2x%n", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5],
		   &used) != 6 ||
	    value[used] != '\0' || used != 17)
		return false;
	for (int i = 0; i < 6; i++)
		((uint8_t *)mac)[i] = (uint8_t)b[i];
	return (b[0] & 1) == 0 && (b[0] | b[1] | b[2] | b[3] | b[4] | b[5]) != 0;
}

uint16_t
devspec_pkey(const char *text)
{
	uint64_t n;

	return cli_number(text, 1, 0xffff, &n) && (n & 0x7fff) != 0 ? (uint16_t)n : 0;
}

static bool
take_pkey(void *spec, const char *value)
{
	struct devspec *s = spec;
	uint16_t pkey = devspec_pkey(value);

	if (pkey == 0 || s->npkeys == UROCE_MAX_PKEYS)
		return false;
	s->pkey[s->npkeys++] = pkey;
	return true;
}

static bool
take_iface(void *spec, const char *value)
{
	struct devspec *s = spec;

	/* eth0:1 is the label of an address */
	return copy_name(s->iface, sizeof(s->iface), value) && strchr(value, ':') == NULL;
}

static bool
take_hostif(void *spec, const char *value)
{
	struct devspec *s = spec;

	/* names that the kernel would refuse */
	return copy_name(s->hostif, sizeof(s->hostif), value) && strchr(value, ':') == NULL &&
	       strcmp(value, ".") != 0 && strcmp(value, "..") != 0;
}

/* A congestion policy with its parameters. Checks only. */
static int
check_cc(const char *value, char *err, size_t room)
{
	struct cc_param p;

	return cc_param_parse(&p, value, err, room) && cc_param_fill(&p, 0, err, room) ? 0
										       : -EINVAL;
}

static const char legal_addr[] =
	"an address with prefix length like 10.9.0.1/24 or fd00::1/64, at most 62";
static const char *const loopback_names[] = {"inside", "wire", NULL};
static const char *const no_or_yes[] = {"no", "yes", NULL};
static const char *const sr_names[] = {"auto", "off", "on", NULL}; /* enum devspec_sr */
static const char *const on_or_off[] = {"on", "off", NULL};

/* A key whose parser gets the whole struct. */
#define WHOLE(key, taker, text)  .name = key, .type = CLI_OTHER, .take = taker, .legal = text
#define MEMBER(key, field, kind) .name = key, .type = kind, CLI_AT(struct devspec, field)

static const struct cli_field keys[] = {
	{WHOLE("name", take_name, "a name that starts with uroce, at most 31 characters")},
	{WHOLE("port", take_port, "the name of a DPDK port, udp or packet")},
	{WHOLE("addr", take_addr, legal_addr), .many = true},
	{WHOLE("gateway", take_gateway, "an IPv4 or IPv6 address, one of each"), .many = true},
	{MEMBER("mac", mac, CLI_OTHER), .take = take_mac,
	 .legal = "a unicast MAC like 02:00:00:00:00:01",
	 .given = offsetof(struct devspec, has_mac)},
	{MEMBER("mtu", mtu, CLI_POWER2), .min = 256, .max = 4096},
	{MEMBER("vlan", vlan, CLI_NUMBER), .min = 1, .max = 4094},
	{WHOLE("pkey", take_pkey, "a P_Key from 0x0001 to 0xffff other than 0x8000, at most 16"),
	 .many = true},
	{WHOLE("peer", take_peer,
	       "an address, or a network like 10.9.0.0/24 or fd00::/64 without bits behind its "
	       "prefix, at most 32"),
	 .many = true},
	{MEMBER("loopback", hairpin, CLI_CHOICE), .names = loopback_names},
	{MEMBER("strict", strict, CLI_CHOICE), .names = no_or_yes},
	{WHOLE("iface", take_iface, "the name of an interface of the kernel")},
	{MEMBER("share", share, CLI_CHOICE), .names = no_or_yes},
	{MEMBER("sr", sr, CLI_CHOICE), .names = sr_names},
	{MEMBER("probe", probe_off, CLI_CHOICE), .names = on_or_off},
	{MEMBER("cc", cc_text, CLI_TEXT), .check = check_cc},
	{MEMBER("cnp", cnp_us, CLI_NUMBER), .min = 0, .max = 1000000},
	{MEMBER("cnp_dscp", cnp_dscp, CLI_NUMBER), .min = 0, .max = 63},
	{WHOLE("hostif", take_hostif,
	       "a name for a new interface of the kernel, at most 15 letters, digits and _-.")},
	{NULL},
};

/* Checks share=yes: addresses and all that belongs to them are the kernel's. */
static const char *
mismatch_share(const struct devspec *s)
{
	if (s->udp)
		return "share=yes is for port=packet and net_af_xdp; port=udp always shares";
	if (s->naddrs != 0 || s->ngateways != 0 || s->has_mac || s->vlan != 0 || s->hairpin)
		return "addr, gateway, mac, vlan and loopback=wire are not for share=yes: the "
		       "kernel has its own";
	return NULL;
}

/* Checks that the keys suit the kind of port. Returns NULL, or what is wrong. */
static const char *
mismatch(const struct devspec *s)
{
	if (!s->udp && s->strict)
		return "strict= is for port=udp only; other ports see every header";
	if (s->sr == DEVSPEC_SR_ON && s->probe_off)
		return "probe=off is not for sr=on; selective repeat needs probes";
	if (s->share && mismatch_share(s) != NULL)
		return mismatch_share(s);
	if (s->hostif[0] != '\0' && (s->udp || s->packet || s->share))
		return "hostif is for ports without a kernel interface; this port has one";
	if (s->packet)
		return s->iface[0] == '\0' ? "port=packet needs an interface, iface=eth0" : NULL;
	if (!s->udp)
		return s->iface[0] != '\0' ? "iface= is for port=udp and port=packet only; a DPDK "
					     "port has its interface in --vdev"
					   : NULL;
	if (s->naddrs + (s->iface[0] != '\0') != 1)
		return "port=udp needs an address of this host, addr=10.9.0.1, or an interface, "
		       "iface=eth0; one of them, once";
	if (s->ngateways != 0 || s->has_mac || s->vlan != 0 || s->hairpin)
		return "gateway, mac, vlan and loopback=wire are not for port=udp: the kernel has "
		       "its own";
	return NULL;
}

/* Checks the struct as a whole. Returns 0, or -EINVAL with the error in err. */
static int
check_whole(const struct devspec *s, const char *text, char *err, size_t room)
{
	const char *wrong = mismatch(s);

	if (s->name[0] == '\0' || s->port[0] == '\0') {
		snprintf(err, room, "'%.200s' needs %s=", text, s->name[0] ? "port" : "name");
		return -EINVAL;
	}
	if (wrong != NULL)
		snprintf(err, room, "'%.200s': %s", text, wrong);
	else if (s->bare_addr && !s->udp)
		snprintf(err, room, "'%.200s': addr is not %s", text, legal_addr);
	else
		return 0;
	return -EINVAL;
}

int
devspec_parse(struct devspec *spec, const char *text, char *err, size_t room)
{
	char *copy = strdup(text);
	uint64_t seen = 0;
	int rc;

	memset(spec, 0, sizeof(*spec));
	if (copy == NULL) {
		snprintf(err, room, "out of memory");
		return -EINVAL;
	}
	spec->cnp_us = CNP_US;
	spec->cnp_dscp = CNP_DSCP;
	rc = cli_pairs(keys, spec, copy, &seen, err, room);
	if (rc == 0 && spec->cc_text != NULL) {
		(void)cc_param_parse(&spec->cc, spec->cc_text, err, room);
		(void)cc_param_fill(&spec->cc, 0, err, room);
	}
	spec->cc_text = NULL;
	free(copy);
	return rc == 0 ? check_whole(spec, text, err, room) : rc;
}
