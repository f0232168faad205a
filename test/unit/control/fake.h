/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fakes below the control plane, without EAL, threads or ports: workers that run calls at once and
 * record them, and a broker without state.
 */
#ifndef TEST_CONTROL_FAKE_H
#define TEST_CONTROL_FAKE_H

#include "control/session.h"

#define FAKE_WORKERS 2

/*
 * The requests to workers since fake_reset, one word each: "forget" a QP, "doorbell": leave a ring;
 * "grace": the start of a grace period; "quiesce", "readers": the control thread waits.
 */
extern char fake_said[512];
/* Numbers of QPs that workers have, of doorbell rings, and of those that they have polled. */
extern unsigned fake_qps, fake_doorbells, fake_polled;
/* QPs that are connected to a host, and the host of the last change. */
extern unsigned fake_connected;
extern uint8_t fake_host[16];
extern uint32_t fake_sends_to; /* the address handle of posted datagrams; 0: any */
/* Number of calls that the control thread waited for, since fake_reset. */
extern unsigned fake_calls;

/* May frames be sent? The last frame, which the test must free. */
extern bool fake_sends;
extern struct rte_mbuf *fake_sent;
/* Frames that worker 0 has not taken. It takes them when their number is queried, unless stuck. */
extern unsigned fake_waiting;
extern bool fake_stuck;
/* A call to a stopped worker lets it go on, as if the control thread had waited; else it fails. */
extern bool fake_waits;

/* How long each worker was busy since fake_open; and the QP that was last moved to another one. */
extern uint64_t fake_busy_ns[FAKE_WORKERS];
extern const struct qp *fake_moved;

/*
 * The monotonic clock, and the CPU time of the thread, from fake_open on. They stand still, however
 * long the machine lets a request take, so none throttles its user. The test moves them; a sleep of
 * the daemon moves the first. No timer descriptor of the daemon expires unless the test sets it.
 */
extern uint64_t fake_now_ns, fake_cpu_ns;
extern uint64_t fake_paused_ns; /* every user pauses for so long */
extern bool fake_distrust;      /* no user's memory may be mapped */
/* Called by fake_open. Starts a day ahead of the kernel's clock: timers of the daemon lie ahead. */
void fake_clock_start(void);

/* A daemon with one device, "t0", of the addresses 10.0.0.1/24 and fd00::1/64. */
void fake_open(struct daemon *d);
void fake_close(struct daemon *d);
void fake_reset(void);

/* Worker i runs no jobs and reports nothing until fake_resume, after which d continues. */
void fake_stop(unsigned i);
void fake_resume(struct daemon *d, unsigned i);
/* One turn of the loop for work in slices (defer_turn). Returns false if there is none. */
bool fake_turn(struct daemon *d);

/* A session with a context on the device, after its own HELLO; *client: the other end. */
struct session *fake_session(struct daemon *d, int *client);
/* The same without HELLO. */
struct session *fake_connect(struct daemon *d, int *client);
struct session *fake_connect_as(struct daemon *d, uid_t uid, int *client);
/*
 * Requests op as a client does and reads the reply into rep (rep_len bytes). Gets the segments that
 * it needs. Returns its status.
 */
uint32_t fake_ask(struct session *s, int client, uint16_t op, const void *req, size_t req_len,
		  void *rep, size_t rep_len);
/*
 * The two halves of fake_ask, without the segments. fake_receive seals those of a reply, unless
 * fake_unsealed. FAKE_NO_REPLY: no reply yet.
 */
extern bool fake_unsealed;
#define FAKE_NO_REPLY UINT32_MAX
void fake_send(struct session *s, int client, uint16_t op, const void *req, size_t req_len);
uint32_t fake_receive(int client, uint16_t op, void *rep, size_t rep_len);

#endif
