/* SPDX-License-Identifier: BSD-3-Clause */
#include "cm/table.h"

const char *const cm_state_name[CM_NSTATES] = {
	[CM_IDLE] = "IDLE",
	[CM_LISTEN] = "LISTEN",
	[CM_REQ_SENT] = "REQ_SENT",
	[CM_MRA_REQ_RCVD] = "MRA_REQ_RCVD",
	[CM_REP_RCVD] = "REP_RCVD",
	[CM_REQ_RCVD] = "REQ_RCVD",
	[CM_REP_SENT] = "REP_SENT",
	[CM_MRA_REP_RCVD] = "MRA_REP_RCVD",
	[CM_ESTABLISHED] = "ESTABLISHED",
	[CM_DREQ_SENT] = "DREQ_SENT",
	[CM_TIMEWAIT] = "TIMEWAIT",
	[CM_REJ_SENT] = "REJ_SENT",
	[CM_SIDR_REQ_SENT] = "SIDR_REQ_SENT",
	[CM_SIDR_REQ_RCVD] = "SIDR_REQ_RCVD",
	[CM_SIDR_REP_SENT] = "SIDR_REP_SENT",
	[CM_CLOSED] = "CLOSED",
};

const char *const cm_lap_state_name[CM_LAP_NSTATES] = {
	[CM_LAP_NONE] = "NONE",
	[CM_LAP_SENT] = "LAP_SENT",
	[CM_LAP_MRA_RCVD] = "MRA_LAP_RCVD",
	[CM_LAP_RCVD] = "LAP_RCVD",
};

const char *const cm_event_name[CM_NEVENTS] = {
	[CM_EV_NONE] = "none",
	[CM_EV_CONNECT_REQUEST] = "CONNECT_REQUEST",
	[CM_EV_CONNECT_RESPONSE] = "CONNECT_RESPONSE",
	[CM_EV_ESTABLISHED] = "ESTABLISHED",
	[CM_EV_REJECTED] = "REJECTED",
	[CM_EV_UNREACHABLE] = "UNREACHABLE",
	[CM_EV_DISCONNECTED] = "DISCONNECTED",
	[CM_EV_TIMEWAIT_EXIT] = "TIMEWAIT_EXIT",
	[CM_EV_PATH_REQUEST] = "PATH_REQUEST",
	[CM_EV_PATH_RESPONSE] = "PATH_RESPONSE",
	[CM_EV_SIDR_REQUEST] = "SIDR_REQUEST",
	[CM_EV_SIDR_RESPONSE] = "SIDR_RESPONSE",
};

const char *const cm_input_name[CM_NINPUTS] = {
	[CM_IN_LISTEN] = "listen",
	[CM_IN_CONNECT] = "connect",
	[CM_IN_ACCEPT] = "accept",
	[CM_IN_READY] = "ready",
	[CM_IN_ESTABLISHED] = "established",
	[CM_IN_REJECT] = "reject",
	[CM_IN_DELAY] = "delay",
	[CM_IN_DISCONNECT] = "disconnect",
	[CM_IN_LOAD_PATH] = "load_path",
	[CM_IN_ANSWER_PATH] = "answer_path",
	[CM_IN_ASK] = "ask",
	[CM_IN_ANSWER] = "answer",
	[CM_IN_DESTROY] = "destroy",
	[CM_IN_REQ] = "REQ",
	[CM_IN_STALE] = "STALE",
	[CM_IN_MRA_REQ] = "MRA_REQ",
	[CM_IN_MRA_REP] = "MRA_REP",
	[CM_IN_MRA_LAP] = "MRA_LAP",
	[CM_IN_REP] = "REP",
	[CM_IN_RTU] = "RTU",
	[CM_IN_REJ] = "REJ",
	[CM_IN_REJ_STALE] = "REJ_STALE",
	[CM_IN_DREQ] = "DREQ",
	[CM_IN_DREP] = "DREP",
	[CM_IN_LAP] = "LAP",
	[CM_IN_LAP_AGAIN] = "LAP_AGAIN",
	[CM_IN_APR] = "APR",
	[CM_IN_SIDR_REQ] = "SIDR_REQ",
	[CM_IN_SIDR_REP] = "SIDR_REP",
	[CM_IN_TIMEOUT] = "TIMEOUT",
	[CM_IN_EXPIRED] = "EXPIRED",
};

