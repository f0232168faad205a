/* SPDX-License-Identifier: BSD-3-Clause */
/* Refusals of ibv_reg_mr, and the path that remains under a mode, a right or a limit. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include "harness.h"
#include "../../kit/unit.h"

static uint8_t buf[PAGE];

static uint8_t *
map_shared(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static void
client_bad_range(void)
{
	uint8_t *p = map_private(16 * PAGE);
	struct reg r;

	CHECK(munmap(p + 8 * PAGE, PAGE) == 0);
	CHECK(client_reg(&r, p, 16 * PAGE, ACCESS_WRITE) == EFAULT);
	CHECK(client_reg(&r, p + 8 * PAGE, 100, ACCESS_WRITE) == EFAULT);
	CHECK(mprotect(p + 9 * PAGE, PAGE, PROT_NONE) == 0);
	CHECK(client_reg(&r, p + 9 * PAGE, 100, ACCESS_WRITE) == EFAULT);
	CHECK(client_reg(&r, NULL, 100, ACCESS_WRITE) == EFAULT);
	CHECK(client_reg(&r, p, SIZE_MAX, ACCESS_WRITE) == EINVAL);
	CHECK(client_reg(&r, p, SIZE_MAX / 2, ACCESS_WRITE) == EFAULT);
	CHECK(is_private(p));
}

static void
client_read_only(void)
{
	uint8_t *p = map_private(16 * PAGE);
	uint8_t *s = map_shared(16 * PAGE);
	struct reg r;
	uint64_t h;

	fill(p, 16 * PAGE, 1);
	fill(s, 16 * PAGE, 1);
	CHECK(mprotect(p, 16 * PAGE, PROT_READ) == 0 && mprotect(s, 16 * PAGE, PROT_READ) == 0);
	CHECK(client_reg(&r, p, 16 * PAGE, ACCESS_WRITE) == EFAULT);
	CHECK(client_reg(&r, s, 16 * PAGE, ACCESS_WRITE) == EFAULT);
	CHECK(client_reg(&r, p, 16 * PAGE, ACCESS_READ) == 0 && r.path == UROCE_MR_PATH_COPY);
	CHECK(daemon_read(&r, p, 16 * PAGE, &h) == 0 && h == hash_of(p, 16 * PAGE));
	CHECK(daemon_fill(&r, p, 10, 3) == EFAULT);
	client_dereg(&r);
	CHECK(client_reg(&r, s, 16 * PAGE, ACCESS_READ) == 0 && r.path == UROCE_MR_PATH_SHARED);
	CHECK(daemon_read(&r, s, 16 * PAGE, &h) == 0 && h == hash_of(s, 16 * PAGE));
	client_dereg(&r);
}

static void
client_empty(void)
{
	struct reg r;

	CHECK(client_reg(&r, buf, 0, ACCESS_WRITE) == 0);
	client_dereg(&r);
}

static void
client_modes(void)
{
	uint8_t *p = map_private(16 * PAGE);
	uint8_t *s = map_shared(16 * PAGE);
	uint8_t stack[100];
	struct reg r;

	setenv("UROCE_MR_MODE", "copy", 1);
	check_region(p, 16 * PAGE, UROCE_MR_PATH_COPY, false);
	check_region(s, 16 * PAGE, UROCE_MR_PATH_COPY, false);
	setenv("UROCE_MR_MODE", "adopt", 1);
	check_region(p, 16 * PAGE, UROCE_MR_PATH_ADOPTED, false);
	CHECK(client_reg(&r, stack, sizeof(stack), ACCESS_WRITE) == EOPNOTSUPP);
	setenv("UROCE_MR_MODE", "auto", 1);
	check_region(p, 16 * PAGE, UROCE_MR_PATH_ADOPTED, false);
	check_region(stack + 1, sizeof(stack) - 2, UROCE_MR_PATH_COPY, true);
}

/* An unknown mode: no registration, and one line that names the valid modes. */
static void
client_bad_mode(void)
{
	uint8_t *p = map_private(PAGE);
	char text[1024];
	int pipes[2];
	struct reg r;
	ssize_t n;

	CHECK(pipe(pipes) == 0 && dup2(pipes[1], STDERR_FILENO) == STDERR_FILENO);
	setenv("UROCE_MR_MODE", "copied", 1);
	CHECK(client_reg(&r, p, PAGE, ACCESS_WRITE) == EINVAL);
	CHECK(client_reg(&r, p, PAGE, ACCESS_WRITE) == EINVAL);
	fflush(stderr);
	n = read(pipes[0], text, sizeof(text) - 1);
	CHECK(n > 0);
	text[n] = 0;
	CHECK(strstr(text, "UROCE_MR_MODE=copied") && strstr(text, "auto") &&
	      strstr(text, "adopt"));
	CHECK(strchr(text, '\n') == text + n - 1);
	unsetenv("UROCE_MR_MODE");
	CHECK(client_reg(&r, p, PAGE, ACCESS_WRITE) == 0);
	client_dereg(&r);
}

