/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's handling of good and bad requests on a real socket. */

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ipc/client.h"
#include "ipc/server.h"
#include "../../kit/unit.h"

struct wire {
	int client, server;
	struct ipc_msg msg;
};

static void
setup_pair(struct wire *w)
{
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
	w->client = sv[0];
	w->server = sv[1];
}

static int
setup(void **state)
{
	struct wire *w = calloc(1, sizeof(*w));

	setup_pair(w);
	*state = w;
	return 0;
}

static int
teardown(void **state)
{
	struct wire *w = *state;

	close(w->client);
	close(w->server);
	free(w);
	return 0;
}

static struct uroce_ctrl_hdr
header(uint16_t op, uint32_t len)
{
	return (struct uroce_ctrl_hdr){.magic = UROCE_CTRL_MAGIC,
				       .version = UROCE_ABI_VERSION,
				       .op = op,
				       .len = len};
}

/* Send hdr, then `body` zero bytes, with nfds copies of standard input attached. */
static void
put(struct wire *w, struct uroce_ctrl_hdr hdr, size_t body, unsigned nfds)
{
	static char zero[2 * UROCE_CTRL_MAX_MSG];
	struct iovec iov[2] = {{&hdr, sizeof(hdr)}, {zero, body}};
	char control[CMSG_SPACE(100 * sizeof(int))] __attribute__((aligned(8))) = {0};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

	if (nfds > 0) {
		struct cmsghdr *cm = (struct cmsghdr *)control;

		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memset(CMSG_DATA(cm), 0, nfds * sizeof(int));
	}
	assert_int_equal(sendmsg(w->client, &msg, MSG_DONTWAIT), sizeof(hdr) + body);
}

/* Receive it and check its form. */
static int
verdict(struct wire *w, struct uroce_ctrl_hdr hdr, size_t body, unsigned nfds, enum ipc_state st)
{
	int rc;

	put(w, hdr, body, nfds);
	rc = nfds > 0 ? ipc_msg_receive_fds(w->server, &w->msg)
		      : ipc_msg_receive(w->server, &w->msg);
	if (rc == 1)
		rc = ipc_msg_check(&w->msg, st, UROCE_ABI_VERSION);
	return rc;
}

static unsigned
open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

#define TEST(name) UNIT_TEST_IN(name, setup, teardown)

TEST(every_request_must_have_its_own_length)
{
	struct wire *w = *state;

	for (uint16_t op = 0; op < UROCE_CTRL_OPS + 3; op++) {
		const struct ipc_op *o = ipc_op_get(op);
		enum ipc_state st = op == UROCE_CTRL_HELLO ? IPC_STATE_NEW : IPC_STATE_CONTEXT;
		uint32_t len = o != NULL ? o->req.len : 8;

		if (op == 0 || op >= UROCE_CTRL_OPS) {
			assert_null(o);
			assert_int_equal(verdict(w, header(op, len), len, 0, st), EOPNOTSUPP);
			continue;
		}
		assert_non_null(o);
		assert_int_equal(verdict(w, header(op, len), len, 0, st), 0);
		assert_int_equal(verdict(w, header(op, len + 8), len + 8, 0, st), -EPROTO);
		if (len > 0)
			assert_int_equal(verdict(w, header(op, len - 4), len - 4, 0, st), -EPROTO);
		/* the header has another length than the message */
		assert_int_equal(verdict(w, header(op, len), len + 4, 0, st), -EPROTO);
		assert_int_equal(verdict(w, header(op, len + 4), len, 0, st), -EPROTO);
	}
}

TEST(wrong_magic_and_version_end_the_connection)
{
	struct wire *w = *state;
	struct uroce_ctrl_hdr h = header(UROCE_CTRL_ALLOC_PD, 0);

	h.magic ^= 1;
	assert_int_equal(verdict(w, h, 0, 0, IPC_STATE_CONTEXT), -EPROTO);
	h = header(UROCE_CTRL_ALLOC_PD, 0);
	h.version++;
	assert_int_equal(verdict(w, h, 0, 0, IPC_STATE_CONTEXT), -EPROTO);
}