/* Execute an action and go to a state. */
#define GO(action, state)                                                                          \
	{                                                                                          \
		.act = CM_ACT_##action, .next = CM_##state                                         \
	}
/* Execute an action, go to a state and report an event. */
#define TELL(action, state, what)                                                                  \
	{                                                                                          \
		.act = CM_ACT_##action, .next = CM_##state, .event = CM_EV_##what                  \
	}
#define IGNORE GO(IGNORE, STAY)

const struct cm_cell cm_table[CM_NSTATES][CM_NINPUTS] = {
	[CM_IDLE] =
		{
			[CM_IN_LISTEN] = GO(LISTEN, LISTEN),            /* CM-10 */
			[CM_IN_CONNECT] = GO(SEND_REQ, REQ_SENT),       /* CM-04 */
			[CM_IN_ASK] = GO(SEND_SIDR_REQ, SIDR_REQ_SENT), /* CM-07 */
			[CM_IN_DESTROY] = GO(NOTHING, GONE),
		},
	[CM_LISTEN] =
		{
			[CM_IN_DESTROY] = GO(NOTHING, GONE),
		},
	[CM_REQ_SENT] =
		{
			[CM_IN_MRA_REQ] = GO(WAIT, MRA_REQ_RCVD), /* CM-04 */
			[CM_IN_REP] = TELL(TAKE_REP, REP_RCVD, CONNECT_RESPONSE),
			[CM_IN_REJ] = TELL(NOTHING, CLOSED, REJECTED),
			/* the peer still has an older connection, whose packets may be in flight */
			[CM_IN_REJ_STALE] = TELL(NOTHING, TIMEWAIT, REJECTED),
			[CM_IN_TIMEOUT] = GO(RESEND, STAY),
			[CM_IN_EXPIRED] = TELL(SEND_REJ_TIMEOUT, CLOSED, UNREACHABLE),
			[CM_IN_DESTROY] = GO(SEND_REJ_TIMEOUT, GONE),
		},
	[CM_MRA_REQ_RCVD] =
		{
			[CM_IN_MRA_REQ] = GO(WAIT, STAY),
			[CM_IN_REP] = TELL(TAKE_REP, REP_RCVD, CONNECT_RESPONSE),
			[CM_IN_REJ] = TELL(NOTHING, CLOSED, REJECTED),
			[CM_IN_REJ_STALE] = TELL(NOTHING, TIMEWAIT, REJECTED),
			[CM_IN_TIMEOUT] = GO(RESEND, STAY),
			[CM_IN_EXPIRED] = TELL(SEND_REJ_TIMEOUT, CLOSED, UNREACHABLE),
			[CM_IN_DESTROY] = GO(SEND_REJ_TIMEOUT, GONE),
		},
	[CM_REP_RCVD] =
		{
			[CM_IN_READY] = GO(SEND_RTU, ESTABLISHED),
			[CM_IN_REJECT] = GO(SEND_REJ, REJ_SENT),
			[CM_IN_DELAY] = GO(SEND_MRA, STAY),
			[CM_IN_REP] = GO(AGAIN_MRA, STAY), /* CM-05 */
			[CM_IN_MRA_REQ] = IGNORE,          /* overtaken by the REP */
			[CM_IN_STALE] = TELL(SEND_REJ_STALE, REJ_SENT, REJECTED),
			[CM_IN_REJ] = TELL(NOTHING, TIMEWAIT, REJECTED),
			[CM_IN_REJ_STALE] = TELL(NOTHING, TIMEWAIT, REJECTED),
			/* a first request established the connection at the peer (CM-02) */
			[CM_IN_DREQ] = TELL(SEND_DREP, TIMEWAIT, DISCONNECTED),
			[CM_IN_DESTROY] = GO(SEND_REJ_CONSUMER, REJ_SENT),
		},
	[CM_REQ_RCVD] =
		{
			[CM_IN_ACCEPT] = GO(SEND_REP, REP_SENT),
			[CM_IN_REJECT] = GO(SEND_REJ, REJ_SENT),
			[CM_IN_DELAY] = GO(SEND_MRA, STAY),
			[CM_IN_REQ] = GO(AGAIN_MRA, STAY), /* CM-05 */
			[CM_IN_STALE] = TELL(SEND_REJ_STALE, REJ_SENT, REJECTED),
			/* copies of the REQ may still be in flight */
			[CM_IN_REJ] = TELL(NOTHING, TIMEWAIT, REJECTED),
			[CM_IN_REJ_STALE] = TELL(NOTHING, TIMEWAIT, REJECTED),
			[CM_IN_DESTROY] = GO(SEND_REJ_CONSUMER, REJ_SENT),
		},
	[CM_REP_SENT] =
		{
			[CM_IN_RTU] = TELL(NOTHING, ESTABLISHED, ESTABLISHED),
			[CM_IN_ESTABLISHED] = TELL(NOTHING, ESTABLISHED, ESTABLISHED), /* CM-02 */
			[CM_IN_REJECT] = GO(SEND_REJ, REJ_SENT),
			[CM_IN_REQ] = GO(AGAIN_REPLY, STAY),      /* CM-05 */
			[CM_IN_MRA_REP] = GO(WAIT, MRA_REP_RCVD), /* CM-04 */
			[CM_IN_STALE] = TELL(SEND_REJ_STALE, REJ_SENT, REJECTED),
			[CM_IN_REJ] = TELL(NOTHING, TIMEWAIT, REJECTED),
			[CM_IN_REJ_STALE] = TELL(NOTHING, TIMEWAIT, REJECTED),
			/* the RTU was lost, and the peer has disconnected already */
			[CM_IN_DREQ] = TELL(SEND_DREP, TIMEWAIT, DISCONNECTED),
			[CM_IN_TIMEOUT] = GO(RESEND, STAY),
			[CM_IN_EXPIRED] = TELL(SEND_REJ_TIMEOUT, REJ_SENT, UNREACHABLE),
			[CM_IN_DESTROY] = GO(SEND_REJ_CONSUMER, REJ_SENT),
		},
	[CM_MRA_REP_RCVD] =
		{
			[CM_IN_RTU] = TELL(NOTHING, ESTABLISHED, ESTABLISHED),
			[CM_IN_ESTABLISHED] = TELL(NOTHING, ESTABLISHED, ESTABLISHED),
			[CM_IN_REJECT] = GO(SEND_REJ, REJ_SENT),
			[CM_IN_REQ] = GO(AGAIN_REPLY, STAY),
			[CM_IN_MRA_REP] = GO(WAIT, STAY),
			[CM_IN_STALE] = TELL(SEND_REJ_STALE, REJ_SENT, REJECTED),
			[CM_IN_REJ] = TELL(NOTHING, TIMEWAIT, REJECTED),
			[CM_IN_REJ_STALE] = TELL(NOTHING, TIMEWAIT, REJECTED),
			[CM_IN_DREQ] = TELL(SEND_DREP, TIMEWAIT, DISCONNECTED),
			[CM_IN_TIMEOUT] = GO(RESEND, STAY),
			[CM_IN_EXPIRED] = TELL(SEND_REJ_TIMEOUT, REJ_SENT, UNREACHABLE),
			[CM_IN_DESTROY] = GO(SEND_REJ_CONSUMER, REJ_SENT),
		},
	[CM_ESTABLISHED] =
		{
			[CM_IN_ESTABLISHED] = GO(NOTHING, STAY),
			[CM_IN_DISCONNECT] = GO(SEND_DREQ, DREQ_SENT), /* CM-06 */
			[CM_IN_DREQ] = TELL(SEND_DREP, TIMEWAIT, DISCONNECTED),
			[CM_IN_REQ] = GO(AGAIN_REPLY, STAY), /* CM-05 */
			[CM_IN_REP] = GO(AGAIN_REPLY, STAY), /* CM-05: the RTU was lost */
			[CM_IN_RTU] = IGNORE,
			[CM_IN_MRA_REQ] = IGNORE,
			[CM_IN_MRA_REP] = IGNORE,
			[CM_IN_REJ] = TELL(NOTHING, TIMEWAIT, DISCONNECTED),
			[CM_IN_REJ_STALE] = TELL(NOTHING, TIMEWAIT, DISCONNECTED),
			[CM_IN_STALE] = TELL(SEND_DREQ, DREQ_SENT, DISCONNECTED), /* CM-05 */
			[CM_IN_LOAD_PATH] = GO(LAP, STAY),                        /* CM-08 */
			[CM_IN_ANSWER_PATH] = GO(LAP, STAY),
			[CM_IN_MRA_LAP] = GO(LAP, STAY),
			[CM_IN_LAP] = GO(LAP, STAY),
			[CM_IN_LAP_AGAIN] = GO(LAP, STAY),
			[CM_IN_APR] = GO(LAP, STAY),
			[CM_IN_TIMEOUT] = GO(LAP, STAY),
			[CM_IN_EXPIRED] = GO(LAP, STAY),
			[CM_IN_DESTROY] = GO(SEND_DREQ, DREQ_SENT),
		},
	[CM_DREQ_SENT] =
		{
			[CM_IN_DISCONNECT] = GO(NOTHING, STAY),
			[CM_IN_DREP] = TELL(NOTHING, TIMEWAIT, DISCONNECTED),
			[CM_IN_DREQ] = TELL(SEND_DREP, TIMEWAIT, DISCONNECTED), /* both at once */
			[CM_IN_REJ] = TELL(NOTHING, TIMEWAIT, DISCONNECTED),
			[CM_IN_REJ_STALE] = TELL(NOTHING, TIMEWAIT, DISCONNECTED),
			[CM_IN_REP] = GO(AGAIN_REPLY, STAY), /* the RTU was lost */
			[CM_IN_REQ] = IGNORE,
			[CM_IN_RTU] = IGNORE,
			[CM_IN_MRA_REQ] = IGNORE,
			[CM_IN_MRA_REP] = IGNORE,
			[CM_IN_MRA_LAP] = IGNORE,
			[CM_IN_LAP] = IGNORE, /* both sides end: no answer is needed */
			[CM_IN_LAP_AGAIN] = IGNORE,
			[CM_IN_APR] = IGNORE,
			[CM_IN_STALE] = IGNORE,
			[CM_IN_TIMEOUT] = GO(RESEND, STAY),
			[CM_IN_EXPIRED] = TELL(NOTHING, TIMEWAIT, DISCONNECTED),
			[CM_IN_DESTROY] = GO(NOTHING, STAY),
		},
	[CM_TIMEWAIT] =
		{
			[CM_IN_DISCONNECT] = GO(NOTHING, STAY),
			[CM_IN_DREQ] = GO(SEND_DREP, STAY), /* CM-05 */
			[CM_IN_REP] = GO(SEND_REJ_UNKNOWN, STAY),
			[CM_IN_DREP] = IGNORE,
			[CM_IN_REQ] = IGNORE,
			[CM_IN_RTU] = IGNORE,
			[CM_IN_REJ] = IGNORE,
			[CM_IN_REJ_STALE] = IGNORE,
			[CM_IN_MRA_REQ] = IGNORE,
			[CM_IN_MRA_REP] = IGNORE,
			[CM_IN_MRA_LAP] = IGNORE,
			[CM_IN_LAP] = IGNORE,
			[CM_IN_LAP_AGAIN] = IGNORE,
			[CM_IN_APR] = IGNORE,
			[CM_IN_STALE] = IGNORE,
			[CM_IN_EXPIRED] = TELL(NOTHING, CLOSED, TIMEWAIT_EXIT),
			[CM_IN_DESTROY] = GO(NOTHING, STAY),
		},
	[CM_REJ_SENT] =
		{
			[CM_IN_REQ] = GO(AGAIN_REPLY, STAY), /* CM-05 */
			[CM_IN_REP] = GO(AGAIN_REPLY, STAY),
			[CM_IN_RTU] = GO(AGAIN_REPLY, STAY),
			[CM_IN_MRA_REQ] = IGNORE,
			[CM_IN_MRA_REP] = GO(AGAIN_REPLY, STAY),
			[CM_IN_REJ] = IGNORE,
			[CM_IN_REJ_STALE] = IGNORE,
			[CM_IN_DREQ] = GO(SEND_DREP, STAY),
			[CM_IN_STALE] = IGNORE,
			[CM_IN_EXPIRED] = GO(NOTHING, CLOSED),
			[CM_IN_DESTROY] = GO(NOTHING, STAY),
		},
	[CM_SIDR_REQ_SENT] =
		{
			[CM_IN_SIDR_REP] = TELL(NOTHING, CLOSED, SIDR_RESPONSE),
			[CM_IN_TIMEOUT] = GO(RESEND, STAY),
			[CM_IN_EXPIRED] = TELL(NOTHING, CLOSED, UNREACHABLE),
			[CM_IN_DESTROY] = GO(NOTHING, GONE),
		},
	[CM_SIDR_REQ_RCVD] =
		{
			[CM_IN_ANSWER] = GO(SEND_SIDR_REP, SIDR_REP_SENT),
			[CM_IN_SIDR_REQ] = IGNORE, /* SIDR has no MRA */
			[CM_IN_DESTROY] = GO(REFUSE_SIDR, SIDR_REP_SENT),
		},
	[CM_SIDR_REP_SENT] =
		{
			[CM_IN_SIDR_REQ] = GO(AGAIN_REPLY, STAY), /* CM-05 */
			[CM_IN_EXPIRED] = GO(NOTHING, CLOSED),
			[CM_IN_DESTROY] = GO(NOTHING, STAY),
		},
	[CM_CLOSED] =
		{
			[CM_IN_REP] = GO(SEND_REJ_UNKNOWN, STAY),
			[CM_IN_DREQ] = GO(SEND_DREP, STAY),
			[CM_IN_DESTROY] = GO(NOTHING, GONE),
		},
};

