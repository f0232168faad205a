/* SPDX-License-Identifier: BSD-3-Clause */
#include "impair_spec.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "cli/cli.h"
#include "wire/hdr.h"
#include "wire/opcode.h"

#define DEFAULT_SEED       1
#define DEFAULT_HOLD       1024
#define DEFAULT_REORDER_BY 3
#define MAX_REORDER_BY     1000
#define MAX_DELAY_NS       10000000000u
#define MIN_RATE_BPS       1000
#define MAX_RATE_BPS       1000000000000u
#define MAX_QUEUE_BYTES    1000000000u

/* Parses the number at *text and advances it. False: no number that fits 64 bits. */
static bool
take_number(const char **text, uint64_t *v)
{
	char *end;

	if (!isdigit((unsigned char)**text))
		return false;
	errno = 0;
	*v = strtoull(*text, &end, 0);
	*text = end;
	return errno == 0;
}

/* Parses "12.5%" or "500ppm", exactly. */
static bool
take_ppm(void *member, const char *text)
{
	const char *at = text;
	uint64_t v = 0, digit = 10000;

	while (isdigit((unsigned char)*at) && v <= IMPAIR_PPM)
		v = v * 10 + (uint64_t)(*at++ - '0');
	if (at != text && strcmp(at, "ppm") == 0 && v <= IMPAIR_PPM) {
		*(uint32_t *)member = (uint32_t)v;
		return true;
	}
	v *= 10000;
	if (at != text && *at == '.') {
		for (at++; isdigit((unsigned char)*at) && digit > 1; at++)
			v += (uint64_t)(*at - '0') * (digit /= 10);
	}
	if (at == text || strcmp(at, "%") != 0 || v > IMPAIR_PPM)
		return false;
	*(uint32_t *)member = (uint32_t)v;
	return true;
}

struct unit {
	const char *name;
	uint64_t factor;
};

/* Parses a number with one of the units u; legal values: min .. max of the first unit. */
static bool
take_quantity(uint64_t *v, const char *text, const struct unit *u, uint64_t min, uint64_t max)
{
	bool ok = take_number(&text, v);

	while (u->name != NULL && strcmp(u->name, text) != 0)
		u++;
	if (!ok || u->name == NULL || *v > max / u->factor || *v * u->factor < min)
		return false;
	*v *= u->factor;
	return true;
}

