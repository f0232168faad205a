/* SPDX-License-Identifier: BSD-3-Clause */
#include "impair_spec.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "wire/hdr.h"
#include "wire/opcode.h"

#define DEFAULT_SEED       1
#define DEFAULT_HOLD       1024
#define DEFAULT_REORDER_BY 3
#define MAX_REORDER_BY     1000
#define MAX_DELAY_NS       10000000000u
#define MAX_RATE_BPS       1000000000000u

enum kind {
	KIND_PPM,
	KIND_NS,
	KIND_BPS,
	KIND_U32,
	KIND_U64,
	KIND_PSN,  /* two u32 */
	KIND_ADDR, /* uint8_t[16] */
	KIND_OPCODE,
	KIND_ACTION,
};

/* A key of a clause: where in the clause's struct its value goes, and which values are legal. */
struct key {
	const char *name;
	enum kind kind;
	size_t off;
	uint64_t lo, hi;
	size_t has_off; /* of a bool that tells that it was given; 0: there is none */
};

#define AT(field)   offsetof(struct impair_cfg, field)
#define RAT(field)  offsetof(struct impair_rule, field)
#define PROB(id, n) [IMPAIR_##id] = {n, KIND_PPM, AT(ppm[IMPAIR_##id]), 0, 0, 0}

static const struct key global_keys[] = {
	PROB(DROP, "drop"),
	PROB(DUP, "dup"),
	PROB(REORDER, "reorder"),
	PROB(DELAY, "delay_prob"),
	PROB(CORRUPT, "corrupt"),
	PROB(CORRUPT_FIXED, "corrupt_fixed"),
	PROB(CE, "ce"),
	{"delay", KIND_NS, AT(p.delay_ns), 0, MAX_DELAY_NS, 0},
	{"jitter", KIND_NS, AT(p.jitter_ns), 0, MAX_DELAY_NS, 0},
	{"reorder_by", KIND_U32, AT(p.reorder_by), 1, MAX_REORDER_BY, 0},
	{"corrupt_bits", KIND_U32, AT(p.corrupt_bits), 1, IMPAIR_MAX_BITS, 0},
	{"rate", KIND_BPS, AT(rate_bps), 1000, MAX_RATE_BPS, 0},
	{"hold", KIND_U32, AT(hold), 1, IMPAIR_MAX_HOLD, 0},
	{"seed", KIND_U64, AT(seed), 0, UINT64_MAX, 0},
	{NULL},
};

static const struct key rule_keys[] = {
	{"qpn", KIND_U32, RAT(qpn), 0, WIRE_QPN_MASK, RAT(has_qpn)},
	{"opcode", KIND_OPCODE, RAT(opcode), 0, 255, RAT(has_opcode)},
	{"psn", KIND_PSN, RAT(psn_first), 0, WIRE_PSN_MASK, RAT(has_psn)},
	{"dst", KIND_ADDR, RAT(dst), 0, 0, RAT(has_dst)},
	{"nth", KIND_U64, RAT(nth), 1, UINT64_MAX, 0},
	{"count", KIND_U64, RAT(count), 0, UINT64_MAX, 0},
	{"prob", KIND_PPM, RAT(ppm), 0, 0, 0},
	{"action", KIND_ACTION, RAT(action), 0, 0, 0},
	{"delay", KIND_NS, RAT(p.delay_ns), 0, MAX_DELAY_NS, 0},
	{"jitter", KIND_NS, RAT(p.jitter_ns), 0, MAX_DELAY_NS, 0},
	{"reorder_by", KIND_U32, RAT(p.reorder_by), 1, MAX_REORDER_BY, 0},
	{"corrupt_bits", KIND_U32, RAT(p.corrupt_bits), 1, IMPAIR_MAX_BITS, 0},
	{NULL},
};
_Static_assert(RAT(has_qpn) != 0, "0 means that there is none");

struct parser {
	char *err;
	size_t err_len;
	const char *clause; /* "rule 2: " or "", for errors */
	char clause_text[16];
	uint32_t seen; /* keys of the clause, by index */
};

static int __attribute__((format(printf, 2, 3))) bad(struct parser *p, const char *fmt, ...)
{
	int n = snprintf(p->err, p->err_len, "%s", p->clause);
	va_list ap;

	if (n >= 0 && (size_t)n < p->err_len) {
		va_start(ap, fmt);
		vsnprintf(p->err + n, p->err_len - (size_t)n, fmt, ap);
		va_end(ap);
	}
	return -EINVAL;
}

/* The number at *text, which moves behind it. False: there is none that fits 64 bits. */
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

static int
number_of(struct parser *p, const struct key *k, const char *text, uint64_t *v)
{
	const char *end = text;

	if (!take_number(&end, v) || *end != '\0' || *v < k->lo || *v > k->hi)
		return bad(p, "%s: '%s' is not a number from %llu to %llu", k->name, text,
			   (unsigned long long)k->lo, (unsigned long long)k->hi);
	return 0;
}

