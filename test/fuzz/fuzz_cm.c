/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hostile MADs into a CM with ids in all states (fuzz_rx.h's interface; replay.c and fuzz_cm_random
 * run it without libFuzzer). An input is steps of four bytes and a body: see enum cm_step_op. What
 * must hold, whatever the bytes: a MAD costs at most two MADs, two events and one id, and is
 * counted once; no event comes for an id that was destroyed; in the end everything ends.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cm/cm.h"
#include "fuzz_rx.h"

#define IDS       24
#define OWNED     64
#define SERVICE   WIRE_CM_SERVICE(WIRE_CM_PS_TCP, 7471)
#define STEPS_MAX 256

enum cm_step_op {
	CM_STEP_RAW = 0, /* body: a MAD from its first byte on, the rest is zero */
	CM_STEP_AIMED,   /* a message to a live id, from its peer; body: bytes put over it */
	CM_STEP_STRANGE, /* the same from another address, Q_Key or QPN */
	CM_STEP_CALL,    /* a program's call */
	CM_STEP_TIME,
	CM_STEP_OPS
};

struct cm_fuzz {
	struct cm *cm;
	void *mem;
	uint64_t now;
	uint32_t owned[OWNED], nowned;
	uint32_t sent, told; /* since they were set to zero */
};
static struct cm_fuzz fuzz;

static void
require(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "fuzz_cm: %s\n", what);
	abort();
}

static void
on_send(void *ctx, const struct cm_addr *addr, const uint8_t *mad)
{
	struct wire_cm m;

	fuzz.sent++;
	require(wire_cm_parse(mad, WIRE_MAD_LEN, &m) == WIRE_CM_OK, "sent what is no CM MAD");
}

static void
on_event(void *ctx, const struct cm_event *ev)
{
	uint32_t i;

	fuzz.told++;
	if (ev->type == CM_EV_CONNECT_REQUEST || ev->type == CM_EV_SIDR_REQUEST) {
		if (fuzz.nowned < OWNED)
			fuzz.owned[fuzz.nowned++] = ev->id;
		else
			cm_destroy(fuzz.cm, ev->id, fuzz.now);
		return;
	}
	for (i = 0; i < fuzz.nowned && fuzz.owned[i] != ev->id; i++)
		;
	require(i < fuzz.nowned, "event for an id that nobody has");
}

static struct cm_addr
address(uint8_t last)
{
	struct cm_addr a = {.pkey = 0xffff, .hop_limit = 64};

	a.local[10] = a.local[11] = a.remote[10] = a.remote[11] = 0xff;
	a.local[15] = 1;
	a.remote[15] = last;
	return a;
}

static void
rx(const struct cm_rx_info *info, const uint8_t *mad, uint32_t len)
{
	const struct cm_counters *c = cm_counters(fuzz.cm);
	uint32_t ids = cm_nids(fuzz.cm);
	uint64_t before = 0, after = 0;

	fuzz.sent = fuzz.told = 0;
	for (uint32_t i = 0; i < CM_NDROPS; i++)
		before += c->dropped[i];
	cm_rx(fuzz.cm, info, mad, len, fuzz.now);
	for (uint32_t i = 0; i < CM_NDROPS; i++)
		after += c->dropped[i];
	require(after - before <= 1, "one MAD dropped twice");
	require(fuzz.sent <= 2, "more than two MADs for one");
	require(fuzz.told <= 2, "more than two events for one MAD");
	require(cm_nids(fuzz.cm) <= ids + 1, "more than one id for one MAD");
	require(cm_nids(fuzz.cm) <= IDS, "more ids than there are");
}

static uint32_t
some_id(uint8_t arg)
{
	return fuzz.nowned == 0 ? 0 : fuzz.owned[arg % fuzz.nowned];
}

