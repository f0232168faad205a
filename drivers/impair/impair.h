/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault injector on the receive queues of any ethdev port, by rte_eth_add_rx_callback: what a
 * queue's owner gets from rte_eth_rx_burst has gone through it. Each queue has state of its own, so
 * that nothing is locked; the callback runs on empty bursts too, so that frames that wait come out
 * as long as the queue is polled (a worker that sleeps when idle wakes within 2 ms). A
 * port without it pays nothing. What never is on a wire (frames to a GID of the same device) does
 * not pass it.
 *
 * Receive only: an ethdev transmit callback that takes frames away makes rte_eth_tx_burst tell the
 * sender that the port refused them. Two ends with one each impair both directions.
 *
 *   impair_core   decides, pure     impair_frame   changes bytes     impair_spec   text to rules
 *
 * The control thread alone calls these. Workers may be running: they see a change with their next
 * burst; what they may still see is kept until impair_reap.
 * May include lib/wire and ethdev.
 */
#ifndef IMPAIR_IMPAIR_H
#define IMPAIR_IMPAIR_H

#include <stddef.h>
#include <stdint.h>
#include "impair_core.h"
#include "impair_spec.h"

/*
 * Impair what arrives on queues 0 .. nqueues - 1 of a configured port by spec (impair_spec.h), or,
 * where it already is impaired, do so by another spec: counters go on, the random sequence and the
 * counting of matches start anew, frames that wait go on waiting. Each queue has a random sequence
 * of its own, made of the seed and its number. 0; or -errno, nothing changed, and the reason as
 * text in err (err_len bytes with the NUL, 200 are enough): -EINVAL spec, -ENODEV no such port,
 * -ENOMEM, or what ethdev says.
 */
int impair_attach(uint16_t port_id, uint16_t nqueues, const char *spec, char *err, size_t err_len);

/* Impair it no more. Frames that wait are lost. 0, or -ENOENT where it was not. */
int impair_detach(uint16_t port_id);

/* Free what detach and attach left: after each worker has passed a quiescent point since. */
void impair_reap(void);

struct impair_show {
	char spec[IMPAIR_SPEC_MAX];
	uint64_t ctr[IMPAIR_NCOUNTERS]; /* of all queues */
	uint64_t held;                  /* frames that wait now */
	uint32_t nrules;
	struct impair_rule_stats rule[IMPAIR_MAX_RULES];
};
/* Fill *out, with figures that are each right by itself. 0, or -ENOENT where nothing is impaired.
 */
int impair_show(uint16_t port_id, struct impair_show *out);

#endif
