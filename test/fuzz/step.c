/* SPDX-License-Identifier: BSD-3-Clause */
#include "step.h"
#include <string.h>

size_t
step_put(uint8_t *out, uint8_t op, uint8_t arg, const uint8_t *body, uint16_t len)
{
	out[0] = op;
	out[1] = arg;
	out[2] = (uint8_t)len;
	out[3] = (uint8_t)(len >> 8);
	if (len > 0)
		memcpy(out + sizeof(struct step_head), body, len);
	return sizeof(struct step_head) + len;
}

void
step_overlay(uint8_t *to, uint32_t n, const uint8_t *body, uint32_t len)
{
	for (; len >= 3 && n > 0; body += 3, len -= 3) {
		uint32_t at = ((uint32_t)body[0] | (uint32_t)body[1] << 8) & 0x3fff;
		uint64_t value = body[2];
		uint32_t bytes = 4;

		at %= n;
		switch (body[1] >> 6) {
		case 0:
			bytes = 1;
			break;
		case 1:
			break;
		case 2:
			value = -value;
			break;
		default:
			value = 1ull << value % 64;
			bytes = 8;
			break;
		}
		memcpy(to + at, &value, bytes < n - at ? bytes : n - at);
	}
}
