/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules: which frames, when, how often. And that a seed tells everything. */
#include <stdio.h>
#include "impair_fixture.h"
#include "wire/icrc.h"

FIXTURE_TEST(by_qpn)
{
	struct fixture *r = *state;
	uint32_t i;

	fixture_config(r, "rule:qpn=0x12,action=drop");
	for (i = 0x10; i < 0x14; i++)
		fixture_put_one(r, fixture_frame(WIRE_OP_SEND_ONLY, false, i, i, 0));
	EXPECT(r, 0x10, 0x11, 0x13);
	assert_int_equal(r->core.rule[0].matched, 1);
	assert_int_equal(r->core.rule[0].acted, 1);
	assert_int_equal(CTR(r, DROP), 1);
}

static void
put_ops(struct fixture *r)
{
	static const uint8_t ops[] = {WIRE_OP_SEND_ONLY, WIRE_OP_ACK, WIRE_OP_READ_REQ,
				      WIRE_OP_READ_RESP_ONLY, WIRE_SVC_UD | WIRE_OP_SEND_ONLY};
	uint32_t i;

	for (i = 0; i < 5; i++)
		fixture_put_one(r, fixture_frame(ops[i], false, RIG_QPN, i, 0));
}

FIXTURE_TEST(by_opcode_name)
{
	fixture_config(*state,
		       "rule:opcode=RC_ACK,action=drop;rule:opcode=ud_send_only,action=drop");
	put_ops(*state);
	EXPECT(*state, 0, 2, 3);
}

FIXTURE_TEST(by_opcode_number)
{
	fixture_config(*state, "rule:opcode=12,action=drop rule:opcode=0x10,action=drop");
	put_ops(*state);
	EXPECT(*state, 0, 1, 4);
}

FIXTURE_TEST(by_psn)
{
	fixture_config(*state, "rule:psn=3,action=drop");
	fixture_stream(*state, 1, 5, 5);
	EXPECT(*state, 1, 2, 4, 5);
}

FIXTURE_TEST(by_psn_range)
{
	fixture_config(*state, "rule:psn=2-4,action=drop");
	fixture_stream(*state, 1, 5, 5);
	EXPECT(*state, 1, 5);
}

FIXTURE_TEST(by_psn_range_that_wraps)
{
	fixture_config(*state, "rule:psn=0xfffffe-1,action=drop");
	fixture_stream(*state, 0xfffffc, 7, 7);
	EXPECT(*state, 0xfffffc, 0xfffffd, 2);
}

/* More than half the circle is still a range. */
FIXTURE_TEST(by_psn_long_range)
{
	fixture_config(*state, "rule:psn=0x10-0xf00000,action=drop");
	fixture_stream(*state, 0xefffff, 3, 3);
	fixture_stream(*state, 0xf, 2, 2);
	EXPECT(*state, 0xf00001, 0xf);
}

/* Frames of the fixture go to 0.0.0.2 and ::102:0:2. */
FIXTURE_TEST(by_destination_address)
{
	struct fixture *r = *state;
	uint32_t i;

	fixture_config(r, "rule:dst=0.0.0.2,action=drop");
	for (i = 1; i <= 4; i++)
		fixture_put_one(r, fixture_frame(WIRE_OP_SEND_ONLY, i % 2 == 0, RIG_QPN, i, 0));
	EXPECT(r, 2, 4);
	fixture_config(r, "rule:dst=::102:0:2,action=drop");
	for (i = 5; i <= 8; i++)
		fixture_put_one(r, fixture_frame(WIRE_OP_SEND_ONLY, i % 2 == 0, RIG_QPN, i, 0));
	EXPECT(r, 2, 4, 5, 7);
	fixture_config(r, "rule:dst=0.0.0.1,action=drop rule:dst=::102:0:1,action=drop");
	for (i = 9; i <= 10; i++)
		fixture_put_one(r, fixture_frame(WIRE_OP_SEND_ONLY, i % 2 == 0, RIG_QPN, i, 0));
	EXPECT(r, 2, 4, 5, 7, 9, 10);
}

FIXTURE_TEST(nth)
{
	struct fixture *r = *state;

	fixture_config(r, "rule:nth=3,action=drop");
	fixture_stream(r, 0, 6, 2);
	EXPECT(r, 0, 1);
	assert_int_equal(r->core.rule[0].matched, 6);
	assert_int_equal(r->core.rule[0].acted, 4);
}

