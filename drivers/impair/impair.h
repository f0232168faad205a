/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fault injector on the receive queues of any ethdev port, and of ports that have such callbacks by
 * themselves (struct impair_hooks). It uses rte_eth_add_rx_callback, so all frames that
 * rte_eth_rx_burst returns have passed through it. Each queue has separate state, so
 * there are no locks. The callback also runs on empty bursts, so delayed frames are delivered as
 * long as the queue is polled (an idle worker that sleeps wakes within 2 ms). A port without impair
 * has no overhead. Frames to a GID of the same device do not pass through it, because they never
 * are on a wire.
 *
 * Receive only: if an ethdev transmit callback removed frames, rte_eth_tx_burst would report them
 * as refused by the port. Impair at both ends affects both directions.
 *
 *   impair_core   decides and changes bytes, pure     impair_spec   parses rules
 *
 * Only the control thread calls these functions. Running workers see a change with their next
 * burst; state that they may still use is kept until impair_reap. May include lib/wire and ethdev.
 */
#ifndef IMPAIR_IMPAIR_H
#define IMPAIR_IMPAIR_H

#include <stddef.h>
#include <stdint.h>
#include <rte_ethdev.h>
#include "impair_core.h"
#include "impair_spec.h"

/*
 * How to add and remove receive callbacks of a port that is no ethdev: as rte_eth_add_rx_callback
 * and rte_eth_remove_rx_callback, for a port id below RTE_MAX_ETHPORTS. What add returns is freed
 * by rte_free, by impair_reap. Static.
 */
struct impair_hooks {
	const void *(*add)(uint16_t port_id, uint16_t queue, rte_rx_callback_fn func, void *arg);
	void (*remove)(uint16_t port_id, uint16_t queue, const void *added);
};

/*
 * Impair frames received on queues 0 .. nqueues - 1 of a configured port by spec (impair_spec.h).
 * hooks: of the port; NULL: it is an ethdev. If the port is impaired already, replace its spec:
 * counters continue, the random sequence and match counts restart, and delayed frames stay delayed.
 * Each queue has a separate random sequence, derived from the seed and its number. Returns 0; or
 * -errno, without a change and with the reason as text in err (err_len bytes with the NUL, 200 are
 * enough): -EINVAL spec, -ENODEV no such port, -ENOMEM, or an error of ethdev.
 */
int impair_attach(uint16_t port_id, uint16_t nqueues, const struct impair_hooks *hooks,
		  const char *spec, char *err, size_t err_len);

/* Stop impairing a port. Delayed frames are lost. 0, or -ENOENT if it was not impaired. */
int impair_detach(uint16_t port_id);

/* Free retired state. Call after each worker has passed a quiescent point since. */
void impair_reap(void);

/*
 * From now on, func(arg, queue, m, fate) is called for each frame of a port on which the injector
 * acts (impair_tell), on the thread that polls the queue. func NULL: no longer; threads that poll
 * may call the previous function until their next quiescent point. A port needs no injector yet.
 */
typedef void impair_watch(void *arg, uint16_t queue, const struct rte_mbuf *m,
			  const struct impair_fate *fate);
void impair_set_watch(uint16_t port_id, impair_watch *func, void *arg);

struct impair_show {
	char spec[IMPAIR_SPEC_MAX];
	uint64_t ctr[IMPAIR_NCOUNTERS]; /* of all queues */
	uint64_t held;                  /* delayed frames at present */
	uint64_t queue_bytes;           /* that wait for the link, of all queues, at present .. */
	uint64_t queue_peak;            /* .. and at most in one queue since the last change */
	uint32_t nrules;
	struct impair_rule_stats rule[IMPAIR_MAX_RULES];
};
/* Fill *out; each figure is consistent by itself. 0, or -ENOENT if the port is not impaired. */
int impair_show(uint16_t port_id, struct impair_show *out);

#endif
