/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every cell of the state tables: what is sent, which state follows, which event is reported. Cells
 * that a call, a MAD or time can reach are reached that way; the others are stepped directly, and
 * must do nothing.
 */
#include <errno.h>
#include "cm/parts.h"
#include "harness.h"
#include "wants.h"

#define PEER_COMM 0x77u
#define PEER_QPN  0x99u
#define OUR_QPN   0x11u
#define REQ_TID   0x1111u

/* One id in one state. */
struct fix {
	struct node *n;
	struct node peer; /* an address, nothing more */
	uint32_t id;
	bool passive;
	uint8_t retries;
	struct wire_cm req, sidr_req, lap;
};
static struct fix fix;

static struct wire_cm
begin(uint32_t attr, uint64_t tid)
{
	struct wire_cm m;

	cm_msg_begin(&m, attr, tid);
	return m;
}

static void
rx(const struct wire_cm *m)
{
	node_rx_msg(fix.n, &fix.peer, m);
}

/* Builds a message of the peer about fix.id. */
static void
rx_plain(uint32_t attr)
{
	struct wire_cm m = begin(attr, REQ_TID);

	/* ids are at the same place in all of these */
	m.rtu.local_comm_id = PEER_COMM;
	m.rtu.remote_comm_id = fix.id;
	if (attr == WIRE_CM_DREQ)
		m.dreq.remote_qpn = cm_find(fix.n->cm, fix.id)->local_qpn;
	if (attr == WIRE_CM_REP)
		m.rep.qpn = PEER_QPN;
	if (attr == WIRE_CM_APR)
		m.tid = cm_find(fix.n->cm, fix.id)->lap_tid;
	rx(&m);
}

static void
rx_mra(uint8_t about)
{
	struct wire_cm m = begin(WIRE_CM_MRA, REQ_TID);

	m.mra.local_comm_id = PEER_COMM;
	m.mra.remote_comm_id = fix.id;
	m.mra.about = about;
	rx(&m);
}

static void
rx_rej(uint16_t reason)
{
	struct wire_cm m = begin(WIRE_CM_REJ, REQ_TID);

	m.rej.local_comm_id = PEER_COMM;
	m.rej.remote_comm_id = fix.id;
	m.rej.reason = reason;
	rx(&m);
}

static void
rx_lap(void)
{
	fix.lap = begin(WIRE_CM_LAP, 0x2222);
	fix.lap.lap.local_comm_id = PEER_COMM;
	fix.lap.lap.remote_comm_id = fix.id;
	fix.lap.lap.remote_qpn = cm_find(fix.n->cm, fix.id)->local_qpn;
	rx(&fix.lap);
}

static void
call_connect(void)
{
	struct cm_connect c = connect_args(fix.n, &fix.peer, OUR_QPN);

	c.max_retries = fix.retries;
	assert_int_equal(cm_connect(fix.n->cm, fix.id, &c, fix.n->now), 0);
}

static void
call_ask(void)
{
	struct cm_sidr_ask q = {.service_id = SERVICE, .max_retries = fix.retries};

	memcpy(q.addr.local, fix.n->gid, 16);
	memcpy(q.addr.remote, fix.peer.gid, 16);
	assert_int_equal(cm_sidr_ask(fix.n->cm, fix.id, &q, fix.n->now), 0);
}

static void
listen_for(bool sidr)
{
	struct cm_listen l = {.service_id = SERVICE, .dev = CM_DEV_ANY, .backlog = 4, .sidr = sidr};
	uint32_t id;

	assert_int_equal(cm_create(fix.n->cm, NULL, &id), 0);
	assert_int_equal(cm_listen(fix.n->cm, id, &l), 0);
}

static void
rx_first_req(void)
{
	listen_for(false);
	fix.req = begin(WIRE_CM_REQ, REQ_TID);
	fix.req.req.local_comm_id = PEER_COMM;
	fix.req.req.service_id = SERVICE;
	fix.req.req.qpn = PEER_QPN;
	fix.req.req.mtu = 3;
	fix.req.req.max_retries = fix.retries;
	rx(&fix.req);
	fix.id = node_event(fix.n, CM_EV_CONNECT_REQUEST)->ev.id;
}

