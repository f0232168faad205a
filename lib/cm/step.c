/* SPDX-License-Identifier: BSD-3-Clause */
/* Executes one input of one id: cell, action, next state and event, in this order. Timers of ids.
 */
#include <errno.h>
#include <string.h>
#include "cm/parts.h"

static void
report(struct cm *cm, const struct cm_event *ev)
{
	cm->counters.events[ev->type]++;
	cm->ops.event(cm->ctx, ev);
}

/* Fills in the event's fields about the message that caused it. */
static void
event_take_msg(struct cm_event *ev, const struct wire_cm *msg)
{
	ev->msg = msg;
	if (msg == NULL)
		return;
	ev->private_data = wire_cm_private((struct wire_cm *)(uintptr_t)msg, &ev->private_len);
	if (msg->attr == WIRE_CM_REQ || msg->attr == WIRE_CM_REP || msg->attr == WIRE_CM_SIDR_REP)
		ev->ece = (struct cm_ece){wire_cm_vendor(msg), msg->modifier};
}

void
cm_report_request(struct cm *cm, struct cm_id *id, const struct wire_cm *msg)
{
	const struct cm_id *listener = cm_find(cm, id->listener);
	struct cm_addr addr = id->addr;
	struct cm_event ev = {
		.type = id->sidr ? CM_EV_SIDR_REQUEST : CM_EV_CONNECT_REQUEST,
		.id = id->comm_id,
		.listener = id->listener,
		.listener_user = listener->user,
		.addr = &addr,
	};

	event_take_msg(&ev, msg);
	report(cm, &ev);
}

static int
event_status(enum cm_event_type type, enum cm_input in, const struct wire_cm *msg)
{
	if (in == CM_IN_EXPIRED && type != CM_EV_TIMEWAIT_EXIT)
		return -ETIMEDOUT;
	if (type == CM_EV_PATH_RESPONSE && msg->apr.status != WIRE_APR_OK)
		return -ECONNREFUSED;
	return 0;
}

/* Builds the event. Returns false if there is none to report. */
static bool
event_begin(struct cm_id *id, enum cm_event_type type, enum cm_input in, const struct cm_args *a,
	    struct cm_event *ev)
{
	/* DISCONNECTED is reported only once, whatever ends the connection */
	if (type == CM_EV_DISCONNECTED) {
		if (id->disconnected)
			return false;
		id->disconnected = true;
	}
	if (type == CM_EV_NONE || id->orphan)
		return false;
	*ev = (struct cm_event){
		.type = type,
		.id = id->comm_id,
		.user = id->user,
		.status = event_status(type, in, a->msg),
		.reason = a->reason,
	};
	/* the message that revealed a stale connection belongs to another connection */
	event_take_msg(ev, in == CM_IN_STALE ? NULL : a->msg);
	return true;
}

/* Applies the side effects of a new state. a->arm_ns: the timer that the action requests. */
static void
enter(struct cm *cm, struct cm_id *id, uint8_t next, const struct cm_args *a)
{
	uint64_t deadline = a->arm_ns != 0 ? a->arm_ns : CM_NEVER;

	/* the REQ was not accepted: the peer's QP was never used, and may send another REQ */
	if (id->state == CM_REQ_RCVD && next != CM_REP_SENT)
		cm_key_del(cm, id, CM_KEY_REMOTE_QPN);
	cm_pending_end(cm, id);
	cm->ndisconnecting -= id->state == CM_DREQ_SENT;
	cm->ndisconnecting += next == CM_DREQ_SENT;
	id->state = next;
	id->lap = CM_LAP_NONE;
	switch (next) {
	case CM_TIMEWAIT:
		deadline = a->now_ns + id->timewait_ns;
		break;
	case CM_REJ_SENT:
		/* the peer may use its QP for another attempt */
		cm_key_del(cm, id, CM_KEY_REMOTE_QPN);
		/* the last copy may be sent that late and then be in flight */
		deadline = a->now_ns + id->linger_ns + id->mra_ns + id->timewait_ns;
		break;
	case CM_SIDR_REP_SENT:
		deadline = a->now_ns + id->linger_ns;
		break;
	case CM_CLOSED:
		cm_key_del(cm, id, CM_KEY_REMOTE);
		cm_key_del(cm, id, CM_KEY_REMOTE_QPN);
		cm_key_del(cm, id, CM_KEY_LOCAL_QPN);
		break;
	default:
		break;
	}
	cm_timer_set(cm, id, deadline);
}

/* Called after every input: frees an id without an owner when nothing is left to do. */
static void
settle(struct cm *cm, struct cm_id *id)
{
	if (!id->orphan)
		return;
	if (id->state == CM_CLOSED)
		cm_free(cm, id);
	else
		cm_evictable_set(cm, id, id->state == CM_REJ_SENT || id->state == CM_SIDR_REP_SENT);
}

