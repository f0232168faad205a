/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sets the congestion policy of one of its QPs (uroce/uroce.h). Prints the QP's number, and waits
 * for a signal; exits with status 1 if a check fails. policy DEVICE
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uroce/uroce.h>
#include "../kit/verbside.h"

int
main(int argc, char **argv)
{
	uroce_qp_set_policy_fn *set;
	struct side s = {0};
	struct ibv_qp *rc, *other, *ud;
	char why[250];

	if (argc != 2)
		return 2;
	CHECK(uroce_provider_call("uroce_qp_set_policy") == NULL);
	side_open(&s, argv[1]);
	set = (uroce_qp_set_policy_fn *)uroce_provider_call("uroce_qp_set_policy");
	CHECK(set != NULL);
	CHECK(uroce_provider_call("uroce_no_such_call") == NULL);
	if (set == NULL)
		return 1;
	rc = side_qp(s.pd, IBV_QPT_RC, s.cq);
	other = side_qp(s.pd, IBV_QPT_RC, s.cq);
	ud = side_qp(s.pd, IBV_QPT_UD, s.cq);
	CHECK(side_raise(&s, rc, rc->qp_num) == 0);
	CHECK(side_raise(&s, other, other->qp_num) == 0);
	CHECK(set(rc, "cubic", why, sizeof(why)) == EINVAL);
	CHECK(strstr(why, "legal: fixed, dcqcn, dcqcn-paper, swift, timely") != NULL);
	CHECK(set(rc, "swift:target=0", why, sizeof(why)) == EINVAL);
	CHECK(strstr(why, "target=1 .. 1000000 us") != NULL);
	CHECK(set(ud, "swift", why, sizeof(why)) == EINVAL);
	CHECK(strstr(why, "only connected QPs") != NULL);
	CHECK(set(rc, "a text that is longer than the sixty-three characters of the policy", why,
		  sizeof(why)) == EINVAL);
	CHECK(set(rc, "cubic", NULL, 0) == EINVAL);
	CHECK(set(rc, "swift:limit=5000", why, sizeof(why)) == 0);
	CHECK(why[0] == '\0');
	printf("%u %u\n", rc->qp_num, other->qp_num);
	fflush(stdout);
	if (side_failures() == 0)
		pause();
	return 1;
}