static void
rx_first_sidr(void)
{
	listen_for(true);
	fix.sidr_req = begin(WIRE_CM_SIDR_REQ, REQ_TID);
	fix.sidr_req.sidr_req.request_id = PEER_COMM;
	fix.sidr_req.sidr_req.service_id = SERVICE;
	rx(&fix.sidr_req);
	fix.id = node_event(fix.n, CM_EV_SIDR_REQUEST)->ev.id;
}

static int
call_other(enum cm_input in)
{
	static const struct cm_listen l = {.service_id = SERVICE, .dev = CM_DEV_ANY, .backlog = 4};
	static const struct cm_sidr_ask ask;
	static const struct cm_sidr_answer answer;
	static const struct cm_reject reject = {.reason = WIRE_CM_REJ_CONSUMER};
	static const struct wire_cm_path path;
	struct cm_connect c = connect_args(fix.n, &fix.peer, OUR_QPN);
	struct cm_accept a = accept_args(OUR_QPN);
	struct cm *cm = fix.n->cm;
	uint64_t now = fix.n->now;

	switch (in) {
	case CM_IN_LISTEN:
		return cm_listen(cm, fix.id, &l);
	case CM_IN_CONNECT:
		return cm_connect(cm, fix.id, &c, now);
	case CM_IN_ACCEPT:
		return cm_accept(cm, fix.id, &a, now);
	case CM_IN_READY:
		return cm_ready(cm, fix.id, NULL, 0, now);
	case CM_IN_ESTABLISHED:
		return cm_established(cm, fix.id, now);
	case CM_IN_REJECT:
		return cm_reject(cm, fix.id, &reject, now);
	case CM_IN_DELAY:
		return cm_delay(cm, fix.id, 20, NULL, 0, now);
	case CM_IN_DISCONNECT:
		return cm_disconnect(cm, fix.id, NULL, 0, now);
	case CM_IN_LOAD_PATH:
		return cm_load_path(cm, fix.id, &path, NULL, 0, now);
	case CM_IN_ANSWER_PATH:
		return cm_answer_path(cm, fix.id, WIRE_APR_OK, NULL, 0, now);
	case CM_IN_ASK:
		return cm_sidr_ask(cm, fix.id, &ask, now);
	case CM_IN_ANSWER:
		return cm_sidr_answer(cm, fix.id, &answer, now);
	default:
		return cm_destroy(cm, fix.id, now);
	}
}

static void
expire(void)
{
	struct cm_info info;

	assert_int_equal(cm_info_get(fix.n->cm, fix.id, &info), 0);
	assert_true(info.deadline_ns != CM_NEVER);
	fix.n->now = info.deadline_ns;
	cm_tick(fix.n->cm, fix.n->now);
}

static bool
is_sidr(enum cm_state s)
{
	return s == CM_SIDR_REQ_SENT || s == CM_SIDR_REQ_RCVD || s == CM_SIDR_REP_SENT;
}

/* Connects up to ESTABLISHED, or up to state if it comes earlier. */
static void
reach_connection(enum cm_state state)
{
	if (!fix.passive) {
		call_connect();
		if (state == CM_MRA_REQ_RCVD)
			rx_mra(WIRE_CM_ABOUT_REQ);
		if (state == CM_REQ_SENT || state == CM_MRA_REQ_RCVD)
			return;
		rx_plain(WIRE_CM_REP);
		if (state != CM_REP_RCVD && state != CM_REJ_SENT)
			assert_int_equal(cm_ready(fix.n->cm, fix.id, NULL, 0, fix.n->now), 0);
		return;
	}
	rx_first_req();
	if (state == CM_REQ_RCVD || state == CM_REJ_SENT)
		return;
	assert_int_equal(call_other(CM_IN_ACCEPT), 0);
	if (state == CM_MRA_REP_RCVD)
		rx_mra(WIRE_CM_ABOUT_REP);
	if (state != CM_REP_SENT && state != CM_MRA_REP_RCVD)
		rx_plain(WIRE_CM_RTU);
}