/* Executes an input about the alternate path of an ESTABLISHED id. */
static int
step_lap(struct cm *cm, struct cm_id *id, enum cm_input in, struct cm_args *a)
{
	const struct cm_cell *cell = &cm_lap_table[id->lap][in];
	struct cm_event ev;
	int rc;

	cm->lap_seen[id->lap][in] = 1;
	/* a copy of an earlier LAP, whose APR was not kept */
	if (cell->act == CM_ACT_AGAIN_APR && !id->has_apr)
		return -EINVAL;
	rc = cm_act(cm, id, cell->act, a);
	if (rc != 0)
		return rc;
	if (cell->act != CM_ACT_IGNORE) {
		id->lap = cell->next;
		cm_timer_set(cm, id, a->arm_ns != 0 ? a->arm_ns : CM_NEVER);
	}
	if (event_begin(id, cell->event, in, a, &ev)) {
		struct cm_addr addr = id->addr;

		ev.addr = &addr;
		report(cm, &ev);
	}
	return 0;
}

bool
cm_moves(const struct cm_id *id, enum cm_input in)
{
	const struct cm_cell *cell = &cm_table[id->state][in];

	if (cell->act != CM_ACT_LAP)
		return cell->next != CM_STAY;
	cell = &cm_lap_table[id->lap][in];
	return cell->act != CM_ACT_IGNORE && cell->next != id->lap;
}

int
cm_step(struct cm *cm, struct cm_id *id, enum cm_input in, struct cm_args *a)
{
	const struct cm_cell *cell = &cm_table[id->state][in];
	struct cm_addr addr;
	struct cm_event ev;
	bool tell;
	int rc;

	cm->seen[id->state][in] = 1;
	if (cell->act == CM_ACT_LAP)
		return step_lap(cm, id, in, a);
	rc = cm_act(cm, id, cell->act, a);
	if (rc != 0)
		return rc;
	addr = id->addr;
	tell = event_begin(id, cell->event, in, a, &ev);
	ev.addr = &addr;
	if (in == CM_IN_DESTROY)
		id->orphan = true;
	if (cell->next == CM_GONE) {
		cm_free(cm, id);
		return 0;
	}
	if (cell->next != CM_STAY)
		enter(cm, id, cell->next, a);
	else if (a->arm_ns != 0)
		cm_timer_set(cm, id, a->arm_ns);
	settle(cm, id);
	if (tell)
		report(cm, &ev);
	return 0;
}

uint64_t
cm_tick(struct cm *cm, uint64_t now_ns)
{
	for (uint32_t n = 0; n < CM_TICK_MOST && cm_next_ns(cm) <= now_ns; n++) {
		struct cm_id *id = (struct cm_id *)((char *)cm_heap_first(&cm->heap) -
						    offsetof(struct cm_id, timer));
		struct cm_args a = {.now_ns = now_ns};
		const struct cm_cell *cell = &cm_table[id->state][CM_IN_TIMEOUT];
		bool again = cell->act != CM_ACT_REFUSE && id->retries_left > 0;

		/* a timer expires only once, whatever the tables do */
		cm_timer_set(cm, id, CM_NEVER);
		cm_step(cm, id, again ? CM_IN_TIMEOUT : CM_IN_EXPIRED, &a);
	}
	return cm_next_ns(cm);
}

void
cm_timer_set(struct cm *cm, struct cm_id *id, uint64_t deadline_ns)
{
	cm_heap_set(&cm->heap, &id->timer, deadline_ns);
}

uint64_t
cm_hurried_ns(const struct cm *cm, struct cm_id *id, uint64_t now_ns)
{
	id->retries_left = CM_DEFAULT_RETRIES;
	if (id->response_ns > cm->hurry_ns)
		id->response_ns = cm->hurry_ns;
	return now_ns + id->response_ns;
}

void
cm_hurry(struct cm *cm, uint64_t again_ns, uint64_t now_ns)
{
	cm->hurry_ns = again_ns;
	for (uint32_t i = 0; i < cm->nids; i++) {
		struct cm_id *id = &cm->ids[i];

		if (id->comm_id != 0 && id->state == CM_DREQ_SENT)
			cm_timer_set(cm, id, cm_hurried_ns(cm, id, now_ns));
	}
}

uint32_t
cm_disconnecting(const struct cm *cm)
{
	return cm->ndisconnecting;
}

uint64_t
cm_next_ns(const struct cm *cm)
{
	return cm_heap_next_ns(&cm->heap);
}
