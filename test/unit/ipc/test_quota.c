/* SPDX-License-Identifier: BSD-3-Clause */
/* Quotas of the daemon: exact limits, the reserve for root, and the text of refusals. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "options.h"
#include "control/quota.h"
#include "../../kit/unit.h"

#define DAEMON 900 /* the daemon's own uid */

static const struct quota_machine machine = {.ram_bytes = 16ull << 30,
					     .max_maps = 65536,
					     .max_fds = 1024};

/* Limits from the defaults, changed by name = value pairs that end with NULL. */
static void
start(struct quota *q, const char *const *set)
{
	char err[OPTIONS_ERR_MAX];
	struct options o;

	options_init(&o);
	for (; *set != NULL; set += 2)
		assert_int_equal(options_set(&o, set[0], set[1], err), 0);
	quota_init(q, &o.control, &machine, DAEMON);
	options_free(&o);
}

static void
assert_says(const struct quota *q, const char *what)
{
	if (strstr(q->refusal, what) == NULL)
		fail_msg("'%s' does not say '%s'", q->refusal, what);
}

UNIT_TEST(each_uid_has_its_limit)
{
	static const char *const set[] = {"max-qps", "100", "max-qps-per-uid", "10", NULL};
	struct quota_user *a, *b;
	struct quota q;

	start(&q, set);
	a = quota_user_get(&q, 1000);
	b = quota_user_get(&q, 1001);
	assert_ptr_not_equal(a, b);
	assert_int_equal(quota_max(a, QUOTA_QPS), 10);
	assert_int_equal(quota_take(a, QUOTA_QPS, 10), 0);
	assert_int_equal(quota_left(a, QUOTA_QPS), 0);
	assert_string_equal(q.refusal, "");
	assert_int_equal(quota_take(a, QUOTA_QPS, 1), -ENOMEM);
	assert_says(&q, "uid 1000 ");
	assert_says(&q, "queue pairs");
	assert_says(&q, "may hold 10 ");
	assert_says(&q, "option max-qps-per-uid)");
	quota_refusal_clear(&q);
	assert_int_equal(quota_take(b, QUOTA_QPS, 10), 0);
	assert_int_equal(quota_take(a, QUOTA_CQS, 1), 0); /* another kind */
	quota_give(a, QUOTA_QPS, 1);
	assert_int_equal(quota_left(a, QUOTA_QPS), 1);
	assert_int_equal(quota_take(a, QUOTA_QPS, 2), -ENOMEM);
	assert_int_equal(a->used[QUOTA_QPS], 9);
	assert_int_equal(quota_take(a, QUOTA_QPS, 1), 0);
	quota_user_put(a);
	quota_user_put(b);
}

/* With any number of users root and the daemon's own user can still connect. */
UNIT_TEST(reserve_is_kept_for_root)
{
	static const char *const set[] = {"max-clients", "32", NULL};
	struct quota_user *user[40], *root, *own;
	struct quota q;
	unsigned in = 0;

	start(&q, set);
	for (unsigned i = 0; i < 40; i++) {
		user[i] = quota_user_get(&q, 1000 + i);
		in += quota_take(user[i], QUOTA_CLIENTS, 1) == 0;
	}
	assert_int_equal(in, 30);
	assert_says(&q, "uids other than root hold 30 and may hold 30 together, of 32");
	assert_says(&q, "option max-clients)");
	root = quota_user_get(&q, 0);
	own = quota_user_get(&q, DAEMON);
	assert_int_equal(quota_max(root, QUOTA_CLIENTS), 32);
	assert_int_equal(quota_take(root, QUOTA_CLIENTS, 1), 0);
	assert_int_equal(quota_take(own, QUOTA_CLIENTS, 1), 0);
	assert_int_equal(quota_take(root, QUOTA_CLIENTS, 1), -ENOMEM);
	assert_says(&q, "all clients may hold 32 together (option max-clients)");
	for (unsigned i = 0; i < 40; i++)
		quota_user_put(user[i]);
	quota_user_put(root);
	quota_user_put(own);
}

/* Only the totals limit root, and resources that root holds count against the totals. */
UNIT_TEST(root_has_no_separate_limit)
{
	static const char *const set[] = {"max-pds", "100", "max-pds-per-uid", "5", NULL};
	struct quota_user *root, *user;
	struct quota q;

	start(&q, set);
	root = quota_user_get(&q, 0);
	user = quota_user_get(&q, 1000);
	assert_int_equal(quota_take(root, QUOTA_PDS, 98), 0);
	assert_int_equal(quota_left(user, QUOTA_PDS), 2);
	assert_int_equal(quota_take(user, QUOTA_PDS, 3), -ENOMEM);
	assert_says(&q, "option max-pds)");
	assert_int_equal(quota_take(user, QUOTA_PDS, 2), 0);
	quota_user_put(root);
	quota_user_put(user);
}

