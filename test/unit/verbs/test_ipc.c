/* SPDX-License-Identifier: BSD-3-Clause */
/* The client side of the control protocol against peers that respond well, badly or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "ipc/client.h"
#include "map/segmap.h"
#include "../../kit/unit.h"

/* The peer's response to the next request; its header is correct by default. */
struct peer {
	int sock;
	struct uroce_ctrl_hdr reply;
	bool hang_up;
	unsigned int nfds;
	uint8_t body[512];
	char why[UROCE_CTRL_MAX_WHY + 1]; /* that the first call got */
};

static void *
peer_main(void *arg)
{
	struct peer *p = arg;
	struct uroce_ctrl_hdr req;
	uint8_t body[256];
	struct iovec in[2] = {{&req, sizeof(req)}, {body, sizeof(body)}};
	struct iovec out[2] = {{&p->reply, sizeof(p->reply)}, {p->body, p->reply.len}};
	char control[CMSG_SPACE(4 * sizeof(int))] = {0};
	struct msghdr msg = {.msg_iov = in, .msg_iovlen = 2};

	if (recvmsg(p->sock, &msg, 0) <= 0 || p->hang_up) {
		close(p->sock);
		return NULL;
	}
	p->reply.magic += UROCE_CTRL_MAGIC;
	p->reply.version += UROCE_ABI_VERSION;
	p->reply.op += req.op;
	p->reply.cookie += req.cookie;
	msg = (struct msghdr){.msg_iov = out, .msg_iovlen = 2};
	if (p->nfds) {
		struct cmsghdr *cm;

		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(p->nfds * sizeof(int));
		cm = CMSG_FIRSTHDR(&msg);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(p->nfds * sizeof(int));
		memset(CMSG_DATA(cm), 0, p->nfds * sizeof(int)); /* descriptor 0, as often */
	}
	sendmsg(p->sock, &msg, MSG_NOSIGNAL);
	return NULL;
}

static unsigned int
open_fds(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* One ALLOC_PD that p answers, then the result of a second call on the same connection. */
static int
exchange(struct peer *p, uint32_t *handle, int *second)
{
	struct uroce_handle rep = {0};
	struct ipc_call call = {.op = UROCE_CTRL_ALLOC_PD, .rep = &rep, .rep_len = sizeof(rep)};
	struct ipc_client c;
	pthread_t t;
	int sv[2], rc;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
	p->sock = sv[1];
	ipc_client_init(&c, sv[0]);
	pthread_create(&t, NULL, peer_main, p);
	rc = ipc_client_call(&c, &call);
	pthread_join(t, NULL);
	strcpy(p->why, call.why);
	*handle = rep.handle;
	if (!p->hang_up)
		close(sv[1]); /* so that a second call cannot wait forever */
	*second = ipc_client_call(&c, &call);
	ipc_client_close(&c);
	ipc_client_close(&c);
	return rc;
}

UNIT_TEST(hello_is_granted_or_refused)
{
	struct peer grant = {.reply.len = sizeof(struct uroce_handle), .body = {42}};
	struct peer refuse = {.reply.status = ENOMEM};
	uint32_t handle;
	int second;

	assert_int_equal(exchange(&grant, &handle, &second), 0);
	assert_int_equal(handle, 42);
	assert_int_equal(exchange(&refuse, &handle, &second), -ENOMEM);
	assert_string_equal(refuse.why, "");
}

/* Shorter than the body that a grant would have, longer, and the longest there is. */
UNIT_TEST(refusal_carries_its_reason)
{
	static const uint32_t lens[] = {1, sizeof(struct uroce_handle), 40, UROCE_CTRL_MAX_WHY};

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct peer p = {.reply = {.status = ENOMEM, .len = lens[i]}};
		uint32_t handle;
		int second;

		memset(p.body, 'x', lens[i]);
		p.body[lens[i] - 1] = '\033'; /* terminals must not get it */
		assert_int_equal(exchange(&p, &handle, &second), -ENOMEM);
		assert_int_equal(strlen(p.why), lens[i]);
		assert_int_equal(p.why[lens[i] - 1], '?');
		assert_int_equal(strspn(p.why, "x"), lens[i] - 1);
	}
}

