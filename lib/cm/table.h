/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state machine of an id as tables: for each state and input an action, the state that follows,
 * and the event that is reported. Private to lib/cm and its tests.
 *
 *   active                                      passive
 *   IDLE --connect--> REQ_SENT                  (REQ) --> REQ_RCVD
 *   REQ_SENT --MRA--> MRA_REQ_RCVD              REQ_RCVD --accept--> REP_SENT
 *   REQ_SENT, MRA_REQ_RCVD --REP--> REP_RCVD    REP_SENT --MRA--> MRA_REP_RCVD
 *   REP_RCVD --ready--> ESTABLISHED             REP_SENT, MRA_REP_RCVD --RTU--> ESTABLISHED
 *
 *   ESTABLISHED --disconnect--> DREQ_SENT --DREP--> TIMEWAIT --expired--> CLOSED
 *   ESTABLISHED --DREQ--> TIMEWAIT
 *   a REJ that is sent leads to REJ_SENT --expired--> CLOSED, one that is received to CLOSED or,
 * when packets or MADs of the peer may be in flight, to TIMEWAIT
 *
 * A CM of the specification has two more states for an MRA that it has sent, and one for a DREQ
 * that waits for its program. Here an MRA changes nothing about what is awaited, and a DREQ is
 * answered at once: a program that does not react to DISCONNECTED then costs its peer nothing.
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
	CM_IN_REQ,     /* a copy of the REQ that made the id */
	CM_IN_STALE,   /* another REQ or REP shows that the peer has forgotten this connection */
	CM_IN_MRA_REQ, /* an MRA for a REQ */
	CM_IN_MRA_REP, /* for a REP */
	CM_IN_MRA_LAP, /* for a LAP */
	CM_IN_REP,
	CM_IN_RTU,
	CM_IN_REJ,
	CM_IN_REJ_STALE, /* a REJ with reason "stale connection" */
	CM_IN_DREQ,
	CM_IN_DREP,
	CM_IN_LAP,
	CM_IN_LAP_AGAIN, /* a copy of the last LAP */
	CM_IN_APR,
	CM_IN_SIDR_REQ, /* a copy of the SIDR_REQ that made the id */
	CM_IN_SIDR_REP,
	/* time */
	CM_IN_TIMEOUT, /* nothing has come: there are retries left */
	CM_IN_EXPIRED, /* nothing has come, and nothing more is done about it; or a time is over */
	CM_NINPUTS
};
extern const char *const cm_input_name[CM_NINPUTS];

enum cm_act {
	CM_ACT_REFUSE = 0, /* a call returns -EINVAL, a MAD is dropped and counted */
	CM_ACT_NOTHING,
	CM_ACT_IGNORE, /* a copy of what has been seen: counted */
	CM_ACT_LISTEN,
	CM_ACT_SEND_REQ,
	CM_ACT_SEND_REP,
	CM_ACT_SEND_RTU,
	CM_ACT_SEND_REJ,          /* as cm_reject says */
	CM_ACT_SEND_REJ_CONSUMER, /* the owner has gone */
	CM_ACT_SEND_REJ_TIMEOUT,  /* the peer's answer has not come in time, or is not wanted */
	CM_ACT_SEND_REJ_STALE,    /* the peer has another connection in its place */
	CM_ACT_SEND_REJ_UNKNOWN,  /* to a REP: the connection is over */
	CM_ACT_SEND_MRA,          /* as cm_delay says */
	CM_ACT_AGAIN_MRA,         /* a copy has come: ask for time */
	CM_ACT_SEND_DREQ,
	CM_ACT_SEND_DREP,
	CM_ACT_SEND_LAP,
	CM_ACT_SEND_APR,
	CM_ACT_SEND_SIDR_REQ,
	CM_ACT_SEND_SIDR_REP,
	CM_ACT_REFUSE_SIDR, /* the owner has gone */
	CM_ACT_RESEND,      /* the request, by the timer */
	CM_ACT_AGAIN_REPLY, /* a copy has come: the same reply once more */
	CM_ACT_AGAIN_APR,   /* likewise */
	CM_ACT_WAIT,        /* as an MRA says */
	CM_ACT_TAKE_REP,
	CM_ACT_TAKE_LAP,
	CM_ACT_TAKE_APR,
	CM_ACT_LAP, /* as the second table says */
	CM_NACTS
};

/* Instead of a state that follows. */
#define CM_GONE CM_NSTATES       /* the id is free */
#define CM_STAY (CM_NSTATES + 1) /* the same state */

struct cm_cell {
	uint8_t act;   /* enum cm_act */
	uint8_t next;  /* enum cm_state, CM_GONE or CM_STAY; without meaning for CM_ACT_REFUSE */
	uint8_t event; /* enum cm_event_type */
};

extern const struct cm_cell cm_table[CM_NSTATES][CM_NINPUTS];
/* Of an id that is ESTABLISHED: next is an enum cm_lap_state. */
extern const struct cm_cell cm_lap_table[CM_LAP_NSTATES][CM_NINPUTS];

/* Cells that were looked up since cm_init: bytes of 0 or 1, CM_NINPUTS for each state. */
const uint8_t *cm_cells_seen(const struct cm *cm);
const uint8_t *cm_lap_cells_seen(const struct cm *cm);

#endif
