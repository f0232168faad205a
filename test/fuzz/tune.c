/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings of the engine, its device and QPs: what an operator changes, and what a worker does in
 * addition to running the engine.
 */
#include <string.h>
#include "cc/param.h"
#include "qp/congestion.h"
#include "qp/segs.h"
#include "world_parts.h"

#define LINK_KBPS 1000000u

static const char *const policies[] = {
	"fixed",
	"dcqcn:rate=100",
	"swift:rate=100",
	"timely:rate=100",
};
#define POLICIES (sizeof(policies) / sizeof(policies[0]))
static struct cc_param params[POLICIES];
static struct qp_segs *segs;

void
tune_init(void)
{
	char err[256];

	segs = qp_segs_create("segs", ENGINE_TX_CAP, SOCKET_ID_ANY);
	CHECK(segs != NULL);
	for (uint32_t i = 0; i < POLICIES; i++) {
		err[0] = '\0';
		if (!cc_param_parse(&params[i], policies[i], err, sizeof(err)) ||
		    !cc_param_fill(&params[i], LINK_KBPS, err, sizeof(err))) {
			fprintf(stderr, "%s: %s\n", policies[i], err);
			abort();
		}
	}
}

void
tune_reset(void)
{
	engine_set_segs(&world.worker.engine, segs);
	world.sges = REGION_LOCAL;
}

void
tune_end(void)
{
	CHECK(qp_segs_whole(segs));
}

/* Only the peers of IPv4 QPs, or everybody. */
static void
set_peers(struct engine *e, bool on)
{
	static const struct engine_peers few = {.n = 1,
						.of = {{.gid = {[10] = 0xff, 0xff, 192, 0, 2, 2},
							.bits = 128}}};

	engine_set_peers(e, WORLD_DEV, on ? &few : NULL);
}

/* As lib/worker/move.c does, but to the same engine. */
static void
move(struct engine *e, struct qp *qp)
{
	static uint8_t wqes[ENGINE_MOVE_BYTES];

	if (engine_may_give(qp) != NULL)
		return;
	hot_queue_forget(&world.worker, qp);
	qp->bind.polled = false;
	engine_leave(e, qp->conn.qpn, 0);
	engine_give(e, qp, wqes);
	CHECK(engine_take(e, qp, wqes, &world.counters));
}

/* As the control thread does it, once a neighbour has answered, or a client connects before. */
static void
set_path(struct engine *e, struct world_side *s, bool known)
{
	s->path.path_ok = s->alt.path_ok = known;
	for (uint32_t i = 0; i < AHS; i++)
		world.ah[i].path_ok = known;
	if (known)
		qp_neigh_resolved(&e->env, s->qp, s->path.hop, s->path.wire.dmac);
}

static void
set_pkey(struct engine *e, uint32_t index, uint16_t value)
{
	world.pkeys[index] = value;
	for (uint32_t q = 0; q < WORLD_QPS; q++)
		qp_pkey_refresh(world.side[q].qp);
}

void
tune_step(uint32_t what, uint32_t value)
{
	struct engine *e = &world.worker.engine;
	uint32_t q = value / POLICIES % WORLD_QPS;

	e->env.now_ns = world.now;
	switch ((enum world_tune)(what % TUNE_NUM)) {
	case TUNE_ZERO_COPY:
		engine_set_zero_copy(e, WORLD_DEV, value % 2 ? 64 : UINT32_MAX);
		break;
	case TUNE_LOOP_ZERO_COPY:
		engine_set_loop_zero_copy(e, value % 2 ? 64 : UINT32_MAX);
		world.loop_waits = value / 2 % 2;
		break;
	case TUNE_COPIES:
		engine_set_copies(e, value % 2);
		break;
	case TUNE_CONGESTION:
		if (world.side[q].qp->conn.type != QP_TYPE_UD)
			qp_cc_change(&e->env, world.side[q].qp, &params[value % POLICIES]);
		break;
	case TUNE_PAUSE:
		engine_pause_user(e, qp_user_place(value / 2 % 2), value % 2);
		break;
	case TUNE_MOVE:
		move(e, world.side[value % WORLD_QPS].qp);
		break;
	case TUNE_CONSUMER:
		engine_set_consumer(e, value % 2 ? world_qpn(WORLD_CONSUMER) : 0);
		break;
	case TUNE_CNP:
		engine_set_cnp(e, WORLD_DEV, value % 2 ? 1 : 0, value / 2 % 64);
		break;
	case TUNE_HOST:
		engine_set_hostif(e, WORLD_DEV, value % 2);
		break;
	case TUNE_UNKNOWN_ID:
		engine_set_unknown_id(e, WORLD_DEV, value % 2, value / 2 % 2);
		break;
	case TUNE_PEERS:
		set_peers(e, value % 2);
		break;
	case TUNE_LATE:
		memory_late(value % 2);
		break;
	case TUNE_ARM:
		client_arm(value);
		break;
	case TUNE_SGES:
		world.sges = value % 2 ? REGION_COPIED : REGION_LOCAL;
		break;
	case TUNE_CQ:
		client_resize(value);
		break;
	case TUNE_FULL:
		e->env.read_bytes = value % 8192;
		e->env.read_limit_ns = value / 8192 % 2 ? UINT64_MAX : 0;
		break;
	case TUNE_PATH:
		set_path(e, &world.side[value / 2 % WORLD_QPS], value % 2);
		break;
	case TUNE_PKEY:
		set_pkey(e, value / 2 % 2, value % 2 ? WIRE_PKEY_DEFAULT : 0);
		break;
	case TUNE_NUM:
		break;
	}
}
