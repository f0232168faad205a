/* SPDX-License-Identifier: BSD-3-Clause */
#include "impair_fixture.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rte_eal.h>
#include "../../kit/unit_eal.h"

#define POOL_MBUFS 8191

static struct rte_mempool *pool;

int
fixture_group_setup(void **state)
{
	pool = unit_eal_pool(POOL_MBUFS, 2048);
	return pool != NULL ? 0 : -1;
}

struct rte_mempool *
fixture_pool(void)
{
	return pool;
}

int
fixture_setup(void **state)
{
	struct fixture *r = calloc(1, sizeof(*r));

	r->now = 1000000000;
	*state = r;
	return r != NULL ? 0 : -1;
}

int
fixture_teardown(void **state)
{
	struct fixture *r = *state;
	uint32_t i;
	int leaked;

	for (i = 0; i < r->out_n; i++)
		rte_pktmbuf_free(r->out[i]);
	impair_core_drain(&r->core);
	free(r);
	leaked = POOL_MBUFS - (int)rte_mempool_avail_count(pool);
	if (leaked != 0)
		print_error("%d mbufs leaked\n", leaked);
	return leaked;
}

struct rte_mbuf *
fixture_frame(uint8_t opcode, bool v6, uint32_t qpn, uint32_t psn, uint32_t payload)
{
	struct wire_path path = {.smac = {2, 0, 0, 0, 0, 1},
				 .dmac = {2, 0, 0, 0, 0, 2},
				 .udp_sport = 0xc001,
				 .hop_limit = 64};
	struct wire_fields f = {.opcode = opcode, .psn = psn, .va = 0x1000, .rkey = 0x1234};
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	struct wire_tmpl t;
	uint32_t hdr, i;
	uint8_t *p;

	assert_non_null(m);
	memcpy(path.sgid + 10, v6 ? "\x01\x02" : "\xff\xff", 2);
	memcpy(path.dgid + 10, v6 ? "\x01\x02" : "\xff\xff", 2);
	path.sgid[15] = 1;
	path.dgid[15] = 2;
	wire_tmpl_init(&t, &path, qpn, 0xffff);
	p = rte_pktmbuf_mtod(m, uint8_t *);
	hdr = wire_hdr_put(&t, &f, payload, p);
	for (i = 0; i < payload; i++)
		p[hdr + i] = (uint8_t)(psn + i);
	assert_non_null(rte_pktmbuf_append(m, (uint16_t)wire_frame_finish(&t, p, hdr, payload)));
	return m;
}

struct rte_mbuf *
fixture_arp(void)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	uint8_t *p;

	assert_non_null(m);
	p = (uint8_t *)rte_pktmbuf_append(m, 60);
	memset(p, 0, 60);
	memset(p, 0xff, 6);
	memcpy(p + 12, "\x08\x06\x00\x01\x08\x00\x06\x04\x00\x01", 10);
	return m;
}

void
fixture_config(struct fixture *r, const char *spec)
{
	struct impair_cfg *cfg = &r->cfg[r->ncfg++ % 2];
	char err[200] = "";

	if (impair_spec_parse(spec, cfg, err, sizeof(err)) != 0)
		fail_msg("%s: %s", spec, err);
	impair_core_config(&r->core, cfg, 0);
}

void
fixture_put(struct fixture *r, struct rte_mbuf **m, uint32_t n)
{
	struct rte_mbuf *burst[RIG_BURST];
	uint32_t i, out;

	assert_true(n <= RIG_BURST);
	memcpy(burst, m, n * sizeof(m[0]));
	out = impair_core_burst(&r->core, r->now, burst, n, RIG_BURST);
	assert_true(out <= RIG_BURST && r->out_n + out <= RIG_OUT);
	for (i = 0; i < out; i++) {
		r->out_at[r->out_n] = r->now;
		r->out[r->out_n++] = burst[i];
	}
}

void
fixture_put_one(struct fixture *r, struct rte_mbuf *m)
{
	fixture_put(r, &m, 1);
}

void
fixture_stream(struct fixture *r, uint32_t psn, uint32_t n, uint32_t burst)
{
	struct rte_mbuf *m[RIG_BURST];
	uint32_t i, k;

	for (i = 0; i < n; i += k) {
		for (k = 0; k < burst && i + k < n; k++)
			m[k] = fixture_frame(WIRE_OP_SEND_ONLY, false, RIG_QPN, psn + i + k,
					     RIG_PAYLOAD);
		fixture_put(r, m, k);
	}
}

void
fixture_pass(struct fixture *r, uint64_t ns)
{
	r->now += ns;
	fixture_put(r, r->out, 0);
}

struct wire_pkt
fixture_pkt(struct fixture *r, uint32_t i)
{
	struct wire_pkt pkt = {0};

	assert_true(i < r->out_n);
	assert_int_equal(wire_parse(rte_pktmbuf_mtod(r->out[i], uint8_t *), r->out[i]->data_len,
				    &pkt),
			 WIRE_OK);
	return pkt;
}

uint32_t
fixture_psn(struct fixture *r, uint32_t i)
{
	return fixture_pkt(r, i).psn;
}

void
fixture_expect_psns(struct fixture *r, const uint32_t *psn, uint32_t n, const char *file, int line)
{
	uint32_t i;

	_assert_int_equal(r->out_n, n, file, line);
	for (i = 0; i < n; i++)
		_assert_int_equal(fixture_psn(r, i), psn[i], file, line);
}