FIXTURE_TEST(nth_once)
{
	struct fixture *r = *state;

	fixture_config(r, "rule:opcode=RC_SEND_ONLY,qpn=17,nth=3,count=1,action=drop");
	fixture_put_one(r, fixture_frame(WIRE_OP_ACK, false, 17, 100, 0));
	fixture_put_one(r, fixture_frame(WIRE_OP_SEND_ONLY, false, 18, 101, 0));
	fixture_stream(r, 0, 6, 6);
	EXPECT(r, 100, 101, 0, 1, 3, 4, 5);
	assert_int_equal(r->core.rule[0].acted, 1);
}

FIXTURE_TEST(count)
{
	fixture_config(*state, "rule:count=2,action=drop");
	fixture_stream(*state, 0, 5, 1);
	EXPECT(*state, 2, 3, 4);
}

FIXTURE_TEST(prob)
{
	struct fixture *r = *state;

	fixture_config(r, "rule:psn=0-1999,prob=25%,action=drop");
	fixture_stream(r, 0, 3000, 32);
	assert_in_range(CTR(r, DROP), 500 - 78, 500 + 78);
	assert_int_equal(r->core.rule[0].matched, 2000);
	assert_int_equal(r->core.rule[0].acted, CTR(r, DROP));
	assert_int_equal(r->out_n, 3000 - CTR(r, DROP));
}

/* Rules add up, each with its own parameters. */
FIXTURE_TEST(several_rules_on_a_frame)
{
	struct fixture *r = *state;

	fixture_config(
		r,
		"rule:psn=1,action=ce rule:psn=1,action=dup rule:psn=0-1,action=delay,delay=5us");
	fixture_stream(r, 0, 3, 3);
	EXPECT(r, 2);
	fixture_pass(r, 5 * US);
	EXPECT(r, 2, 0, 1, 1);
	assert_int_equal(fixture_pkt(r, 1).tclass, 0);
	assert_int_equal(fixture_pkt(r, 2).tclass, 3);
	assert_int_equal(fixture_pkt(r, 3).tclass, 3);
}

/* A rule's delay is its own, not that of the link. */
FIXTURE_TEST(rule_beside_random_faults)
{
	struct fixture *r = *state;

	fixture_config(r, "delay=10us rule:psn=0,action=delay,delay=30us");
	fixture_stream(r, 0, 2, 2);
	fixture_pass(r, 10 * US);
	EXPECT(r, 1);
	fixture_pass(r, 20 * US);
	EXPECT(r, 1, 0);
}

FIXTURE_TEST(rule_corrupts)
{
	struct fixture *r = *state;
	struct wire_pkt pkt;

	fixture_config(r, "rule:psn=1,action=corrupt");
	fixture_stream(r, 0, 1, 1);
	fixture_stream(r, 1, 1, 1);
	pkt = fixture_pkt(r, 0);
	assert_true(wire_icrc_check(&pkt));
	assert_true(wire_parse(rte_pktmbuf_mtod(r->out[1], uint8_t *), r->out[1]->data_len, &pkt) !=
			    WIRE_OK ||
		    !wire_icrc_check(&pkt));
	assert_int_equal(CTR(r, CORRUPT), 1);
}

/* A new configuration starts its rules anew; waiting frames continue to wait. */
FIXTURE_TEST(change_of_configuration)
{
	struct fixture *r = *state;

	fixture_config(r, "delay=10us rule:count=1,action=drop");
	fixture_stream(r, 0, 3, 3);
	fixture_config(r, "rule:count=1,action=drop");
	fixture_stream(r, 3, 3, 3);
	EXPECT(r, 4, 5);
	fixture_pass(r, 10 * US);
	EXPECT(r, 4, 5, 1, 2);
	assert_int_equal(CTR(r, DROP), 2);
	assert_int_equal(r->core.rule[0].acted, 1);
}

#define EVERYTHING                                                                                 \
	"drop=5%,dup=5%,reorder=5%,corrupt=5%,corrupt_fixed=5%,ce=5%,delay=20us,jitter=15us,"      \
	"rate=20Gbit rule:prob=10%,action=drop rule:psn=10-300,prob=50%,action=delay,delay=90us "

