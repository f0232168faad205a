/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which datagrams for QP1 (MADs) the control thread gets. Any host can send MADs, and each costs
 * the control thread more than it costs its sender. A worker therefore drops those of hosts in
 * debt, before they wake the control thread.
 *
 * A MAD puts its sender into debt when it is admitted. The control thread forgives the debt if the
 * MAD was useful: it began a connection, or changed the state of one and named its ids. Refused
 * requests, duplicates, MADs about unknown connections, and queries of other daemons are not. A
 * host may send 800 of these at once, or 1,000 in some time, then one in each MAD_GATE_OWN_NS. An
 * honest host is hardly ever in debt, however many connections it makes.
 *
 * Fair between hosts: a host in debt is refused while others are not. MADs that ask for something
 * new, MADs about a connection, and others have separate debts, because source addresses can be
 * forged: a flood of REQs in the name of a peer must not keep that peer from disconnecting.
 *
 * Bounded in total: all hosts share a debt, too. Hosts that QPs are connected to share another one,
 * so that floods of strangers with many addresses do not reach them.
 *
 * No clock, no locks: workers and the control thread share the debts as atomic words.
 */
#ifndef WORKER_MAD_GATE_H
#define WORKER_MAD_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct wire_pkt;

#define MAD_GATE_PLACES 1024u         /* hosts share one by chance */
#define MAD_GATE_OWN_NS 1000000ull    /* debt of a host for one MAD */
#define MAD_GATE_ALL_NS 250000ull     /* debt of all hosts together for one MAD */
#define MAD_GATE_MAX_NS 1000000000ull /* both debts together, at most */

enum mad_kind { MAD_OTHER = 0, MAD_REQUEST, MAD_CONNECTION, MAD_KINDS };

struct mad_gate {
	uint64_t key; /* secret: a host must not choose its place */
	/* times at which debts are paid */
	uint64_t own_ns[MAD_KINDS][MAD_GATE_PLACES];
	uint64_t all_ns[2];            /* of strangers; of peers */
	uint32_t qps[MAD_GATE_PLACES]; /* connected to hosts of this place */
};

/*
 * Worker. Returns true if the control thread gets this MAD at now_ns. *ticket: for
 * mad_gate_forgive. *peer: a QP is connected to its sender.
 */
bool mad_gate_admit(struct mad_gate *g, const struct wire_pkt *pkt, uint64_t now_ns,
		    uint32_t *ticket, bool *peer);
/* Any thread. The admitted MAD was useful, or had no space. Called at most once for a ticket. */
void mad_gate_forgive(struct mad_gate *g, uint32_t ticket);
/* Control thread. One QP more, or one fewer, is connected to the host of this GID. */
void mad_gate_connected(struct mad_gate *g, const uint8_t gid[16], bool more);

#endif