TEST(a_hello_of_any_version_is_read)
{
	struct wire *w = *state;
	uint32_t len = sizeof(struct uroce_hello_req);
	struct uroce_ctrl_hdr h = header(UROCE_CTRL_HELLO, len);
	char why[UROCE_CTRL_MAX_WHY];

	h.version = UROCE_ABI_VERSION + 5;
	assert_int_equal(verdict(w, h, len, 0, IPC_STATE_NEW), 0);
	/* of versions up to 6 it was shorter, and had no range */
	h.len = 40;
	h.version = 6;
	assert_int_equal(verdict(w, h, 40, 0, IPC_STATE_NEW), EPROTONOSUPPORT);
	ipc_msg_why(&w->msg, EPROTONOSUPPORT, why);
	assert_non_null(strstr(why, "the client supports 6 to 6"));
	h.version = UROCE_ABI_VERSION_FIRST;
	assert_int_equal(verdict(w, h, 40, 0, IPC_STATE_NEW), -EPROTO);
	/* once both have agreed, no other version is spoken */
	h = header(UROCE_CTRL_ALLOC_PD, 0);
	h.version--;
	assert_int_equal(verdict(w, h, 0, 0, IPC_STATE_CONTEXT), -EPROTO);
}

/* Each spare field of each request, by each of its bytes. */
TEST(spare_bytes_that_are_not_zero_are_refused)
{
	struct wire *w = *state;
	char why[UROCE_CTRL_MAX_WHY], want[80];
	unsigned fields = 0;

	for (uint16_t op = UROCE_CTRL_HELLO + 1; op < UROCE_CTRL_OPS; op++) {
		const struct ipc_op *o = ipc_op_get(op);
		struct ipc_msg *m = &w->msg;

		m->hdr = header(op, o->req.len);
		m->nfds = 0;
		memset(m->body, 0, sizeof(m->body));
		assert_int_equal(ipc_msg_check(m, IPC_STATE_CONTEXT, UROCE_ABI_VERSION), 0);
		for (const struct ipc_spare *s = o->req.spare; s != NULL && s->name != NULL; s++) {
			fields++;
			for (uint32_t i = 0; i < s->len; i++) {
				m->body[s->off + i] = 0x80;
				assert_int_equal(ipc_msg_check(m, IPC_STATE_CONTEXT,
							       UROCE_ABI_VERSION),
						 EINVAL);
				ipc_msg_why(m, EINVAL, why);
				snprintf(want, sizeof(want), "%s must be zero", s->name);
				assert_non_null(strstr(why, want));
				m->body[s->off + i] = 0;
			}
		}
		m->hdr.status = 1;
		assert_int_equal(ipc_msg_check(m, IPC_STATE_CONTEXT, UROCE_ABI_VERSION), EINVAL);
		ipc_msg_why(m, EINVAL, why);
		assert_non_null(strstr(why, "ctrl_hdr.status must be zero"));
		m->hdr.status = 0;
		m->hdr.spare[1] = 1;
		assert_int_equal(ipc_msg_check(m, IPC_STATE_CONTEXT, UROCE_ABI_VERSION), EINVAL);
		ipc_msg_why(m, EINVAL, why);
		assert_non_null(strstr(why, "ctrl_hdr.spare must be zero"));
	}
	assert_true(fields > 25);
}

TEST(messages_of_wrong_size_end_the_connection)
{
	struct wire *w = *state;
	struct uroce_ctrl_hdr h = header(UROCE_CTRL_ALLOC_PD, 0);

	assert_int_equal(ipc_msg_receive(w->server, &w->msg), -EAGAIN);
	assert_int_equal(send(w->client, &h, sizeof(h) - 1, 0), sizeof(h) - 1);
	assert_int_equal(ipc_msg_receive(w->server, &w->msg), -EPROTO);
	put(w, header(UROCE_CTRL_ALLOC_PD, UROCE_CTRL_MAX_MSG), UROCE_CTRL_MAX_MSG, 0);
	assert_int_equal(ipc_msg_receive(w->server, &w->msg), -EPROTO);
	shutdown(w->client, SHUT_WR);
	assert_int_equal(ipc_msg_receive(w->server, &w->msg), 0);
}

TEST(requests_out_of_state_are_refused)
{
	struct wire *w = *state;
	uint32_t hello = sizeof(struct uroce_hello_req), show = sizeof(struct uroce_show_req);

	assert_int_equal(verdict(w, header(UROCE_CTRL_SHOW, show), show, 0, IPC_STATE_NEW),
			 -EPROTO);
	assert_int_equal(verdict(w, header(UROCE_CTRL_SHOW, show), show, 0, IPC_STATE_OBSERVER), 0);
	assert_int_equal(verdict(w, header(UROCE_CTRL_ALLOC_PD, 0), 0, 0, IPC_STATE_OBSERVER),
			 EPERM);
	assert_int_equal(verdict(w, header(UROCE_CTRL_HELLO, hello), hello, 0, IPC_STATE_CONTEXT),
			 EINVAL);
	assert_int_equal(verdict(w, header(UROCE_CTRL_HELLO, hello), hello, 0, IPC_STATE_OBSERVER),
			 EINVAL);
}

