/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel of the fake daemon, and commands as librdmacm makes them. */
#ifndef TEST_UNIT_VERBS_CM_FIXTURE_H
#define TEST_UNIT_VERBS_CM_FIXTURE_H

#include "../../kit/unit.h"
#include "fake.h"

struct state {
	struct fake *f;
	struct fake_cm *cm; /* the first channel */
	int fd;
};

/* cmocka setup and teardown: *state is a struct state. teardown checks that no channel is left. */
int cm_setup(void **state);
int cm_teardown(void **state);
#define CM_TEST(name) UNIT_TEST_IN(name, cm_setup, cm_teardown)

/* A command of in bytes, with space for out in its response. 0 or a positive errno. */
int cm_run(int fd, uint32_t cmd, const void *body, uint16_t in, uint16_t out);
int create_id(int fd, uint32_t uid, uint32_t *id);
/* Takes an event and returns its uid. */
int get_event(int fd, uint64_t *uid);

#endif