/* A message of id's peer that is right as far as it goes. */
static void
aim(struct wire_cm *m, uint8_t attr, const struct cm_info *info)
{
	memset(m, 0, sizeof(*m));
	m->attr = (uint8_t)(WIRE_CM_REQ + attr % WIRE_CM_NATTRS);
	/* communication ids stand at the same place in most messages */
	m->rtu.local_comm_id = info->remote_id != 0 ? info->remote_id : 0x4444;
	m->rtu.remote_comm_id = info->id;
	switch (m->attr) {
	case WIRE_CM_REQ:
		m->req.local_comm_id = info->remote_id != 0 ? info->remote_id : 0x4444u + attr;
		m->req.service_id = SERVICE;
		m->req.mtu = 3;
		m->req.qpn = 0x100 + attr;
		m->req.primary.ack_timeout = 14;
		break;
	case WIRE_CM_REP:
		m->rep.qpn = 0x200 + attr;
		break;
	case WIRE_CM_DREQ:
		m->dreq.remote_qpn = info->local_qpn;
		break;
	case WIRE_CM_LAP:
		m->lap.remote_qpn = info->local_qpn;
		break;
	case WIRE_CM_SIDR_REQ:
		m->sidr_req.request_id = 0x5555u + attr;
		m->sidr_req.service_id = SERVICE;
		break;
	case WIRE_CM_SIDR_REP:
		m->sidr_rep.request_id = info->id;
		break;
	default:
		break;
	}
}

static void
step_aimed(uint8_t arg, uint8_t which, const uint8_t *body, uint32_t len, bool strange)
{
	struct cm_rx_info info = {.qkey = WIRE_GSI_QKEY, .src_qpn = WIRE_GSI_QPN};
	struct cm_info id = {.addr = address(2)};
	uint8_t mad[WIRE_MAD_LEN];
	struct wire_cm m;

	cm_info_get(fuzz.cm, some_id(which), &id);
	info.addr = id.addr.remote[10] != 0 ? id.addr : address(2);
	aim(&m, arg, &id);
	wire_cm_build(&m, mad);
	/* pairs of a place and a value */
	for (uint32_t i = 0; i + 1 < len; i += 2)
		mad[body[i]] = body[i + 1];
	if (strange && which % 3 == 0)
		info.qkey++;
	else if (strange && which % 3 == 1)
		info.src_qpn++;
	else if (strange)
		info.addr.remote[15] ^= 0x40;
	rx(&info, mad, sizeof(mad));
}

static void
step_raw(const uint8_t *body, uint32_t len)
{
	struct cm_rx_info info = {.addr = address(2), .qkey = WIRE_GSI_QKEY, .src_qpn = 1};
	/* just as long as it is, for the sanitizer */
	uint8_t *mad = calloc(1, WIRE_MAD_LEN);

	if (mad == NULL)
		abort();
	memcpy(mad, body, len < WIRE_MAD_LEN ? len : WIRE_MAD_LEN);
	rx(&info, mad, len % 7 == 6 ? len % WIRE_MAD_LEN : WIRE_MAD_LEN);
	free(mad);
}

static void
own(uint32_t id)
{
	if (fuzz.nowned < OWNED)
		fuzz.owned[fuzz.nowned++] = id;
	else
		cm_destroy(fuzz.cm, id, fuzz.now);
}

static void
disown(uint32_t id)
{
	for (uint32_t i = 0; i < fuzz.nowned; i++)
		if (fuzz.owned[i] == id)
			fuzz.owned[i--] = fuzz.owned[--fuzz.nowned];
}

static void
new_id(uint8_t arg)
{
	struct cm_listen l = {.service_id = SERVICE,
			      .dev = CM_DEV_ANY,
			      .backlog = 6,
			      .sidr = arg & 1};
	struct cm_connect c = {.addr = address(2),
			       .service_id = SERVICE,
			       .p.qpn = 0x10u + arg,
			       .mtu = 3,
			       .max_retries = arg % 16,
			       .primary.ack_timeout = 14};
	struct cm_sidr_ask q = {.addr = address(2), .service_id = SERVICE};
	uint32_t id;

	if (cm_create(fuzz.cm, NULL, &id) != 0)
		return;
	own(id);
	if (arg % 4 == 0)
		cm_listen(fuzz.cm, id, &l);
	else if (arg % 4 == 1)
		cm_sidr_ask(fuzz.cm, id, &q, fuzz.now);
	else
		cm_connect(fuzz.cm, id, &c, fuzz.now);
}

