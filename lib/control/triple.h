/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ownership of triples (sgid, dgid, dest_qpn) by uids. The peer identifies a connected QP by the
 * addresses of its packets only: a packet names its destination QP, not its source. Another QP of
 * the same device that sends from the same GID to the same GID and QPN would be taken for the real
 * one. A triple therefore belongs to one uid at a time; QPs of that uid may share it. The two ends
 * of a connection within a device have different triples.
 *
 * A hash table: the cost of a reference does not depend on the number of QPs. Needs no EAL. Control
 * thread only.
 */
#ifndef CONTROL_TRIPLE_H
#define CONTROL_TRIPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct triple_key {
	uint8_t sgid[16], dgid[16];
	uint32_t dest_qpn;
	uint32_t dev; /* device of sgid: devices may be on networks that use the same addresses */
};

/* A triple in use. */
struct triple {
	LIST_ENTRY(triple) link;
	struct triple_key key;
	uid_t uid;
	uint32_t users; /* references, all of this uid */
};
LIST_HEAD(triple_bucket, triple);

struct triple_table {
	struct triple_bucket *bucket;
	uint32_t mask;
	uint64_t seed; /* secret, because clients choose dest_qpn and dgid */
};

/* Initialises the table for about max QPs. Returns 0 or -ENOMEM. */
int triple_init(struct triple_table *t, uint32_t max, uint64_t seed);
/* Frees the table. No references remain. */
void triple_free(struct triple_table *t);

/*
 * Takes a reference to a triple for a QP of uid. Returns 0 and *out, which the caller releases;
 * -EADDRINUSE if another uid uses it, and *out is that uid's triple; or -ENOMEM.
 */
int triple_claim(struct triple_table *t, const struct triple_key *key, uid_t uid,
		 struct triple **out);
/* Releases a reference; NULL is ignored. */
void triple_release(struct triple *o);
bool triple_is(const struct triple *o, const struct triple_key *key);

#endif
