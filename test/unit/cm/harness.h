/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One or two CMs on the test's clock. Their MADs and events are recorded, and MADs can be
 * delivered.
 */
#ifndef TEST_CM_HARNESS_H
#define TEST_CM_HARNESS_H

#include <string.h>
#include "cm/cm.h"
#include "cm/table.h"
#include "../../kit/unit.h"

#define KEPT     4096 /* MADs, events */
#define MS       1000000ull
#define SEC      (1000 * MS)
#define SERVICE  WIRE_CM_SERVICE(WIRE_CM_PS_TCP, 7471)
#define START    (5 * SEC)
#define ANY_DATA "private data"

struct sent {
	struct cm_addr addr;
	uint8_t mad[WIRE_MAD_LEN];
	struct wire_cm msg;
};

struct told {
	struct cm_event ev; /* its pointers point into here, or are NULL */
	struct wire_cm msg;
	struct cm_addr addr;
	uint8_t data[WIRE_CM_MAX_PRIVATE];
};

struct node {
	uint8_t gid[16];
	void *mem;
	struct cm *cm;
	uint64_t now;
	uint32_t nsent, delivered, ntold, read;
	struct sent sent[KEPT];
	struct told told[KEPT];
	uint32_t destroy_on; /* enum cm_event_type: destroy the id of such an event in the callback
			      */
};

extern struct node nodes[2];

/* Recreates nodes[i], address 10.0.0.(i + 1), with this configuration; NULL: one with 64 ids. */
struct node *node_make(uint32_t i, const struct cm_config *config);
/* cmocka teardown: frees both. */
/* Returns the next event of n, which must be of this type. */
const struct told *node_event(struct node *n, enum cm_event_type type);
/* Checks that no event is left. */
void node_quiet(const struct node *n);
/* Returns the last MAD sent, which must have this attribute. */
const struct sent *node_last(const struct node *n, uint32_t attr);
/* Number of MADs of this attribute that were sent. */
uint32_t node_count(const struct node *n, uint32_t attr);
/* Delivers mad to n as if it came from `from`'s address. Returns whether it was useful. */
bool node_rx(struct node *n, const struct node *from, const uint8_t *mad);
bool node_rx_msg(struct node *n, const struct node *from, const struct wire_cm *m);
/* Delivers the MADs of both nodes, and those sent in response, until none is left. */
void deliver(void);
/* Drops all MADs that were sent and not delivered. */
void lose(void);
/* Lets time pass at both nodes; delivers nothing. */
void pass(uint64_t ns);
/* Counts n's MADs of attr while time passes until n is idle; gap: the times between them. */
uint32_t times_of(struct node *n, uint32_t attr, uint64_t *gap);

enum cm_state state_of(const struct node *n, uint32_t id);

/* Calls with usual values. They must succeed. */
struct cm_listen listen_args(void);
/* Creates a listener of n. cm_listen must return want; after an error the id is destroyed. */
uint32_t listen_with(struct node *n, const struct cm_listen *l, int want);
/* Sends a REQ of nodes[0] to an address of nodes[1]; returns the listener that gets it, 0: none. */
uint32_t asked(const uint8_t gid[16], uint16_t dev, uint32_t comm);
uint32_t do_listen(struct node *n);
struct cm_connect connect_args(const struct node *n, const struct node *to, uint32_t qpn);
uint32_t do_connect(struct node *n, const struct node *to, uint32_t qpn);
struct cm_accept accept_args(uint32_t qpn);
void do_accept(struct node *n, uint32_t id, uint32_t qpn);
/* Sends a REQ of nodes[0], which nodes[1] reports; returns the passive id. */
uint32_t half_pair(uint32_t *active);
/* A connection: ids of nodes[0] (active, QPN 0x11) and nodes[1] (passive, QPN 0x22). */
struct pair {
	uint32_t active, passive, listener;
};
struct pair do_pair(void);

#endif