/* A fresh node with an id in this state. */
static void
reach(enum cm_state state, bool passive, uint8_t retries)
{
	memset(&fix, 0, sizeof(fix));
	fix.n = node_make(0, NULL);
	fix.peer.gid[10] = fix.peer.gid[11] = 0xff;
	fix.peer.gid[12] = 10;
	fix.peer.gid[15] = 99;
	fix.passive = passive;
	fix.retries = retries;
	if (state == CM_SIDR_REQ_RCVD || state == CM_SIDR_REP_SENT)
		rx_first_sidr();
	else if (!passive || is_sidr(state) || state == CM_IDLE || state == CM_LISTEN)
		assert_int_equal(cm_create(fix.n->cm, fix.n, &fix.id), 0);
	if (state == CM_LISTEN)
		assert_int_equal(call_other(CM_IN_LISTEN), 0);
	else if (state == CM_SIDR_REQ_SENT)
		call_ask();
	else if (state == CM_SIDR_REP_SENT)
		assert_int_equal(call_other(CM_IN_ANSWER), 0);
	else if (!is_sidr(state) && state != CM_IDLE)
		reach_connection(state);
	if (state == CM_DREQ_SENT)
		assert_int_equal(call_other(CM_IN_DISCONNECT), 0);
	if (state == CM_TIMEWAIT || state == CM_CLOSED)
		rx_plain(WIRE_CM_DREQ);
	if (state == CM_CLOSED)
		expire();
	if (state == CM_REJ_SENT)
		assert_int_equal(call_other(CM_IN_REJECT), 0);
	assert_string_equal(cm_state_name[state_of(fix.n, fix.id)], cm_state_name[state]);
	fix.n->nsent = fix.n->ntold = 0;
}

/* The side on which a MAD may arrive: 1 passive, 0 active, -1 both. */
static int
side_of(enum cm_input in)
{
	switch (in) {
	case CM_IN_REQ:
	case CM_IN_MRA_REP:
	case CM_IN_RTU:
	case CM_IN_LAP:
	case CM_IN_LAP_AGAIN:
		return 1;
	case CM_IN_LOAD_PATH:
	case CM_IN_MRA_REQ:
	case CM_IN_MRA_LAP:
	case CM_IN_REP:
	case CM_IN_APR:
		return 0;
	default:
		return -1;
	}
}

/* The side on which a state is, likewise. */
static int
side_of_state(enum cm_state s)
{
	switch (s) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RCVD:
	case CM_REP_RCVD:
		return 0;
	case CM_REQ_RCVD:
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
		return 1;
	default:
		return -1;
	}
}

/* Can the cell be reached from outside? */
static bool
reachable(enum cm_state s, enum cm_input in)
{
	bool sidr_in = in == CM_IN_SIDR_REQ || in == CM_IN_SIDR_REP;

	if (in <= CM_IN_DESTROY)
		return true;
	if (in == CM_IN_TIMEOUT || in == CM_IN_EXPIRED)
		return false; /* apply() looks for a timer */
	if (in == CM_IN_STALE || s == CM_IDLE || s == CM_LISTEN)
		return false; /* has separate tests; no MAD can name it */
	if (is_sidr(s) || sidr_in)
		return (in == CM_IN_SIDR_REP && s == CM_SIDR_REQ_SENT) ||
		       (in == CM_IN_SIDR_REQ && (s == CM_SIDR_REQ_RCVD || s == CM_SIDR_REP_SENT));
	if (in == CM_IN_REQ && s == CM_CLOSED)
		return false; /* forgotten */
	if (in == CM_IN_LAP_AGAIN)
		return false; /* in every_cell_of_the_alternate_paths_table */
	return side_of(in) < 0 || side_of_state(s) < 0 || side_of(in) == side_of_state(s);
}

static void
apply_mad(enum cm_input in)
{
	struct wire_cm m;

	switch (in) {
	case CM_IN_REQ:
		rx(&fix.req);
		break;
	case CM_IN_MRA_REQ:
		rx_mra(WIRE_CM_ABOUT_REQ);
		break;
	case CM_IN_MRA_REP:
		rx_mra(WIRE_CM_ABOUT_REP);
		break;
	case CM_IN_MRA_LAP:
		rx_mra(WIRE_CM_ABOUT_OTHER);
		break;
	case CM_IN_REP:
		rx_plain(WIRE_CM_REP);
		break;
	case CM_IN_RTU:
		rx_plain(WIRE_CM_RTU);
		break;
	case CM_IN_REJ:
		rx_rej(WIRE_CM_REJ_CONSUMER);
		break;
	case CM_IN_REJ_STALE:
		rx_rej(WIRE_CM_REJ_STALE);
		break;
	case CM_IN_DREQ:
		rx_plain(WIRE_CM_DREQ);
		break;
	case CM_IN_DREP:
		rx_plain(WIRE_CM_DREP);
		break;
	case CM_IN_LAP:
		rx_lap();
		break;
	case CM_IN_LAP_AGAIN:
		rx(&fix.lap);
		break;
	case CM_IN_APR:
		rx_plain(WIRE_CM_APR);
		break;
	case CM_IN_SIDR_REQ:
		rx(&fix.sidr_req);
		break;
	default:
		m = begin(WIRE_CM_SIDR_REP, REQ_TID);
		m.sidr_rep.request_id = fix.id;
		rx(&m);
		break;
	}
}

