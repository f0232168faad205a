/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "net/frame.h"
#include "net/net.h"

#define ADDR_TEXT_MAX 64

void
net_gid_from_v4(uint8_t gid[16], const uint8_t v4[4])
{
	memset(gid, 0, 10);
	gid[10] = 0xff;
	gid[11] = 0xff;
	memcpy(gid + 12, v4, 4);
}

bool
net_gid_is_mcast(const uint8_t gid[16])
{
	if (net_gid_is_v4(gid))
		return (gid[12] & 0xf0) == 0xe0;
	return gid[0] == 0xff;
}

void
net_mcast_mac(const uint8_t gid[16], uint8_t mac[6])
{
	if (net_gid_is_v4(gid)) {
		memcpy(mac, (const uint8_t[]){0x01, 0x00, 0x5e}, 3);
		mac[3] = gid[13] & 0x7f;
		memcpy(mac + 4, gid + 14, 2);
	} else {
		memcpy(mac, (const uint8_t[]){0x33, 0x33}, 2);
		memcpy(mac + 2, gid + 12, 4);
	}
}

bool
net_mac_is_station(const uint8_t mac[6])
{
	static const uint8_t zero[6];

	return (mac[0] & 1) == 0 && memcmp(mac, zero, 6) != 0;
}

void
net_dev_init(struct net_dev *d, const uint8_t mac[6])
{
	struct net_addr *ll = &d->gid[0];

	memset(d, 0, sizeof(*d));
	memcpy(d->mac, mac, 6);

	/* fe80::/64 and the modified EUI-64 of the MAC (RFC 4291, appendix A) */
	ll->gid[0] = 0xfe;
	ll->gid[1] = 0x80;
	memcpy(ll->gid + 8, mac, 3);
	ll->gid[8] ^= 2;
	ll->gid[11] = 0xff;
	ll->gid[12] = 0xfe;
	memcpy(ll->gid + 13, mac + 3, 3);
	ll->plen = 64;
	ll->used = true;
}

void
net_host_init(struct net_dev *d, const uint8_t mac[6], uint16_t sport)
{
	memset(d, 0, sizeof(*d));
	memcpy(d->mac, mac, 6);
	d->host = true;
	d->host_sport = sport;
}

static bool
is_link_local(const uint8_t gid[16])
{
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/* Empties a slot. Its address may return to it. */
static void
slot_clear(struct net_dev *d, int i)
{
	memcpy(d->past[i], d->gid[i].gid, 16);
	memset(&d->gid[i], 0, sizeof(d->gid[i]));
}

/*
 * Returns a free slot for a, or -ENOSPC: the one that a had before, also if that is held, because
 * it is held for this address; else the first one that is not held.
 */
static int
free_slot(const struct net_dev *d, const struct net_addr *a)
{
	int first = is_link_local(a->gid) ? 0 : a->v4 ? 1 : 2;

	if (first == 0 && !d->gid[0].used && !(d->held & 1))
		return 0;
	for (int i = first; i < UROCE_MAX_GIDS; i++) {
		if (!d->gid[i].used && memcmp(d->past[i], a->gid, 16) == 0)
			return i;
	}
	for (int i = first; i < UROCE_MAX_GIDS; i++) {
		/* slot 1 is reserved for IPv4 */
		if (d->gid[i].used || (d->held >> i & 1) || (i == 1 && !a->v4))
			continue;
		return i;
	}
	return -ENOSPC;
}

/* Returns true if addr[0 .. n) contains the address of the slot. */
static bool
slot_stays(const struct net_addr *slot, const struct net_addr *addr, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (memcmp(slot->gid, addr[i].gid, 16) == 0)
			return true;
	}
	return false;
}

/* Returns true if slot 0 has a copy of another slot's address. */
static bool
first_is_copy(const struct net_dev *d)
{
	return d->gid[0].used && !is_link_local(d->gid[0].gid);
}

static bool
has_link_local(const struct net_addr *addr, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (is_link_local(addr[i].gid))
			return true;
	}
	return false;
}

