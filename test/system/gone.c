/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that disappears while other processes use it, and guessed keys. One process shares its PD
 * and its region; this one binds its own windows to that region, then the owner dies. From then on
 * no access through a window reaches memory, and the daemon survives (MEM-03).
 *
 *   gone DEVICE
 *
 * TAP; exit status 0 when all tests passed.
 */
#include "kit/hang.h"
#include "kit/program.h"
#include "kit/verbside.h"
#include "../kit/requirement.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define REGION_BYTES (64 * 4096)
#define SECRET       0x5a
#define NOTHING      0xee
#define ROUNDS       20 /* binds that race with the owner's death */
#define SHARED_ACCESS                                                                              \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |               \
	 IBV_ACCESS_MW_BIND)

static struct side side;

/* --- the owner: a separate process ------------------------------------------------------------ */

enum memory { MEMORY_PRIVATE, MEMORY_SHARED, MEMORY_COPIED, MEMORY_FILE };

struct told {
	uint32_t pd, mr, lkey;
	uint64_t addr;
};

struct owner {
	pid_t pid;
	int sock, cmd_fd, async_fd;
	struct told told;
};

static void
fd_send(int sock, int fd)
{
	char byte = 0;
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} c = {.room = {0}};
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = c.room,
			   .msg_controllen = sizeof(c.room)};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	if (sendmsg(sock, &m, 0) != 1)
		exit(3);
}

static int
fd_receive(int sock)
{
	char byte;
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} c;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = c.room,
			   .msg_controllen = sizeof(c.room)};
	int fd = -1;

	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&m))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

static uint8_t *
owner_memory(enum memory kind, int *file)
{
	int flags =
		kind == MEMORY_SHARED ? MAP_SHARED | MAP_ANONYMOUS : MAP_PRIVATE | MAP_ANONYMOUS;

	*file = -1;
	if (kind == MEMORY_FILE) {
		*file = memfd_create("gone", MFD_CLOEXEC);
		if (*file < 0 || ftruncate(*file, REGION_BYTES))
			exit(3);
		flags = MAP_SHARED;
	}
	return mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, flags, *file, 0);
}

/*
 * Registers, reports its keys, and takes commands: 't' truncates the file behind the region, 'r'
 * reregisters the region over new memory, 'q' ends. Replies with a byte: 0, or an errno.
 */
static void
owner_run(int sock, enum memory kind, int access)
{
	struct told t;
	struct ibv_mr *mr;
	struct side mine;
	uint8_t *p, byte;
	int file;

	if (kind == MEMORY_COPIED)
		setenv("UROCE_MR_MODE", "copy", 1);
	side_open(&mine, ibv_get_device_name(side.ctx->device));
	p = owner_memory(kind, &file);
	memset(p, SECRET, REGION_BYTES);
	mr = ibv_reg_mr(mine.pd, p, REGION_BYTES, access);
	if (!mr)
		exit(3);
	t = (struct told){mine.pd->handle, mr->handle, mr->lkey, (uintptr_t)p};
	if (write(sock, &t, sizeof(t)) != sizeof(t))
		exit(3);
	fd_send(sock, mine.ctx->cmd_fd);
	fd_send(sock, mine.ctx->async_fd);
	while (read(sock, &byte, 1) == 1 && byte != 'q') {
		if (byte == 't') {
			byte = ftruncate(file, 0) ? (uint8_t)errno : 0;
		} else {
			p = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			byte = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p,
					    REGION_BYTES, 0)
				       ? (uint8_t)errno
				       : 0;
		}
		if (write(sock, &byte, 1) != 1)
			break;
	}
	_exit(0); /* _exit simulates a crash: nothing is destroyed */
}

