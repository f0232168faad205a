/* SPDX-License-Identifier: BSD-3-Clause */
/* Both sides agree on a version and on features, or say why they cannot. */

#include <errno.h>
#include <string.h>
#include "ipc/hello.h"
#include "../../kit/unit.h"

static char why[UROCE_CTRL_MAX_WHY];

/* The daemon's answer to a client of versions min to max. */
static int
agree(const struct ipc_offer *daemon, const struct ipc_offer *client, struct uroce_hello_rep *rep)
{
	const struct uroce_hello_req req = {
		.version_min = client->version_min,
		.version_max = client->version_max,
		.features = client->features,
		.features_required = client->required,
	};

	memset(rep, 0, sizeof(*rep));
	why[0] = '\0';
	return ipc_hello_agree(daemon, &req, rep, why);
}

UNIT_TEST(highest_common_version_is_chosen)
{
	static const struct {
		struct ipc_offer daemon, client;
		uint16_t version;
	} row[] = {
		{{7, 7}, {7, 7}, 7},
		{{7, 7}, {7, 9}, 7}, /* a newer client */
		{{7, 9}, {7, 7}, 7}, /* an older one */
		{{7, 9}, {8, 12}, 9},
		{{8, 12}, {7, 9}, 9},
		{{7, 12}, {9, 10}, 10},
		{{9, 10}, {7, 12}, 10},
		{{7, 9}, {9, 12}, 9},
		{{9, 12}, {7, 9}, 9},
		{{7, UINT16_MAX}, {7, UINT16_MAX}, UINT16_MAX},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct uroce_hello_rep rep;

		assert_int_equal(agree(&row[i].daemon, &row[i].client, &rep), 0);
		assert_int_equal(rep.version, row[i].version);
		assert_string_equal(why, "");
		assert_int_equal(ipc_hello_check(&row[i].client, &rep, why), 0);
	}
}

UNIT_TEST(no_common_version_names_both_ranges)
{
	const struct ipc_offer older = {7, 8}, newer = {9, 11};
	struct uroce_hello_rep rep;

	assert_int_equal(agree(&newer, &older, &rep), EPROTONOSUPPORT);
	assert_non_null(strstr(why, "the client supports 7 to 8, the daemon 9 to 11"));
	assert_int_equal(agree(&older, &newer, &rep), EPROTONOSUPPORT);
	assert_non_null(strstr(why, "the client supports 9 to 11, the daemon 7 to 8"));
	assert_int_equal(rep.version, 0);
	/* before version 7 a HELLO had no range */
	ipc_hello_refuse_old(&newer, 6, why);
	assert_non_null(strstr(why, "the client supports 6 to 6, the daemon 9 to 11"));
}

UNIT_TEST(unknown_features_are_ignored)
{
	const struct ipc_offer daemon = {7, 7, 0x0f, 0}, client = {7, 7, 0xf00000000000000cull, 0};
	const struct ipc_offer none = {7, 7, 0, 0};
	struct uroce_hello_rep rep;

	assert_int_equal(agree(&daemon, &client, &rep), 0);
	assert_int_equal(rep.features, 0x0c);
	assert_int_equal(ipc_hello_check(&client, &rep, why), 0);
	assert_int_equal(agree(&daemon, &none, &rep), 0);
	assert_int_equal(rep.features, 0);
	assert_int_equal(agree(&none, &client, &rep), 0);
	assert_int_equal(rep.features, 0);
}

UNIT_TEST(required_features_must_be_common)
{
	const struct ipc_offer plain = {7, 7, 0x3, 0}, strict = {7, 7, 0xe, 0xa};
	const struct ipc_offer all = {7, 7, 0xf, 0x1};
	struct uroce_hello_rep rep;

	assert_int_equal(agree(&plain, &strict, &rep), EPROTONOSUPPORT);
	assert_non_null(strstr(why, "the client requires features 0xa of uroce's ABI, and the "
				    "daemon lacks 0x8"));
	assert_int_equal(agree(&strict, &plain, &rep), EPROTONOSUPPORT);
	assert_non_null(strstr(why, "the daemon requires features 0xa of uroce's ABI, and the "
				    "client lacks 0x8"));
	assert_int_equal(rep.version, 0);
	assert_int_equal(agree(&all, &plain, &rep), 0);
	assert_int_equal(rep.features, 0x3);
}

UNIT_TEST(a_hello_that_contradicts_itself_is_refused)
{
	const struct ipc_offer daemon = {7, 9, 0xff, 0}, backwards = {9, 7}, more = {7, 7, 1, 3};
	struct uroce_hello_rep rep;

	assert_int_equal(agree(&daemon, &backwards, &rep), EINVAL);
	assert_non_null(strstr(why, "version_min 9 is above version_max 7"));
	assert_int_equal(agree(&daemon, &more, &rep), EINVAL);
	assert_non_null(strstr(why, "features_required 0x3 is not a subset of features 0x1"));
}

/* After the versions: to a client of another version the range says more. */
UNIT_TEST(spare_bytes_of_a_hello_stay_zero)
{
	struct uroce_hello_req req = {.version_min = UROCE_ABI_VERSION,
				      .version_max = UROCE_ABI_VERSION,
				      .spare = {[39] = 1}};
	struct uroce_hello_rep rep = {0};

	assert_int_equal(ipc_hello_agree(&ipc_offer_own, &req, &rep, why), EINVAL);
	assert_non_null(strstr(why, "hello_req.spare must be zero"));
	req.version_min = req.version_max = 6;
	assert_int_equal(ipc_hello_agree(&ipc_offer_own, &req, &rep, why), EPROTONOSUPPORT);
}

UNIT_TEST(a_client_checks_what_the_daemon_chose)
{
	const struct ipc_offer client = {7, 9, 0x6, 0x2};
	struct uroce_hello_rep rep = {.version = 6, .features = 0x2};

	assert_int_equal(ipc_hello_check(&client, &rep, why), EPROTO);
	assert_non_null(strstr(why, "chose version 6 of uroce's ABI, the client offered 7 to 9"));
	rep.version = 10;
	assert_int_equal(ipc_hello_check(&client, &rep, why), EPROTO);
	rep.version = 9;
	assert_int_equal(ipc_hello_check(&client, &rep, why), 0);
	rep.features = 0xa;
	assert_int_equal(ipc_hello_check(&client, &rep, why), EPROTO);
	assert_non_null(strstr(why, "chose features 0xa, the client offered 0x6"));
	rep.features = 0x4;
	assert_int_equal(ipc_hello_check(&client, &rep, why), EPROTO);
	assert_non_null(strstr(why, "chose features 0x4, the client requires 0x2"));
}