/*
 * Fills slot 0 if there is no link-local address, because programs that do not choose an index use
 * index 0.
 */
static void
copy_to_first(struct net_dev *d, uint64_t *added)
{
	const struct net_addr *from = NULL;

	if (first_is_copy(d)) /* the prefix may have changed */
		d->gid[0] = d->gid[net_gid_find(d, d->gid[0].gid)];
	if (d->gid[0].used || (d->held & 1))
		return;
	for (int i = 1; i < UROCE_MAX_GIDS; i++) {
		if (d->gid[i].used && (from == NULL || (d->gid[i].v4 && !from->v4)))
			from = &d->gid[i];
	}
	if (from == NULL)
		return;
	d->gid[0] = *from;
	*added |= 1;
}

void
net_host_addrs_set(struct net_dev *d, const struct net_addr *addr, uint32_t n, uint64_t *added,
		   uint64_t *gone)
{
	*added = *gone = 0;
	for (int i = 0; i < UROCE_MAX_GIDS; i++) {
		bool makes_way =
			i == 0 && first_is_copy(d) && (d->held & 1) == 0 && has_link_local(addr, n);

		if (!d->gid[i].used || (slot_stays(&d->gid[i], addr, n) && !makes_way))
			continue;
		slot_clear(d, i);
		*gone |= 1ull << i;
	}
	for (uint32_t k = 0; k < n; k++) {
		int i = net_gid_find(d, addr[k].gid);

		if (i < 0)
			i = free_slot(d, &addr[k]);
		if (i < 0)
			continue;
		if (!d->gid[i].used)
			*added |= 1ull << i;
		d->gid[i] = addr[k];
		d->gid[i].used = true;
	}
	copy_to_first(d, added);
}

/* Parses a numeric address into a GID. Returns 0 or -EINVAL. */
static int
parse_ip(const char *text, uint8_t gid[16])
{
	uint8_t v4[4];

	if (inet_pton(AF_INET, text, v4) == 1) {
		net_gid_from_v4(gid, v4);
		return 0;
	}
	/* Accept an IPv4 address only in dotted form, not as ::ffff:a.b.c.d. */
	if (inet_pton(AF_INET6, text, gid) == 1 && !net_gid_is_v4(gid))
		return 0;
	return -EINVAL;
}

bool
net_addr_covers(const struct net_addr *a, const uint8_t ip[16])
{
	return a->used && a->v4 == net_gid_is_v4(ip) &&
	       net_gid_same_prefix(a->gid, ip, a->v4 ? 96u + a->plen : a->plen);
}

/* Returns true if a host may have this address: unicast, and not the subnet's first or last. */
static bool
is_host_address(const struct net_addr *a)
{
	static const uint8_t unspecified[16], loopback6[16] = {[15] = 1};
	uint32_t v4, hostmask;

	if (net_gid_is_mcast(a->gid))
		return false;
	if (!a->v4)
		return memcmp(a->gid, unspecified, 16) != 0 && memcmp(a->gid, loopback6, 16) != 0;
	memcpy(&v4, a->gid + 12, 4);
	v4 = ntohl(v4);
	if (v4 >> 24 == 0 || v4 >> 24 == 127 || v4 >> 28 == 15)
		return false;
	hostmask = a->plen == 0 ? UINT32_MAX : (1u << (32 - a->plen)) - 1;
	return a->plen >= 31 || ((v4 & hostmask) != 0 && (v4 & hostmask) != hostmask);
}

static int
parse_addr(const char *text, struct net_addr *a)
{
	char ip[ADDR_TEXT_MAX];
	const char *slash = strchr(text, '/');
	unsigned long plen;
	char *end;
	int rc;

	if (slash == NULL || (size_t)(slash - text) >= sizeof(ip) || slash[1] < '0' ||
	    slash[1] > '9')
		return -EINVAL;
	memcpy(ip, text, (size_t)(slash - text));
	ip[slash - text] = '\0';
	plen = strtoul(slash + 1, &end, 10);
	rc = parse_ip(ip, a->gid);
	if (rc != 0)
		return rc;
	a->v4 = net_gid_is_v4(a->gid);
	if (*end != '\0' || plen == 0 || plen > (a->v4 ? 32 : 128))
		return -EINVAL;
	a->plen = (uint8_t)plen;
	a->used = true;
	return is_host_address(a) ? 0 : -EINVAL;
}