/* "12.5%" or "500ppm", exactly. */
static int
ppm_of(struct parser *p, const struct key *k, const char *text, uint32_t *ppm)
{
	const char *at = text;
	uint64_t v = 0, digit = 10000;

	while (isdigit((unsigned char)*at) && v <= IMPAIR_PPM)
		v = v * 10 + (uint64_t)(*at++ - '0');
	if (at != text && strcmp(at, "ppm") == 0 && v <= IMPAIR_PPM) {
		*ppm = (uint32_t)v;
		return 0;
	}
	v *= 10000;
	if (at != text && *at == '.') {
		for (at++; isdigit((unsigned char)*at) && digit > 1; at++)
			v += (uint64_t)(*at - '0') * (digit /= 10);
	}
	if (at == text || strcmp(at, "%") != 0 || v > IMPAIR_PPM)
		return bad(p,
			   "%s: '%s' is not from 0%% to 100%%, with at most 4 decimals, nor from "
			   "0ppm to 1000000ppm",
			   k->name, text);
	*ppm = (uint32_t)v;
	return 0;
}

struct unit {
	const char *name;
	uint64_t factor;
};
static const struct unit time_units[] = {
	{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {NULL}};
static const struct unit rate_units[] = {
	{"bit", 1},           {"kbit", 1000},          {"Mbit", 1000000},
	{"Gbit", 1000000000}, {"Tbit", 1000000000000}, {NULL}};

static int
quantity_of(struct parser *p, const struct key *k, const char *text, const struct unit *u,
	    const char *legal, uint64_t *v)
{
	const char *end = text;
	bool ok = take_number(&end, v);

	while (u->name != NULL && strcmp(u->name, end) != 0)
		u++;
	if (!ok || u->name == NULL || *v > k->hi / u->factor || *v * u->factor < k->lo)
		return bad(p, "%s: '%s' is not %s", k->name, text, legal);
	*v *= u->factor;
	return 0;
}

static int
psn_of(struct parser *p, const struct key *k, const char *text, uint32_t *range)
{
	const char *end = text;
	uint64_t first, last;
	bool ok = take_number(&end, &first);

	last = first;
	if (ok && *end == '-') {
		end++;
		ok = take_number(&end, &last);
	}
	if (!ok || *end != '\0' || first > k->hi || last > k->hi)
		return bad(p, "%s: '%s' is not N or N-M with N and M from 0 to 0x%llx", k->name,
			   text, (unsigned long long)k->hi);
	range[0] = (uint32_t)first;
	range[1] = (uint32_t)last;
	return 0;
}

/* An address, IPv4 as ::ffff:a.b.c.d. */
static int
addr_of(struct parser *p, const struct key *k, const char *text, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (inet_pton(AF_INET, text, gid + 12) == 1) {
		gid[10] = gid[11] = 0xff;
		return 0;
	}
	if (inet_pton(AF_INET6, text, gid) == 1)
		return 0;
	return bad(p, "%s: '%s' is neither an IPv4 address like 10.0.0.1 nor an IPv6 one", k->name,
		   text);
}

static int
opcode_of(struct parser *p, const struct key *k, const char *text, uint32_t *opcode)
{
	const char *end = text;
	uint64_t v;
	uint32_t i;

	for (i = 0; i < 256; i++) {
		if (wire_op_table[i].flags != 0 && strcasecmp(wire_op_table[i].name, text) == 0) {
			*opcode = i;
			return 0;
		}
	}
	if (!take_number(&end, &v) || *end != '\0' || v > k->hi)
		return bad(
			p,
			"%s: '%s' is neither a number from 0 to 255 nor a name like RC_SEND_ONLY, "
			"UC_WRITE_LAST, UD_SEND_ONLY_IMM, CNP",
			k->name, text);
	*opcode = (uint32_t)v;
	return 0;
}

static int
action_of(struct parser *p, const struct key *k, const char *text, uint32_t *action)
{
	uint32_t i;

	for (i = 0; i < IMPAIR_NFAULTS; i++) {
		if (strcmp(impair_counter_name[i], text) == 0) {
			*action = i;
			return 0;
		}
	}
	return bad(p, "%s: unknown '%s'; legal: drop dup reorder delay corrupt corrupt_fixed ce",
		   k->name, text);
}

static int
value_of(struct parser *p, const struct key *k, const char *text, uint8_t *field)
{
	uint64_t v = 0;
	int rc = 0;

	switch (k->kind) {
	case KIND_PPM:
		return ppm_of(p, k, text, (uint32_t *)field);
	case KIND_PSN:
		return psn_of(p, k, text, (uint32_t *)field);
	case KIND_ADDR:
		return addr_of(p, k, text, field);
	case KIND_OPCODE:
		return opcode_of(p, k, text, (uint32_t *)field);
	case KIND_ACTION:
		return action_of(p, k, text, (uint32_t *)field);
	case KIND_U32:
		rc = number_of(p, k, text, &v);
		*(uint32_t *)field = (uint32_t)v;
		return rc;
	case KIND_U64:
		return number_of(p, k, text, (uint64_t *)field);
	case KIND_NS:
		return quantity_of(p, k, text, time_units, "a time from 0ns to 10s (ns us ms s)",
				   (uint64_t *)field);
	case KIND_BPS:
		return quantity_of(p, k, text, rate_units,
				   "a rate from 1kbit to 1Tbit a second (bit kbit Mbit Gbit Tbit)",
				   (uint64_t *)field);
	}
	return rc;
}

static int
unknown_key(struct parser *p, const struct key *keys, const char *name)
{
	char legal[256] = "";
	size_t n = 0;

	for (; keys->name != NULL && n < sizeof(legal); keys++)
		n += (size_t)snprintf(legal + n, sizeof(legal) - n, " %s", keys->name);
	return bad(p, "unknown '%s'; legal:%s", name, legal);
}

/* One KEY=VALUE of a clause whose values go to base. */
static int
take_pair(struct parser *p, const struct key *keys, char *pair, uint8_t *base)
{
	char *value = strchr(pair, '=');
	uint32_t i = 0;
	int rc;

	if (value != NULL)
		*value++ = '\0';
	while (keys[i].name != NULL && strcmp(keys[i].name, pair) != 0)
		i++;
	if (keys[i].name == NULL)
		return unknown_key(p, keys, pair);
	if (value == NULL || *value == '\0')
		return bad(p, "%s: needs a value, %s=..", pair, pair);
	if (p->seen & 1u << i)
		return bad(p, "%s: given twice", pair);
	p->seen |= 1u << i;
	rc = value_of(p, &keys[i], value, base + keys[i].off);
	if (rc == 0 && keys[i].has_off != 0)
		*(bool *)(base + keys[i].has_off) = true;
	return rc;
}

static int
take_clause(struct parser *p, const struct key *keys, char *text, void *base)
{
	char *save, *pair;
	int rc = 0;

	for (pair = strtok_r(text, ",", &save); pair != NULL && rc == 0;
	     pair = strtok_r(NULL, ",", &save))
		rc = take_pair(p, keys, pair, base);
	return rc;
}

static int
check_params(struct parser *p, const struct impair_params *a)
{
	if (a->jitter_ns > a->delay_ns)
		return bad(p, "jitter: %llu ns is not from 0 to delay, which is %llu ns",
			   (unsigned long long)a->jitter_ns, (unsigned long long)a->delay_ns);
	return 0;
}

static int
take_rule(struct parser *p, char *text, struct impair_cfg *cfg)
{
	struct impair_rule *r = &cfg->rule[cfg->nrules];
	uint32_t globals = p->seen;
	int rc;

	if (cfg->nrules == IMPAIR_MAX_RULES)
		return bad(p, "more than %d rules", IMPAIR_MAX_RULES);
	*r = (struct impair_rule){.action = IMPAIR_NFAULTS, .ppm = IMPAIR_PPM, .nth = 1};
	r->p.reorder_by = DEFAULT_REORDER_BY;
	r->p.corrupt_bits = 1;
	snprintf(p->clause_text, sizeof(p->clause_text), "rule %u: ", ++cfg->nrules);
	p->clause = p->clause_text;
	p->seen = 0;
	rc = take_clause(p, rule_keys, text, r);
	if (rc == 0 && r->action == IMPAIR_NFAULTS)
		rc = bad(p, "no action=; legal: drop dup reorder delay corrupt corrupt_fixed ce");
	if (rc == 0 && r->action == IMPAIR_DELAY && r->p.delay_ns == 0)
		rc = bad(p, "action=delay needs delay=, a time from 1ns to 10s");
	if (rc == 0)
		rc = check_params(p, &r->p);
	p->clause = "";
	p->seen = globals;
	return rc;
}

int
impair_spec_parse(const char *text, struct impair_cfg *cfg, char *err, size_t err_len)
{
	struct parser p = {.err = err, .err_len = err_len, .clause = ""};
	char copy[IMPAIR_SPEC_MAX], *save, *clause;
	int rc = 0;

	if (strlen(text) >= sizeof(copy))
		return bad(&p, "spec: %zu bytes, which is not from 0 to %zu", strlen(text),
			   sizeof(copy) - 1);
	strcpy(copy, text);
	*cfg = (struct impair_cfg){.seed = DEFAULT_SEED, .hold = DEFAULT_HOLD};
	cfg->ppm[IMPAIR_DELAY] = IMPAIR_PPM;
	cfg->p.reorder_by = DEFAULT_REORDER_BY;
	cfg->p.corrupt_bits = 1;
	for (clause = strtok_r(copy, "; \t\n", &save); clause != NULL && rc == 0;
	     clause = strtok_r(NULL, "; \t\n", &save)) {
		if (strncmp(clause, "rule:", 5) == 0)
			rc = take_rule(&p, clause + 5, cfg);
		else
			rc = take_clause(&p, global_keys, clause, cfg);
	}
	if (rc == 0)
		rc = check_params(&p, &cfg->p);
	/* A delay of nothing is none, and is not counted as one. */
	if (cfg->p.delay_ns == 0)
		cfg->ppm[IMPAIR_DELAY] = 0;
	return rc;
}
