/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "harness.h"
#include "map/pause.h"
#include "map/sigbus.h"
#include "map/vma.h"
#include "mr_adopt.h"
#include "page_pause.h"
#include "page_swap.h"
#include "../../kit/unit.h"
#include "../../kit/mrmap_here.h"

#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#endif

#define MAX_REGIONS 4096
#define COPY_STEP   COPIER_BYTES

enum { RPC_REG, RPC_DEREG, RPC_READ, RPC_FILL, RPC_FAILED };

struct rpc {
	int op, id;
	int status; /* reply: 0 or a positive errno */
	int path;
	uint64_t va, len, value; /* value: seed or hash */
	struct uroce_reg_mr_req req;
};

static int client_sock = -1, pause_sock = -1;

void
fill(void *p, size_t len, uint64_t seed)
{
	uint8_t *b = p;

	for (size_t i = 0; i < len; i++)
		b[i] = (uint8_t)((seed + i) * 0x9e3779b97f4a7c15ull >> 56);
}

bool
filled(const void *p, size_t len, uint64_t seed)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < len; i++)
		if (b[i] != (uint8_t)((seed + i) * 0x9e3779b97f4a7c15ull >> 56))
			return false;
	return true;
}

static uint64_t
hash_more(uint64_t h, const void *p, size_t len)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < len; i++)
		h = (h ^ b[i]) * 0x100000001b3ull;
	return h;
}

uint64_t
hash_of(const void *p, size_t len)
{
	return hash_more(0xcbf29ce484222325ull, p, len);
}

/* ---- the daemon, in the test's own process ---- */

struct daemon {
	int sock;
	pid_t pid;
	int pidfd;
	uid_t uid;
	struct mrmap *region[MAX_REGIONS];
	uint64_t va[MAX_REGIONS];
};

static void
serve_reg(struct daemon *d, struct rpc *m, const int *fds, unsigned nfds)
{
	int id = 0, err;

	while (d->region[id] != NULL)
		id++;
	assert_true(id < MAX_REGIONS - 1);
	err = mrmap_create(d->pid, d->pidfd, d->uid, &m->req, fds, nfds, &d->region[id]);
	m->status = -err;
	if (err != 0) {
		assert_null(d->region[id]);
		return;
	}
	d->va[id] = m->req.addr;
	m->id = id;
	m->path = mrmap_path(d->region[id]);
	assert_int_equal(mrmap_host(d->region[id]) == NULL,
			 m->path == UROCE_MR_PATH_COPY || m->req.length == 0);
}

/* As often as it is late: the harness may wait. */
static int
copy_until(struct mrmap *map, uint64_t va, void *dst, const void *src, uint32_t n)
{
	int rc;

	while ((rc = src != NULL ? mrmap_copy_ops.write(map, va, src, n, 0)
				 : mrmap_copy_ops.read(map, va, dst, n)) == -EAGAIN)
		sched_yield();
	return rc;
}

/* Read (hash) or fill, by mapping or by copy operations, as the path has it. */
static void
serve_access(struct daemon *d, struct rpc *m)
{
	struct mrmap *map = d->region[m->id];
	uint8_t *host = mrmap_host(map);
	uint8_t *buf = malloc(COPY_STEP);
	uint64_t h = 0xcbf29ce484222325ull;

	m->status = 0;
	for (uint64_t done = 0; m->status == 0 && done < m->len;) {
		uint32_t n = m->len - done < COPY_STEP ? (uint32_t)(m->len - done) : COPY_STEP;
		uint64_t va = m->va + done;

		if (m->op == RPC_READ) {
			if (host != NULL)
				memcpy(buf, host + (va - d->va[m->id]), n);
			else
				m->status = -copy_until(map, va, buf, NULL, n);
			h = hash_more(h, buf, n);
		} else {
			fill(buf, n, m->value + done);
			if (host != NULL)
				memcpy(host + (va - d->va[m->id]), buf, n);
			else
				m->status = -copy_until(map, va, NULL, buf, n);
		}
		done += n;
	}
	if (m->op == RPC_READ)
		m->value = h;
	free(buf);
}

