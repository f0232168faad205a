/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/devspec.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copy a name of letters, digits and _-.: that fits the room. */
static bool
take_name(char *to, size_t room, const char *value)
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
key_name(struct devspec *s, const char *value)
{
	return strncmp(value, "uroce", 5) == 0 && take_name(s->name, sizeof(s->name), value);
}

static bool
key_port(struct devspec *s, const char *value)
{
	return take_name(s->port, sizeof(s->port), value);
}

static bool
is_number(const char *text, unsigned long min, unsigned long max)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	return *text >= '0' && *text <= '9' && *end == '\0' && n >= min && n <= max;
}

static bool
key_addr(struct devspec *s, const char *value)
{
	char ip[64];
	uint8_t bin[16];
	const char *slash = strchr(value, '/');

	if (slash == NULL || strlen(value) >= sizeof(ip) || s->naddrs == DEVSPEC_MAX_ADDRS)
		return false;
	memcpy(ip, value, (size_t)(slash - value));
	ip[slash - value] = '\0';
	if (!(inet_pton(AF_INET, ip, bin) == 1 && is_number(slash + 1, 0, 32)) &&
	    !(inet_pton(AF_INET6, ip, bin) == 1 && is_number(slash + 1, 0, 128)))
		return false;
	strcpy(s->addr[s->naddrs++], value);
	return true;
}

static bool
key_gateway(struct devspec *s, const char *value)
{
	uint8_t bin[16];

	if (s->ngateways == 2 || strlen(value) >= sizeof(s->gateway[0]) ||
	    (inet_pton(AF_INET, value, bin) != 1 && inet_pton(AF_INET6, value, bin) != 1))
		return false;
	strcpy(s->gateway[s->ngateways++], value);
	return true;
}

static bool
key_mac(struct devspec *s, const char *value)
{
	unsigned b[6];
	int used = 0;

	if (sscanf(value, "%2x:%2x:%2x:%2x:%2x:%2x%n", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5],
		   &used) != 6 ||
	    value[used] != '\0' || used != 17)
		return false;
	for (int i = 0; i < 6; i++)
		s->mac[i] = (uint8_t)b[i];
	s->has_mac = (b[0] & 1) == 0 && (b[0] | b[1] | b[2] | b[3] | b[4] | b[5]) != 0;
	return s->has_mac;
}

static bool
key_mtu(struct devspec *s, const char *value)
{
	if (!is_number(value, 256, 4096))
		return false;
	s->mtu = (uint16_t)strtoul(value, NULL, 10);
	return (s->mtu & (s->mtu - 1)) == 0;
}

static bool
key_vlan(struct devspec *s, const char *value)
{
	if (!is_number(value, 1, 4094))
		return false;
	s->vlan = (uint16_t)strtoul(value, NULL, 10);
	return true;
}

static bool
key_loopback(struct devspec *s, const char *value)
{
	s->hairpin = strcmp(value, "wire") == 0;
	return s->hairpin || strcmp(value, "inside") == 0;
}

uint16_t
devspec_pkey(const char *text)
{
	bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	const char *digits = hex ? text + 2 : text;
	size_t len = strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789");
	unsigned long n = strtoul(digits, NULL, hex ? 16 : 10);

	if (len == 0 || len > 5 || digits[len] != '\0' || n > 0xffff || (n & 0x7fff) == 0)
		return 0;
	return (uint16_t)n;
}

static bool
key_pkey(struct devspec *s, const char *value)
{
	uint16_t pkey = devspec_pkey(value);

	if (pkey == 0 || s->npkeys == UROCE_MAX_PKEYS)
		return false;
	s->pkey[s->npkeys++] = pkey;
	return true;
}

static const struct {
	const char *key;
	bool (*take)(struct devspec *s, const char *value);
	const char *legal;
} keys[] = {
	{"name", key_name, "a name that starts with uroce, at most 31 characters"},
	{"port", key_port, "the name of a DPDK port"},
	{"addr", key_addr,
	 "an address with prefix length like 10.9.0.1/24 or fd00::1/64, at most 62"},
	{"gateway", key_gateway, "an IPv4 or IPv6 address, one of each"},
	{"mac", key_mac, "a unicast MAC like 02:00:00:00:00:01"},
	{"mtu", key_mtu, "256, 512, 1024, 2048 or 4096"},
	{"vlan", key_vlan, "a number from 1 to 4094"},
	{"pkey", key_pkey, "a P_Key from 0x0001 to 0xffff other than 0x8000, at most 16"},
	{"loopback", key_loopback, "inside or wire"},
};
#define NKEYS (sizeof(keys) / sizeof(keys[0]))

static int
take_pair(struct devspec *s, char *pair, char *err, size_t room)
{
	char *value = strchr(pair, '=');

	if (value != NULL)
		*value++ = '\0';
	for (unsigned i = 0; i < NKEYS; i++) {
		if (strcmp(pair, keys[i].key) != 0)
			continue;
		if (value != NULL && keys[i].take(s, value))
			return 0;
		snprintf(err, room, "%s: '%.100s' is not %s", pair, value != NULL ? value : "",
			 keys[i].legal);
		return -EINVAL;
	}
	snprintf(err, room,
		 "unknown key '%.60s'; legal: name port addr gateway mac mtu vlan pkey loopback",
		 pair);
	return -EINVAL;
}

int
devspec_parse(struct devspec *spec, const char *text, char *err, size_t room)
{
	char *copy = strdup(text), *rest = copy, *pair;
	int rc = 0;

	memset(spec, 0, sizeof(*spec));
	while (rc == 0 && (pair = strsep(&rest, ",")) != NULL)
		rc = take_pair(spec, pair, err, room);
	free(copy);
	if (rc == 0 && (spec->name[0] == '\0' || spec->port[0] == '\0')) {
		snprintf(err, room, "'%.200s' needs %s=", text, spec->name[0] ? "port" : "name");
		rc = -EINVAL;
	}
	return rc;
}