int
net_addr_add(struct net_dev *d, const char *text)
{
	struct net_addr a = {0};
	int rc = parse_addr(text, &a);

	if (rc != 0)
		return rc;
	if (net_gid_find(d, a.gid) >= 0)
		return -EEXIST;
	if (memcmp(a.gid, a.v4 ? d->gw4 : d->gw6, 16) == 0)
		return -EADDRINUSE;
	rc = free_slot(d, &a);
	if (rc >= 0)
		d->gid[rc] = a;
	return rc;
}

/* Removes a gateway that is no longer on-link. */
static void
drop_lost_gateway(const struct net_dev *d, uint8_t gw[16])
{
	if (!net_on_link(d, gw))
		memset(gw, 0, 16);
}

int
net_addr_del(struct net_dev *d, const char *text)
{
	const char *slash = strchr(text, '/');
	size_t len = slash != NULL ? (size_t)(slash - text) : strlen(text);
	char ip[ADDR_TEXT_MAX];
	struct net_addr a = {0};
	uint8_t gid[16];
	int i;

	if (len >= sizeof(ip) || (slash != NULL && parse_addr(text, &a) != 0))
		return -EINVAL;
	memcpy(ip, text, len);
	ip[len] = '\0';
	if (parse_ip(ip, gid) != 0)
		return -EINVAL;
	i = net_gid_find(d, gid);
	if (i == 0)
		return -EPERM;
	if (i < 0 || (slash != NULL && a.plen != d->gid[i].plen))
		return -ENOENT;
	slot_clear(d, i);
	drop_lost_gateway(d, d->gw4);
	drop_lost_gateway(d, d->gw6);
	return i;
}

int
net_gateway_set(struct net_dev *d, const char *text)
{
	uint8_t gid[16];
	int rc = parse_ip(text, gid);

	if (rc != 0 || net_gid_is_mcast(gid) || net_gid_find(d, gid) >= 0)
		return -EINVAL;
	if (!net_on_link(d, gid))
		return -ENETUNREACH;
	memcpy(net_gid_is_v4(gid) ? d->gw4 : d->gw6, gid, 16);
	return 0;
}

int
net_gid_find(const struct net_dev *d, const uint8_t gid[16])
{
	for (int k = 1; k <= UROCE_MAX_GIDS; k++) {
		int i = k % UROCE_MAX_GIDS; /* slot 0 last: it may be a copy */

		if (d->gid[i].used && memcmp(d->gid[i].gid, gid, 16) == 0)
			return i;
	}
	return -ENOENT;
}

int
net_gid_to_text(const uint8_t gid[16], char *out, uint32_t room)
{
	const char *text = net_gid_is_v4(gid) ? inet_ntop(AF_INET, gid + 12, out, room)
					      : inet_ntop(AF_INET6, gid, out, room);

	return text == NULL ? -ENOSPC : (int)strlen(text);
}

bool
net_on_link(const struct net_dev *d, const uint8_t ip[16])
{
	/* GID 0 has the prefix fe80::/64. */
	for (uint32_t i = 0; i < UROCE_MAX_GIDS; i++) {
		if (net_addr_covers(&d->gid[i], ip))
			return true;
	}
	return false;
}

const uint8_t *
net_source_for(const struct net_dev *d, const uint8_t ip[16])
{
	const struct net_addr *any = NULL;

	for (uint32_t i = 0; i < UROCE_MAX_GIDS; i++) {
		const struct net_addr *a = &d->gid[i];

		if (net_addr_covers(a, ip))
			return a->gid;
		if (any == NULL && a->used && a->v4 == net_gid_is_v4(ip))
			any = a;
	}
	return any == NULL ? NULL : any->gid;
}
