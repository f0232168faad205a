/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of one library are redirected; those of all others are not. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hooks/got.h"
#include "provider_fixture.h"

#define LIBIBVERBS "libibverbs.so.1"

static unsigned int reads;

static ssize_t
counted_read(int fd, void *buf, size_t len)
{
	reads++;
	return prov_event_read(fd, buf, len);
}

static ssize_t
second_read(int fd, void *buf, size_t len)
{
	reads += 100;
	return prov_event_read(fd, buf, len);
}

static void
read_event(struct fixture *r)
{
	struct ibv_cq *cq;
	void *cookie;

	fake_comp_event(r->f, 0, r->f->cq[0].user_handle);
	assert_int_equal(ibv_get_cq_event(r->channel, &cq, &cookie), 0);
	ibv_ack_cq_events(cq, 1);
}

FIXTURE_TEST(calls_of_a_library_are_redirected)
{
	static const struct prov_hook hook = {LIBIBVERBS, "read", {NULL}, (void *)counted_read};
	static const struct prov_hook other = {LIBIBVERBS, "read64", {"read"}, (void *)second_read};
	int fds[2];
	char c = 0;

	assert_int_equal(prov_hooks_apply(&hook, 1), 0);
	read_event(*state);
	assert_int_equal(reads, 1);
	/* again: it stays */
	assert_int_equal(prov_hooks_apply(&hook, 1), 0);
	read_event(*state);
	assert_int_equal(reads, 2);
	/* the same symbol by its other name */
	assert_int_equal(prov_hooks_apply(&other, 1), 0);
	read_event(*state);
	assert_int_equal(reads, 102);
	/* read(2) as this program calls it is libc's */
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(read(fds[0], &c, 1), 1);
	assert_int_equal(reads, 102);
	close(fds[0]);
	close(fds[1]);
}

FIXTURE_TEST(hooks_that_cannot_be_applied_are_counted)
{
	static const struct prov_hook hooks[] = {
		{"libnothing.so.1", "read", {NULL}, (void *)counted_read},
		{LIBIBVERBS, "no_such_function", {"nor_this"}, (void *)counted_read},
		{"linux-vdso.so.1", "read", {NULL}, (void *)counted_read},
		{LIBIBVERBS, "read", {NULL}, (void *)counted_read},
	};

	reads = 0;
	assert_int_equal(prov_hooks_apply(hooks, 4), 3);
	read_event(*state);
	assert_int_equal(reads, 1);
}

UNIT_TEST(a_library_is_found_by_its_soname)
{
	assert_true(prov_hooks_library_loaded(LIBIBVERBS));
	assert_true(prov_hooks_library_loaded("libc.so.6"));
	assert_false(prov_hooks_library_loaded("libibverbs.so"));
	assert_false(prov_hooks_library_loaded("libnothing.so.1"));
}