static bool
serve_one(struct daemon *d)
{
	char control[CMSG_SPACE(16 * sizeof(int))];
	struct rpc m;
	struct iovec iov = {.iov_base = &m, .iov_len = sizeof(m)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	int fds[16];
	unsigned nfds = 0;
	struct cmsghdr *c;

	if (recvmsg(d->sock, &msg, MSG_CMSG_CLOEXEC) <= 0)
		return false;
	c = CMSG_FIRSTHDR(&msg);
	if (c != NULL) {
		nfds = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), nfds * sizeof(int));
	}
	switch (m.op) {
	case RPC_REG:
		serve_reg(d, &m, fds, nfds);
		break;
	case RPC_DEREG:
		mrmap_destroy(d->region[m.id]);
		d->region[m.id] = NULL;
		break;
	case RPC_FAILED:
		m.value = mrmap_failed(d->region[m.id]);
		break;
	default:
		serve_access(d, &m);
	}
	for (unsigned i = 0; i < nfds; i++)
		close(fds[i]);
	assert_int_equal(send(d->sock, &m, sizeof(m), 0), sizeof(m));
	return true;
}

/*
 * As the broker: a thread for each pause stops the client's threads, lets them continue and ends,
 * which also frees threads that did not stop in time (map/pause.h).
 */
struct pauser {
	pthread_t thread;
	int sock;
	pid_t pid, caller;
};

/* Receives a request: the caller's thread; 0 to continue. Returns false at the client's end. */
static bool
pauser_take(const struct pauser *ps, int *m)
{
	return recv(ps->sock, m, sizeof(*m), 0) == sizeof(*m);
}

/* rc: as pause_begin. */
static void
pauser_reply(const struct pauser *ps, int rc)
{
	(void)send(ps->sock, &rc, sizeof(rc), MSG_NOSIGNAL); /* the client may have ended */
}

static void *
pause_main(void *arg)
{
	struct pauser *ps = arg;
	struct pause *p;
	int rc = pause_begin(ps->pid, ps->caller, &p), m;
	bool goes_on;

	pauser_reply(ps, rc);
	if (rc != 0)
		return NULL;
	goes_on = pauser_take(ps, &m);
	pause_end(p);
	if (goes_on)
		pauser_reply(ps, 0);
	return NULL;
}

static void *
pauser_main(void *arg)
{
	struct pauser *ps = arg;
	pthread_t once;

	while (pauser_take(ps, &ps->caller)) {
		if (pthread_create(&once, NULL, pause_main, ps) != 0)
			abort();
		pthread_join(once, NULL);
	}
	return NULL;
}

bool
harness_can_run(void)
{
	if (geteuid() == 0)
		return true;
	fprintf(stderr, "needs root\n");
	return false;
}

unsigned
harness_count(unsigned n)
{
	const char *is_short = getenv("UROCE_TEST_SHORT");

	return is_short != NULL && strcmp(is_short, "1") == 0 ? n / 10 : n;
}

/* From now on the kernel gives this process no userfaultfd, even if the machine's settings allow it
 * to every user. An emulator has no filters, and no userfaultfd either. */
static void
refuse_userfaultfd(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, USERFAULTFD_IOC_NEW, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0 || errno == EINVAL);
}

static void
client_main(void (*client)(void), unsigned as_uid)
{
	if (as_uid != 0) {
		refuse_userfaultfd();
		CHECK(setresgid(as_uid, as_uid, as_uid) == 0);
		CHECK(setresuid(as_uid, as_uid, as_uid) == 0);
		/* As a program that was started by that user. */
		CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
	}
	/* A client that hangs ends with the test. A change of the uid would undo this. */
	CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
	client();
	_exit(0);
}

