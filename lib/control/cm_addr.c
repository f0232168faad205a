/* SPDX-License-Identifier: BSD-3-Clause */
/* Socket addresses of programs. Their bytes come from clients: each is copied, then checked. */
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include "control/cm_parts.h"

/* The kernel's struct sockaddr_ib, which no header declares separately. */
struct sockaddr_of_ib {
	uint16_t family;
	uint16_t pkey; /* this and the following fields: network order */
	uint32_t flowinfo;
	uint8_t addr[16];
	uint64_t sid, sid_mask;
	uint64_t scope_id;
};
_Static_assert(sizeof(struct sockaddr_of_ib) == 48, "length of a sockaddr_ib");

#define SID_PORT_MASK 0xffffu

uint32_t
ucma_addr_len(uint16_t family)
{
	switch (family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	case AF_IB:
		return sizeof(struct sockaddr_of_ib);
	default:
		return 0;
	}
}

static void
from_v4(struct cma_addr *to, const void *sockaddr)
{
	struct sockaddr_in in;

	memcpy(&in, sockaddr, sizeof(in));
	to->family = CMA_IPV4;
	to->port = ntohs(in.sin_port);
	if (in.sin_addr.s_addr == INADDR_ANY)
		return;
	to->gid[10] = to->gid[11] = 0xff;
	memcpy(to->gid + 12, &in.sin_addr, 4);
}

static void
from_v6(struct cma_addr *to, const void *sockaddr)
{
	struct sockaddr_in6 in;

	memcpy(&in, sockaddr, sizeof(in));
	to->family = CMA_IPV6;
	to->port = ntohs(in.sin6_port);
	memcpy(to->gid, &in.sin6_addr, 16);
	if (ucma_gid_needs_scope(to->gid))
		to->scope = in.sin6_scope_id;
}

static int
from_ib(struct cma_addr *to, const void *sockaddr)
{
	struct sockaddr_of_ib ib;
	uint64_t sid;

	memcpy(&ib, sockaddr, sizeof(ib));
	sid = be64toh(ib.sid) & be64toh(ib.sid_mask);
	to->family = CMA_IB;
	to->port = (uint16_t)(sid & SID_PORT_MASK);
	to->space = (uint16_t)(sid >> 16);
	memcpy(to->gid, ib.addr, 16);
	if (sid >> 32 != 0 || (to->space != 0 && to->space != WIRE_CM_PS_TCP &&
			       to->space != WIRE_CM_PS_UDP && to->space != WIRE_CM_PS_IB))
		return -EPROTONOSUPPORT;
	return 0;
}

int
ucma_addr_get(struct cma_addr *to, const void *sockaddr, uint32_t len)
{
	uint16_t family;

	memcpy(&family, sockaddr, sizeof(family));
	memset(to, 0, sizeof(*to));
	if (len == 0 || len != ucma_addr_len(family))
		return -EINVAL;
	if (family == AF_IB)
		return from_ib(to, sockaddr);
	if (family == AF_INET)
		from_v4(to, sockaddr);
	else
		from_v6(to, sockaddr);
	return 0;
}

bool
ucma_gid_needs_scope(const uint8_t gid[16])
{
	if (gid[0] == 0xff)
		return (gid[1] & 15) == 1 || (gid[1] & 15) == 2;
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

bool
ucma_gid_is_loopback(const uint8_t gid[16])
{
	static const uint8_t v6[16] = {[15] = 1};

	return memcmp(gid, v6, 16) == 0 || (net_gid_is_v4(gid) && gid[12] == IN_LOOPBACKNET);
}

void
ucma_addr_local(struct cma_addr *a)
{
	if (ucma_gid_is_loopback(a->gid))
		memset(a->gid, 0, 16);
}

void
ucma_addr_remote(struct cma_addr *a)
{
	static const uint8_t zero[16];
	static const uint8_t v4[16] = {[10] = 0xff, 0xff, IN_LOOPBACKNET, 0, 0, 1};

	if (memcmp(a->gid, zero, 16) != 0)
		return;
	if (a->family == CMA_IPV4)
		memcpy(a->gid, v4, 16);
	else
		a->gid[15] = 1;
}

uint32_t
ucma_gid_put(const uint8_t gid[16], uint16_t space, uint16_t port, void *sockaddr)
{
	struct sockaddr_of_ib ib = {
		.family = AF_IB,
		.pkey = htons(WIRE_PKEY_DEFAULT),
		.sid = htobe64((uint64_t)space << 16 | port),
		.sid_mask = UINT64_MAX,
	};

	memcpy(ib.addr, gid, 16);
	memcpy(sockaddr, &ib, sizeof(ib));
	return sizeof(ib);
}

uint32_t
ucma_addr_put(const struct cma_addr *from, uint16_t space, void *sockaddr)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(from->port)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(from->port)};

	switch (from->family) {
	case CMA_IPV4:
		memcpy(&in.sin_addr, from->gid + 12, 4);
		memcpy(sockaddr, &in, sizeof(in));
		return sizeof(in);
	case CMA_IPV6:
		memcpy(&in6.sin6_addr, from->gid, 16);
		in6.sin6_scope_id = from->scope;
		memcpy(sockaddr, &in6, sizeof(in6));
		return sizeof(in6);
	case CMA_IB:
		return ucma_gid_put(from->gid, from->space != 0 ? from->space : space, from->port,
				    sockaddr);
	default:
		return 0;
	}
}
