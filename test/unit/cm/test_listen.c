/* SPDX-License-Identifier: BSD-3-Clause */
/* Which listener gets a request. */
#include <errno.h>
#include "harness.h"

static struct node *const p = &nodes[1];

REQUIREMENT("CM-10")
UNIT_TEST(the_most_specific_listener_gets_the_request)
{
	static const uint8_t six[16] = {0xfd, [15] = 2},
			     other[16] = {[10] = 0xff, 0xff, 10, 0, 0, 9};
	struct cm_listen l = listen_args();
	uint32_t any, v6, dev1, exact;

	node_make(0, NULL);
	node_make(1, NULL);
	assert_int_equal(asked(p->gid, 0, 1), 0);
	any = listen_with(p, &l, 0);
	l.family = CM_FAMILY_IPV6;
	v6 = listen_with(p, &l, 0);
	l.family = CM_FAMILY_ANY;
	l.dev = 1;
	dev1 = listen_with(p, &l, 0);
	l.dev = CM_DEV_ANY;
	memcpy(l.gid, p->gid, 16);
	exact = listen_with(p, &l, 0);
	assert_int_equal(asked(other, 0, 2), any);
	assert_int_equal(asked(six, 0, 3), v6);
	assert_int_equal(asked(other, 1, 4), dev1);
	assert_int_equal(asked(p->gid, 1, 5), exact);
	assert_int_equal(cm_destroy(p->cm, exact, p->now), 0);
	assert_int_equal(asked(p->gid, 0, 6), any);
	assert_int_equal(cm_destroy(p->cm, any, p->now), 0);
	assert_int_equal(asked(p->gid, 0, 7), 0);
}

REQUIREMENT("CM-10")
UNIT_TEST(one_listener_for_each_address_and_port)
{
	struct cm_listen l = listen_args();

	node_make(1, NULL);
	listen_with(p, &l, 0);
	listen_with(p, &l, -EADDRINUSE);
	l.sidr = true;
	listen_with(p, &l, 0);
	l.service_id++;
	listen_with(p, &l, 0);
	l.backlog = 0;
	listen_with(p, &l, -EINVAL);
}
