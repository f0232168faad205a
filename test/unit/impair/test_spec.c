/* SPDX-License-Identifier: BSD-3-Clause */
/* Specifications: what they mean, and what is said of those that mean nothing. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "drivers/impair/impair_spec.h"
#include "wire/opcode.h"
#include "../../kit/unit.h"

static struct impair_cfg
parsed(const char *spec)
{
	struct impair_cfg cfg;
	char err[200] = "";

	if (impair_spec_parse(spec, &cfg, err, sizeof(err)) != 0)
		fail_msg("'%s': %s", spec, err);
	return cfg;
}

UNIT_TEST(empty_specification_is_accepted)
{
	struct impair_cfg cfg = parsed("");
	uint32_t i;

	for (i = 0; i < IMPAIR_NFAULTS; i++)
		assert_int_equal(cfg.ppm[i], 0);
	assert_int_equal(cfg.rate_bps, 0);
	assert_int_equal(cfg.seed, 1);
	assert_int_equal(cfg.hold, 1024);
	assert_int_equal(cfg.nrules, 0);
}

UNIT_TEST(probabilities_are_parsed)
{
	static const struct {
		const char *text;
		uint32_t ppm;
	} v[] = {
		{"drop=1%", 10000},      {"drop=0.5%", 5000},         {"drop=0.0001%", 1},
		{"drop=100%", 1000000},  {"drop=100.0000%", 1000000}, {"drop=0%", 0},
		{"drop=12.34%", 123400}, {"drop=500ppm", 500},        {"drop=1000000ppm", 1000000},
	};
	uint32_t i;

	for (i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		assert_int_equal(parsed(v[i].text).ppm[IMPAIR_DROP], v[i].ppm);
}

UNIT_TEST(all_options_of_the_link_are_parsed)
{
	struct impair_cfg cfg =
		parsed("drop=1%,dup=2%,reorder=3%,corrupt=4%,corrupt_fixed=5%,ce=6%,delay_prob=7%\t"
		       "delay=2ms;jitter=500us\nreorder_by=9,corrupt_bits=32,rate=100Mbit,hold=7,"
		       "seed=0xffffffffffffffff");

	assert_int_equal(cfg.ppm[IMPAIR_DROP], 10000);
	assert_int_equal(cfg.ppm[IMPAIR_DUP], 20000);
	assert_int_equal(cfg.ppm[IMPAIR_REORDER], 30000);
	assert_int_equal(cfg.ppm[IMPAIR_CORRUPT], 40000);
	assert_int_equal(cfg.ppm[IMPAIR_CORRUPT_FIXED], 50000);
	assert_int_equal(cfg.ppm[IMPAIR_CE], 60000);
	assert_int_equal(cfg.ppm[IMPAIR_DELAY], 70000);
	assert_int_equal(cfg.p.delay_ns, 2000000);
	assert_int_equal(cfg.p.jitter_ns, 500000);
	assert_int_equal(cfg.p.reorder_by, 9);
	assert_int_equal(cfg.p.corrupt_bits, 32);
	assert_int_equal(cfg.rate_bps, 100000000);
	assert_int_equal(cfg.hold, 7);
	assert_true(cfg.seed == UINT64_MAX);
}

UNIT_TEST(all_options_of_a_rule_are_parsed)
{
	struct impair_cfg cfg = parsed(
		"rule:qpn=0xffffff,opcode=UC_WRITE_LAST_IMM,psn=0x10-0x20,nth=4,count=5,prob=6%,"
		"action=delay,delay=10s,jitter=1ns,dst=10.9.0.101 "
		"rule:dst=fd00::9,action=corrupt_fixed,corrupt_bits=8 "
		"rule:psn=5,opcode=129,action=reorder,reorder_by=1000");
	const struct impair_rule *r = cfg.rule;

	assert_int_equal(cfg.nrules, 3);
	assert_true(r[0].has_qpn && r[0].has_opcode && r[0].has_psn);
	assert_int_equal(r[0].qpn, 0xffffff);
	assert_int_equal(r[0].opcode, WIRE_SVC_UC | WIRE_OP_WRITE_LAST_IMM);
	assert_int_equal(r[0].psn_first, 0x10);
	assert_int_equal(r[0].psn_last, 0x20);
	assert_int_equal(r[0].nth, 4);
	assert_int_equal(r[0].count, 5);
	assert_int_equal(r[0].ppm, 60000);
	assert_int_equal(r[0].action, IMPAIR_DELAY);
	assert_true(r[0].p.delay_ns == 10000000000u);
	assert_int_equal(r[0].p.jitter_ns, 1);
	assert_true(r[0].has_dst);
	assert_memory_equal(r[0].dst, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x09\0\x65", 16);
	assert_false(r[1].has_qpn || r[1].has_opcode || r[1].has_psn);
	assert_true(r[1].has_dst);
	assert_memory_equal(r[1].dst, "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x09", 16);
	assert_int_equal(r[1].nth, 1);
	assert_int_equal(r[1].count, 0);
	assert_int_equal(r[1].ppm, 1000000);
	assert_int_equal(r[1].action, IMPAIR_CORRUPT_FIXED);
	assert_int_equal(r[1].p.corrupt_bits, 8);
	assert_false(r[2].has_dst);
	assert_int_equal(r[2].psn_first, 5);
	assert_int_equal(r[2].psn_last, 5);
	assert_int_equal(r[2].opcode, WIRE_OPCODE_CNP);
	assert_int_equal(r[2].p.reorder_by, 1000);
}

UNIT_TEST(bottleneck)
{
	struct impair_cfg cfg =
		parsed("rate=1Gbit,queue=1MB,kmin=50kB,kmax=150kB,pmax=20%,ordered=yes");

	assert_int_equal(cfg.rate_bps, 1000000000);
	assert_int_equal(cfg.queue_bytes, 1000000);
	assert_int_equal(cfg.kmin_bytes, 50000);
	assert_int_equal(cfg.kmax_bytes, 150000);
	assert_int_equal(cfg.pmax_ppm, 200000);
	assert_true(cfg.ordered);
	assert_int_equal(cfg.hold, IMPAIR_MAX_HOLD);
	cfg = parsed("rate=1Gbit,queue=300B,kmax=10kB,hold=9,ordered=no");
	assert_int_equal(cfg.queue_bytes, 300);
	assert_int_equal(cfg.kmin_bytes, 10000);
	assert_int_equal(cfg.pmax_ppm, 1000000);
	assert_int_equal(cfg.hold, 9);
	assert_false(cfg.ordered);
	cfg = parsed("rate=1Gbit");
	assert_int_equal(cfg.queue_bytes + cfg.kmin_bytes + cfg.kmax_bytes, 0);
	assert_int_equal(cfg.hold, 1024);
}

UNIT_TEST(every_opcode_has_its_name)
{
	char spec[80];
	uint32_t op;

	for (op = 0; op < 256; op++) {
		if (wire_op_table[op].flags == 0)
			continue;
		snprintf(spec, sizeof(spec), "rule:opcode=%s,action=ce", wire_op_table[op].name);
		assert_int_equal(parsed(spec).rule[0].opcode, op);
	}
}

/* Each message names what is wrong and what is legal. */
static const struct {
	const char *spec, *name, *legal;
} illegal[] = {
	{"loss=1%", "unknown 'loss'", "drop dup reorder"},
	{"drop", "drop: needs a value", "drop=.."},
	{"drop=", "drop: needs a value", "drop=.."},
	{"drop=1", "drop: '1'", "0% to 100%"},
	{"drop=100.0001%", "drop: '100.0001%'", "0% to 100%"},
	{"drop=101%", "drop: '101%'", "0% to 100%"},
	{"drop=99999999999999999999%", "drop: '9", "0% to 100%"},
	{"drop=0.00001%", "drop: '0.00001%'", "4 decimals"},
	{"drop=-1%", "drop: '-1%'", "0% to 100%"},
	{"drop=%", "drop: '%'", "0% to 100%"},
	{"drop=1000001ppm", "drop: '1000001ppm'", "1000000ppm"},
	{"drop=1%,drop=2%", "drop: given twice", ""},
	{"drop=1%;drop=2%", "drop: given twice", ""},
	{"drop=1%,", "nothing follows the ',' after drop=", "key=value,key=value"},
	{"drop=1%,,dup=1%", "nothing follows the ',' after drop=", "key=value,key=value"},
	{",drop=1%", "begins with ','", "key=value,key=value"},
	{"rule:action=drop,", "rule 1: nothing follows the ',' after action=", "key=value"},
	{"delay=5", "delay: '5'", "0ns to 10s (ns us ms s)"},
	{"delay=11s", "delay: '11s'", "0ns to 10s"},
	{"delay=99999999999999999999s", "delay: '9", "0ns to 10s"},
	{"delay=1ms,jitter=2ms", "jitter: 2000000 ns", "0 to delay, which is 1000000 ns"},
	{"jitter=1ns", "jitter: 1 ns", "0 to delay"},
	{"reorder_by=0", "reorder_by: '0'", "from 1 to 1000"},
	{"corrupt_bits=33", "corrupt_bits: '33'", "from 1 to 32"},
	{"rate=999bit", "rate: '999bit'", "1kbit to 1Tbit"},
	{"rate=2Tbit", "rate: '2Tbit'", "1kbit to 1Tbit"},
	{"rate=10mbit", "rate: '10mbit'", "Mbit"},
	{"rate=1Gbit,queue=0B", "queue: '0B'", "1B to 1GB (B kB MB GB)"},
	{"rate=1Gbit,queue=2GB", "queue: '2GB'", "1B to 1GB"},
	{"rate=1Gbit,queue=10", "queue: '10'", "1B to 1GB"},
	{"rate=1Gbit,kmax=1KB", "kmax: '1KB'", "1B to 1GB"},
	{"rate=1Gbit,kmax=1kB,pmax=2", "pmax: '2'", "0% to 100%"},
	{"queue=10kB", "queue: needs rate=", "1kbit to 1Tbit"},
	{"kmax=10kB", "kmin, kmax: needs rate=", "1kbit to 1Tbit"},
	{"pmax=20%", "pmax: needs kmax=", "1B to 1GB"},
	{"rate=1Gbit,queue=64kB,pmax=0%", "pmax: needs kmax=", "1B to 1GB"},
	{"rate=1Gbit,kmin=10kB,kmax=9999B", "kmin: 10000 B", "kmax, which is 9999 B"},
	{"rate=1Gbit,kmin=10kB", "kmin: 10000 B", "kmax, which is 0 B"},
	{"ordered=2", "ordered: '2'", "yes"},
	{"rule:queue=1kB,action=drop", "rule 1: unknown 'queue'", "qpn opcode psn"},
	{"hold=0", "hold: '0'", "from 1 to 4096"},
	{"hold=4097", "hold: '4097'", "from 1 to 4096"},
	{"seed=18446744073709551616", "seed: '1", "to 18446744073709551615"},
	{"seed=x", "seed: 'x'", "from 0 to"},
	{"qpn=17", "unknown 'qpn'", "legal: drop"},
	{"drop=1%,rule:action=drop", "unknown 'rule:action'", "legal: drop"},
	{"rule:", "rule 1: no action=", "drop dup reorder delay corrupt corrupt_fixed ce"},
	{"rule:qpn=1", "rule 1: no action=", "legal: drop"},
	{"rule:action=lose", "rule 1: action: unknown 'lose'", "legal: drop"},
	{"rule:action=rate", "rule 1: action: unknown 'rate'", "legal: drop"},
	{"rule:action=drop rule:qpn=0x1000000,action=drop", "rule 2: qpn: '0x1000000'",
	 "from 0 to 16777215"},
	{"rule:opcode=RC_SEND,action=drop", "rule 1: opcode: 'RC_SEND'", "RC_SEND_ONLY"},
	{"rule:opcode=256,action=drop", "rule 1: opcode: '256'", "0 to 255"},
	{"rule:opcode=UNKNOWN,action=drop", "rule 1: opcode: 'UNKNOWN'", "0 to 255"},
	{"rule:psn=0x1000000,action=drop", "rule 1: psn: '0x1000000'", "0 to 0xffffff"},
	{"rule:dst=10.0.0,action=drop", "rule 1: dst: '10.0.0'", "IPv4 address like 10.0.0.1"},
	{"rule:dst=fd00::1/64,action=drop", "rule 1: dst: 'fd00::1/64'", "nor an IPv6"},
	{"rule:psn=1-,action=drop", "rule 1: psn: '1-'", "N or N-M"},
	{"rule:psn=1-2-3,action=drop", "rule 1: psn: '1-2-3'", "N or N-M"},
	{"rule:nth=0,action=drop", "rule 1: nth: '0'", "from 1 to"},
	{"rule:prob=2,action=drop", "rule 1: prob: '2'", "0% to 100%"},
	{"rule:action=delay", "rule 1: action=delay needs delay=", "1ns to 10s"},
	{"rule:action=delay,delay=1us,jitter=2us", "rule 1: jitter: 2000 ns", "which is 1000 ns"},
	{"rule:seed=1,action=drop", "rule 1: unknown 'seed'", "qpn opcode psn dst nth count prob"},
};