#define LAP_GO(action, state)                                                                      \
	{                                                                                          \
		.act = CM_ACT_##action, .next = CM_LAP_##state                                     \
	}
#define LAP_TELL(action, state, what)                                                              \
	{                                                                                          \
		.act = CM_ACT_##action, .next = CM_LAP_##state, .event = CM_EV_##what              \
	}

const struct cm_cell cm_lap_table[CM_LAP_NSTATES][CM_NINPUTS] = {
	[CM_LAP_NONE] =
		{
			[CM_IN_LOAD_PATH] = LAP_GO(SEND_LAP, SENT),
			[CM_IN_LAP] = LAP_TELL(TAKE_LAP, RCVD, PATH_REQUEST),
			[CM_IN_LAP_AGAIN] = LAP_GO(AGAIN_APR, NONE), /* CM-05 */
			[CM_IN_APR] = LAP_GO(IGNORE, NONE),
			[CM_IN_MRA_LAP] = LAP_GO(IGNORE, NONE),
		},
	[CM_LAP_SENT] =
		{
			[CM_IN_APR] = LAP_TELL(TAKE_APR, NONE, PATH_RESPONSE),
			[CM_IN_MRA_LAP] = LAP_GO(WAIT, MRA_RCVD),
			[CM_IN_TIMEOUT] = LAP_GO(RESEND, SENT),
			[CM_IN_EXPIRED] = LAP_TELL(NOTHING, NONE, PATH_RESPONSE),
		},
	[CM_LAP_MRA_RCVD] =
		{
			[CM_IN_APR] = LAP_TELL(TAKE_APR, NONE, PATH_RESPONSE),
			[CM_IN_MRA_LAP] = LAP_GO(WAIT, MRA_RCVD),
			[CM_IN_TIMEOUT] = LAP_GO(RESEND, MRA_RCVD),
			[CM_IN_EXPIRED] = LAP_TELL(NOTHING, NONE, PATH_RESPONSE),
		},
	[CM_LAP_RCVD] =
		{
			[CM_IN_ANSWER_PATH] = LAP_GO(SEND_APR, NONE),
			[CM_IN_LAP_AGAIN] = LAP_GO(AGAIN_MRA, RCVD),
		},
};
