/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queues in a process at its limits: the descriptor of a segment does not fit (RLIMIT_NOFILE), or
 * the segment cannot be mapped (RLIMIT_AS). No object is made, and the connection and the segment
 * stay usable.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "provider_fixture.h"

#define ALWAYS 1000000

static int full;    /* so many of the next looks at a reply find no room for its descriptors */
static int no_maps; /* so many of the next mmap calls fail */

ssize_t __real_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);
void *__real_mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t off);
void *__wrap_mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t off);

/* What the kernel does if no descriptor is left: it closes those of the message. */
ssize_t
__wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t n = __real_recvmsg(fd, msg, flags);
	struct cmsghdr *cm = n > 0 ? CMSG_FIRSTHDR(msg) : NULL;

	if (!(flags & MSG_PEEK) || !cm || full == 0)
		return n;
	full--;
	for (size_t i = 0; i < (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
		int got;

		memcpy(&got, CMSG_DATA(cm) + i * sizeof(int), sizeof(got));
		close(got);
	}
	msg->msg_controllen = 0;
	msg->msg_flags |= MSG_CTRUNC;
	return n;
}

void *
__wrap_mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	if (no_maps > 0) {
		no_maps--;
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return __real_mmap64(addr, len, prot, flags, fd, off);
}

static void
queue_works(struct fixture *r, struct ibv_cq *cq, unsigned int number)
{
	struct ibv_wc wc;

	assert_non_null(cq);
	fake_complete(r->f, number, (struct uroce_cqe){.wr_id = 77, .qp_num = 0x100});
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 77);
}

static int
limits_end(void **state)
{
	full = no_maps = 0;
	return fixture_teardown(state);
}

#define TEST(name) UNIT_TEST_IN(name, fixture_setup, limits_end)

TEST(reserved_descriptor_makes_room)
{
	struct fixture *r = *state;
	struct prov_context *ctx = prov_context_of(r->ctx);

	for (int i = 0; i < 3; i++) {
		struct ibv_cq *cq;

		fake_new_segment(r->f);
		full = 1;
		cq = ibv_create_cq(r->ctx, 16, NULL, NULL, 0);
		assert_int_equal(full, 0);
		queue_works(r, cq, 1);
		assert_true(ctx->spare_fd >= 0);
		assert_int_equal(ibv_destroy_cq(cq), 0);
	}
}

TEST(segment_that_does_not_fit_is_offered_again)
{
	struct fixture *r = *state;
	struct ibv_cq *cq;

	fake_new_segment(r->f);
	full = ALWAYS;
	errno = 0;
	assert_null(ibv_create_cq(r->ctx, 16, NULL, NULL, 0));
	assert_int_equal(errno, EMFILE);
	assert_false(r->f->cq[1].live);
	assert_null(fixture_create_qp(r, IBV_QPT_RC));
	assert_int_equal(errno, EMFILE);
	full = 0;
	cq = ibv_create_cq(r->ctx, 16, NULL, NULL, 0);
	queue_works(r, cq, 1);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

TEST(channel_that_does_not_fit_leaves_the_connection)
{
	struct fixture *r = *state;
	int fd;

	full = ALWAYS;
	errno = 0;
	assert_int_equal(prov_event_create_channel(prov_context_of(r->ctx)), -1);
	assert_int_equal(errno, EMFILE);
	full = 0;
	fd = prov_event_create_channel(prov_context_of(r->ctx));
	assert_true(fd >= 0);
	assert_int_equal(prov_event_close(fd), 0);
}

TEST(segment_that_was_not_mapped_is_mapped_later)
{
	struct fixture *r = *state;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	fake_new_segment(r->f);
	no_maps = 1;
	errno = 0;
	assert_null(ibv_create_cq(r->ctx, 16, NULL, NULL, 0));
	assert_int_equal(errno, ENOMEM);
	assert_false(r->f->cq[1].live);
	no_maps = 1;
	assert_null(fixture_create_qp(r, IBV_QPT_RC));
	assert_int_equal(errno, ENOMEM);
	cq = ibv_create_cq(r->ctx, 16, NULL, NULL, 0);
	queue_works(r, cq, 1);
	qp = fixture_create_qp(r, IBV_QPT_RC);
	assert_non_null(qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

TEST(resize_without_memory_changes_nothing)
{
	struct fixture *r = *state;
	uint32_t entries = r->f->cq[0].entries;

	fake_new_segment(r->f);
	no_maps = 1;
	assert_int_equal(ibv_resize_cq(r->cq, 200), ENOMEM);
	assert_int_equal(r->f->cq[0].entries, entries);
	queue_works(r, r->cq, 0);
	assert_int_equal(ibv_resize_cq(r->cq, 200), 0);
	queue_works(r, r->cq, 0);
}