/* Everything at once; what came out, and when, as one number. */
static uint64_t
run_everything(const char *seed, uint32_t stream, uint32_t burst)
{
	uint64_t hash = 14695981039346656037u;
	struct fixture *r;
	void *state;
	char spec[400];
	uint32_t i, k;

	assert_int_equal(fixture_setup(&state), 0);
	r = state;
	snprintf(spec, sizeof(spec), "%s%s", EVERYTHING, seed);
	fixture_config(r, spec);
	impair_core_config(&r->core, &r->cfg[0], stream);
	for (i = 0; i < 50; i++) {
		fixture_stream(r, i * 16, 16, burst);
		fixture_pass(r, 3 * US);
	}
	for (i = 0; i < 300; i++)
		fixture_pass(r, US);
	for (i = 0; i < 5; i++)
		fixture_pass(r, 10 * MS);
	assert_int_equal(CTR(r, OVERFLOW) + CTR(r, NO_MBUF), 0);
	assert_int_equal(r->out_n, 800 - CTR(r, DROP) + CTR(r, DUP));
	for (i = 0; i < IMPAIR_NFAULTS; i++)
		assert_true(r->core.ctr[i] != 0);
	for (i = 0; i < r->out_n; i++) {
		const uint8_t *p = rte_pktmbuf_mtod(r->out[i], const uint8_t *);

		hash = (hash ^ r->out_at[i]) * 1099511628211u;
		for (k = 0; k < r->out[i]->data_len; k++)
			hash = (hash ^ p[k]) * 1099511628211u;
	}
	assert_int_equal(fixture_teardown(&state), 0);
	return hash;
}

UNIT_TEST(same_seed_gives_same_faults)
{
	uint64_t one = run_everything("seed=1", 0, 16);

	assert_int_equal(run_everything("seed=1", 0, 16), one);
	assert_int_equal(run_everything("", 0, 16), one); /* the default */
	assert_int_not_equal(run_everything("seed=2", 0, 16), one);
	assert_int_not_equal(run_everything("seed=1", 1, 16), one); /* another queue */
}

UNIT_TEST(burst_size_does_not_change_the_faults)
{
	uint64_t one = run_everything("seed=5", 0, 16);

	assert_int_equal(run_everything("seed=5", 0, 1), one);
	assert_int_equal(run_everything("seed=5", 0, 7), one);
}

/* What the injector told of frames, one after the other. */
struct told {
	char text[8][200];
	uint32_t n, lost;
};

static void
note_fate(void *arg, const struct rte_mbuf *m, const struct impair_fate *fate)
{
	struct told *t = arg;

	assert_true(t->n < 8 && m->pkt_len > 0);
	t->lost += (fate->faults & IMPAIR_LOST) != 0;
	impair_fate_text(fate, t->text[t->n++], sizeof(t->text[0]));
}

FIXTURE_TEST(tells_what_was_done_and_by_which_rule)
{
	struct fixture *r = *state;
	struct told t = {.n = 0};

	r->core.tell = note_fate;
	r->core.tell_arg = &t;
	fixture_config(r, "rule:psn=1,action=drop rule:psn=2,action=delay,delay=1ms "
			  "rule:psn=2,action=corrupt rule:psn=3,action=dup rule:psn=4,action=ce "
			  "rule:psn=5,action=reorder,reorder_by=1");
	fixture_stream(r, 0, 7, 7);
	fixture_pass(r, 2 * MS);
	assert_int_equal(t.n, 6); /* a frame without a fault is not reported */
	assert_int_equal(t.lost, 1);
	assert_string_equal(t.text[0], "dropped (rule 1)");
	assert_string_equal(t.text[1], "the copy of a duplicated frame (rule 4)");
	assert_string_equal(t.text[2], "duplicated (rule 4)");
	assert_string_equal(t.text[3], "marked CE (rule 5)");
	assert_string_equal(t.text[4], "reordered (rule 6)");
	assert_string_equal(t.text[5], "corrupted (rule 3), delayed (rule 2)");
}

FIXTURE_TEST(tells_what_the_bottleneck_did)
{
	struct fixture *r = *state;
	struct told t = {.n = 0};

	r->core.tell = note_fate;
	r->core.tell_arg = &t;
	fixture_config(r, "rate=1Mbit,queue=700B");
	fixture_stream(r, 0, 3, 3); /* frames of 270 bytes */
	fixture_pass(r, 100 * MS);
	assert_int_equal(t.n, 2);
	assert_string_equal(t.text[0], "dropped by the full queue of the link");
	assert_string_equal(t.text[1], "waited for the link");
	fixture_config(r, "drop=100%");
	fixture_stream(r, 3, 1, 1);
	assert_string_equal(t.text[2], "dropped");
	fixture_config(r, "delay=1s,hold=1");
	fixture_stream(r, 4, 2, 2);
	assert_string_equal(t.text[3], "delayed, dropped because too many frames were delayed");
	assert_int_equal(t.lost, 3);
}

UNIT_PROGRAM(fixture_group_setup, NULL);