static bool
take_ns(void *member, const char *text)
{
	static const struct unit units[] = {
		{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {NULL}};

	return take_quantity(member, text, units, 0, MAX_DELAY_NS);
}

static bool
take_bps(void *member, const char *text)
{
	static const struct unit units[] = {
		{"bit", 1},           {"kbit", 1000},          {"Mbit", 1000000},
		{"Gbit", 1000000000}, {"Tbit", 1000000000000}, {NULL}};

	return take_quantity(member, text, units, MIN_RATE_BPS, MAX_RATE_BPS);
}

static bool
take_bytes(void *member, const char *text)
{
	static const struct unit units[] = {
		{"B", 1}, {"kB", 1000}, {"MB", 1000000}, {"GB", 1000000000}, {NULL}};

	return take_quantity(member, text, units, 1, MAX_QUEUE_BYTES);
}

/* Two uint32_t: psn_first and psn_last. */
static bool
take_psn(void *member, const char *text)
{
	uint32_t *range = member;
	uint64_t first, last;
	bool ok = take_number(&text, &first);

	last = first;
	if (ok && *text == '-') {
		text++;
		ok = take_number(&text, &last);
	}
	if (!ok || *text != '\0' || first > WIRE_PSN_MASK || last > WIRE_PSN_MASK)
		return false;
	range[0] = (uint32_t)first;
	range[1] = (uint32_t)last;
	return true;
}

/* Parses an address into a GID, IPv4 as ::ffff:a.b.c.d. */
static bool
take_addr(void *member, const char *text)
{
	uint8_t *gid = member;

	memset(gid, 0, 16);
	if (inet_pton(AF_INET, text, gid + 12) == 1) {
		gid[10] = gid[11] = 0xff;
		return true;
	}
	return inet_pton(AF_INET6, text, gid) == 1;
}

static bool
take_opcode(void *member, const char *text)
{
	uint64_t v;

	for (uint32_t i = 0; i < 256; i++) {
		if (wire_op_table[i].flags != 0 && strcasecmp(wire_op_table[i].name, text) == 0) {
			*(uint32_t *)member = i;
			return true;
		}
	}
	if (!take_number(&text, &v) || *text != '\0' || v > 255)
		return false;
	*(uint32_t *)member = (uint32_t)v;
	return true;
}

static const char *const fault_names[IMPAIR_NFAULTS + 1] = {
	[IMPAIR_DROP] = "drop",       [IMPAIR_DUP] = "dup",
	[IMPAIR_REORDER] = "reorder", [IMPAIR_DELAY] = "delay",
	[IMPAIR_CORRUPT] = "corrupt", [IMPAIR_CORRUPT_FIXED] = "corrupt_fixed",
	[IMPAIR_CE] = "ce",
};

#define PPM                                                                                        \
	.type = CLI_OTHER, .take = take_ppm,                                                       \
	.legal = "a share from 0% to 100%, with at most 4 decimals, or from 0ppm to 1000000ppm"
#define NS    .type = CLI_OTHER, .take = take_ns, .legal = "a time from 0ns to 10s (ns us ms s)"
#define BYTES .type = CLI_OTHER, .take = take_bytes, .legal = "a size from 1B to 1GB (B kB MB GB)"
#define PROB(id, key)                                                                              \
	{                                                                                          \
		.name = key, PPM, CLI_AT(struct impair_cfg, ppm[IMPAIR_##id])                      \
	}
#define GLOBAL(member) CLI_AT(struct impair_cfg, member)
#define RULE(member)   CLI_AT(struct impair_rule, member)
#define GIVEN(member)  .given = offsetof(struct impair_rule, member)
/* Parameters of faults, both of random ones and of rules. */
#define PARAMS(owner)                                                                              \
	{.name = "delay", NS, CLI_AT(owner, p.delay_ns)},                                          \
		{.name = "jitter", NS, CLI_AT(owner, p.jitter_ns)},                                \
		{.name = "reorder_by",                                                             \
		 CLI_AT(owner, p.reorder_by),                                                      \
		 .type = CLI_NUMBER,                                                               \
		 .min = 1,                                                                         \
		 .max = MAX_REORDER_BY},                                                           \
	{                                                                                          \
		.name = "corrupt_bits", CLI_AT(owner, p.corrupt_bits), .type = CLI_NUMBER,         \
		.min = 1, .max = IMPAIR_MAX_BITS                                                   \
	}

static const struct cli_field global_keys[] = {
	PROB(DROP, "drop"),
	PROB(DUP, "dup"),
	PROB(REORDER, "reorder"),
	PROB(DELAY, "delay_prob"),
	PROB(CORRUPT, "corrupt"),
	PROB(CORRUPT_FIXED, "corrupt_fixed"),
	PROB(CE, "ce"),
	PARAMS(struct impair_cfg),
	{.name = "rate",
	 GLOBAL(rate_bps),
	 .type = CLI_OTHER,
	 .take = take_bps,
	 .legal = "a rate from 1kbit to 1Tbit per second (bit kbit Mbit Gbit Tbit)"},
	{.name = "queue", BYTES, GLOBAL(queue_bytes)},
	{.name = "kmin", BYTES, GLOBAL(kmin_bytes)},
	{.name = "kmax", BYTES, GLOBAL(kmax_bytes)},
	{.name = "pmax", PPM, GLOBAL(pmax_ppm)},
	{.name = "ordered", GLOBAL(ordered), .type = CLI_SWITCH},
	{.name = "hold", GLOBAL(hold), .type = CLI_NUMBER, .min = 1, .max = IMPAIR_MAX_HOLD},
	{.name = "seed", GLOBAL(seed), .type = CLI_NUMBER},
	{NULL},
};

static const struct cli_field rule_keys[] = {
	{.name = "qpn", RULE(qpn), .type = CLI_NUMBER, .max = WIRE_QPN_MASK, GIVEN(has_qpn)},
	{.name = "opcode",
	 RULE(opcode),
	 .type = CLI_OTHER,
	 .take = take_opcode,
	 GIVEN(has_opcode),
	 .legal = "a number from 0 to 255 nor a name like RC_SEND_ONLY, UC_WRITE_LAST, "
		  "UD_SEND_ONLY_IMM, CNP"},
	{.name = "psn",
	 RULE(psn_first),
	 .type = CLI_OTHER,
	 .take = take_psn,
	 GIVEN(has_psn),
	 .legal = "N or N-M with N and M from 0 to 0xffffff"},
	{.name = "dst",
	 RULE(dst),
	 .type = CLI_OTHER,
	 .take = take_addr,
	 GIVEN(has_dst),
	 .legal = "an IPv4 address like 10.0.0.1 nor an IPv6 one"},
	{.name = "nth", RULE(nth), .type = CLI_NUMBER, .min = 1},
	{.name = "count", RULE(count), .type = CLI_NUMBER},
	{.name = "prob", PPM, RULE(ppm)},
	{.name = "action", RULE(action), .type = CLI_CHOICE, .names = fault_names},
	PARAMS(struct impair_rule),
	{NULL},
};
_Static_assert(offsetof(struct impair_rule, has_qpn) != 0, "0 means that there is none");
_Static_assert(offsetof(struct impair_rule, psn_last) ==
		       offsetof(struct impair_rule, psn_first) + sizeof(uint32_t),
	       "take_psn writes both");

static int
check_params(const struct impair_params *a, char *err, size_t room)
{
	if (a->jitter_ns <= a->delay_ns)
		return 0;
	snprintf(err, room, "jitter: %llu ns is not from 0 to delay, which is %llu ns",
		 (unsigned long long)a->jitter_ns, (unsigned long long)a->delay_ns);
	return -EINVAL;
}

/* Checks the keys of the link's queue, and sets those that were not given. */
static int
check_queue(struct impair_cfg *cfg, char *err, size_t room)
{
	bool marks = cfg->kmax_bytes != 0 || cfg->kmin_bytes != 0;

	if (cfg->hold == 0)
		cfg->hold = cfg->queue_bytes != 0 ? IMPAIR_MAX_HOLD : DEFAULT_HOLD;
	if (cfg->rate_bps == 0 && (cfg->queue_bytes != 0 || marks)) {
		snprintf(err, room, "%s: needs rate=, from 1kbit to 1Tbit per second",
			 cfg->queue_bytes != 0 ? "queue" : "kmin, kmax");
		return -EINVAL;
	}
	if (cfg->pmax_ppm != IMPAIR_PPM && !marks) {
		snprintf(err, room, "pmax: needs kmax=, from 1B to 1GB");
		return -EINVAL;
	}
	if (cfg->kmin_bytes > cfg->kmax_bytes) {
		snprintf(err, room, "kmin: %llu B is not from 1 B to kmax, which is %llu B",
			 (unsigned long long)cfg->kmin_bytes, (unsigned long long)cfg->kmax_bytes);
		return -EINVAL;
	}
	if (cfg->kmin_bytes == 0)
		cfg->kmin_bytes = cfg->kmax_bytes;
	return 0;
}

static int
fill_rule(struct impair_rule *r, char *text, char *err, size_t room)
{
	uint64_t seen = 0;
	int rc;

	*r = (struct impair_rule){.action = IMPAIR_NFAULTS, .ppm = IMPAIR_PPM, .nth = 1};
	r->p.reorder_by = DEFAULT_REORDER_BY;
	r->p.corrupt_bits = 1;
	rc = cli_pairs(rule_keys, r, text, &seen, err, room);
	if (rc < 0)
		return rc;
	if (r->action == IMPAIR_NFAULTS) {
		snprintf(err, room,
			 "no action=; legal: drop dup reorder delay corrupt corrupt_fixed ce");
		return -EINVAL;
	}
	if (r->action == IMPAIR_DELAY && r->p.delay_ns == 0) {
		snprintf(err, room, "action=delay needs delay=, a time from 1ns to 10s");
		return -EINVAL;
	}
	return check_params(&r->p, err, room);
}

static int
take_rule(struct impair_cfg *cfg, char *text, char *err, size_t room)
{
	char why[CLI_ERR_MAX];
	int rc;

	if (cfg->nrules == IMPAIR_MAX_RULES) {
		snprintf(err, room, "more than %d rules", IMPAIR_MAX_RULES);
		return -EINVAL;
	}
	rc = fill_rule(&cfg->rule[cfg->nrules++], text, why, sizeof(why));
	if (rc < 0)
		snprintf(err, room, "rule %u: %s", cfg->nrules, why);
	return rc;
}

int
impair_spec_parse(const char *text, struct impair_cfg *cfg, char *err, size_t err_len)
{
	char copy[IMPAIR_SPEC_MAX], *save, *clause;
	uint64_t seen = 0;
	int rc = 0;

	if (strlen(text) >= sizeof(copy)) {
		snprintf(err, err_len, "spec: %zu bytes, which is not from 0 to %zu", strlen(text),
			 sizeof(copy) - 1);
		return -EINVAL;
	}
	strcpy(copy, text);
	*cfg = (struct impair_cfg){.seed = DEFAULT_SEED, .pmax_ppm = IMPAIR_PPM};
	cfg->ppm[IMPAIR_DELAY] = IMPAIR_PPM;
	cfg->p.reorder_by = DEFAULT_REORDER_BY;
	cfg->p.corrupt_bits = 1;
	for (clause = strtok_r(copy, "; \t\n", &save); clause != NULL && rc == 0;
	     clause = strtok_r(NULL, "; \t\n", &save)) {
		if (strncmp(clause, "rule:", 5) == 0)
			rc = take_rule(cfg, clause + 5, err, err_len);
		else
			rc = cli_pairs(global_keys, cfg, clause, &seen, err, err_len);
	}
	if (rc == 0)
		rc = check_params(&cfg->p, err, err_len);
	if (rc == 0)
		rc = check_queue(cfg, err, err_len);
	/* A delay of 0 is not counted as a fault. */
	if (cfg->p.delay_ns == 0)
		cfg->ppm[IMPAIR_DELAY] = 0;
	return rc;
}
