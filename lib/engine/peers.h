/* SPDX-License-Identifier: BSD-3-Clause */
/* The hosts that a device accepts RoCE packets from. Includes nothing of uroce. */
#ifndef ENGINE_PEERS_H
#define ENGINE_PEERS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ENGINE_PEERS 32u

struct engine_peers {
	uint32_t n; /* 0: every host */
	struct {
		uint8_t gid[16];
		uint8_t bits; /* the first ones of gid that a source's GID must have: 0 .. 128 */
	} of[ENGINE_PEERS];
};

/* Does the list have a prefix of gid? Any thread. Bounded by the list. */
static inline bool
engine_peers_have(const struct engine_peers *p, const uint8_t gid[16])
{
	for (uint32_t i = 0; i < p->n; i++) {
		unsigned whole = p->of[i].bits / 8, rest = p->of[i].bits % 8;
		uint8_t mask = (uint8_t)(0xff00u >> rest);

		if (memcmp(p->of[i].gid, gid, whole) == 0 &&
		    (rest == 0 || ((p->of[i].gid[whole] ^ gid[whole]) & mask) == 0))
			return true;
	}
	return false;
}

#endif