UNIT_TEST(errors_name_the_wrong_option)
{
	struct impair_cfg cfg;
	char err[200], full[200];
	uint32_t i;

	for (i = 0; i < sizeof(illegal) / sizeof(illegal[0]); i++) {
		memset(err, 'x', sizeof(err));
		if (impair_spec_parse(illegal[i].spec, &cfg, err, sizeof(err)) != -EINVAL ||
		    strncmp(err, illegal[i].name, strlen(illegal[i].name)) != 0 ||
		    strstr(err, illegal[i].legal) == NULL)
			fail_msg("'%s': %s", illegal[i].spec, err);
		/* Cut off where it must be, and no further. */
		strcpy(full, err);
		memset(err, 'x', sizeof(err));
		assert_int_equal(impair_spec_parse(illegal[i].spec, &cfg, err, 12), -EINVAL);
		assert_int_equal(err[11], '\0');
		assert_int_equal(err[12], 'x');
		assert_memory_equal(err, full, 11);
	}
}

UNIT_TEST(too_many_rules_are_refused)
{
	char spec[IMPAIR_SPEC_MAX] = "", err[200];
	struct impair_cfg cfg;
	uint32_t i;

	for (i = 0; i < IMPAIR_MAX_RULES; i++)
		strcat(spec, "rule:action=ce ");
	assert_int_equal(parsed(spec).nrules, IMPAIR_MAX_RULES);
	strcat(spec, "rule:action=ce");
	assert_int_equal(impair_spec_parse(spec, &cfg, err, sizeof(err)), -EINVAL);
	assert_string_equal(err, "more than 16 rules");
}

UNIT_TEST(specification_that_is_too_long_is_refused)
{
	char spec[IMPAIR_SPEC_MAX + 1], err[200];
	struct impair_cfg cfg;

	memset(spec, ' ', sizeof(spec));
	spec[IMPAIR_SPEC_MAX - 1] = '\0';
	parsed(spec);
	spec[IMPAIR_SPEC_MAX - 1] = ' ';
	spec[IMPAIR_SPEC_MAX] = '\0';
	assert_int_equal(impair_spec_parse(spec, &cfg, err, sizeof(err)), -EINVAL);
	assert_string_equal(err, "spec: 512 bytes, which is not from 0 to 511");
}