static void *
sleeper(void *arg)
{
	for (;;)
		pause();
	return NULL;
}

/* An ordinary user with threads may not adopt: slower, but it works. */
static void
client_unprivileged(void)
{
	uint8_t *s = map_shared(16 * PAGE);
	uint8_t *p = malloc(16 * PAGE);
	pthread_t t;
	struct reg r;

	CHECK(pthread_create(&t, NULL, sleeper, NULL) == 0);
	check_region(p + 1, 15 * PAGE, UROCE_MR_PATH_COPY, true);
	check_region(s + 1, 15 * PAGE, UROCE_MR_PATH_SHARED, true);
	setenv("UROCE_MR_MODE", "adopt", 1);
	CHECK(client_reg(&r, p, PAGE, ACCESS_WRITE) == EOPNOTSUPP);
}

/*
 * A limit on file sizes must not kill the program by SIGXFSZ: it leaves less room to grow, or no
 * memfd.
 */
static void
client_file_limit(void)
{
	struct rlimit limit = {.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY};
	uint8_t *p = map_private(4 << 20);

	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	check_region(p, 1 << 20, UROCE_MR_PATH_ADOPTED, false);
	check_region(p, 2 << 20, UROCE_MR_PATH_COPY, false);
}

/* The program is out of descriptors. */
static void
client_no_descriptors(void)
{
	struct rlimit none = {.rlim_cur = 4, .rlim_max = 1024};
	uint8_t *p = map_private(16 * PAGE);
	struct reg r;
	int fd;

	/* One descriptor is left for /proc/self/maps, none for userfaultfd and memfd. */
	while ((fd = open("/dev/null", O_RDONLY)) < 40)
		CHECK(fd >= 0);
	close(fd);
	none.rlim_cur = (rlim_t)fd + 1;
	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	check_region(p, 16 * PAGE, UROCE_MR_PATH_COPY, false);
	fd = open("/dev/null", O_RDONLY);
	CHECK(fd >= 0);
	CHECK(client_reg(&r, p, 16 * PAGE, ACCESS_WRITE) == EMFILE);
	close(fd);
	check_region(p, 16 * PAGE, UROCE_MR_PATH_COPY, false);
	none.rlim_cur = 1024;
	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	check_region(p, 16 * PAGE, UROCE_MR_PATH_ADOPTED, false);
}

#define LIMIT(id, client)                                                                          \
	UNIT_TEST(id)                                                                              \
	{                                                                                          \
		harness_run(client);                                                               \
	}

REQUIREMENT("MEM-05")
LIMIT(unmapped_range_is_refused, client_bad_range)
LIMIT(read_only_memory_is_registered_for_reading, client_read_only)
LIMIT(empty_region_is_registered, client_empty)
LIMIT(each_mode_takes_its_path, client_modes)
LIMIT(unknown_mode_is_refused, client_bad_mode)
LIMIT(limit_on_file_sizes_does_not_kill_the_program, client_file_limit)
LIMIT(lack_of_descriptors_falls_back_to_copies, client_no_descriptors)

REQUIREMENT("MEM-05")
UNIT_TEST(unprivileged_process_registers_memory)
{
	harness_run_as(client_unprivileged, 65534);
}

UNIT_NEEDS(harness_can_run);
