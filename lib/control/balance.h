/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves QPs from busy workers to others (urocectl set balance on), at most one a second. Off: a QP
 * follows its packets only (worker/worker.h). A QP that was moved here stays until it is moved
 * again, or until balance ends. QPs that an operator has placed are left alone.
 */
#ifndef CONTROL_BALANCE_H
#define CONTROL_BALANCE_H

#include <stdbool.h>
#include <stdint.h>

struct daemon;

/* What a QP has done since the last look. */
struct balance_qp {
	uint64_t bytes; /* received and sent */
	uint32_t worker;
	bool stays; /* must not be moved now */
};

/*
 * Returns the index of the QP whose move evens out the workers' load most, and the least busy
 * worker in *to; n: no move is worth it. busy: of each of nworkers, permille of time. A QP's part
 * of its worker's time is its part of the bytes. Moves nothing over a difference of less than a
 * fifth of the time, nor a QP that would carry most of the difference with it: with the same
 * traffic, the moves end, and none is taken back.
 */
uint32_t balance_choose(const uint32_t *busy, uint32_t nworkers, const struct balance_qp *qp,
			uint32_t n, uint32_t *to);

/* Control thread, at least twice a second: compares the workers and moves a QP when it is time. */
void balance_look(struct daemon *d);
/* Control thread. Returns 0 or -ENOMEM. Harmless if it is on. */
int balance_start(struct daemon *d);
/* Control thread. QPs that were moved follow their packets again. Harmless if it is off. */
void balance_stop(struct daemon *d);

#endif
