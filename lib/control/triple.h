/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who speaks from a local GID to a QP of a peer. A connected QP is known to its peer by the
 * addresses of its packets alone: a packet names the QP that it is for, not the one it is from.
 * Another QP of the same device that sends from the same GID to the same GID and QPN is taken for
 * the real peer. So a triple (sgid, dgid, dest_qpn) belongs to one uid at a time; QPs of that uid
 * may share it. The two ends of a connection within a device have different triples.
 *
 * A hash table: a claim costs the same however many QPs there are. Needs no EAL. Control thread
 * only.
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
	uint32_t dev; /* of sgid: devices may be on networks that use the same addresses */
};

/* A triple in use. */
struct triple {
	LIST_ENTRY(triple) link;
	struct triple_key key;
	uid_t uid;
	uint32_t users; /* claims on it, all of this uid */
};
LIST_HEAD(triple_bucket, triple);

struct triple_table {
	struct triple_bucket *bucket;
	uint32_t mask;
	uint64_t seed; /* secret: dest_qpn and dgid are the clients' to choose */
};

/* For about max QPs. 0 or -ENOMEM. */
int triple_init(struct triple_table *t, uint32_t max, uint64_t seed);
/* Nothing is claimed any more. */
void triple_free(struct triple_table *t);

/*
 * Claim a triple for a QP of uid. 0 and *out, to be released; -EADDRINUSE when QPs of another uid
 * use it, and *out is that uid's triple; -ENOMEM.
 */
int triple_claim(struct triple_table *t, const struct triple_key *key, uid_t uid,
		 struct triple **out);
/* Give a claim back; NULL is ignored. */
void triple_release(struct triple *o);
bool triple_is(const struct triple *o, const struct triple_key *key);

#endif
