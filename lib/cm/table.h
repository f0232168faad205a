/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state machine of an id as tables: for each state and input, the action, the next state and
 * the event. Private to lib/cm and its tests.
 *
 *   active                                      passive
 *   IDLE --connect--> REQ_SENT                  (REQ) --> REQ_RCVD
 *   REQ_SENT --MRA--> MRA_REQ_RCVD              REQ_RCVD --accept--> REP_SENT
 *   REQ_SENT, MRA_REQ_RCVD --REP--> REP_RCVD    REP_SENT --MRA--> MRA_REP_RCVD
 *   REP_RCVD --ready--> ESTABLISHED             REP_SENT, MRA_REP_RCVD --RTU--> ESTABLISHED
 *
 *   ESTABLISHED --disconnect--> DREQ_SENT --DREP--> TIMEWAIT --expired--> CLOSED
 *   ESTABLISHED --DREQ--> TIMEWAIT
 *   a sent REJ leads to REJ_SENT --expired--> CLOSED; a received REJ leads to CLOSED or, if packets
 *   or MADs of the peer may be in flight, to TIMEWAIT
 *
 * The specification has two more states after sending an MRA, and one for a DREQ that waits for its
 * program. Here sending an MRA does not change the state, and a DREQ is answered at once, so that a
 * program that ignores DISCONNECTED does not delay its peer.
 */
#ifndef CM_TABLE_H
#define CM_TABLE_H

#include <stdint.h>
#include "cm/cm.h"

enum cm_input {
	/* calls */
	CM_IN_LISTEN = 0,
	CM_IN_CONNECT,
	CM_IN_ACCEPT,
	CM_IN_READY,
	CM_IN_ESTABLISHED,
	CM_IN_REJECT,
	CM_IN_DELAY,
	CM_IN_DISCONNECT,
	CM_IN_LOAD_PATH,
	CM_IN_ANSWER_PATH,
	CM_IN_ASK,
	CM_IN_ANSWER,
	CM_IN_DESTROY,
	/* MADs of the id's peer */
	CM_IN_REQ,     /* a copy of the REQ that created the id */
	CM_IN_STALE,   /* another REQ or REP shows that the peer has forgotten this connection */
	CM_IN_MRA_REQ, /* an MRA for a REQ */
	CM_IN_MRA_REP, /* an MRA for a REP */
	CM_IN_MRA_LAP, /* an MRA for a LAP */
	CM_IN_REP,
	CM_IN_RTU,
	CM_IN_REJ,
	CM_IN_REJ_STALE, /* a REJ with reason "stale connection" */
	CM_IN_DREQ,
	CM_IN_DREP,
	CM_IN_LAP,
	CM_IN_LAP_AGAIN, /* a copy of the last LAP */
	CM_IN_APR,
	CM_IN_SIDR_REQ, /* a copy of the SIDR_REQ that created the id */
	CM_IN_SIDR_REP,
	/* time */
	CM_IN_TIMEOUT, /* no response, retries left */
	CM_IN_EXPIRED, /* no response and no retries left, or the end of a wait such as TIMEWAIT */
	CM_NINPUTS
};
extern const char *const cm_input_name[CM_NINPUTS];

enum cm_act {
	CM_ACT_REFUSE = 0, /* a call returns -EINVAL, a MAD is dropped and counted */
	CM_ACT_NOTHING,
	CM_ACT_IGNORE, /* a copy: counted */
	CM_ACT_LISTEN,
	CM_ACT_SEND_REQ,
	CM_ACT_SEND_REP,
	CM_ACT_SEND_RTU,
	CM_ACT_SEND_REJ,          /* with the arguments of cm_reject */
	CM_ACT_SEND_REJ_CONSUMER, /* the owner has destroyed the id */
	CM_ACT_SEND_REJ_TIMEOUT,  /* the peer's response is late or no longer needed */
	CM_ACT_SEND_REJ_STALE,    /* the peer has replaced the connection by another */
	CM_ACT_SEND_REJ_UNKNOWN,  /* to a REP: the connection is over */
	CM_ACT_SEND_MRA,          /* with the arguments of cm_delay */
	CM_ACT_AGAIN_MRA,         /* reply to a copy: request more time */
	CM_ACT_SEND_DREQ,
	CM_ACT_SEND_DREP,
	CM_ACT_SEND_LAP,
	CM_ACT_SEND_APR,
	CM_ACT_SEND_SIDR_REQ,
	CM_ACT_SEND_SIDR_REP,
	CM_ACT_REFUSE_SIDR, /* the owner has destroyed the id */
	CM_ACT_RESEND,      /* retransmit the request (timer) */
	CM_ACT_AGAIN_REPLY, /* reply to a copy: the same reply again */
	CM_ACT_AGAIN_APR,   /* reply to a copy: the same APR again */
	CM_ACT_WAIT,        /* for the time that an MRA states */
	CM_ACT_TAKE_REP,
	CM_ACT_TAKE_LAP,
	CM_ACT_TAKE_APR,
	CM_ACT_LAP, /* use the second table */
	CM_NACTS
};

/* Values in place of a next state. */
#define CM_GONE CM_NSTATES       /* free the id */
#define CM_STAY (CM_NSTATES + 1) /* the same state */

struct cm_cell {
	uint8_t act;   /* enum cm_act */
	uint8_t next;  /* enum cm_state, CM_GONE or CM_STAY; unused for CM_ACT_REFUSE */
	uint8_t event; /* enum cm_event_type */
};

extern const struct cm_cell cm_table[CM_NSTATES][CM_NINPUTS];
/* The second table, for an ESTABLISHED id: next is an enum cm_lap_state. */
extern const struct cm_cell cm_lap_table[CM_LAP_NSTATES][CM_NINPUTS];

/* Returns which cells were used since cm_init: bytes of 0 or 1, CM_NINPUTS for each state. */
const uint8_t *cm_cells_seen(const struct cm *cm);
const uint8_t *cm_lap_cells_seen(const struct cm *cm);

#endif
