/* SPDX-License-Identifier: BSD-3-Clause */
/* One user at a time may send from a GID to a QP of a peer. */

#include <errno.h>
#include <string.h>
#include "control/conn_key.h"
#include "../../kit/unit.h"

#define MANY 5000

static struct conn_key
key_of(uint8_t sgid, uint8_t dgid, uint32_t dest_qpn)
{
	struct conn_key key = {.dest_qpn = dest_qpn, .dev = 1};

	key.sgid[15] = sgid;
	key.dgid[15] = dgid;
	return key;
}

UNIT_TEST(conn_key_belongs_to_one_user)
{
	struct conn_key key = key_of(1, 2, 77);
	struct used_key *a, *again, *other;
	struct conn_key_table t;

	assert_int_equal(conn_keys_init(&t, 10, 4711), 0);
	assert_int_equal(conn_key_ref(&t, &key, 1000, &a), 0);
	assert_int_equal(conn_key_ref(&t, &key, 1000, &again), 0);
	assert_ptr_equal(a, again);
	assert_int_equal(conn_key_ref(&t, &key, 1001, &other), -EADDRINUSE);
	assert_int_equal(other->uid, 1000);
	assert_int_equal(conn_key_ref(&t, &key, 0, &other), -EADDRINUSE); /* root, too */
	conn_key_unref(a);
	assert_int_equal(conn_key_ref(&t, &key, 1001, &other), -EADDRINUSE);
	conn_key_unref(again);
	assert_int_equal(conn_key_ref(&t, &key, 1001, &other), 0);
	conn_key_unref(other);
	conn_key_unref(NULL);
	conn_keys_free(&t);
}

/* The two ends of a connection, other peers, another device with the same addresses. */
UNIT_TEST(keys_that_differ_in_one_field_are_distinct)
{
	struct conn_key key[] = {key_of(1, 2, 77), key_of(2, 1, 77), key_of(1, 2, 78),
				 key_of(3, 2, 77), key_of(1, 3, 77), key_of(1, 2, 77)};
	struct used_key *o[6];
	struct conn_key_table t;

	key[5].dev = 2;
	assert_int_equal(conn_keys_init(&t, 10, 4711), 0);
	for (uid_t i = 0; i < 6; i++)
		assert_int_equal(conn_key_ref(&t, &key[i], i, &o[i]), 0);
	for (unsigned i = 0; i < 6; i++) {
		for (unsigned j = 0; j < 6; j++)
			assert_int_equal(conn_key_is(o[i], &key[j]), i == j);
	}
	for (unsigned i = 0; i < 6; i++)
		conn_key_unref(o[i]);
	conn_keys_free(&t);
}

/* More than the initial size of the table. */
UNIT_TEST(many_keys_can_be_added_and_removed)
{
	static struct used_key *o[MANY];
	struct conn_key_table t;

	assert_int_equal(conn_keys_init(&t, 100, 4711), 0);
	for (unsigned round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < MANY; i++) {
			struct conn_key key = key_of(1, 2, i);

			assert_int_equal(conn_key_ref(&t, &key, i, &o[i]), 0);
		}
		for (uint32_t i = 0; i < MANY; i++) {
			struct conn_key key = key_of(1, 2, i);
			struct used_key *other;

			assert_int_equal(conn_key_ref(&t, &key, i + 1, &other), -EADDRINUSE);
			conn_key_unref(o[i]);
		}
	}
	for (uint32_t i = 0; i <= t.mask; i++)
		assert_true(LIST_EMPTY(&t.bucket[i]));
	conn_keys_free(&t);
}
