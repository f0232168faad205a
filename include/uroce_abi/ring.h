/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings in shared memory. Every ring is one producer and one consumer, a power of two of entries
 * at a fixed stride. Indices run freely modulo 2^32 and are masked with the ring's size. Each side
 * keeps a private copy of the size: a value in shared memory is never used as a size or a mask.
 *
 * SQ, RQ, SRQ: the client produces, the daemon consumes. cons moves when a WQE is retired (its
 * slot may be written again), not when it is read.
 *
 *   client: write WQE; store-release prod; full fence; if exchange(armed, 0) == 1 ring doorbell
 *   daemon: nothing to do: store armed = 1; full fence; load prod again; if it moved, armed = 0
 *
 * The two full fences are partners: one side always sees the other's store.
 * An RQ is armed only while its QP is in the error state (a posted WR must be flushed at once).
 *
 * If the daemon dies, the client completes the outstanding WRs itself (CQE-15), each exactly once,
 * at whatever instruction the worker stopped. A worker therefore writes, for each WQE, in this
 * order: wr_id; cons; entry; the CQ entry's phase; done. Consecutive send WQEs without a completion
 * may share one update of wr_id (the last one's), cons and done. An SRQ's WQE is taken long before
 * it completes. The worker writes for it: held.wr_id, held.index, held.state = TAKING; the SRQ's
 * cons; state = TAKEN. When it completes: held.entry; the CQ entry's phase; state = NONE. The
 * daemon never reads these fields.
 */
#ifndef UROCE_ABI_RING_H
#define UROCE_ABI_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "version.h"

enum uroce_held_state {
	UROCE_HELD_NONE = 0,
	UROCE_HELD_TAKING = 1, /* taken only if the SRQ's cons has passed index */
	UROCE_HELD_TAKEN = 2,
};

/* In the SQ header of a QP with an SRQ: the SRQ's WQE that the QP has taken. */
struct uroce_held {
	uint64_t wr_id;
	uint64_t entry; /* as in the ring's header */
	uint32_t index; /* of the WQE in the SRQ */
	uint32_t state; /* enum uroce_held_state */
};
UROCE_ABI_ASSERT(sizeof(struct uroce_held) == 24, "held size");

/* Header of an SQ, RQ or SRQ; the entries start UROCE_RING_HDR bytes from its start. */
struct uroce_ring_hdr {
	uint32_t prod;  /* written by the client */
	uint32_t armed; /* set by the daemon, cleared by the side that rings or finds work */
	/*
	 * SQ, written by the daemon: the worker whose doorbell ring has this QP's doorbells, also
	 * those for its RQ. Read after armed was found set (UROCE_ABI_MOVES, hello.h).
	 */
	uint32_t worker;
	uint8_t spare0[52];
	uint32_t cons;  /* written by the daemon, as the rest of this line */
	uint32_t done;  /* the completions of all WQEs before this index are in the CQ */
	uint64_t entry; /* of the WQE last completed: uroce_ring_entry */
	uint64_t wr_id; /* of the WQE before cons, whose slot may have been reused */
	struct uroce_held held;
	uint8_t spare1[16];
};
#define UROCE_RING_HDR 128
UROCE_ABI_ASSERT(sizeof(struct uroce_ring_hdr) == UROCE_RING_HDR, "ring header size");
UROCE_ABI_ASSERT(offsetof(struct uroce_ring_hdr, cons) == 64, "cons on its own line");
UROCE_ABI_ASSERT(offsetof(struct uroce_ring_hdr, held) == 88, "ring header layout");
UROCE_ABI_ASSERT(offsetof(struct uroce_ring_hdr, armed) == 4,
		 "armed and prod are in the line that a post writes");

/* The value of entry: WQE number wqe completes with CQ entry cqe; both indices run freely. */
static inline uint64_t
uroce_ring_entry(uint32_t wqe, uint32_t cqe)
{
	return (uint64_t)(wqe + 1) << 32 | cqe;
}

/*
 * Doorbell ring, one for each context and worker: QPNs with new work. The client's threads
 * serialise access to it by a separate lock. A full or inconsistent ring is safe: the client
 * sets overflow, and the worker then polls every QP of the context.
 *
 *   client: write qpn; store-release prod; full fence; if asleep, write 8 bytes to the eventfd
 *   worker: going to sleep: asleep = 1; full fence; poll every ring again; sleep
 *
 * A thread that gives up its core while it waits for a completion of the context sleeps on waiter,
 * a futex, in the context's first ring, whichever worker completes:
 *
 *   client: waiter = uroce_waiter; full fence; poll every CQ again; FUTEX_WAIT, for a bounded time
 *   worker: release the entry's phase; full fence; if waiter != 0, exchange it by 0, FUTEX_WAKE
 *
 * A worker also wakes a waiter on the worker's CPU that has waited for UROCE_WAITER_NS, and before
 * it sleeps: the thread may have other things to poll, and a timer for that would cost more (on a
 * virtual machine as much as several messages).
 */
#define UROCE_WAITER_NS 50000u

/* A value of waiter: never 0, and another one each time. */
static inline uint32_t
uroce_waiter(uint32_t cpu, uint32_t serial)
{
	return serial << 16 | ((cpu + 1) & 0xffff);
}

/* Returns true if value is of a thread on this CPU. */
static inline bool
uroce_waiter_is_on(uint32_t value, uint32_t cpu)
{
	return (value & 0xffff) == ((cpu + 1) & 0xffff) && value != 0;
}

#define UROCE_DB_ENTRIES 1024
struct uroce_db_ring {
	uint32_t prod; /* written by the client */
	uint32_t overflow;
	uint32_t waiter; /* set by the client, taken by any worker */
	uint8_t spare0[52];
	uint32_t cons; /* written by the worker */
	uint8_t spare1[60];
	uint32_t qpn[UROCE_DB_ENTRIES];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_db_ring) == 128 + 4 * UROCE_DB_ENTRIES, "doorbell ring size");

/*
 * What all clients know of a worker, in a page that only the daemon can write: worker i has the
 * i-th of an array. One line for all clients, so that a worker's sleep costs the same for any
 * number of them.
 */
struct uroce_worker_state {
	uint32_t asleep; /* wake it through its eventfd */
	uint32_t cpu;    /* 1 + its CPU, as of its last sleep; 0: unknown */
	uint8_t spare[56];
};
UROCE_ABI_ASSERT(sizeof(struct uroce_worker_state) == UROCE_CACHE_LINE, "worker state size");

#endif