static void
owner_start(struct owner *o, enum memory kind, int access)
{
	int sock[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sock))
		exit(3);
	fflush(stdout);
	o->pid = fork();
	if (o->pid == 0) {
		close(sock[0]);
		owner_run(sock[1], kind, access);
	}
	close(sock[1]);
	o->sock = sock[0];
	CHECK(read(o->sock, &o->told, sizeof(o->told)) == sizeof(o->told));
	o->cmd_fd = fd_receive(o->sock);
	o->async_fd = fd_receive(o->sock);
	CHECK(o->cmd_fd >= 0 && o->async_fd >= 0);
}

static int
owner_ask(struct owner *o, char what)
{
	uint8_t rc = 255;

	CHECK(write(o->sock, &what, 1) == 1 && read(o->sock, &rc, 1) == 1);
	return rc;
}

/* Returns when the daemon has freed the owner's objects, after which it closes its events. */
static void
owner_kill(struct owner *o)
{
	struct pollfd end = {.fd = o->async_fd};

	kill(o->pid, SIGKILL);
	waitpid(o->pid, NULL, 0);
	close(o->sock);
	CHECK(poll(&end, 1, HANGS_S * 1000) == 1 && end.revents & POLLHUP);
	close(o->async_fd);
}

/* --- the guest, which uses the owner's memory ------------------------------------------------ */

struct guest {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr; /* covers buf */
	struct ibv_qp *qp[2];
	struct ibv_mw *mw;
};

#define PIECE 4096 /* bytes of an access */
static uint8_t guest_buf[REGION_BYTES] __attribute__((aligned(PIECE)));

static void
guest_qps(struct guest *g)
{
	for (int i = 0; i < 2; i++) {
		if (g->qp[i])
			ibv_destroy_qp(g->qp[i]);
		g->qp[i] = side_qp(g->pd, IBV_QPT_RC, g->cq);
	}
	CHECK(g->qp[0] && g->qp[1]);
	if (g->qp[0] && g->qp[1])
		CHECK(side_raise(&side, g->qp[0], g->qp[1]->qp_num) == 0 &&
		      side_raise(&side, g->qp[1], g->qp[0]->qp_num) == 0);
}

static void
guest_open(struct guest *g, const struct owner *o, enum ibv_mw_type type)
{
	memset(g, 0, sizeof(*g));
	g->ctx = ibv_import_device(o->cmd_fd);
	CHECK(g->ctx);
	g->pd = ibv_import_pd(g->ctx, o->told.pd);
	CHECK(g->pd);
	g->cq = ibv_create_cq(g->ctx, 64, NULL, NULL, 0);
	g->mr = ibv_reg_mr(g->pd, guest_buf, sizeof(guest_buf), SHARED_ACCESS);
	g->mw = ibv_alloc_mw(g->pd, type);
	CHECK(g->cq && g->mr && g->mw);
	guest_qps(g);
}

static void
guest_close(struct guest *g)
{
	for (int i = 0; i < 2; i++)
		CHECK(ibv_destroy_qp(g->qp[i]) == 0);
	CHECK(ibv_dealloc_mw(g->mw) == 0 && ibv_dereg_mr(g->mr) == 0);
	CHECK(ibv_destroy_cq(g->cq) == 0 && ibv_dealloc_pd(g->pd) == 0);
	CHECK(ibv_close_device(g->ctx) == 0);
}

/* Binds on the responding QP, because a type 2 window belongs to that QP. */
static int
bind_post(struct guest *g, uint64_t addr, uint32_t lkey)
{
	struct ibv_mr named = {.lkey = lkey, .pd = g->pd};
	uint32_t key = ibv_inc_rkey(g->mw->rkey);
	struct ibv_send_wr wr = {.wr_id = key,
				 .opcode = IBV_WR_BIND_MW,
				 .bind_mw = {.mw = g->mw,
					     .rkey = key,
					     .bind_info = {.mr = &named,
							   .addr = addr,
							   .length = REGION_BYTES,
							   .mw_access_flags =
								   IBV_ACCESS_REMOTE_READ |
								   IBV_ACCESS_REMOTE_WRITE}}},
			   *bad;
	int rc = ibv_post_send(g->qp[1], &wr, &bad);

	if (rc == 0)
		g->mw->rkey = key;
	return rc;
}