UNIT_TEST(memory_is_reported_in_mib)
{
	static const char *const set[] = {"max-reg-mem", "1000", "max-reg-mem-per-uid", "100",
					  NULL};
	struct quota_user *u;
	struct quota q;

	start(&q, set);
	u = quota_user_get(&q, 1000);
	assert_int_equal(quota_take(u, QUOTA_REG_MEM, 60ull << 20), 0);
	assert_int_equal(quota_take(u, QUOTA_REG_MEM, (40ull << 20) + 1), -ENOMEM);
	assert_says(&q, "holds 60 and wants 41 more MiB of registered memory; a uid may hold 100");
	assert_int_equal(quota_take(u, QUOTA_REG_MEM, UINT64_MAX), -ENOMEM);
	assert_int_equal(quota_take(u, QUOTA_REG_MEM, 40ull << 20), 0);
	quota_user_put(u);
}

/* Without numbers the limits follow the machine and the totals. */
UNIT_TEST(limits_have_defaults)
{
	static const char *const none[] = {NULL};
	struct quota q;

	start(&q, none);
	assert_int_equal(q.limit[QUOTA_REG_MEM].all, 32ull << 30);
	assert_int_equal(q.limit[QUOTA_REG_MEM].per_uid, 16ull << 30);
	assert_int_equal(q.limit[QUOTA_QUEUE_MEM].all, 8ull << 30);
	assert_int_equal(q.limit[QUOTA_MAPS].all, 49152);
	assert_int_equal(q.limit[QUOTA_MAPS].per_uid, 24576);
	assert_int_equal(q.limit[QUOTA_FDS].all, 768);
	assert_int_equal(q.limit[QUOTA_QPS].all, 4096);
	assert_int_equal(q.limit[QUOTA_QPS].per_uid, 3072);
	assert_int_equal(q.limit[QUOTA_NEW].per_uid, 64);
	for (unsigned k = 0; k < QUOTA_NKINDS; k++) {
		assert_true(q.limit[k].others < q.limit[k].all);
		assert_true(q.limit[k].per_uid <= q.limit[k].others);
		assert_true(q.limit[k].per_uid > 0);
	}
}

/* The figures of a uid live as long as it has a connection. */
UNIT_TEST(user_lives_as_long_as_its_references)
{
	static const char *const none[] = {NULL};
	struct quota_user *a, *again;
	struct quota q;

	start(&q, none);
	a = quota_user_get(&q, 1000);
	assert_int_equal(quota_take(a, QUOTA_PDS, 7), 0);
	again = quota_user_get(&q, 1000);
	assert_ptr_equal(a, again);
	quota_user_put(a);
	assert_int_equal(again->used[QUOTA_PDS], 7);
	quota_give(again, QUOTA_PDS, 7);
	quota_user_put(again);
	assert_int_equal(q.used_all[QUOTA_PDS], 0);
	for (unsigned i = 0; i < QUOTA_BUCKETS; i++)
		assert_true(LIST_EMPTY(&q.bucket[i]));
}

UNIT_TEST(limit_of_a_uid_changes_within_that_of_all)
{
	static const char *const set[] = {"max-qps", "100", "max-qps-per-uid", "10", "max-reg-mem",
					  "64",      NULL};
	struct quota_user *a;
	struct quota q;

	start(&q, set);
	a = quota_user_get(&q, 1000);
	assert_int_equal(quota_take(a, QUOTA_QPS, 10), 0);
	assert_int_equal(quota_set(&q, QUOTA_QPS, 0), -ERANGE);
	assert_int_equal(quota_set(&q, QUOTA_QPS, 101), -ERANGE);
	assert_int_equal(quota_set(&q, QUOTA_QPS, 5), 0);
	assert_int_equal(quota_left(a, QUOTA_QPS), 0); /* and keeps its ten */
	assert_int_equal(quota_set(&q, QUOTA_QPS, 12), 0);
	assert_int_equal(quota_left(a, QUOTA_QPS), 2);
	assert_int_equal(quota_set(&q, QUOTA_REG_MEM, 65), -ERANGE);
	assert_int_equal(quota_set(&q, QUOTA_REG_MEM, 3), 0);
	assert_int_equal(quota_max(a, QUOTA_REG_MEM), 3u << 20);
	assert_int_equal(quota_unit(QUOTA_REG_MEM), 1u << 20);
	quota_give(a, QUOTA_QPS, 10);
	quota_user_put(a);
}

UNIT_TEST(every_user_is_listed_once)
{
	static const char *const none[] = {NULL};
	struct quota_user *u[3], *at = NULL;
	uint32_t uids = 0;
	struct quota q;

	start(&q, none);
	assert_null(quota_user_next(&q, NULL));
	for (unsigned i = 0; i < 3; i++)
		u[i] = quota_user_get(&q, i * QUOTA_BUCKETS / 2); /* two of them in one bucket */
	while ((at = quota_user_next(&q, at)) != NULL)
		uids = uids * 10 + 1 + at->uid / (QUOTA_BUCKETS / 2);
	assert_true(uids == 132 || uids == 312);
	for (unsigned i = 0; i < 3; i++)
		quota_user_put(u[i]);
}

