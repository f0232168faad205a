/* SPDX-License-Identifier: BSD-3-Clause */
/* One user at a time may send from a GID to a QP of a peer. */
#include "suite.h"

#include <errno.h>
#include <string.h>
#include "control/triple.h"

#define MANY 5000

static struct triple_key
key_of(uint8_t sgid, uint8_t dgid, uint32_t dest_qpn)
{
	struct triple_key key = {.dest_qpn = dest_qpn, .dev = 1};

	key.sgid[15] = sgid;
	key.dgid[15] = dgid;
	return key;
}

static void
triple_belongs_to_one_user(void **state)
{
	struct triple_key key = key_of(1, 2, 77);
	struct triple *a, *again, *other;
	struct triple_table t;

	assert_int_equal(triple_init(&t, 10, 4711), 0);
	assert_int_equal(triple_claim(&t, &key, 1000, &a), 0);
	assert_int_equal(triple_claim(&t, &key, 1000, &again), 0);
	assert_ptr_equal(a, again);
	assert_int_equal(triple_claim(&t, &key, 1001, &other), -EADDRINUSE);
	assert_int_equal(other->uid, 1000);
	assert_int_equal(triple_claim(&t, &key, 0, &other), -EADDRINUSE); /* root, too */
	triple_release(a);
	assert_int_equal(triple_claim(&t, &key, 1001, &other), -EADDRINUSE);
	triple_release(again);
	assert_int_equal(triple_claim(&t, &key, 1001, &other), 0);
	triple_release(other);
	triple_release(NULL);
	triple_free(&t);
}

/* The two ends of a connection, other peers, another device with the same addresses. */
static void
triples_that_differ_in_one_field_are_distinct(void **state)
{
	struct triple_key key[] = {key_of(1, 2, 77), key_of(2, 1, 77), key_of(1, 2, 78),
				   key_of(3, 2, 77), key_of(1, 3, 77), key_of(1, 2, 77)};
	struct triple *o[6];
	struct triple_table t;

	key[5].dev = 2;
	assert_int_equal(triple_init(&t, 10, 4711), 0);
	for (uid_t i = 0; i < 6; i++)
		assert_int_equal(triple_claim(&t, &key[i], i, &o[i]), 0);
	for (unsigned i = 0; i < 6; i++) {
		for (unsigned j = 0; j < 6; j++)
			assert_int_equal(triple_is(o[i], &key[j]), i == j);
	}
	for (unsigned i = 0; i < 6; i++)
		triple_release(o[i]);
	triple_free(&t);
}

/* More than the initial size of the table. */
static void
many_triples_can_be_added_and_removed(void **state)
{
	static struct triple *o[MANY];
	struct triple_table t;

	assert_int_equal(triple_init(&t, 100, 4711), 0);
	for (unsigned round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < MANY; i++) {
			struct triple_key key = key_of(1, 2, i);

			assert_int_equal(triple_claim(&t, &key, i, &o[i]), 0);
		}
		for (uint32_t i = 0; i < MANY; i++) {
			struct triple_key key = key_of(1, 2, i);
			struct triple *other;

			assert_int_equal(triple_claim(&t, &key, i + 1, &other), -EADDRINUSE);
			triple_release(o[i]);
		}
	}
	for (uint32_t i = 0; i <= t.mask; i++)
		assert_true(LIST_EMPTY(&t.bucket[i]));
	triple_free(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(triple_belongs_to_one_user),
		cmocka_unit_test(triples_that_differ_in_one_field_are_distinct),
		cmocka_unit_test(many_triples_can_be_added_and_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
