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
