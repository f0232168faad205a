/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A daemon for the provider's tests: runs the control protocol in a separate thread, on a
 * socket in a temporary directory, and shows the test the daemon's side of every ring. It moves
 * no data; the test plays the worker. One client at a time.
 */
#ifndef TEST_UNIT_VERBS_FAKE_H
#define TEST_UNIT_VERBS_FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "uroce_abi/cqe.h"
#include "uroce_abi/ctrl.h"
#include "uroce_abi/ring.h"
#include "uroce_abi/wqe.h"
#include "fake_cm.h"

#define FAKE_OBJS       16
#define FAKE_WORKERS    2

#define FAKE_MAX_SGE    4
#define FAKE_MAX_INLINE 128
#define FAKE_MAX_WR     1024

struct fake_cq {
	bool live;
	uint32_t channel; /* as in the request: handle + 1 */
	uint64_t user_handle;
	uint32_t entries;
	uint32_t prod;
	struct uroce_cq_hdr *hdr;
	struct uroce_cqe *ring;
};

struct fake_qp {
	bool live;
	uint64_t user_handle;
	uint32_t qpn, state;
	uint32_t sq_stride, rq_stride, sq_entries, rq_entries;
	struct uroce_ring_hdr *sq, *rq;
	struct uroce_qp_attr attr; /* of the last modify */
	uint32_t last_mask;
};

struct fake_srq {
	bool live;
	uint64_t user_handle;
	uint32_t entries, stride;
	struct uroce_ring_hdr *ring;
};

struct fake {
	char dir[32];
	char path[64];
	int listen_fd, conn;
	pthread_t thread;
	bool stop;
	/* what the next request of an operation gets, once: a positive errno */
	uint32_t refuse[UROCE_CTRL_OPS];
	uint32_t seen[UROCE_CTRL_OPS]; /* requests by operation */
	uint32_t hello_flags;
	uint16_t hello_version; /* that HELLO's reply chooses */
	uint64_t hello_features;
	bool hang_up_at_hello;
	struct uroce_hello_req hello; /* the last one */
	uint16_t last_version;        /* in the header of the last request */
	const char *refuse_why;       /* sentence of refusals; "" for none */
	int async_fd;                 /* daemon's ends */
	int channel_fd[FAKE_OBJS];
	int wake_fd[FAKE_WORKERS];
	struct uroce_db_ring *db[FAKE_WORKERS];
	struct uroce_worker_state *states; /* of FAKE_WORKERS */
	int seg_fd, db_fd, states_fd;
	uint8_t *seg;
	uint64_t seg_used;
	uint32_t seg_id; /* of the segment that gets further rings */
	struct fake_cq cq[FAKE_OBJS];
	struct fake_qp qp[FAKE_OBJS];
	struct fake_srq srq[FAKE_OBJS];
	uint32_t pd_live, nchannels;
	uint32_t pkey;              /* entry 1 of the P_Key table; 0 is 0xffff */
	struct uroce_reg_mr_req mr; /* the last registration */
	struct fake_cm cm[FAKE_CMS];
	unsigned int ncms;
};

/* Starts a daemon and points $UROCE_SOCKET at it. path NULL: in a new temporary directory. */
struct fake *fake_start(const char *path);
/* Further rings are in a segment that the client does not have. Those that exist stay mapped. */
void fake_new_segment(struct fake *f);
/* Ends the client's connection and the daemon. */
void fake_stop(struct fake *f);
/* Closes everything the client holds an end of, as a daemon that died does. */
void fake_die(struct fake *f);
/* Ends the connection alone, as a daemon does first whose workers still serve the context. */
void fake_hang_up(struct fake *f);

/* fake_device.c: what the device says of itself, and the list of devices; to are all zero. */
void fake_device(struct uroce_device_rep *to);
void fake_list(struct uroce_list_devices_rep *to);

/* Posts a completion as a worker does. The rest of cqe is the caller's. */
void fake_complete(struct fake *f, unsigned int cq, struct uroce_cqe cqe);
/*
 * Where the worker stops for good: before the store that this names (ring.h has their order), or
 * nowhere. At PHASE the entry is written but for its phase.
 */
enum fake_stop {
	FAKE_WHOLE,
	FAKE_AT_TAKING,
	FAKE_AT_CONS,
	FAKE_AT_TAKEN,
	FAKE_AT_ENTRY,
	FAKE_AT_PHASE,
	FAKE_AT_DONE,
	FAKE_STOPS,
};
/* Retires the oldest send (receive) WQE of a QP, which completes to cq: CONS .. DONE. */
void fake_retire_send(struct fake *f, unsigned int qp, unsigned int cq, enum fake_stop stop);
void fake_retire_recv(struct fake *f, unsigned int qp, unsigned int cq, enum fake_stop stop);
/* A QP takes the next WQE of an SRQ (TAKING .. TAKEN), and completes it (ENTRY .. DONE). */
void fake_srq_take(struct fake *f, unsigned int srq, unsigned int qp, enum fake_stop stop);
void fake_srq_complete(struct fake *f, unsigned int qp, unsigned int cq, enum fake_stop stop);
/* The send (receive) WQE at a free-running index of a QP. */
struct uroce_send_wqe *fake_send_wqe(struct fake *f, unsigned int qp, uint32_t index);
struct uroce_recv_wqe *fake_recv_wqe(struct fake *f, unsigned int qp, uint32_t index);
/* Writes an event: to the channel of a CQ, or to the asynchronous descriptor. */
void fake_comp_event(struct fake *f, unsigned int channel, uint64_t user_handle);
void fake_async_event(struct fake *f, uint64_t element, uint32_t type);

#endif