/* Applies an input to fix.id. True: it was refused. */
static bool
apply(enum cm_state s, enum cm_input in)
{
	uint64_t refused = cm_counters(fix.n->cm)->dropped[CM_DROP_UNEXPECTED];
	struct wire_cm m = begin(WIRE_CM_MRA, 0);
	struct cm_args a = {.now_ns = fix.n->now, .msg = &m};
	struct cm_id *id = cm_find(fix.n->cm, fix.id);

	if (in == CM_IN_TIMEOUT || in == CM_IN_EXPIRED) {
		bool again =
			id->retries_left > 0 && cm_table[s][CM_IN_TIMEOUT].act != CM_ACT_REFUSE;

		if (id->timer.deadline_ns == CM_NEVER || again != (in == CM_IN_TIMEOUT))
			return cm_step(fix.n->cm, id, in, &a) == -EINVAL;
		expire();
		return false;
	}
	if (in == CM_IN_CONNECT && s == CM_IDLE) {
		call_connect();
		return false;
	}
	if (in <= CM_IN_DESTROY)
		return call_other(in) == -EINVAL;
	if (!reachable(s, in))
		return cm_step(fix.n->cm, id, in, &a) == -EINVAL;
	apply_mad(in);
	return cm_counters(fix.n->cm)->dropped[CM_DROP_UNEXPECTED] != refused;
}

static const struct want *
want_of(const struct want *w, size_t n, uint32_t state, uint32_t in)
{
	for (; n > 0; w++, n--)
		if (w->state == state && w->input == in)
			return w;
	return NULL;
}

/* Checks that exactly the expected MAD and event were sent and reported. */
static void
check_output(const struct want *w)
{
	const struct node *n = fix.n;
	bool sent = w != NULL && w->sent[0] != 0, told = w != NULL && w->event != 0;

	assert_int_equal(n->nsent, sent);
	if (sent)
		assert_string_equal(wire_cm_attr_name[WIRE_CM_INDEX(n->sent[0].msg.attr)], w->sent);
	assert_int_equal(n->ntold, told);
	if (told)
		assert_string_equal(cm_event_name[n->told[0].ev.type], cm_event_name[w->event]);
}

static uint8_t seen[CM_NSTATES * CM_NINPUTS], lap_seen[CM_LAP_NSTATES * CM_NINPUTS];

static void
note_seen(void)
{
	for (uint32_t i = 0; i < sizeof(seen); i++)
		seen[i] |= cm_cells_seen(fix.n->cm)[i];
	for (uint32_t i = 0; i < sizeof(lap_seen); i++)
		lap_seen[i] |= cm_lap_cells_seen(fix.n->cm)[i];
}

static void
check_cell(enum cm_state s, enum cm_input in)
{
	const struct want *w = want_of(wants, nwants, s, in);
	int side = side_of_state(s) >= 0 ? side_of_state(s) : side_of(in);
	bool refused;

	reach(s, side > 0, in == CM_IN_EXPIRED ? 0 : 3);
	refused = apply(s, in);
	if (refused != (w == NULL))
		fail_msg("%s x %s: %s", cm_state_name[s], cm_input_name[in],
			 refused ? "refused" : "not refused");
	check_output(w);
	assert_int_equal(state_of(fix.n, fix.id), w == NULL ? s : w->next);
	note_seen();
}

REQUIREMENT("CM-04", "CM-05", "CM-06")
UNIT_TEST(every_cell_of_the_state_table)
{
	for (enum cm_state s = 0; s < CM_NSTATES; s++)
		for (enum cm_input in = 0; in < CM_NINPUTS; in++)
			check_cell(s, in);
	for (uint32_t i = 0; i < sizeof(seen); i++)
		if (!seen[i])
			fail_msg("%s x %s was not exercised", cm_state_name[i / CM_NINPUTS],
				 cm_input_name[i % CM_NINPUTS]);
}

