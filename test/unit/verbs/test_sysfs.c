/* SPDX-License-Identifier: BSD-3-Clause */
/* GIDs and P_Keys that libibverbs reads from files come from the daemon; other files do not. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "provider_fixture.h"

#define DEV "/sys/class/infiniband/uroce0/"

/* The file's contents; "" if prov_sysfs_open leaves the file to libibverbs. */
static const char *
content(int dir, const char *path)
{
	static char text[128];
	int fd;
	ssize_t n = 0;

	errno = ENOTTY;
	fd = prov_sysfs_open(dir, path);
	assert_int_equal(errno, ENOTTY);
	memset(text, 0, sizeof(text));
	if (fd >= 0) {
		assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		n = read(fd, text, sizeof(text) - 1);
		assert_true(n > 0);
		close(fd);
	}
	return text;
}

REQUIREMENT("EVT-12")
FIXTURE_TEST(sysfs_gid_is_the_daemons)
{
	assert_string_equal(content(AT_FDCWD, DEV "ports/1/gids/0"),
			    "fe80:0000:0000:0000:0000:0000:0000:0001\n");
	assert_string_equal(content(AT_FDCWD, DEV "ports/1/gids/1"),
			    "0000:0000:0000:0000:0000:ffff:c000:0201\n");
	assert_string_equal(content(AT_FDCWD, DEV "ports/1/gids/3"),
			    "0000:0000:0000:0000:0000:0000:0000:0000\n");
}

REQUIREMENT("EVT-13")
FIXTURE_TEST(sysfs_pkey_is_the_current_one)
{
	struct fixture *r = *state;

	assert_string_equal(content(AT_FDCWD, DEV "ports/1/pkeys/0"), "0xffff\n");
	assert_string_equal(content(AT_FDCWD, DEV "ports/1/pkeys/1"), "0x0000\n");
	r->f->pkey = 0x8001;
	assert_string_equal(content(AT_FDCWD, DEV "ports/1/pkeys/1"), "0x8001\n");
	r->f->pkey = 0x0001;
	assert_string_equal(content(AT_FDCWD, DEV "ports/1/pkeys/1"), "0x0001\n");
}

/* As libibverbs opens them: relative to the device's directory. */
REQUIREMENT("EVT-12")
FIXTURE_TEST(paths_relative_to_a_directory_are_handled)
{
	char top[] = "/tmp/uv-sysfs-XXXXXX", class[64], dev[80];
	int dir;

	assert_non_null(mkdtemp(top));
	snprintf(class, sizeof(class), "%s/infiniband", top);
	snprintf(dev, sizeof(dev), "%s/uroce0", class);
	assert_int_equal(mkdir(class, 0700), 0);
	assert_int_equal(mkdir(dev, 0700), 0);
	dir = open(dev, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir >= 0);
	assert_string_equal(content(dir, "ports/1/pkeys/0"), "0xffff\n");
	assert_string_equal(content(dir, "ports/1/gids/1"),
			    "0000:0000:0000:0000:0000:ffff:c000:0201\n");
	assert_string_equal(content(dir, DEV "ports/1/pkeys/0"), "0xffff\n");
	assert_string_equal(content(AT_FDCWD, "ports/1/pkeys/0"), "");
	assert_string_equal(content(-5, "ports/1/pkeys/0"), "");
	close(dir);
	rmdir(dev);
	rmdir(class);
	rmdir(top);
}

REQUIREMENT("EVT-12")
FIXTURE_TEST(other_files_are_not_changed)
{
	static const char *const others[] = {
		DEV "ports/1/gid_attrs/types/1",
		DEV "ports/1/state",
		DEV "ports/2/gids/1",
		DEV "ports/1/gids/",
		DEV "ports/1/gids/1x",
		DEV "ports/1/gids/-1",
		DEV "ports/1/gids/4", /* beyond the table: the daemon refuses */
		DEV "ports/1/pkeys/2",
		DEV "node_guid",
		"/sys/class/infiniband/uroce1/ports/1/gids/1",
		"/sys/class/infiniband/mlx5_0/ports/1/pkeys/0",
		"/sys/class/infiniband/a_name_that_is_longer_than_any_of_ours/ports/1/gids/0",
		"/sys/class/net/uroce0/ports/1/gids/1",
		"",
	};
	char longest[PATH_MAX + 64];

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (*content(AT_FDCWD, others[i]) != 0)
			fail_msg("answered %s", others[i]);
	}
	memset(longest, 'x', sizeof(longest));
	strcpy(longest + PATH_MAX, DEV "ports/1/gids/1");
	assert_string_equal(content(AT_FDCWD, longest), "");
}

/* Without a daemon there is the file as it was at the start. */
REQUIREMENT("EVT-14")
FIXTURE_TEST(lost_daemon_leaves_the_files_as_they_were)
{
	struct fixture *r = *state;

	fake_die(r->f);
	assert_string_equal(content(AT_FDCWD, DEV "ports/1/pkeys/0"), "");
	assert_string_equal(content(AT_FDCWD, DEV "ports/1/pkeys/0"), "");
}