UNIT_TEST(malformed_reply_ends_the_connection)
{
	const uint32_t len = sizeof(struct uroce_handle);
	struct peer bad[] = {
		{.reply = {.len = len, .magic = 1}},
		{.reply = {.len = len, .version = 1}},
		{.reply = {.len = len, .op = 1}},
		{.reply = {.len = len, .cookie = 1}},
		{.reply = {.len = len - 1}},
		{.reply = {.len = len + 1}},
		{.reply = {.len = 0}},
		{.reply = {.len = len, .spare = {0, 1}}},
		{.reply = {.len = len},
		 .body = {[sizeof(struct uroce_handle) - 1] = 1}}, /* spare */
		{.reply = {.len = UROCE_CTRL_MAX_WHY + 1, .status = ENOMEM}},
		{.reply = {.len = len}, .nfds = 2}, /* unexpected descriptors */
	};
	unsigned int before = open_fds();

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint32_t handle;
		int second;

		assert_int_equal(exchange(&bad[i], &handle, &second), -EPROTO);
		assert_int_equal(second, -EIO);
		assert_int_equal(open_fds(), before);
	}
}

UNIT_TEST(closed_connection_is_reported)
{
	struct peer p = {.hang_up = true};
	uint32_t handle;
	int second;

	assert_int_equal(exchange(&p, &handle, &second), -EIO);
	assert_int_equal(second, -EIO);
}

UNIT_TEST(socket_path_is_the_argument_or_the_environments)
{
	struct ipc_client c;
	char longer[200];

	unsetenv(UROCE_SOCK_ENV);
	assert_string_equal(ipc_client_path(NULL), UROCE_DEFAULT_SOCK);
	setenv(UROCE_SOCK_ENV, "/env", 1);
	assert_string_equal(ipc_client_path(NULL), "/env");
	assert_string_equal(ipc_client_path(""), "/env");
	assert_string_equal(ipc_client_path("/given"), "/given");
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = 0;
	assert_int_equal(ipc_client_connect(&c, longer), -ENAMETOOLONG);
	assert_int_equal(ipc_client_connect(&c, "/nonexistent"), -ENOENT);
}

static int
memfd_of(size_t bytes)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
	return fd;
}

UNIT_TEST(segment_is_mapped_once_and_checked)
{
	const struct uroce_segment_rep seg = {.seg = 70, .bytes = 8192};
	struct uroce_ring_loc loc = {.seg = 70, .off = 4096, .entries = 32, .stride = 64};
	struct ipc_segmap map = {0};
	int fd = memfd_of(8192), copy = dup(fd);
	void *ring;

	assert_null(ipc_segmap_ring(&map, &loc, 192));
	assert_int_equal(ipc_segmap_add(&map, &seg, fd), 0);
	assert_int_equal(fcntl(copy, F_GET_SEALS), F_SEAL_FUTURE_WRITE);
	ring = ipc_segmap_ring(&map, &loc, 192);
	assert_non_null(ring);
	memset(ring, 1, 192 + 32 * 64);
	assert_ptr_equal(ipc_segmap_ring(&map, &loc, 192), ring);
	assert_int_equal(ipc_segmap_add(&map, &seg, copy), -EPROTO); /* again */
	loc.entries = 64;                                            /* 192 + 64 * 64 > 4096 */
	assert_null(ipc_segmap_ring(&map, &loc, 192));
	loc.entries = 24;
	assert_null(ipc_segmap_ring(&map, &loc, 192));
	loc.entries = 1u << 31;
	loc.stride = 1u << 31;
	assert_null(ipc_segmap_ring(&map, &loc, 192));
	loc.entries = loc.stride = 1;
	loc.off = UINT64_MAX - 63;
	assert_null(ipc_segmap_ring(&map, &loc, 192));
	loc.off = 0;
	loc.seg = 71;
	assert_null(ipc_segmap_ring(&map, &loc, 192));
	ipc_segmap_close(&map);
}

UNIT_TEST(segment_that_is_too_short_is_refused)
{
	const struct uroce_segment_rep seg = {.bytes = 8192},
				       far = {.seg = IPC_SEGMAP_MAX, .bytes = 4096};
	unsigned int before = open_fds();
	struct ipc_segmap map = {0};

	assert_int_equal(ipc_segmap_add(&map, &seg, memfd_of(4096)), -EPROTO);
	assert_int_equal(ipc_segmap_add(&map, &far, memfd_of(4096)), -EPROTO);
	assert_int_equal(open_fds(), before);
	ipc_segmap_close(&map);
}