/* By cgroup, a uid is one user in each control group; root is one everywhere. */
UNIT_TEST(users_of_control_groups_are_different)
{
	static const char *const by_cgroup[] = {"quota-by",        "cgroup", "max-qps", "100",
						"max-qps-per-uid", "10",     NULL};
	static const char *const by_owner[] = {NULL};
	struct quota_user *a, *b, *again, *root;
	struct quota q;

	start(&q, by_cgroup);
	a = quota_user_get_in(&q, 1000, "0::/a");
	b = quota_user_get_in(&q, 1000, "0::/b");
	again = quota_user_get_in(&q, 1000, "0::/a");
	assert_ptr_equal(again, a);
	assert_ptr_not_equal(a, b);
	assert_int_equal(b->uid, 1000);
	assert_int_equal(quota_take(a, QUOTA_QPS, 10), 0);
	assert_int_equal(quota_take(again, QUOTA_QPS, 1), -ENOMEM);
	assert_int_equal(quota_take(b, QUOTA_QPS, 10), 0);
	assert_int_not_equal(quota_who(a, 1000), quota_who(b, 1000));
	assert_int_not_equal(quota_who(a, 1000), 1000);
	quota_give(a, QUOTA_QPS, 10);
	quota_give(b, QUOTA_QPS, 10);
	quota_user_put(a);
	quota_user_put(b);
	quota_user_put(again);
	root = quota_user_get_in(&q, 0, "0::/a");
	a = quota_user_get_in(&q, 0, "0::/b");
	assert_ptr_equal(a, root);
	assert_int_equal(quota_who(root, 0), 0);
	quota_user_put(a);
	quota_user_put(root);
	start(&q, by_owner);
	a = quota_user_get_in(&q, 1000, "0::/a");
	b = quota_user_get_in(&q, 1000, "0::/b");
	assert_ptr_equal(a, b);
	assert_int_equal(quota_who(a, 1000), 1000);
	quota_user_put(a);
	quota_user_put(b);
	owner_free(&q.owners);
}

/* subuid(5) with these lines, at a path that is the same each time. */
static void
write_subuid(const char *path, const char *lines)
{
	char next[64];
	FILE *f;

	snprintf(next, sizeof(next), "%s.next", path);
	f = fopen(next, "w");
	assert_non_null(f);
	assert_true(fputs(lines, f) >= 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(rename(next, path), 0); /* another inode */
}

/* A user's subordinate uids have one limit together with it; those of root each their own. */
UNIT_TEST(subordinate_uids_count_as_their_owner)
{
	static const char *const set[] = {"max-qps", "100", "max-qps-per-uid", "10", NULL};
	static const char *const by_uid[] = {"quota-by", "uid", NULL};
	char folder[] = "/tmp/test_quota.XXXXXX", path[64];
	struct quota_user *u[5];
	struct quota q;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/subuid", folder);
	start(&q, set);
	q.subuid = path;
	u[0] = quota_user_get(&q, 100000); /* there is no such file */
	assert_int_equal(u[0]->uid, 100000);
	quota_user_put(u[0]);
	write_subuid(path, "1000:100000:65536\n\nno:colon\n1002:7:x\nnobody-has-this:300000:9\n"
			   "root:200000:65536\n900:400000:10\n1001:165536:65536\n");
	u[0] = quota_user_get(&q, 1000);
	u[1] = quota_user_get(&q, 100000);
	u[2] = quota_user_get(&q, 165535);
	u[3] = quota_user_get(&q, 165536);
	u[4] = quota_user_get(&q, 1001);
	assert_ptr_equal(u[1], u[0]);
	assert_ptr_equal(u[2], u[0]);
	assert_ptr_equal(u[3], u[4]);
	assert_ptr_not_equal(u[3], u[0]);
	assert_int_equal(quota_take(u[1], QUOTA_QPS, 10), 0);
	assert_int_equal(quota_take(u[2], QUOTA_QPS, 1), -ENOMEM);
	assert_says(&q, "uid 1000 ");
	assert_int_equal(quota_take(u[3], QUOTA_QPS, 1), 0);
	quota_give(u[1], QUOTA_QPS, 10);
	quota_give(u[3], QUOTA_QPS, 1);
	for (unsigned i = 0; i < 5; i++)
		quota_user_put(u[i]);
	for (unsigned i = 0; i < 3;
	     i++) { /* of root, of the daemon's user, of a name that is unknown */
		static const uid_t alone[] = {200005, 400009, 300000};

		u[i] = quota_user_get(&q, alone[i]);
		assert_int_equal(u[i]->uid, alone[i]);
		assert_false(u[i]->privileged);
		quota_user_put(u[i]);
	}
	write_subuid(path, "1003:100000:65536\n");
	u[0] = quota_user_get(&q, 100000);
	assert_int_equal(u[0]->uid, 1003);
	quota_user_put(u[0]);
	owner_free(&q.owners);
	start(&q, by_uid);
	q.subuid = path;
	u[0] = quota_user_get(&q, 100000);
	assert_int_equal(u[0]->uid, 100000);
	quota_user_put(u[0]);
	unlink(path);
	rmdir(folder);
}
