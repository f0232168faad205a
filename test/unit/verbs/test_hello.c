/* SPDX-License-Identifier: BSD-3-Clause */
/* The provider opens a device of daemons with other versions or features. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "provider_fixture.h"

#define NEXT_VERSION (UROCE_ABI_VERSION + 1)

static struct fixture fixture;

static int
setup(void **state)
{
	memset(&fixture, 0, sizeof(fixture));
	fixture.f = fake_start(NULL);
	return 0;
}

static int
teardown(void **state)
{
	fake_stop(fixture.f);
	return 0;
}

/* Opens the device. Its errno or 0; said is what the provider wrote to stderr. */
static int
open_device(char said[512])
{
	char name[] = "/tmp/uroce-stderr-XXXXXX";
	int file = mkstemp(name), saved = dup(STDERR_FILENO), rc;
	struct ibv_context *ctx;
	ssize_t n;

	assert_true(file >= 0 && saved >= 0);
	unlink(name);
	fflush(stderr);
	dup2(file, STDERR_FILENO);
	errno = 0;
	ctx = fixture_open(&fixture);
	rc = errno;
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	close(saved);
	n = pread(file, said, 511, 0);
	assert_true(n >= 0);
	said[n] = '\0';
	close(file);
	if (ctx == NULL)
		return rc;
	ibv_close_device(ctx);
	return 0;
}

static unsigned
open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

#define TEST(name) UNIT_TEST_IN(name, setup, teardown)

TEST(hello_carries_the_provider_s_range)
{
	char said[512];

	assert_int_equal(open_device(said), 0);
	assert_string_equal(said, "");
	assert_string_equal(fixture.f->hello.device, "uroce0");
	assert_int_equal(fixture.f->hello.version_min, UROCE_ABI_VERSION_MIN);
	assert_int_equal(fixture.f->hello.version_max, UROCE_ABI_VERSION);
	assert_int_equal(fixture.f->hello.features, UROCE_ABI_FEATURES);
	assert_int_equal(fixture.f->hello.features_required, UROCE_ABI_REQUIRED);
}

TEST(a_daemon_s_refusal_is_shown)
{
	char said[512];

	fixture.f->refuse[UROCE_CTRL_HELLO] = EPROTONOSUPPORT;
	fixture.f->refuse_why = "no version in common: 7 to 7, 9 to 11";
	assert_int_equal(open_device(said), EPROTONOSUPPORT);
	assert_non_null(strstr(said, "uroced refuses uroce0: "));
	assert_non_null(strstr(said, "no version in common: 7 to 7, 9 to 11"));
	/* the next try is another connection */
	assert_int_equal(open_device(said), 0);
}

TEST(a_version_that_was_not_offered_is_refused)
{
	unsigned before = open_fds();
	char said[512], want[128];

	fixture.f->hello_version = NEXT_VERSION;
	assert_int_equal(open_device(said), EPROTO);
	snprintf(want, sizeof(want),
		 "the daemon chose version %d of uroce's ABI, the client offered %d to %d",
		 NEXT_VERSION, UROCE_ABI_VERSION_MIN, UROCE_ABI_VERSION);
	assert_non_null(strstr(said, want));
	fixture.f->hello_version = UROCE_ABI_VERSION_MIN - 1;
	assert_int_equal(open_device(said), EPROTO);
	assert_true(open_fds() >= before);
	fixture.f->hello_version = UROCE_ABI_VERSION;
	assert_int_equal(open_device(said), 0);
}

TEST(a_feature_that_was_not_offered_is_refused)
{
	char said[512];

	fixture.f->hello_features = 1ull << 63;
	assert_int_equal(open_device(said), EPROTO);
	assert_non_null(strstr(said, "the daemon chose features 0x8000000000000000, the client "
				     "offered 0x1"));
}

TEST(a_daemon_that_hangs_up_at_hello_may_be_older)
{
	char said[512];

	fixture.f->hang_up_at_hello = true;
	assert_int_equal(open_device(said), EIO);
	assert_non_null(strstr(said, "a version before 7 of uroce's ABI"));
}

/* A client of any range uses the agreed version in every later message. */
TEST(the_agreed_version_is_in_every_message)
{
	static const struct ipc_offer offers[] = {
		{UROCE_ABI_VERSION, NEXT_VERSION + 3, ~0ull, 0},
		{1, UROCE_ABI_VERSION, 0, 0},
	};

	fixture.f->hello_features = 0;
	for (unsigned i = 0; i < sizeof(offers) / sizeof(offers[0]); i++) {
		struct uroce_list_devices_rep list;
		struct ipc_call call = {.op = UROCE_CTRL_LIST_DEVICES,
					.rep = &list,
					.rep_len = sizeof(list)};
		struct uroce_hello_rep rep;
		struct ipc_client c;
		int fds[UROCE_HELLO_FDS];
		unsigned nfds;

		assert_int_equal(ipc_client_connect(&c, NULL), 0);
		c.offer = offers[i];
		assert_int_equal(ipc_client_hello(&c, "", &rep, fds, &nfds, NULL), 0);
		assert_int_equal(fixture.f->hello.version_max, offers[i].version_max);
		assert_int_equal(fixture.f->hello.features, offers[i].features);
		assert_int_equal(fixture.f->last_version, offers[i].version_max);
		assert_int_equal(c.version, UROCE_ABI_VERSION);
		assert_int_equal(ipc_client_call(&c, &call), 0);
		assert_int_equal(fixture.f->last_version, UROCE_ABI_VERSION);
		ipc_client_close(&c);
	}
}