static enum ibv_wc_status
bind_wait(struct guest *g)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	CHECK(verbs_wait(g->cq, &wc));
	return wc.status;
}

/* READ or WRITE of a page of the owner's region through rkey. */
static enum ibv_wc_status
reach(struct guest *g, enum ibv_wr_opcode op, uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)guest_buf, PIECE, g->mr->lkey};
	struct ibv_send_wr wr = {.opcode = op,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .wr.rdma = {.remote_addr = addr, .rkey = rkey}},
			   *bad;
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	memset(guest_buf, NOTHING, sizeof(guest_buf));
	CHECK(ibv_post_send(g->qp[0], &wr, &bad) == 0);
	do {
		if (!verbs_wait(g->cq, &wc))
			return IBV_WC_GENERAL_ERR;
	} while (wc.qp_num != g->qp[0]->qp_num);
	return wc.status;
}

static void
expect_refused(struct guest *g, const struct told *t, uint32_t rkey)
{
	static const enum ibv_wr_opcode op[] = {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE};

	for (int i = 0; i < 2; i++) {
		CHECK(reach(g, op[i], t->addr + REGION_BYTES / 2, rkey) == IBV_WC_REM_ACCESS_ERR);
		CHECK(guest_buf[0] == NOTHING && guest_buf[PIECE - 1] == NOTHING);
		guest_qps(g);
	}
}

static void
windows_die_with(enum memory kind)
{
	for (int type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
		struct owner o;
		struct guest g;
		owner_start(&o, kind, SHARED_ACCESS);
		guest_open(&g, &o, type);
		CHECK(bind_post(&g, o.told.addr, o.told.lkey) == 0 &&
		      bind_wait(&g) == IBV_WC_SUCCESS);
		CHECK(reach(&g, IBV_WR_RDMA_READ, o.told.addr, g.mw->rkey) == IBV_WC_SUCCESS);
		CHECK(guest_buf[0] == SECRET);
		owner_kill(&o);
		expect_refused(&g, &o.told, g.mw->rkey);
		expect_refused(&g, &o.told, o.told.lkey);
		/* The window itself still works. */
		CHECK(bind_post(&g, (uintptr_t)guest_buf, g.mr->lkey) == 0 &&
		      bind_wait(&g) == IBV_WC_SUCCESS);
		CHECK(reach(&g, IBV_WR_RDMA_READ, (uintptr_t)guest_buf + REGION_BYTES - PIECE,
			    g.mw->rkey) == IBV_WC_SUCCESS);
		CHECK(ibv_dereg_mr(g.mr) == EBUSY);
		guest_close(&g);
		close(o.cmd_fd);
	}
}

REQUIREMENT("MEM-03")
static void
windows_of_others_die_with_adopted_memory(void)
{
	windows_die_with(MEMORY_PRIVATE);
}

REQUIREMENT("MEM-03")
static void
windows_of_others_die_with_shared_memory(void)
{
	windows_die_with(MEMORY_SHARED);
}

REQUIREMENT("MEM-03")
static void
windows_of_others_die_with_copied_memory(void)
{
	windows_die_with(MEMORY_COPIED);
}

/* Binds until one bind is refused; returns the window's key of the last successful bind. */
static uint32_t
bind_until_refused(struct guest *g, const struct told *t)
{
	uint32_t key = g->mw->rkey, refused = 0;
	struct ibv_wc wc;

	for (uint64_t end = now_ns() + HANGS_S * 1000000000ull; !refused && now_ns() < end;) {
		bind_post(g, t->addr, t->lkey);
		while (ibv_poll_cq(g->cq, 1, &wc) == 1) {
			if (wc.status == IBV_WC_SUCCESS)
				key = (uint32_t)wc.wr_id;
			else
				refused++;
		}
	}
	CHECK(refused);
	return key;
}