/* ESTABLISHED, with a LAP in this state. */
static void
reach_lap(enum cm_lap_state s, bool passive, uint8_t retries)
{
	reach(CM_ESTABLISHED, passive, retries);
	if (s == CM_LAP_RCVD)
		rx_lap();
	else if (s != CM_LAP_NONE)
		assert_int_equal(call_other(CM_IN_LOAD_PATH), 0);
	if (s == CM_LAP_MRA_RCVD)
		rx_mra(WIRE_CM_ABOUT_OTHER);
	fix.n->nsent = fix.n->ntold = fix.n->read = 0;
}

static void
check_lap_cell(enum cm_lap_state s, enum cm_input in)
{
	const struct want *w = want_of(lap_wants, nlap_wants, s, in);
	bool passive = s == CM_LAP_RCVD || (s == CM_LAP_NONE && side_of(in) > 0), refused;
	struct wire_cm m = begin(WIRE_CM_MRA, 0);
	struct cm_args a = {.now_ns = START, .msg = &m};
	struct cm_info info;
	uint64_t drops;

	reach_lap(s, passive, in == CM_IN_EXPIRED ? 0 : 3);
	if (s == CM_LAP_NONE && in == CM_IN_LAP_AGAIN) {
		/* the first has been answered */
		rx_lap();
		assert_int_equal(call_other(CM_IN_ANSWER_PATH), 0);
		fix.n->nsent = fix.n->ntold = 0;
	}
	drops = cm_counters(fix.n->cm)->dropped[CM_DROP_UNEXPECTED];
	if (side_of(in) == passive && in > CM_IN_DESTROY && (in != CM_IN_LAP || s == CM_LAP_NONE)) {
		apply_mad(in);
		refused = cm_counters(fix.n->cm)->dropped[CM_DROP_UNEXPECTED] != drops;
	} else if (in <= CM_IN_DESTROY || in == CM_IN_TIMEOUT || in == CM_IN_EXPIRED) {
		refused = apply(CM_ESTABLISHED, in);
	} else {
		refused = cm_step(fix.n->cm, cm_find(fix.n->cm, fix.id), in, &a) == -EINVAL;
	}
	assert_int_equal(refused, w == NULL);
	check_output(w);
	assert_int_equal(cm_info_get(fix.n->cm, fix.id, &info), 0);
	assert_int_equal(info.lap, w == NULL ? s : w->next);
	note_seen();
}

REQUIREMENT("CM-08")
UNIT_TEST(every_cell_of_the_alternate_paths_table)
{
	static const enum cm_input inputs[] = {CM_IN_LOAD_PATH, CM_IN_ANSWER_PATH, CM_IN_MRA_LAP,
					       CM_IN_LAP,       CM_IN_LAP_AGAIN,   CM_IN_APR,
					       CM_IN_TIMEOUT,   CM_IN_EXPIRED};

	for (enum cm_lap_state s = 0; s < CM_LAP_NSTATES; s++)
		for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
			check_lap_cell(s, inputs[i]);
			if (!lap_seen[s * CM_NINPUTS + inputs[i]])
				fail_msg("%s x %s was not exercised", cm_lap_state_name[s],
					 cm_input_name[inputs[i]]);
		}
	/* the other inputs never reach this table */
	for (enum cm_lap_state s = 0; s < CM_LAP_NSTATES; s++)
		for (enum cm_input in = 0; in < CM_NINPUTS; in++)
			if (cm_table[CM_ESTABLISHED][in].act != CM_ACT_LAP)
				assert_int_equal(cm_lap_table[s][in].act, CM_ACT_REFUSE);
}

UNIT_TEST(every_number_has_a_name)
{
	for (uint32_t i = 0; i < CM_NSTATES; i++)
		assert_non_null(cm_state_name[i]);
	for (uint32_t i = 0; i < CM_LAP_NSTATES; i++)
		assert_non_null(cm_lap_state_name[i]);
	for (uint32_t i = 0; i < CM_NINPUTS; i++)
		assert_non_null(cm_input_name[i]);
	for (uint32_t i = 0; i < CM_NEVENTS; i++)
		assert_non_null(cm_event_name[i]);
	for (uint32_t i = 0; i < WIRE_CM_NATTRS; i++)
		assert_non_null(wire_cm_attr_name[i]);
	for (uint32_t i = 0; i < WIRE_CM_NVERDICTS; i++)
		assert_non_null(wire_cm_verdict_name[i]);
}
