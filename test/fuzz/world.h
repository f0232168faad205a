/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One engine with live QPs of every type, and a client that keeps the ABI's rules: only received
 * frames are hostile. After each step all invariants are checked; a violation ends the process,
 * which the fuzzer detects.
 */
#ifndef FUZZ_WORLD_H
#define FUZZ_WORLD_H

#include "step.h"
#include "wire/build.h"
#include "engine/engine.h"

#define WORLD_DEV  0
#define WORLD_QPN  0x000120u /* of the first QP; the others follow */
#define WORLD_PEER 0x00abc0u /* QPN that the first is connected to; the others follow */
#define WORLD_QKEY 0x11111111u
#define WORLD_PD   7u

enum world_qp {
	WORLD_RC,     /* WRITEs, READs, atomics and SENDs outstanding; PSNs about to wrap */
	WORLD_RC_SRQ, /* its receives come from a shared queue */
	WORLD_RC_V6,  /* RTR: receives only */
	WORLD_UC,
	WORLD_UD,
	WORLD_UD_V6,
	WORLD_LOOP, /* connected to itself */
	WORLD_QPS,
	/* For frames only: a multicast group, IPv4 and IPv6, whose members are the UD QPs and
	   others. */
	WORLD_GROUP = WORLD_QPS,
	WORLD_GROUP_V6,
	WORLD_CONSUMER, /* datagrams for a QPN without a QP (engine_set_consumer) */
	WORLD_PEERS,
};

/* QPNs without this bit belong to another worker, to which their frames are handed. */
#define WORLD_OURS   0x100u /* QPNs with this bit are ours .. */
#define WORLD_WORKER 1u     /* .. this worker's; those without it another's */

enum world_region {
	REGION_RW,     /* all remote rights */
	REGION_RO,     /* remote read only: never changes */
	REGION_LOCAL,  /* no remote rights; slots for receives and READs, guards between them */
	REGION_OTHER,  /* all rights, of another protection domain: never changes */
	REGION_COPIED, /* all remote rights, reached by copies that fail near its end */
	REGION_WINDOW, /* a window of type 2, bound to part of REGION_RW by WORLD_RC */
	WORLD_REGIONS,
};
#define REGION_IOVA(r) (0x10000000ull * ((r) + 1))
#define REGION_BYTES   16384u /* of each but REGION_LOCAL */
#define LOCAL_SLOTS    64u
#define LOCAL_SLOT     1024u
#define LOCAL_SLOT_USE 600u /* bytes of a slot that work requests name; the rest is guard */

/* Settings that a step changes (tune.c). */
enum world_tune {
	TUNE_ZERO_COPY,      /* payloads stay in the client's memory */
	TUNE_LOOP_ZERO_COPY, /* the same of frames that loop back; these may have to wait */
	TUNE_COPIES,         /* .. but every one is copied, as while users pause */
	TUNE_CONGESTION,
	TUNE_PAUSE,    /* one of the two users */
	TUNE_MOVE,     /* a QP leaves the engine and comes back */
	TUNE_CONSUMER, /* there is one of WORLD_CONSUMER's datagrams */
	TUNE_CNP,
	TUNE_HOST,       /* frames that are not RoCE go to the kernel */
	TUNE_UNKNOWN_ID, /* as on port udp */
	TUNE_PEERS,
	TUNE_LATE, /* copies of REGION_COPIED */
	TUNE_ARM,  /* the client waits for events */
	TUNE_SGES, /* the client posts memory of REGION_COPIED */
	TUNE_CQ,   /* a CQ gets another ring; whether several workers complete there */
	TUNE_FULL, /* READs are limited, as if a socket had been full */
	TUNE_PATH, /* MACs of neighbours: unknown from the next connect on, or known now */
	TUNE_PKEY, /* the table's first or second entry comes or goes */
	TUNE_NUM,
};

/* The fields that a frame for a QP needs to pass the engine's first checks. */
struct world_peer {
	struct wire_path path;
	struct wire_tmpl tmpl;
	uint8_t svc; /* enum wire_svc */
};

/*
 * fuzz_ring: the client breaks the rules, too (STEP_SCRIBBLE). What must still hold: it harms
 * nothing but its own queues and the memory that its keys allow.
 */
extern bool world_hostile;

/* Once a process: EAL, buffers, memory. */
void world_init(void);
/* All as at the start, then the steps of the input, then all back: nothing leaks. */
void world_run(const uint8_t *data, size_t size);

/* The QPN of frames to a peer. */
uint32_t world_qpn(enum world_qp q);

/* After world_run, for the mutator: where the QP was at its end. */
struct world_psns {
	uint32_t epsn;      /* the next request that it expects */
	uint32_t una, high; /* requests of its own that are not acknowledged: una .. high - 1 */
};
struct world_psns world_psns(enum world_qp q);        /* of a group: any */
const struct world_peer *world_peer(enum world_qp q); /* also of the groups */
uint32_t world_key(enum world_region r);

#endif