/* Binds are outstanding on a worker while the owner dies: none of them may stay bound. */
REQUIREMENT("MEM-03")
static void
binds_race_with_the_end_of_the_owner(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct owner o;
		struct guest g;
		uint32_t key;

		owner_start(&o, MEMORY_SHARED, SHARED_ACCESS);
		guest_open(&g, &o, IBV_MW_TYPE_1);
		kill(o.pid, SIGKILL);
		key = bind_until_refused(&g, &o.told);
		owner_kill(&o);
		guest_qps(&g);
		expect_refused(&g, &o.told, key);
		guest_close(&g);
		close(o.cmd_fd);
	}
}

/* --- lost memory: the file behind it is truncated -------------------------------------------- */

/* Waits for the daemon, which checks periodically whether one of its own accesses failed. */
static bool
refused_soon(struct guest *g, const struct told *t, uint32_t rkey)
{
	for (int i = 0; i < 1200; i++) {
		enum ibv_wc_status status = reach(g, IBV_WR_RDMA_READ, t->addr, rkey);

		if (status == IBV_WC_REM_ACCESS_ERR) {
			guest_qps(g);
			return true;
		}
		CHECK(status == IBV_WC_SUCCESS && guest_buf[0] == 0);
		usleep(50 * 1000);
	}
	return false;
}

REQUIREMENT("MEM-03")
static void
windows_die_with_memory_that_is_lost(void)
{
	struct owner o;
	struct guest g;

	owner_start(&o, MEMORY_FILE, SHARED_ACCESS);
	guest_open(&g, &o, IBV_MW_TYPE_1);
	CHECK(bind_post(&g, o.told.addr, o.told.lkey) == 0 && bind_wait(&g) == IBV_WC_SUCCESS);
	CHECK(reach(&g, IBV_WR_RDMA_READ, o.told.addr, g.mw->rkey) == IBV_WC_SUCCESS);
	CHECK(owner_ask(&o, 't') == 0);
	CHECK(refused_soon(&g, &o.told, g.mw->rkey));
	expect_refused(&g, &o.told, o.told.lkey);
	/* The window refers to no memory any more, even if its region gets other memory. */
	CHECK(owner_ask(&o, 'r') == 0);
	expect_refused(&g, &o.told, g.mw->rkey);
	owner_kill(&o);
	guest_close(&g);
	close(o.cmd_fd);
}

/* Makes a region, in the table slot of a lost one if slots are reused that soon. */
static struct ibv_mr *
neighbour(uint32_t lost_key)
{
	for (int i = 0; i < 200; i++) {
		struct ibv_mr *mr = ibv_reg_mr(side.pd, side.buf, SIDE_BYTES, SIDE_ACCESS);

		CHECK(mr);
		if (!mr || mr->lkey >> 12 == lost_key >> 12 || i == 199)
			return mr;
		CHECK(ibv_dereg_mr(mr) == 0);
	}
	return NULL;
}

REQUIREMENT("MEM-04")
static void
key_of_a_lost_region_stays_refused(void)
{
	struct guest g = {.pd = side.pd, .cq = side.cq};
	struct ibv_mr *mr;
	struct owner o;
	struct guest thief;

	owner_start(&o, MEMORY_FILE, SHARED_ACCESS);
	guest_open(&thief, &o, IBV_MW_TYPE_1);
	CHECK(owner_ask(&o, 't') == 0);
	CHECK(refused_soon(&thief, &o.told, o.told.lkey));
	mr = neighbour(o.told.lkey);
	CHECK(owner_ask(&o, 'r') == 0);
	g.mr = ibv_reg_mr(side.pd, guest_buf, sizeof(guest_buf), SHARED_ACCESS);
	CHECK(g.mr && mr);
	guest_qps(&g);
	CHECK(reach(&g, IBV_WR_RDMA_READ, (uintptr_t)side.buf, mr->rkey) == IBV_WC_SUCCESS);
	/* The old key and address stay refused: the lost region is at another address. */
	expect_refused(&thief, &o.told, o.told.lkey);
	owner_kill(&o);
	guest_qps(&g);
	CHECK(reach(&g, IBV_WR_RDMA_READ, (uintptr_t)side.buf, mr->rkey) == IBV_WC_SUCCESS);
	CHECK(ibv_destroy_qp(g.qp[0]) == 0 && ibv_destroy_qp(g.qp[1]) == 0);
	CHECK(ibv_dereg_mr(g.mr) == 0 && ibv_dereg_mr(mr) == 0);
	guest_close(&thief);
	close(o.cmd_fd);
}