TEST(unexpected_descriptors_are_closed)
{
	struct wire *w = *state;
	struct uroce_ctrl_hdr h = header(UROCE_CTRL_REG_MR, sizeof(struct uroce_reg_mr_req));
	unsigned before = open_fds();

	/* as many as announced: the caller's until it closes them */
	h.nfds = 2;
	assert_int_equal(verdict(w, h, h.len, 2, IPC_STATE_CONTEXT), 0);
	assert_int_equal(w->msg.nfds, 2);
	assert_int_equal(open_fds(), before + 2);
	ipc_msg_close_fds(&w->msg);
	assert_int_equal(open_fds(), before);

	/* more than announced: the surplus is closed at once */
	h.nfds = 1;
	assert_int_equal(verdict(w, h, h.len, 3, IPC_STATE_CONTEXT), 0);
	assert_int_equal(w->msg.nfds, 1);
	assert_int_equal(open_fds(), before + 1);
	ipc_msg_close_fds(&w->msg);

	/* fewer than announced */
	h.nfds = 3;
	assert_int_equal(verdict(w, h, h.len, 2, IPC_STATE_CONTEXT), -EPROTO);
	ipc_msg_close_fds(&w->msg);

	/* with an operation that takes none */
	h = header(UROCE_CTRL_ALLOC_PD, 0);
	h.nfds = 1;
	assert_int_equal(verdict(w, h, 0, 1, IPC_STATE_CONTEXT), EINVAL);
	ipc_msg_close_fds(&w->msg);

	/* more than a message may have */
	h = header(UROCE_CTRL_REG_MR, sizeof(struct uroce_reg_mr_req));
	h.nfds = 80;
	assert_int_equal(verdict(w, h, h.len, 80, IPC_STATE_CONTEXT), -EPROTO);
	assert_int_equal(open_fds(), before);
}

TEST(descriptors_are_seen_but_not_received)
{
	struct wire *w = *state;
	struct uroce_ctrl_hdr h = header(UROCE_CTRL_REG_MR, sizeof(struct uroce_reg_mr_req));
	unsigned before = open_fds();

	h.nfds = 2;
	h.cookie = 5;
	put(w, h, h.len, 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ipc_msg_receive(w->server, &w->msg), 2);
		assert_int_equal(w->msg.hdr.cookie, 5);
		assert_int_equal(w->msg.nfds, 0);
		assert_int_equal(open_fds(), before);
	}
	assert_int_equal(ipc_msg_receive_fds(w->server, &w->msg), 1);
	assert_int_equal(w->msg.nfds, 2);
	ipc_msg_close_fds(&w->msg);
	/* a bad one stays in the queue, too, with its descriptors */
	put(w, h, h.len + 4, 1);
	assert_int_equal(ipc_msg_receive(w->server, &w->msg), -EPROTO);
	assert_int_equal(open_fds(), before);
	assert_false(ipc_msg_end(w->server));
}

