/* SPDX-License-Identifier: BSD-3-Clause */
/* A daemon that is an ordinary user without capabilities: which memory takes which path. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "harness.h"
#include "../../kit/unit.h"

#define NOBODY 65534u
#define BYTES  (16 * PAGE)

static uint8_t *
map_file(int fd)
{
	uint8_t *p;

	CHECK(fd >= 0 && ftruncate(fd, BYTES) == 0);
	p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	return p;
}

static void *
sleeper(void *arg)
{
	for (;;)
		pause();
	return NULL;
}

static void
client_private(void)
{
	uint8_t *p = map_private(BYTES);
	pthread_t t;

	check_region(p + 1, BYTES - 1, UROCE_MR_PATH_ADOPTED, false);
	setenv("UROCE_MR_MODE", "copy", 1);
	CHECK(pthread_create(&t, NULL, sleeper, NULL) == 0);
	check_region(p + 1, BYTES - 1, UROCE_MR_PATH_COPY, false);
}

UNIT_TEST(private_memory_is_adopted_or_copied)
{
	harness_run_as(client_private, NOBODY);
}

static void
client_memfd(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	uint8_t *p = map_file(fd);

	check_region(p + 1, BYTES - 2, UROCE_MR_PATH_SHARED, true);
	/* Its only other name is map_files. */
	close(fd);
	check_region(p + 1, BYTES - 2, UROCE_MR_PATH_COPY, true);
}

UNIT_TEST(memfd_is_shared_while_the_client_keeps_its_descriptor)
{
	harness_run_as(client_memfd, NOBODY);
}

static void
client_shm(void)
{
	char name[] = "/dev/shm/uroce-test-XXXXXX";
	int fd = mkstemp(name);
	uint8_t *p = map_file(fd), *q;
	struct reg r;

	check_region(p + 1, BYTES - 2, UROCE_MR_PATH_SHARED, true);
	close(fd);
	check_region(p + 1, BYTES - 2, UROCE_MR_PATH_SHARED, true);
	/* Another file of that name is not taken for it. */
	CHECK(unlink(name) == 0);
	fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	q = map_file(fd);
	fill(q, BYTES, 9);
	check_region(p + 1, BYTES - 2, UROCE_MR_PATH_COPY, true);
	CHECK(filled(q, BYTES, 9) && unlink(name) == 0);
	/* A region gets no right that its mapping does not have. */
	CHECK(mprotect(q, BYTES, PROT_READ) == 0);
	CHECK(client_reg(&r, q, BYTES, ACCESS_WRITE) != 0);
	CHECK(client_reg(&r, q, BYTES, ACCESS_READ) == 0 && r.path == UROCE_MR_PATH_SHARED);
	client_dereg(&r);
}

UNIT_TEST(file_is_shared_while_it_has_its_name_or_a_descriptor)
{
	harness_run_as(client_shm, NOBODY);
}

static void
client_anonymous(void)
{
	uint8_t *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	check_region(p + 1, BYTES - 2, UROCE_MR_PATH_COPY, true);
}

UNIT_TEST(shared_memory_without_a_name_is_copied)
{
	harness_run_as(client_anonymous, NOBODY);
}

int
main(void)
{
	if (!harness_can_run())
		return 77;
	/* As a program that was started by that user. */
	if (setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0 ||
	    prctl(PR_SET_DUMPABLE, 1) != 0)
		return 1;
	return unit_run();
}