/* --- guessed keys ---------------------------------------------------------------------------- */

/*
 * A peer tries one key after another, and its victim reconnects each time. The peer gets an error
 * for each wrong key, but at a limited rate: more than 16 within a second stop the QP for another
 * one. However busy the machine is, the 17th error therefore comes a second after the first try, at
 * the earliest. A busy machine may need that long in any case, so the guesses are repeated with new
 * QPs, a few times, until the first 16 come fast.
 */
#define GUESSES   24
#define FREE      16 /* QP_WRONG_KEYS */
#define BRIEF_NS  500000000ull
#define SECOND_NS 990000000ull /* the daemon reads another clock */
#define BOUTS     10

/* Returns true if the first guesses came fast. */
static bool
guess(struct guest *g)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	uint32_t key = 0x12345600;
	uint64_t start, took[GUESSES];
	struct ibv_wc wc;

	guest_qps(g);
	start = now_ns();
	for (int i = 0; i < GUESSES; i++) {
		CHECK(reach(g, IBV_WR_RDMA_WRITE, (uintptr_t)side.buf, key + (uint32_t)i) ==
		      IBV_WC_REM_ACCESS_ERR);
		took[i] = now_ns() - start;
		for (int k = 0; k < 2; k++)
			CHECK(ibv_modify_qp(g->qp[k], &reset, IBV_QP_STATE) == 0);
		while (ibv_poll_cq(g->cq, 1, &wc) == 1)
			;
		CHECK(side_raise(&side, g->qp[0], g->qp[1]->qp_num) == 0 &&
		      side_raise(&side, g->qp[1], g->qp[0]->qp_num) == 0);
	}
	CHECK(ibv_destroy_qp(g->qp[0]) == 0 && ibv_destroy_qp(g->qp[1]) == 0);
	g->qp[0] = g->qp[1] = NULL;
	CHECK(took[FREE] >= SECOND_NS);
	return took[FREE - 1] < BRIEF_NS;
}

REQUIREMENT("MEM-01")
static void
guessed_keys_reach_no_memory(void)
{
	struct guest g = {.pd = side.pd, .cq = side.cq};
	bool fast = false;

	g.mr = ibv_reg_mr(side.pd, guest_buf, sizeof(guest_buf), SHARED_ACCESS);
	CHECK(g.mr);
	for (int n = 0; !fast && n < BOUTS && side_failures() == 0; n++)
		fast = guess(&g);
	CHECK(ibv_dereg_mr(g.mr) == 0);
}

int
main(int argc, char **argv)
{
	static const struct side_test tests[] = {
		SIDE_TEST(windows_of_others_die_with_adopted_memory),
		SIDE_TEST(windows_of_others_die_with_shared_memory),
		SIDE_TEST(windows_of_others_die_with_copied_memory),
		SIDE_TEST(binds_race_with_the_end_of_the_owner),
		SIDE_TEST(windows_die_with_memory_that_is_lost),
		SIDE_TEST(key_of_a_lost_region_stays_refused),
		SIDE_TEST(guessed_keys_reach_no_memory),
	};

	return side_main(argc, argv, &side, 1, tests, sizeof(tests) / sizeof(tests[0]));
}