TEST(an_ended_connection_tells_whether_it_holds_descriptors)
{
	struct wire *w = *state;
	unsigned before = open_fds();

	for (int i = 0; i < 100; i++)
		assert_int_equal(send(w->client, "x", i % 2, 0), i % 2);
	assert_true(ipc_msg_end(w->server));
	assert_int_equal(send(w->client, "x", 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
	assert_true(ipc_msg_end(w->server)); /* with nothing in it */
	close(w->client);
	assert_true(ipc_msg_end(w->server));
	close(w->server);
	setup_pair(w);
	assert_int_equal(send(w->client, "", 0, 0), 0);
	put(w, header(UROCE_CTRL_ALLOC_PD, 0), 0, 1);
	assert_int_equal(send(w->client, "x", 1, 0), 1);
	assert_false(ipc_msg_end(w->server));
	assert_int_equal(open_fds(), before);
}

TEST(reply_reaches_the_client)
{
	struct wire *w = *state;
	struct uroce_ctrl_hdr req = header(UROCE_CTRL_ALLOC_PD, 0), rep;
	struct uroce_handle body = {.handle = 7};
	char buf[sizeof(rep) + sizeof(body)];

	req.cookie = 99;
	assert_int_equal(ipc_reply_send(w->server, &req, 0, &body, sizeof(body), NULL, 0), 0);
	assert_int_equal(recv(w->client, buf, sizeof(buf), 0), sizeof(buf));
	memcpy(&rep, buf, sizeof(rep));
	assert_int_equal(rep.cookie, 99);
	assert_int_equal(rep.status, 0);
	assert_int_equal(rep.len, sizeof(body));
	/* a refusal has a sentence, or nothing */
	assert_int_equal(ipc_reply_send(w->server, &req, EBUSY, "busy", 4, NULL, 0), 0);
	assert_int_equal(recv(w->client, buf, sizeof(buf), 0), sizeof(rep) + 4);
	memcpy(&rep, buf, sizeof(rep));
	assert_int_equal(rep.status, EBUSY);
	assert_int_equal(rep.len, 4);
	assert_memory_equal(buf + sizeof(rep), "busy", 4);
	assert_int_equal(ipc_reply_send(w->server, &req, EBUSY, NULL, 0, NULL, 0), 0);
	assert_int_equal(recv(w->client, buf, sizeof(buf), 0), sizeof(rep));
}

TEST(client_that_does_not_read_never_blocks_the_daemon)
{
	struct wire *w = *state;
	struct uroce_ctrl_hdr req = header(UROCE_CTRL_ALLOC_PD, 0);
	int rc = 0;

	for (int i = 0; i < 100000 && rc == 0; i++)
		rc = ipc_reply_send(w->server, &req, EBUSY, NULL, 0, NULL, 0);
	assert_int_equal(rc, -EAGAIN);
}

static void
as_it_is(void)
{
}

static void
without_net_admin(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) != 0)
		_exit(1);
	data[0].effective &= ~(1u << CAP_NET_ADMIN);
	if (syscall(SYS_capset, &header, data) != 0)
		_exit(1);
}

/* All capabilities, but over nothing of the machine. */
static void
in_a_user_namespace(void)
{
	if (unshare(CLONE_NEWUSER) != 0)
		_exit(1);
}

#define NO_SUCH_CHILD ((uid_t)-3) /* the machine does not let it become that */

/* The uid that the server reads for a child that has become another process of root. */
static uid_t
uid_of_child(struct ipc_server *s, const char *path, void (*become)(void))
{
	struct ipc_peer peer = {.sock = -1, .pidfd = -1, .uid = NO_SUCH_CHILD};
	struct ipc_client c;
	int end[2], status;
	pid_t pid, ended = 0;
	char byte;

	assert_int_equal(pipe(end), 0);
	pid = fork();
	if (pid == 0) {
		close(end[1]);
		become();
		if (ipc_client_connect(&c, path) != 0)
			_exit(1);
		(void)!read(end[0], &byte, 1); /* until it was looked at */
		_exit(0);
	}
	close(end[0]);
	while (ipc_server_accept(s, &peer) == -EAGAIN && ended == 0) {
		poll(NULL, 0, 1);
		ended = waitpid(pid, &status, WNOHANG);
	}
	close(end[1]);
	if (ended == 0)
		assert_int_equal(waitpid(pid, &status, 0), pid);
	if (peer.sock >= 0) {
		close(peer.sock);
		close(peer.pidfd);
	}
	return peer.uid;
}

/* A server at *path, in a new folder, for the tests of root. Skips them if they are not root's. */
static void
root_begin(struct ipc_server *s, char dir[32], char path[64])
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	(void)syscall(SYS_capget, &header, data);
	if (geteuid() != 0 || !(data[0].effective >> CAP_NET_ADMIN & 1))
		skip(); /* this process is no such root itself */
	strcpy(dir, "/tmp/uroce-test-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, 64, "%s/sock", dir);
	assert_int_equal(ipc_server_listen(s, path, 0600, IPC_GROUP_KEEP), 0);
}

/* A container's root has not the rights of the machine's. */
UNIT_TEST(root_without_net_admin_is_another_user)
{
	char dir[32], path[64];
	struct ipc_server s;

	root_begin(&s, dir, path);
	assert_int_equal(uid_of_child(&s, path, without_net_admin), 0);
	ipc_server_confine_root(&s);
	assert_int_equal(uid_of_child(&s, path, as_it_is), 0);
	assert_int_equal(uid_of_child(&s, path, without_net_admin), UROCE_UID_CONFINED);
	ipc_server_close(&s);
	rmdir(dir);
}

