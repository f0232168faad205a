/* SPDX-License-Identifier: BSD-3-Clause */
#include "cc/param.h"

#include <stdio.h>
#include <string.h>
#include "cc/cc_parts.h"

#define KINDS 5u /* of texts; dcqcn has two sets of parameters */

enum kind { KIND_FIXED, KIND_DCQCN, KIND_DCQCN_PAPER, KIND_SWIFT, KIND_TIMELY };

const char *const cc_param_policies[] = {"fixed", "dcqcn", "dcqcn-paper", "swift", "timely", NULL};

/* Values that do not depend on the link. */
static const struct cc_param kind_params[KINDS] = {
	[KIND_FIXED] = {.policy = CC_FIXED},
	[KIND_DCQCN] = {.policy = CC_DCQCN,
			.rounds = 5,
			.window_ns = 200000,
			.alpha_ns = 1000,
			.decrease_ns = 4000,
			.increase_ns = 300000,
			.g_inv = 256},
	[KIND_DCQCN_PAPER] = {.policy = CC_DCQCN,
			      .rounds = 5,
			      .clamp = 1,
			      .window_ns = 200000,
			      .alpha_ns = 50000,
			      .decrease_ns = 50000,
			      .increase_ns = 55000,
			      .byte_kib = 10240,
			      .g_inv = 256},
	[KIND_SWIFT] = {.policy = CC_SWIFT, .window_ns = 200000, .target_ns = 50000},
	[KIND_TIMELY] = {.policy = CC_TIMELY,
			 .window_ns = 200000,
			 .target_ns = 50000,
			 .high_ns = 1000000},
};

/* Parts of the link's rate that are the defaults of rates, by policy; 0: not used. */
static const struct {
	uint32_t min, ai, hai;
} shares[CC_POLICIES] = {
	[CC_DCQCN] = {1000, 5000, 500},
	[CC_SWIFT] = {1000, 125, 0},
	[CC_TIMELY] = {1000, 625, 0},
};

#define RATE(key, field, of)                                                                       \
	{                                                                                          \
		key, "Mb/s", offsetof(struct cc_param, field), 1000, 1, CC_RATE_MOST_KBPS / 1000,  \
			of                                                                         \
	}
#define MICROSECONDS(key, field, of)                                                               \
	{                                                                                          \
		key, "us", offsetof(struct cc_param, field), 1000, 1, 1000000, of                  \
	}
#define DCQCN  (1u << CC_DCQCN)
#define SWIFT  (1u << CC_SWIFT)
#define TIMELY (1u << CC_TIMELY)
#define ALL    (DCQCN | SWIFT | TIMELY)

static const struct row {
	const char *name, *unit;
	size_t offset;        /* of a uint32_t in struct cc_param */
	uint32_t per_unit;    /* of the member */
	uint32_t least, most; /* in units */
	uint32_t policies;    /* 1 << enum cc_policy */
} rows[] = {
	RATE("rate", link_kbps, ALL),
	RATE("limit", max_kbps, ALL),
	RATE("min", min_kbps, ALL),
	MICROSECONDS("window", window_ns, ALL),
	MICROSECONDS("target", target_ns, SWIFT | TIMELY),
	MICROSECONDS("high", high_ns, TIMELY),
	MICROSECONDS("alpha", alpha_ns, DCQCN),
	MICROSECONDS("decrease", decrease_ns, DCQCN),
	MICROSECONDS("increase", increase_ns, DCQCN),
	RATE("add", ai_kbps, ALL),
	RATE("hyper", hai_kbps, DCQCN),
	{"kib", "KiB", offsetof(struct cc_param, byte_kib), 1, 1, 1u << 30, DCQCN},
	{"g", "(g is 1 / this)", offsetof(struct cc_param, g_inv), 1, 2, 65536, DCQCN},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))
_Static_assert(ROWS <= 32, "bits of a uint32_t");

static uint32_t *
member(struct cc_param *p, const struct row *r)
{
	return (uint32_t *)((char *)p + r->offset);
}

/* Writes "a, b, c" of the names of the rows that policy has. */
static void
list_rows(uint32_t policy, char *out, size_t room)
{
	size_t used = 0;

	out[0] = '\0';
	for (size_t i = 0; i < ROWS && used < room; i++) {
		if (rows[i].policies & 1u << policy)
			used += (size_t)snprintf(out + used, room - used, "%s%s",
						 used == 0 ? "" : ", ", rows[i].name);
	}
}

/* The decimal number of len characters; false: not one, or more than 2^32 - 1. */
static bool
number(const char *text, size_t len, uint64_t *n)
{
	*n = 0;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9' || *n > UINT32_MAX)
			return false;
		*n = *n * 10 + (uint64_t)(text[i] - '0');
	}
	return len != 0 && *n <= UINT32_MAX;
}

