/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of the daemon that turn numbers into objects: handles and QPNs. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "control/idtab.h"
#include "control/qpn.h"
#include "../../kit/unit.h"

UNIT_TEST(ids_find_their_objects_only)
{
	struct idtab t;
	int obj[100];
	uint32_t id[100];

	idtab_init(&t, 100);
	assert_null(idtab_get(&t, 0));
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(idtab_add(&t, &obj[i], &id[i]), 0);
	for (unsigned i = 0; i < 100; i++)
		assert_ptr_equal(idtab_get(&t, id[i]), &obj[i]);
	for (unsigned i = 0; i < 100; i++) {
		for (unsigned j = 0; j < i; j++)
			assert_int_not_equal(id[i], id[j]);
		assert_true(id[i] < 1u << 31);
	}
	assert_null(idtab_get(&t, 100));
	assert_null(idtab_get(&t, UINT32_MAX));
	assert_null(idtab_get(&t, id[5] | 1u << 31));
	idtab_free(&t);
}

UNIT_TEST(full_table_refuses)
{
	struct idtab t;
	uint32_t id, first;
	int obj;

	idtab_init(&t, 3);
	assert_int_equal(idtab_add(&t, &obj, &first), 0);
	assert_int_equal(idtab_add(&t, &obj, &id), 0);
	assert_int_equal(idtab_add(&t, &obj, &id), 0);
	assert_int_equal(idtab_add(&t, &obj, &id), -ENOSPC);
	idtab_del(&t, first);
	assert_int_equal(t.used, 2);
	assert_int_equal(idtab_add(&t, &obj, &id), 0);
	idtab_free(&t);
}

/* A destroyed handle stays unknown, also when its slot is reused. */
UNIT_TEST(stale_ids_are_unknown)
{
	struct idtab t;
	uint32_t id, again;
	int a, b;

	idtab_init(&t, 1);
	assert_int_equal(idtab_add(&t, &a, &id), 0);
	idtab_del(&t, id);
	assert_null(idtab_get(&t, id));
	idtab_del(&t, id);
	assert_int_equal(t.used, 0);
	for (int i = 0; i < 2000; i++) {
		assert_int_equal(idtab_add(&t, &b, &again), 0);
		assert_int_not_equal(again, id);
		assert_null(idtab_get(&t, id));
		idtab_del(&t, again);
		id = again;
	}
	idtab_free(&t);
}

/* A request that fails, and is repeated, does not use up handles. */
UNIT_TEST(id_that_nobody_has_seen_is_used_again)
{
	struct idtab t;
	uint32_t first, id, again;
	int a, b;

	idtab_init(&t, 3);
	assert_int_equal(idtab_add(&t, &a, &first), 0);
	assert_int_equal(idtab_add(&t, &b, &id), 0);
	idtab_undo(&t, id);
	assert_null(idtab_get(&t, id));
	assert_int_equal(t.used, 1);
	assert_int_equal(idtab_add(&t, &b, &again), 0);
	assert_int_equal(again, id);
	assert_ptr_equal(idtab_get(&t, first), &a);
	idtab_free(&t);
}

UNIT_TEST(objects_may_be_removed_during_iteration)
{
	struct idtab t;
	uint32_t id[50], pos = 0;
	unsigned n = 0;

	idtab_init(&t, 50);
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(idtab_add(&t, &id[i], &id[i]), 0);
	for (uint32_t *p; (p = idtab_next(&t, &pos)) != NULL; n++)
		idtab_del(&t, *p);
	assert_int_equal(n, 50);
	assert_int_equal(t.used, 0);
	idtab_free(&t);
}

#define SLOTS 64

UNIT_TEST(qpns_name_their_worker_and_a_free_slot)
{
	struct qp_table t;
	struct qpn_alloc a;
	uint32_t qpn;

	assert_int_equal(qp_table_init(&t, SLOTS), 0);
	assert_int_equal(qpn_init(&a, &t, 0), -EINVAL);
	assert_int_equal(qpn_init(&a, &t, UROCE_MAX_WORKERS + 1), -EINVAL);
	assert_int_equal(qpn_init(&a, &t, 4), 0);
	for (unsigned i = 0; i < SLOTS; i++) {
		assert_int_equal(qpn_take(&a, i % 4, &qpn), 0);
		assert_int_equal(qp_table_owner(&t, qpn), i % 4);
		assert_true(qpn > 1 && qpn < 0xffffff);
		assert_null(t.slot[qpn & t.mask]);
		t.slot[qpn & t.mask] = (struct qp *)&t;
	}
	assert_int_equal(qpn_take(&a, 2, &qpn), -ENOSPC);
	t.slot[6] = NULL;
	assert_int_equal(qpn_take(&a, 2, &qpn), 0);
	assert_int_equal(qpn & t.mask, 6);
	assert_int_equal(qpn_take(&a, 1, &qpn), -ENOSPC);
	qpn_free(&a);
	qp_table_free(&t);
}

/*
 * Created and destroyed in a loop: each QPN is legal, and none repeats before all others were used.
 */
UNIT_TEST(qpns_are_not_reused_soon)
{
	uint8_t *seen = calloc(1, 1u << 24);
	struct qp_table t;
	struct qpn_alloc a;
	uint32_t qpn;

	assert_int_equal(qp_table_init(&t, SLOTS), 0);
	assert_int_equal(qpn_init(&a, &t, 1), 0);
	for (unsigned i = 0; i < 1000000; i++) {
		assert_int_equal(qpn_take(&a, 0, &qpn), 0);
		assert_true(qpn > 1 && qpn < 0xffffff);
		assert_int_equal(seen[qpn], 0);
		seen[qpn] = 1;
	}
	free(seen);
	qpn_free(&a);
	qp_table_free(&t);
}
