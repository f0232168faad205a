/* SPDX-License-Identifier: BSD-3-Clause */
/* The broker's threads when jobs hang. */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include "ipc/broker_parts.h"

#define USERS  (BROKER_THREADS / BROKER_USER_THREADS)
#define HANG_S 30 /* a job that has not run by then does not run */

static sem_t begun, go_on, root_ran;

static void
hang(struct job *job)
{
	sem_post(&begun);
	while (sem_wait(&go_on) != 0)
		;
	free(job);
}

static void
run_of_root(struct job *job)
{
	sem_post(&root_ran);
	free(job);
}

static void
submit(uint32_t uid, void (*run)(struct job *job))
{
	struct job *job = calloc(1, sizeof(*job));

	assert_non_null(job);
	jobs_submit(job, uid, run);
}

static int
in_time(sem_t *sem)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += HANG_S;
	return sem_timedwait(sem, &end);
}

/* All threads that other users may have hang; a job of root's runs, and theirs once these end. */
static void
root_has_threads_left(void **state)
{
	const unsigned most = BROKER_THREADS - BROKER_USER_THREADS;
	int chan[2], value;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, chan), 0);
	sem_init(&begun, 0, 0);
	sem_init(&go_on, 0, 0);
	sem_init(&root_ran, 0, 0);
	jobs_open(chan[0]);
	for (uint32_t uid = 1; uid <= USERS; uid++)
		for (unsigned i = 0; i < BROKER_USER_THREADS; i++)
			submit(uid, hang);
	for (unsigned i = 0; i < most; i++)
		assert_int_equal(in_time(&begun), 0);
	submit(0, run_of_root);
	assert_int_equal(in_time(&root_ran), 0);
	sem_getvalue(&begun, &value);
	assert_int_equal(value, 0);
	for (unsigned i = 0; i < BROKER_THREADS; i++)
		sem_post(&go_on);
	for (unsigned i = most; i < BROKER_THREADS; i++)
		assert_int_equal(in_time(&begun), 0);
	close(chan[1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(root_has_threads_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