/* Takes one "name=value" of len characters. */
static bool
take_pair(struct cc_param *p, const char *policy, const char *text, size_t len, uint32_t *seen,
	  char *err, size_t room)
{
	const char *eq = memchr(text, '=', len);
	size_t name_len = eq != NULL ? (size_t)(eq - text) : len;
	char legal[128];
	uint64_t n;

	for (size_t i = 0; i < ROWS; i++) {
		const struct row *r = &rows[i];

		if (strlen(r->name) != name_len || memcmp(r->name, text, name_len) != 0 ||
		    !(r->policies & 1u << p->policy))
			continue;
		if (*seen & 1u << i) {
			snprintf(err, room, "policy %s: %s is given twice", policy, r->name);
			return false;
		}
		*seen |= 1u << i;
		if (eq != NULL && number(eq + 1, len - name_len - 1, &n) && n >= r->least &&
		    n <= r->most) {
			*member(p, r) = (uint32_t)n * r->per_unit;
			return true;
		}
		snprintf(err, room, "policy %s: '%.*s' is not %s=%u .. %u %s", policy,
			 (int)(len > 64 ? 64 : len), text, r->name, r->least, r->most, r->unit);
		return false;
	}
	list_rows(p->policy, legal, sizeof(legal));
	snprintf(err, room, "policy %s has no parameter '%.*s'; legal: %s", policy,
		 (int)(name_len > 64 ? 64 : name_len), text, legal[0] != '\0' ? legal : "none");
	return false;
}

bool
cc_param_parse(struct cc_param *p, const char *text, char *err, size_t room)
{
	size_t len = strcspn(text, ":");
	uint32_t k, seen = 0; /* bits of rows */

	for (k = 0; k < KINDS; k++) {
		if (strlen(cc_param_policies[k]) == len &&
		    memcmp(cc_param_policies[k], text, len) == 0)
			break;
	}
	if (k == KINDS) {
		snprintf(err, room,
			 "'%.*s' is not a congestion policy; legal: fixed, dcqcn, dcqcn-paper, "
			 "swift, timely",
			 (int)(len > 64 ? 64 : len), text);
		return false;
	}
	*p = kind_params[k];
	while (text[len] == ':') {
		text += len + 1;
		len = strcspn(text, ":");
		if (!take_pair(p, cc_param_policies[k], text, len, &seen, err, room))
			return false;
	}
	return true;
}

static uint32_t
share_of(uint32_t kbps, uint32_t part)
{
	uint32_t share = part != 0 ? kbps / part : 0;

	return share < 1000 ? 1000 : share / 1000 * 1000; /* whole Mb/s, as text has them */
}

bool
cc_param_fill(struct cc_param *p, uint32_t link_kbps, char *err, size_t room)
{
	if (p->policy == CC_FIXED)
		return true;
	if (p->link_kbps == 0)
		p->link_kbps = link_kbps != 0 ? link_kbps : CC_RATE_KBPS;
	if (p->link_kbps > CC_RATE_MOST_KBPS)
		p->link_kbps = CC_RATE_MOST_KBPS;
	if (p->max_kbps == 0)
		p->max_kbps = p->link_kbps;
	if (p->min_kbps == 0)
		p->min_kbps = share_of(p->max_kbps, shares[p->policy].min);
	if (p->ai_kbps == 0)
		p->ai_kbps = share_of(p->link_kbps, shares[p->policy].ai);
	if (p->hai_kbps == 0 && shares[p->policy].hai != 0)
		p->hai_kbps = share_of(p->link_kbps, shares[p->policy].hai);
	if (p->max_kbps > p->link_kbps || p->min_kbps > p->max_kbps) {
		snprintf(err, room, "min=%u, limit=%u, rate=%u Mb/s: legal: min <= limit <= rate",
			 p->min_kbps / 1000, p->max_kbps / 1000, p->link_kbps / 1000);
		return false;
	}
	if (p->policy == CC_TIMELY && p->high_ns < p->target_ns) {
		snprintf(err, room, "target=%u, high=%u us: legal: target <= high",
			 p->target_ns / 1000, p->high_ns / 1000);
		return false;
	}
	return true;
}

/* The policies, indexed by number. */

const struct cc_ops *const cc_policies[CC_POLICIES] = {
	[CC_FIXED] = &cc_fixed, [CC_TEST] = &cc_test,     [CC_DCQCN] = &cc_dcqcn,
	[CC_SWIFT] = &cc_swift, [CC_TIMELY] = &cc_timely,
};
