/* SPDX-License-Identifier: BSD-3-Clause */
/* Which sources of a datagram are legal. A client responds to these; connected QPs know theirs. */
#include <stddef.h>
#include <string.h>
#include <rte_branch_prediction.h>
#include "engine/rx.h"

enum source { SOURCE_STATION, SOURCE_LOOPBACK, SOURCE_NO_STATION };

/* RFC 1122 3.2.1.3. */
static enum source
source_v4(const uint8_t ip[4])
{
	if (unlikely(ip[0] == 127))
		return SOURCE_LOOPBACK;
	return ip[0] != 0 && ip[0] < 224 ? SOURCE_STATION : SOURCE_NO_STATION;
}

/* RFC 4291 2.5.2, 2.5.3, 2.7. */
static enum source
source_v6(const uint8_t ip[16])
{
	static const uint8_t none[15];

	if (unlikely(memcmp(ip, none, sizeof(none)) == 0 && ip[15] <= 1))
		return ip[15] == 1 ? SOURCE_LOOPBACK : SOURCE_NO_STATION;
	return ip[0] != 0xff ? SOURCE_STATION : SOURCE_NO_STATION;
}

/* Is one of the device's addresses a loopback address? a: NULL if they are unknown. */
static __rte_noinline bool
device_is_loopback(const struct engine_addrs *a)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	uint32_t i, n = a == NULL ? 0 : a->ngids;

	for (i = 0; i < n; i++) {
		const uint8_t *gid = a->gid[i];
		bool v4 = memcmp(gid, mapped, sizeof(mapped)) == 0;

		if ((v4 ? source_v4(gid + 12) : source_v6(gid)) == SOURCE_LOOPBACK)
			return true;
	}
	return false;
}

bool
rx_source_is_station(const struct engine_addrs *a, const struct wire_pkt *pkt)
{
	enum source source = pkt->is_v6 ? source_v6(pkt->ip + offsetof(struct wire_ipv6, src))
					: source_v4(pkt->ip + offsetof(struct wire_ipv4, src));

	if (likely(source == SOURCE_STATION))
		return true;
	return source == SOURCE_LOOPBACK && device_is_loopback(a);
}
