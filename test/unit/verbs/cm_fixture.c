/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/rdma_user_cm.h>
#include "cm_channel.h"
#include "cm_fixture.h"

int
cm_setup(void **state)
{
	struct state *s = calloc(1, sizeof(*s));

	s->f = fake_start(NULL);
	s->fd = prov_cm_open(O_RDWR | O_CLOEXEC);
	assert_true(s->fd >= 0);
	s->cm = &s->f->cm[0];
	*state = s;
	return 0;
}

int
cm_teardown(void **state)
{
	struct state *s = *state;

	prov_cm_close(s->fd);
	fake_stop(s->f);
	free(s);
	/* nothing else is left in the table, once the sweep has been everywhere */
	for (unsigned int i = 0; i < 1024; i++)
		prov_cm_close(-1);
	assert_int_equal(prov_cm_count(), 0);
	return 0;
}

/* A command as librdmacm makes it. 0 or a positive errno. */
int
cm_run(int fd, uint32_t cmd, const void *body, uint16_t in, uint16_t out)
{
	uint8_t buf[4096];
	struct rdma_ucm_cmd_hdr hdr = {.cmd = cmd, .in = in, .out = out};
	ssize_t n;

	memcpy(buf, &hdr, sizeof(hdr));
	memcpy(buf + sizeof(hdr), body, in);
	n = prov_cm_write(fd, buf, sizeof(hdr) + in);
	assert_true(n == -1 || n == (ssize_t)sizeof(hdr) + in);
	return n < 0 ? errno : 0;
}

int
create_id(int fd, uint32_t uid, uint32_t *id)
{
	struct rdma_ucm_create_id_resp resp = {.id = 0xdead};
	struct rdma_ucm_create_id cmd = {.uid = uid, .response = (uintptr_t)&resp};
	int rc = cm_run(fd, RDMA_USER_CM_CMD_CREATE_ID, &cmd, sizeof(cmd), sizeof(resp));

	*id = resp.id;
	return rc;
}

int
get_event(int fd, uint64_t *uid)
{
	struct rdma_ucm_event_resp resp = {0};
	struct rdma_ucm_get_event cmd = {.response = (uintptr_t)&resp};
	int rc = cm_run(fd, RDMA_USER_CM_CMD_GET_EVENT, &cmd, sizeof(cmd), sizeof(resp));

	*uid = resp.uid;
	return rc;
}