UNIT_TEST(root_of_a_user_namespace_is_another_user)
{
	char dir[32], path[64];
	struct ipc_server s;
	uid_t uid;

	root_begin(&s, dir, path);
	ipc_server_confine_root(&s);
	uid = uid_of_child(&s, path, in_a_user_namespace);
	ipc_server_close(&s);
	rmdir(dir);
	if (uid == NO_SUCH_CHILD)
		skip(); /* no user namespaces here */
	assert_int_equal(uid, UROCE_UID_CONFINED);
}

UNIT_TEST(listening_socket_is_made_and_removed)
{
	char dir[] = "/tmp/uroce-test-XXXXXX", path[64], sub[64];
	struct ipc_server a, b;
	struct ipc_peer peer;
	struct ipc_client c;
	struct stat st;
	int fd;

	assert_non_null(mkdtemp(dir));
	snprintf(sub, sizeof(sub), "%s/new", dir);
	snprintf(path, sizeof(path), "%s/new/sock", dir);
	assert_int_equal(ipc_server_listen(&a, path, 0600, IPC_GROUP_KEEP), 0);
	assert_int_equal(stat(sub, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	/* in use: refused, and the one that runs keeps working */
	assert_int_equal(ipc_server_listen(&b, path, 0600, IPC_GROUP_KEEP), -EADDRINUSE);
	while (ipc_server_accept(&a, &peer) == 0)
		close(peer.sock);
	assert_int_equal(ipc_client_connect(&c, path), 0);
	assert_int_equal(ipc_server_accept(&a, &peer), 0);
	assert_int_equal(peer.pid, getpid());
	assert_int_equal(peer.uid, geteuid());
	assert_true(peer.pidfd >= 0);
	close(peer.pidfd);
	close(peer.sock);
	ipc_client_close(&c);
	/* no process listens any more: the stale file is replaced */
	close(a.fd);
	assert_int_equal(ipc_server_listen(&b, path, 0666, IPC_GROUP_KEEP), 0);
	b.made_dir = true;
	ipc_server_close(&b);
	assert_int_equal(stat(sub, &st), -1);
	/* a file of another kind is not touched */
	snprintf(path, sizeof(path), "%s/file", dir);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	close(fd);
	assert_int_equal(ipc_server_listen(&b, path, 0666, IPC_GROUP_KEEP), -EEXIST);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

/* In its own folder a user may replace the socket at any time: here, right after bind. */
static void (*after_bind)(const char *path);
static char victim[64];

/* Replaces libc's. */
int
bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	int rc = (int)syscall(SYS_bind, fd, addr, len);

	if (after_bind != NULL)
		after_bind(((const struct sockaddr_un *)addr)->sun_path);
	return rc;
}

static void
link_instead(const char *path)
{
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink(victim, path), 0);
}

/* A second name of another file: a link of the user to it. */
static void
file_instead(const char *path)
{
	assert_int_equal(unlink(path), 0);
	assert_int_equal(link(victim, path), 0);
}

/* Mode and group of another file are not changed, whatever lies in the socket's place. */
UNIT_TEST(replaced_socket_gives_no_other_file_away)
{
	static void (*const instead[])(const char *path) = {link_instead, file_instead};
	gid_t groups[] = {IPC_GROUP_KEEP, geteuid() == 0 ? 65534 : getegid()};
	char dir[] = "/tmp/uroce-test-XXXXXX", path[64];
	struct stat was, is;
	struct ipc_server s;
	int fd;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/sock", dir);
	snprintf(victim, sizeof(victim), "%s/victim", dir);
	fd = open(victim, O_CREAT | O_WRONLY, 0600);
	assert_return_code(fd, errno);
	assert_int_equal(fstat(fd, &was), 0);
	for (unsigned i = 0; i < 4; i++) {
		after_bind = instead[i / 2];
		assert_true(ipc_server_listen(&s, path, 0666, groups[i % 2]) < 0);
		after_bind = NULL;
		assert_int_equal(fstat(fd, &is), 0);
		assert_int_equal(is.st_mode, was.st_mode);
		assert_int_equal(is.st_gid, was.st_gid);
		assert_int_equal(unlink(path), 0); /* it is not the daemon's: it remains */
	}
	close(fd);
	assert_int_equal(unlink(victim), 0);
	/* left alone it gets both */
	assert_int_equal(ipc_server_listen(&s, path, 0666, groups[1]), 0);
	assert_int_equal(lstat(path, &is), 0);
	assert_int_equal(is.st_mode, S_IFSOCK | 0666);
	assert_int_equal(is.st_gid, groups[1]);
	ipc_server_close(&s);
	assert_int_equal(rmdir(dir), 0);
}
