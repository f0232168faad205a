/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ownership of connection keys (sgid, dgid, dest_qpn) by uids. The peer identifies a connected QP
 * by the addresses of its packets only: a packet names its destination QP, not its source. Another
 * QP of the same device that sends from the same GID to the same GID and QPN would be taken for the
 * real one. A key therefore belongs to one uid at a time; QPs of that uid may share it. The two
 * ends of a connection within a device have different keys.
 *
 * A hash table: the cost of a reference does not depend on the number of QPs. Needs no EAL. Control
 * thread only.
 */
#ifndef CONTROL_CONN_KEY_H
#define CONTROL_CONN_KEY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct conn_key {
	uint8_t sgid[16], dgid[16];
	uint32_t dest_qpn;
	uint32_t dev; /* device of sgid: devices may be on networks that use the same addresses */
};

/* A key in use. */
struct used_key {
	LIST_ENTRY(used_key) link;
	struct conn_key key;
	uid_t uid;
	uint32_t users; /* references, all of this uid */
};
LIST_HEAD(conn_key_bucket, used_key);

struct conn_key_table {
	struct conn_key_bucket *bucket;
	uint32_t mask;
	uint64_t seed; /* secret, because clients choose dest_qpn and dgid */
};

/* Initialises the table for about max QPs. Returns 0 or -ENOMEM. */
int conn_keys_init(struct conn_key_table *t, uint32_t max, uint64_t seed);
/* Frees the table. No references remain. */
void conn_keys_free(struct conn_key_table *t);

/*
 * Takes a reference to a key for a QP of uid. Returns 0 and *out, which the caller releases;
 * -EADDRINUSE if another uid uses it, and *out is that uid's key; or -ENOMEM.
 */
int conn_key_ref(struct conn_key_table *t, const struct conn_key *key, uid_t uid,
		 struct used_key **out);
/* Releases a reference; NULL is ignored. */
void conn_key_unref(struct used_key *o);
bool conn_key_is(const struct used_key *o, const struct conn_key *key);

#endif