static void
step_call(uint8_t arg, uint8_t which)
{
	struct cm_accept a = {.p.qpn = 0x800u + arg};
	struct cm_reject r = {.reason = WIRE_CM_REJ_CONSUMER};
	struct cm_sidr_answer s = {.p.qpn = 5};
	struct wire_cm_path path = {.hop_limit = 1};
	uint32_t id = some_id(which);

	switch (arg % 12) {
	case 0:
	case 1:
		new_id(which);
		break;
	case 2:
		/* no event may come from here on */
		disown(id);
		cm_destroy(fuzz.cm, id, fuzz.now);
		break;
	case 3:
		cm_reject(fuzz.cm, id, &r, fuzz.now);
		break;
	case 4:
		cm_ready(fuzz.cm, id, NULL, 0, fuzz.now);
		break;
	case 5:
		cm_disconnect(fuzz.cm, id, NULL, 0, fuzz.now);
		break;
	case 6:
		cm_established(fuzz.cm, id, fuzz.now);
		break;
	case 7:
		cm_sidr_answer(fuzz.cm, id, &s, fuzz.now);
		break;
	case 8:
		cm_load_path(fuzz.cm, id, &path, NULL, 0, fuzz.now);
		break;
	case 9:
		cm_answer_path(fuzz.cm, id, arg & 1, NULL, 0, fuzz.now);
		break;
	case 10:
		cm_delay(fuzz.cm, id, arg, NULL, 0, fuzz.now);
		break;
	default:
		cm_accept(fuzz.cm, id, &a, fuzz.now);
		break;
	}
}

static void
step(const uint8_t head[4], const uint8_t *body, uint32_t len)
{
	switch ((enum cm_step_op)(head[0] % CM_STEP_OPS)) {
	case CM_STEP_RAW:
		step_raw(body, len);
		break;
	case CM_STEP_AIMED:
	case CM_STEP_STRANGE:
		step_aimed(head[1], head[2], body, len, head[0] % CM_STEP_OPS == CM_STEP_STRANGE);
		break;
	case CM_STEP_CALL:
		step_call(head[1], head[2]);
		break;
	case CM_STEP_TIME:
	default:
		fuzz.now += 1ull << head[1] % 36;
		cm_tick(fuzz.cm, fuzz.now);
		break;
	}
}

static void
finish(void)
{
	while (fuzz.nowned > 0) {
		uint32_t id = fuzz.owned[0];

		disown(id);
		cm_destroy(fuzz.cm, id, fuzz.now);
	}
	for (uint32_t i = 0; i < 100000 && cm_next_ns(fuzz.cm) != CM_NEVER; i++) {
		fuzz.now = cm_next_ns(fuzz.cm) > fuzz.now ? cm_next_ns(fuzz.cm) : fuzz.now;
		cm_tick(fuzz.cm, fuzz.now);
	}
	require(cm_nids(fuzz.cm) == 0, "ids are left");
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct cm_ops ops = {.send = on_send, .event = on_event};
	struct cm_config config = {.max_ids = IDS, .max_peer_pending = 8, .seed = 1};
	uint32_t steps;

	memset(&fuzz, 0, sizeof(fuzz));
	fuzz.mem = aligned_alloc(64, (cm_bytes(&config) + 63) / 64 * 64);
	if (fuzz.mem == NULL)
		abort();
	fuzz.cm = cm_init(fuzz.mem, &config, &ops, NULL);
	fuzz.now = 1;
	new_id(0);
	new_id(4 + 1);
	new_id(2);
	for (steps = 0; steps < STEPS_MAX && size >= 4; steps++) {
		uint32_t len = data[3] < size - 4 ? data[3] : (uint32_t)(size - 4);

		step(data, data + 4, len);
		data += 4 + len;
		size -= 4 + len;
	}
	finish();
	free(fuzz.mem);
	return 0;
}