void
harness_run_as(void (*client)(void), unsigned as_uid)
{
	static struct daemon d;
	struct pauser pauser;
	int pair[2], pauses[2], status;

	assert_int_equal(sigbus_guard_install(), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pauses), 0);
	memset(&d, 0, sizeof(d));
	d.pid = fork();
	assert_true(d.pid >= 0);
	if (d.pid == 0) {
		close(pair[0]);
		close(pauses[0]);
		client_sock = pair[1];
		pause_sock = pauses[1];
		client_main(client, as_uid);
	}
	close(pair[1]);
	close(pauses[1]);
	pauser = (struct pauser){.sock = pauses[0], .pid = d.pid};
	assert_int_equal(pthread_create(&pauser.thread, NULL, pauser_main, &pauser), 0);
	d.sock = pair[0];
	d.uid = as_uid;
	d.pidfd = (int)syscall(SYS_pidfd_open, d.pid, 0);
	assert_true(d.pidfd >= 0);
	while (serve_one(&d))
		;
	pthread_join(pauser.thread, NULL);
	close(pauser.sock);
	assert_int_equal(waitpid(d.pid, &status, 0), d.pid);
	for (int i = 0; i < MAX_REGIONS; i++)
		mrmap_destroy(d.region[i]);
	close(d.pidfd);
	close(d.sock);
	if (WIFSIGNALED(status))
		fail_msg("client died of signal %d", WTERMSIG(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

void
harness_run(void (*client)(void))
{
	harness_run_as(client, 0);
}

/* ---- the client ---- */

static void
call(struct rpc *m, const int *fds, unsigned nfds)
{
	char control[CMSG_SPACE(16 * sizeof(int))] = {0};
	struct iovec iov = {.iov_base = m, .iov_len = sizeof(*m)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (nfds > 0) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
	}
	CHECK(sendmsg(client_sock, &msg, 0) == sizeof(*m));
	CHECK(recv(client_sock, m, sizeof(*m), 0) == sizeof(*m));
}

/* In place of drivers/verbs/page_pause.c, which asks uroced. */
static bool pauses_allowed;

void
client_allow_pauses(bool allowed)
{
	pauses_allowed = allowed;
}

bool
page_pause_may(void)
{
	return pauses_allowed;
}

bool
page_pause_take(void)
{
	return true;
}

int
page_pause_open(void)
{
	return 0;
}

void
page_pause_close(void)
{
}

static int
pause_call(int m)
{
	CHECK(send(pause_sock, &m, sizeof(m), 0) == sizeof(m));
	CHECK(recv(pause_sock, &m, sizeof(m), 0) == sizeof(m));
	return m;
}

/*
 * On a busy machine a thread may wait for a core longer than a pause does (EBUSY). It stays traced
 * (EPERM) until the kernel has ended the thread that traced it.
 */
int
page_pause_begin(void)
{
	bool late = false;
	int rc;

	do {
		rc = pause_call((int)syscall(SYS_gettid));
		late |= rc == -EBUSY;
	} while (rc == -EBUSY || (late && rc == -EPERM));
	return rc;
}

void
page_pause_end(void)
{
	CHECK(pause_call(0) == 0);
}

bool
page_pause_lasts(void)
{
	return true;
}

int
client_send_reg(const struct uroce_reg_mr_req *req, const int *fds, unsigned nfds, int *id,
		int *path)
{
	struct rpc m = {.op = RPC_REG, .req = *req};

	call(&m, fds, nfds);
	*id = m.id;
	*path = m.path;
	return m.status;
}

int
client_reg(struct reg *r, void *addr, size_t len, uint32_t access)
{
	struct uroce_reg_mr_req req = {.access = access,
				       .addr = (uintptr_t)addr,
				       .length = len,
				       .iova = (uintptr_t)addr};
	int fds[MR_ADOPT_MAX_FDS];
	unsigned nfds;
	int err;

	err = mr_pieces_build((uintptr_t)addr, len, req.piece, &req.npieces, fds, &nfds, &r->hold);
	if (err != 0)
		return err;
	r->addr = addr;
	r->len = len;
	err = client_send_reg(&req, fds, nfds, &r->id, &r->path);
	if (err != 0)
		mr_pieces_release(r->hold);
	mr_pieces_settle();
	return err;
}

void
client_send_dereg(int id)
{
	struct rpc m = {.op = RPC_DEREG, .id = id};

	call(&m, NULL, 0);
}

void
client_dereg(struct reg *r)
{
	client_send_dereg(r->id);
	mr_pieces_release(r->hold);
	mr_pieces_settle();
}

int
daemon_read(const struct reg *r, const void *addr, size_t len, uint64_t *hash)
{
	struct rpc m = {.op = RPC_READ, .id = r->id, .va = (uintptr_t)addr, .len = len};

	call(&m, NULL, 0);
	*hash = m.value;
	return m.status;
}

int
daemon_fill(const struct reg *r, void *addr, size_t len, uint64_t seed)
{
	struct rpc m = {
		.op = RPC_FILL, .id = r->id, .va = (uintptr_t)addr, .len = len, .value = seed};

	call(&m, NULL, 0);
	return m.status;
}

bool
daemon_failed(const struct reg *r)
{
	struct rpc m = {.op = RPC_FAILED, .id = r->id};

	call(&m, NULL, 0);
	return m.value != 0;
}

void
check_region(uint8_t *addr, size_t len, int path, bool guard)
{
	struct reg r;
	uint64_t h;

	fill(addr, len, 1);
	if (guard) {
		addr[-1] = 0xa5;
		addr[len] = 0x5a;
	}
	CHECK(client_reg(&r, addr, len, ACCESS_WRITE) == 0);
	if (r.path != path)
		fprintf(stderr, "path %d, expected %d\n", r.path, path);
	CHECK(r.path == path);
	CHECK(filled(addr, len, 1));
	CHECK(daemon_read(&r, addr, len, &h) == 0 && h == hash_of(addr, len));
	fill(addr, len, 2);
	CHECK(daemon_read(&r, addr, len, &h) == 0 && h == hash_of(addr, len));
	CHECK(daemon_fill(&r, addr, len, 3) == 0);
	CHECK(filled(addr, len, 3));
	addr[len / 2] ^= 0xff;
	CHECK(daemon_read(&r, addr, len, &h) == 0 && h == hash_of(addr, len));
	client_dereg(&r);
	addr[len / 2] ^= 0xff;
	CHECK(filled(addr, len, 3));
	if (guard)
		CHECK(addr[-1] == 0xa5 && addr[len] == 0x5a);
}

bool
is_private(const void *addr)
{
	struct vma_scan scan;
	struct vma v;

	CHECK(vma_scan_open(&scan, 0) == 0);
	CHECK(vma_scan_next(&scan, (uintptr_t)addr, &v) == 0);
	CHECK(v.start <= (uintptr_t)addr);
	vma_scan_close(&scan);
	return !v.shared;
}

/* ---- huge pages ---- */

static const char nr_path[] = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
static const char free_path[] = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
static long nr_added;
static int nr_lock = -1;

static long
read_number(const char *path)
{
	FILE *f = fopen(path, "r");
	long v = -1;

	if (f == NULL)
		return -1;
	if (fscanf(f, "%ld", &v) != 1)
		v = -1;
	fclose(f);
	return v;
}

static void
write_number(const char *path, long v)
{
	FILE *f = fopen(path, "w");

	if (f == NULL)
		return;
	fprintf(f, "%ld\n", v);
	fclose(f);
}

long
huge_pages_spare(void)
{
	static const char resv_path[] = "/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages";

	return read_number(free_path) - read_number(resv_path);
}

bool
huge_pages_get(unsigned n)
{
	long before;

	/* A failed test has not returned it. */
	if (nr_lock < 0) {
		nr_lock = open(nr_path, O_RDONLY | O_CLOEXEC);
		if (nr_lock < 0)
			return false;
		CHECK(flock(nr_lock, LOCK_EX) == 0);
	}
	/* Free pages may be another test's, which removes as many as it has added. */
	before = read_number(nr_path);
	write_number(nr_path, before + (long)n);
	nr_added += read_number(nr_path) - before;
	if (read_number(free_path) >= (long)n)
		return true;
	huge_pages_restore();
	return false;
}

void
huge_pages_restore(void)
{
	if (nr_added > 0)
		write_number(nr_path, read_number(nr_path) - nr_added);
	nr_added = 0;
	if (nr_lock >= 0)
		close(nr_lock);
	nr_lock = -1;
}

bool
kernel_protects_absent_pages(void)
{
	int fd = page_swap_uffd(UFFD_FEATURE_WP_UNPOPULATED);

	CHECK(fd >= 0 || fd == -EINVAL);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

uint8_t *
map_private(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

bool
daemon_sees(const struct reg *r, const void *addr, size_t len)
{
	uint64_t h;

	return daemon_read(r, addr, len, &h) == 0 && h == hash_of(addr, len);
}

bool
has_status(pid_t pid, bool signalled, int value)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (signalled)
		return WIFSIGNALED(status) && WTERMSIG(status) == value;
	return WIFEXITED(status) && WEXITSTATUS(status) == value;
}
