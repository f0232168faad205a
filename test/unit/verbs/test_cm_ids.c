/* SPDX-License-Identifier: BSD-3-Clause */
/* What is left of the ids of a channel when the daemon dies. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/rdma_user_cm.h>
#include "cm_channel.h"
#include "cm_fixture.h"

static int
destroy_id(int fd, uint32_t id, uint32_t *reported)
{
	struct rdma_ucm_destroy_id_resp resp = {.events_reported = 99};
	struct rdma_ucm_destroy_id cmd = {.id = id, .response = (uintptr_t)&resp};
	int rc = cm_run(fd, RDMA_USER_CM_CMD_DESTROY_ID, &cmd, sizeof(cmd), sizeof(resp));

	*reported = resp.events_reported;
	return rc;
}

/* One removal for each id, also if other channels come and go; then EIO. */
REQUIREMENT("CM-15")
CM_TEST(ids_of_a_daemon_that_died_get_one_removal_each)
{
	struct state *s = *state;
	struct rdma_ucm_event_resp ev = {0};
	struct rdma_ucm_get_event cmd = {.response = (uintptr_t)&ev};
	uint64_t uid, told = 0;
	uint32_t id, reported;
	int other = prov_cm_open(O_RDWR);

	for (uint32_t i = 1; i <= 4; i++)
		assert_int_equal(create_id(i == 4 ? other : s->fd, i, &id), 0);
	fake_cm_events(s->cm, 1);
	assert_int_equal(get_event(s->fd, &uid), 0);
	assert_int_equal(destroy_id(s->fd, 3, &reported), 0);
	fake_cm_die(s->cm);
	for (unsigned int i = 0; i < 2000; i++)
		prov_cm_close(-1);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(cm_run(s->fd, RDMA_USER_CM_CMD_GET_EVENT, &cmd, sizeof(cmd),
					sizeof(ev)),
				 0);
		assert_int_equal(ev.event, 11); /* RDMA_CM_EVENT_DEVICE_REMOVAL */
		assert_int_equal((int32_t)ev.status, -ENODEV);
		assert_int_equal(ev.id, ev.uid);
		told |= 1u << ev.uid;
	}
	assert_int_equal(told, 1 << 1 | 1 << 2);
	assert_int_equal(get_event(s->fd, &uid), EIO);
	assert_int_equal(destroy_id(s->fd, 1, &reported), 0);
	assert_int_equal(reported, 2);
	assert_int_equal(destroy_id(s->fd, 2, &reported), 0);
	assert_int_equal(reported, 1);
	assert_int_equal(destroy_id(s->fd, 2, &reported), EIO);
	prov_cm_close(other);
}

/* The new id has no uid before it is accepted: then it can be destroyed, but has no event. */
REQUIREMENT("CM-15")
CM_TEST(a_request_counts_for_its_listener_when_the_daemon_dies)
{
	struct state *s = *state;
	struct rdma_ucm_accept accept = {.uid = 50, .id = 101, .conn_param.valid = 1};
	uint64_t uid, seen = 0;
	uint32_t id, reported;

	assert_int_equal(create_id(s->fd, 1, &id), 0);
	assert_int_equal(create_id(s->fd, 2, &id), 0);
	s->cm->event = 4; /* RDMA_CM_EVENT_CONNECT_REQUEST */
	s->cm->new_ids = 100;
	fake_cm_events(s->cm, 2);
	assert_int_equal(get_event(s->fd, &uid), 0);
	assert_int_equal(get_event(s->fd, &uid), 0);
	assert_int_equal(cm_run(s->fd, RDMA_USER_CM_CMD_ACCEPT, &accept, sizeof(accept), 0), 0);
	fake_cm_die(s->cm);
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(get_event(s->fd, &uid), 0);
		seen |= 1ull << uid;
	}
	assert_int_equal(seen, 1ull << 1 | 1ull << 2 | 1ull << 50);
	assert_int_equal(get_event(s->fd, &uid), EIO);
	assert_int_equal(destroy_id(s->fd, 102, &reported), 0);
	assert_int_equal(reported, 0);
	assert_int_equal(destroy_id(s->fd, 101, &reported), 0);
	assert_int_equal(reported, 1);
	assert_int_equal(destroy_id(s->fd, 1, &reported), 0);
	assert_int_equal(reported, 2);
}

/* An id of another channel that is equal: of a daemon that was started after this one died. */
REQUIREMENT("CM-15")
CM_TEST(equal_ids_of_two_daemons_are_different)
{
	struct state *s = *state;
	struct rdma_ucm_create_id_resp resp = {0};
	struct rdma_ucm_create_id cmd = {.uid = 1ull << 32 | 1, .response = (uintptr_t)&resp};
	uint32_t id, reported;
	uint64_t uid;
	int other;

	assert_int_equal(create_id(s->fd, 1, &id), 0);
	fake_cm_die(s->cm);
	other = prov_cm_open(O_RDWR);
	assert_int_equal(cm_run(other, RDMA_USER_CM_CMD_CREATE_ID, &cmd, sizeof(cmd), sizeof(resp)),
			 0);
	assert_int_equal(resp.id, id);
	assert_int_equal(get_event(s->fd, &uid), 0);
	assert_int_equal(uid, 1);
	assert_int_equal(destroy_id(s->fd, id, &reported), 0);
	assert_int_equal(reported, 1);
	fake_cm_die(&s->f->cm[1]);
	assert_int_equal(get_event(other, &uid), 0);
	assert_int_equal(uid, cmd.uid);
	assert_int_equal(destroy_id(other, id, &reported), 0);
	prov_cm_close(other);
}

/* An id and its group can be destroyed on the channel to which the id has moved. */
REQUIREMENT("CM-15")
CM_TEST(an_id_that_moved_belongs_to_its_new_channel)
{
	struct state *s = *state;
	struct rdma_ucm_migrate_resp resp = {0};
	struct rdma_ucm_migrate_id cmd = {.id = 7,
					  .fd = (uint32_t)s->fd,
					  .response = (uintptr_t)&resp};
	int other = prov_cm_open(O_RDWR);
	uint32_t id, reported;
	uint64_t uid;

	assert_int_equal(create_id(s->fd, 7, &id), 0);
	assert_int_equal(cm_run(other, RDMA_USER_CM_CMD_MIGRATE_ID, &cmd, sizeof(cmd),
				sizeof(resp)),
			 0);
	fake_cm_die(s->cm);
	fake_cm_die(&s->f->cm[1]);
	assert_int_equal(get_event(s->fd, &uid), EIO);
	assert_int_equal(get_event(other, &uid), 0);
	assert_int_equal(uid, 7);
	assert_int_equal(destroy_id(s->fd, 7, &reported), EIO);
	assert_int_equal(destroy_id(other, 7, &reported), 0);
	prov_cm_close(other);
}
