/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include "control/broker.h"
#include "control/daemon.h"
#include "control/log.h"
#include "ipc/broker.h"

/*
 * The system calls that the filters allow: CALL(name, roles). W: workers; C: the control
 * thread, and the threads of EAL, telemetry, logs, hostif; B: the broker. Call fstatat instead of
 * stat and lstat, which are other system calls before glibc 2.33.
 */
#define SANDBOX_CALLS(CALL)                                                                        \
	/* open files */                                                                           \
	CALL(read, W | C | B)                                                                      \
	CALL(write, W | C | B)                                                                     \
	CALL(readv, W)                                                                             \
	CALL(writev, W | C)                                                                        \
	CALL(pread64, B)                                                                           \
	CALL(pwrite64, B)                                                                          \
	CALL(preadv, B)                                                                            \
	CALL(pwritev, B)                                                                           \
	CALL(lseek, C | B)                                                                         \
	CALL(close, C | B)                                                                         \
	CALL(fcntl, C | B)                                                                         \
	CALL(fstat, C | B)                                                                         \
	CALL(fstatfs, C | B)                                                                       \
	CALL(ftruncate, C)                                                                         \
	CALL(ioctl, C | B)                                                                         \
	/* files by name */                                                                        \
	CALL(openat, C | B)                                                                        \
	CALL(newfstatat, C | B)                                                                    \
	CALL(getdents64, C | B)                                                                    \
	CALL(unlinkat, C)                                                                          \
	CALL(mkdirat, C)                                                                           \
	CALL(renameat, C)                                                                          \
	CALL(fchmod, C)                                                                            \
	/* memory */                                                                               \
	CALL(munmap, W | C | B)                                                                    \
	CALL(mremap, C | B)                                                                        \
	CALL(madvise, W | C | B)                                                                   \
	CALL(mincore, C | B)                                                                       \
	CALL(move_pages, C)                                                                        \
	CALL(brk, W | C | B)                                                                       \
	CALL(memfd_create, C)                                                                      \
	/* time and waiting */                                                                     \
	CALL(futex, W | C | B)                                                                     \
	CALL(clock_gettime, W | C | B)                                                             \
	CALL(clock_nanosleep, C | B)                                                               \
	CALL(timerfd_settime, C)                                                                   \
	CALL(eventfd2, C)                                                                          \
	CALL(epoll_ctl, C)                                                                         \
	CALL(ppoll, W | C | B)                                                                     \
	CALL(restart_syscall, W | C | B)                                                           \
	/* sockets */                                                                              \
	CALL(bind, C)                                                                              \
	CALL(accept4, C)                                                                           \
	CALL(accept, C)                                                                            \
	CALL(connect, C)                                                                           \
	CALL(getsockname, C)                                                                       \
	CALL(getsockopt, W | C)                                                                    \
	CALL(setsockopt, C)                                                                        \
	CALL(sendto, W | C | B)                                                                    \
	CALL(sendmsg, C | B)                                                                       \
	CALL(sendmmsg, W | C)                                                                      \
	CALL(recvfrom, W | C)                                                                      \
	CALL(recvmsg, W | C | B)                                                                   \
	CALL(recvmmsg, W | C)                                                                      \
	CALL(shutdown, C | B)                                                                      \
	/* the process and its threads */                                                          \
	CALL(exit, C | B)                                                                          \
	CALL(exit_group, C | B)                                                                    \
	CALL(rt_sigaction, C | B)                                                                  \
	CALL(rt_sigprocmask, W | C | B)                                                            \
	CALL(rt_sigreturn, W | C | B)                                                              \
	CALL(gettid, W | C | B)                                                                    \
	CALL(getpid, C | B)                                                                        \
	CALL(geteuid, C)                                                                           \
	CALL(getuid, C)                                                                            \
	CALL(getgid, C)                                                                            \
	CALL(getegid, C)                                                                           \
	CALL(sched_yield, W | C | B)                                                               \
	CALL(sched_getattr, W | B)                                                                 \
	CALL(sched_setattr, W | B)                                                                 \
	CALL(sched_getaffinity, C | B)                                                             \
	CALL(sched_setaffinity, C | B)                                                             \
	CALL(sched_get_priority_min, B)                                                            \
	CALL(sched_setscheduler, B)                                                                \
	CALL(set_robust_list, C | B)                                                               \
	CALL(rseq, C | B)                                                                          \
	CALL(prlimit64, C | B)                                                                     \
	CALL(close_range, B)                                                                       \
	CALL(getrandom, C)                                                                         \
	CALL(capget, C)                                                                            \
	CALL(pidfd_open, C)                                                                        \
	CALL(pidfd_send_signal, B)                                                                 \
	CALL(wait4, B)

/* Calls whose names depend on the machine. */
#ifdef __x86_64__
#define SANDBOX_CALLS_MACHINE(CALL)                                                                \
	CALL(epoll_wait, W | C)                                                                    \
	CALL(poll, W | C | B)                                                                      \
	CALL(readlink, B)                                                                          \
	CALL(dup2, C)                                                                              \
	CALL(unlink, C)                                                                            \
	CALL(rmdir, C)                                                                             \
	CALL(access, C)                                                                            \
	CALL(epoll_create, C)
#else
#define SANDBOX_CALLS_MACHINE(CALL)                                                                \
	CALL(epoll_pwait, W | C)                                                                   \
	CALL(readlinkat, B)                                                                        \
	CALL(dup3, C)                                                                              \
	CALL(faccessat, C)                                                                         \
	CALL(epoll_create1, C)                                                                     \
	CALL(getcpu, W | C)
#endif

#ifndef AF_XDP
#define AF_XDP 44
#endif
#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1 /* si_code */
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41 /* glibc names its memory */
#endif

#define CALLS       512u /* numbers of system calls that are counted */
#define FAMILIES    64u
#define THREAD_S    1
#define MAX_WORKER  30 /* calls of a filter */
#define MAX_CONTROL 81
#define MAX_BROKER  60

/* Roles. */
#define W 1u
#define C 2u
#define B 4u

/*
 * The calls that each role may make, besides those of add_rules. Filters match numbers: names that
 * a machine does not have are skipped.
 */
static const struct {
	const char *name;
	unsigned roles;
} calls[] = {
#define ROW(name, roles) {#name, roles},
	SANDBOX_CALLS(ROW) SANDBOX_CALLS_MACHINE(ROW)};

/* The rows of each role and the calls of add_rules. */
#define OF_W(name, roles) +((roles)&W) / W
#define OF_C(name, roles) +((roles)&C) / C
#define OF_B(name, roles) +((roles)&B) / B
enum {
	CALLS_WORKER = 3 SANDBOX_CALLS(OF_W) SANDBOX_CALLS_MACHINE(OF_W),
	CALLS_CONTROL = 8 SANDBOX_CALLS(OF_C) SANDBOX_CALLS_MACHINE(OF_C),
	CALLS_BROKER = 6 SANDBOX_CALLS(OF_B) SANDBOX_CALLS_MACHINE(OF_B),
};
_Static_assert(CALLS_WORKER <= MAX_WORKER, "workers");
_Static_assert(CALLS_CONTROL <= MAX_CONTROL, "the control thread");
_Static_assert(CALLS_BROKER <= MAX_BROKER, "the broker");

/* The seccomp filter of one role. */
struct filter {
	scmp_filter_ctx ctx;
	struct sock_fprog program; /* of filter_compile */
	int rc;                    /* of the first step that failed: 0 or -errno */
};

static struct {
	enum option_sandbox mode;
	struct watch watch; /* an eventfd, written by the handler */
	int broker_chan;    /* in the broker; -1 in the daemon */
	uint64_t count[CALLS];
	uint64_t logged[CALLS]; /* by the control thread */
	uint64_t broker_count;
	pid_t last_tid;
	void (*fn)(void *arg); /* of sandbox_every_thread */
	void *arg;
	unsigned ran;
	int landlock; /* the kernel's version, if its rules are in force; 0: none */
} box = {.watch.fd = -1, .broker_chan = -1};

/* ---- the handler of SIGSYS, in any thread ---- */

static void
set_result(void *context, long value)
{
	ucontext_t *uc = context;

#if defined(__x86_64__)
	uc->uc_mcontext.gregs[REG_RAX] = value;
#elif defined(__aarch64__)
	uc->uc_mcontext.regs[0] = (unsigned long long)value;
#else
#error "the register of a system call's result is not known"
#endif
}

/* Ends the process with a line that names the call. */
static void __attribute__((noreturn)) die(unsigned call)
{
	char text[] = "uroced: --sandbox=kill: system call 0000 is not allowed (scmp_sys_resolver "
		      "NUMBER)\n";
	char *digit = strchr(text, '0');

	for (unsigned i = 4, rest = call; i-- > 0; rest /= 10)
		digit[i] = (char)('0' + rest % 10);
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		__builtin_trap();
	__builtin_trap();
}

static void
tell_daemon(unsigned call)
{
	const struct broker_msg m = {.says = BROKER_REFUSED, .job = call};

	if (send(box.broker_chan, &m, offsetof(struct broker_msg, found),
		 MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return; /* the call fails all the same */
}

static void
on_sigsys(int sig, siginfo_t *info, void *context)
{
	static const uint64_t one = 1;
	int saved = errno;
	unsigned call;

	(void)sig;
	if (info->si_code == SI_TKILL && box.fn != NULL) {
		box.fn(box.arg);
		__atomic_fetch_add(&box.ran, 1, __ATOMIC_RELEASE);
	}
	if (info->si_code == SYS_SECCOMP) {
		call = (unsigned)info->si_syscall;
		if (box.broker_chan >= 0) {
			tell_daemon(call);
		} else {
			if (box.mode == OPTION_SANDBOX_KILL)
				die(call);
			__atomic_fetch_add(&box.count[call < CALLS ? call : CALLS - 1], 1,
					   __ATOMIC_RELAXED);
			__atomic_store_n(&box.last_tid, (pid_t)syscall(SYS_gettid),
					 __ATOMIC_RELAXED);
			if (write(box.watch.fd, &one, sizeof(one)) < 0)
				errno = saved; /* full: it is readable */
		}
		set_result(context, -EPERM);
	}
	errno = saved;
}

static int
handler_install(void)
{
	struct sigaction sa = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO | SA_RESTART};

	/* Nothing interrupts it: a call that is refused in another handler would kill. */
	sigfillset(&sa.sa_mask);
	return sigaction(SIGSYS, &sa, NULL) < 0 ? -errno : 0;
}

/* ---- every thread ---- */

/* Runs fn in thread tid. Returns false if it does not answer in time. */
static bool
run_in(pid_t tid)
{
	const struct timespec nap = {.tv_nsec = 100000};
	unsigned before = __atomic_load_n(&box.ran, __ATOMIC_ACQUIRE);
	struct timespec start, now;

	if (syscall(SYS_tgkill, getpid(), tid, SIGSYS) < 0)
		return errno == ESRCH;
	clock_gettime(CLOCK_MONOTONIC, &start);
	while (__atomic_load_n(&box.ran, __ATOMIC_ACQUIRE) == before) {
		nanosleep(&nap, NULL);
		if (syscall(SYS_tgkill, getpid(), tid, 0) < 0)
			return true; /* has ended */
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec - start.tv_sec > THREAD_S)
			return false;
	}
	return true;
}

/* Runs it in the threads that are not yet in done; adds them. Returns their number, or -1. */
static int
run_in_new(pid_t *done, unsigned *ndone, unsigned room)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *e;
	int n = 0;

	while (dir != NULL && n >= 0 && (e = readdir(dir)) != NULL) {
		pid_t tid = (pid_t)atoi(e->d_name);
		unsigned i = 0;

		while (i < *ndone && done[i] != tid)
			i++;
		if (tid == 0 || i < *ndone)
			continue;
		n = *ndone < room && run_in(tid) ? n + 1 : -1;
		if (n > 0)
			done[(*ndone)++] = tid;
	}
	if (dir != NULL)
		closedir(dir);
	return dir != NULL ? n : -1;
}

bool
sandbox_every_thread(void (*fn)(void *arg), void *arg)
{
	pid_t done[256] = {(pid_t)syscall(SYS_gettid)};
	unsigned ndone = 1;
	int n;

	if (handler_install() < 0)
		return false;
	box.fn = fn;
	box.arg = arg;
	do /* threads that did not have it yet may have started others */
		n = run_in_new(done, &ndone, sizeof(done) / sizeof(done[0]));
	while (n > 0);
	box.fn = NULL;
	fn(arg); /* last, because it may restrict this thread */
	return n == 0;
}

/* ---- filters ---- */

#define RULE(f, ...)                                                                               \
	do {                                                                                       \
		if ((f)->rc == 0)                                                                  \
			(f)->rc = seccomp_rule_add((f)->ctx, __VA_ARGS__);                         \
	} while (0)

static bool
is_family(uint64_t families, unsigned family)
{
	return families >> family & 1;
}

/* A NIC under vfio that is given back: its configuration space, and the link to its group. */
static void
add_nic_rules(struct filter *f)
{
	RULE(f, SCMP_ACT_ALLOW, SCMP_SYS(pread64), 0);
	RULE(f, SCMP_ACT_ALLOW, SCMP_SYS(pwrite64), 0);
	RULE(f, SCMP_ACT_ALLOW, SCMP_SYS(readlink), 0);
	RULE(f, SCMP_ACT_ALLOW, SCMP_SYS(readlinkat), 0);
}

/*
 * net_af_xdp with the driver's program takes its sockets out of the program's map and the program
 * off the interface when it closes. Nothing can be loaded.
 */
static void
add_xdp_rules(struct filter *f)
{
	static const unsigned commands[] = {
		BPF_MAP_LOOKUP_ELEM,   BPF_MAP_UPDATE_ELEM,  BPF_MAP_DELETE_ELEM,
		BPF_PROG_GET_FD_BY_ID, BPF_MAP_GET_FD_BY_ID, BPF_OBJ_GET_INFO_BY_FD,
	};

	for (unsigned i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		RULE(f, SCMP_ACT_ALLOW, SCMP_SYS(bpf), 1, SCMP_A0(SCMP_CMP_EQ, commands[i]));
}

/* Calls that depend on arguments, and calls whose refusal libc expects. */
static void
add_rules(struct filter *f, unsigned role, uint64_t families)
{
	const uint32_t allow = SCMP_ACT_ALLOW, none = SCMP_ACT_ERRNO(EPERM);
	const uint64_t exec = PROT_EXEC;

	RULE(f, allow, SCMP_SYS(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, exec, 0));
	RULE(f, allow, SCMP_SYS(mprotect), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, exec, 0));
	RULE(f, allow, SCMP_SYS(tgkill), 1,
	     SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid())); /* abort */
	if (role == W)
		return;
	RULE(f, allow, SCMP_SYS(rt_tgsigqueueinfo), 1,
	     SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid())); /* sigbus_guard_release */
	/* libc starts programs with all signals blocked, when SIGSYS would kill: no trap */
	RULE(f, allow, SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
	RULE(f, none, SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
	RULE(f, none, SCMP_SYS(fork), 0);
	RULE(f, none, SCMP_SYS(vfork), 0);
	RULE(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0); /* libc then calls clone */
	/* net_vhost then leaves its queues on the NUMA node where they are */
	RULE(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(get_mempolicy), 0);
	RULE(f, allow, SCMP_SYS(prctl), 1, SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
	RULE(f, allow, SCMP_SYS(prctl), 1, SCMP_A0(SCMP_CMP_EQ, PR_GET_NAME));
	RULE(f, SCMP_ACT_ERRNO(EINVAL), SCMP_SYS(prctl), 1, SCMP_A0(SCMP_CMP_EQ, PR_SET_VMA));
	if (role == B) {
		/* pauses of a client's threads (map/pause.h); no access to registers or memory */
		RULE(f, allow, SCMP_SYS(ptrace), 1, SCMP_A0(SCMP_CMP_EQ, PTRACE_SEIZE));
		RULE(f, allow, SCMP_SYS(ptrace), 1, SCMP_A0(SCMP_CMP_EQ, PTRACE_INTERRUPT));
		RULE(f, allow, SCMP_SYS(ptrace), 1, SCMP_A0(SCMP_CMP_EQ, PTRACE_DETACH));
		return;
	}
	RULE(f, allow, SCMP_SYS(socketpair), 1, SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
	for (unsigned i = 0; i < FAMILIES; i++)
		if (is_family(families, i))
			RULE(f, allow, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_EQ, i));
	if (is_family(families, AF_XDP))
		add_xdp_rules(f);
	if (families == UINT64_MAX)
		add_nic_rules(f);
}

static void
filter_rules(struct filter *f, unsigned role, uint64_t families)
{
	f->ctx = seccomp_init(SCMP_ACT_TRAP);
	if (f->ctx == NULL) {
		f->rc = -ENOMEM;
		return;
	}
	/* The data path's calls find their row in few steps also where the kernel has no bitmap. */
	(void)seccomp_attr_set(f->ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		int number = seccomp_syscall_resolve_name(calls[i].name);

		if (calls[i].roles & role && number != __NR_SCMP_ERROR)
			RULE(f, SCMP_ACT_ALLOW, number, 0);
	}
	add_rules(f, role, families);
}

/* Makes the kernel's program of f. */
static void
filter_compile(struct filter *f)
{
	int fd = f->rc == 0 ? memfd_create("uroced-filter", MFD_CLOEXEC) : -1;
	off_t len;

	if (f->rc == 0 && fd < 0)
		f->rc = -errno;
	if (f->rc == 0)
		f->rc = seccomp_export_bpf(f->ctx, fd);
	if (f->rc == 0) {
		len = lseek(fd, 0, SEEK_END);
		f->program.filter = malloc((size_t)len);
		f->program.len = (unsigned short)((size_t)len / sizeof(struct sock_filter));
		if (f->program.filter == NULL ||
		    pread(fd, f->program.filter, (size_t)len, 0) != len)
			f->rc = -ENOMEM;
	}
	if (fd >= 0)
		close(fd);
}

static void
filter_make(struct filter *f, unsigned role, uint64_t families)
{
	memset(f, 0, sizeof(*f));
	filter_rules(f, role, families);
	filter_compile(f);
}

static void
filter_free(struct filter *f)
{
	if (f->ctx != NULL)
		seccomp_release(f->ctx);
	free(f->program.filter);
}

static bool
filter_load(const struct filter *f)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &f->program) == 0;
}

/* ---- the daemon ---- */

#define REFUSED "sandbox: %s: system call %s was refused: please report it; --sandbox=off allows it"

/* "NAME (NUMBER)" */
static const char *
call_name(unsigned call, char text[64])
{
	char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, (int)call);

	snprintf(text, 64, "%.40s (%u)", name != NULL ? name : "?", call);
	free(name);
	return text;
}

/* "thread NAME" of the last refused call. */
static void
last_thread(char text[40])
{
	char path[64], name[17] = "?";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/comm",
		 __atomic_load_n(&box.last_tid, __ATOMIC_RELAXED));
	f = fopen(path, "re");
	if (f != NULL) {
		if (fscanf(f, "%16[^\n]", name) != 1)
			strcpy(name, "?");
		fclose(f);
	}
	snprintf(text, 40, "thread %s", name);
}

static void
on_refused(struct watch *w, uint32_t events)
{
	char who[40], call[64];
	uint64_t n;

	if (read(w->fd, &n, sizeof(n)) != sizeof(n))
		return;
	last_thread(who);
	for (unsigned i = 0; i < CALLS; i++) {
		n = __atomic_load_n(&box.count[i], __ATOMIC_RELAXED);
		if (n == box.logged[i])
			continue;
		box.logged[i] = n;
		LOG_LIMITED(ERR, REFUSED, who, call_name(i, call));
	}
}

void
sandbox_broker_refused(unsigned call)
{
	char text[64];

	box.broker_count++;
	LOG_LIMITED(ERR, REFUSED, "the broker", call_name(call, text));
	if (box.mode == OPTION_SANDBOX_KILL)
		die(call);
}

uint64_t
sandbox_refused(void)
{
	uint64_t sum = box.broker_count;

	for (unsigned i = 0; i < CALLS; i++)
		sum += __atomic_load_n(&box.count[i], __ATOMIC_RELAXED);
	return sum;
}

static const char *const modes[] = {"off", "on", "kill"};

int
sandbox_landlock(void)
{
	return box.landlock;
}

const char *
sandbox_mode(void)
{
	return modes[box.mode];
}

static int
watch_open(struct daemon *d)
{
	box.watch.ready = on_refused;
	box.watch.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (box.watch.fd < 0)
		return -errno;
	return loop_add(&d->loop, &box.watch, EPOLLIN);
}

void
sandbox_stop(struct daemon *d)
{
	if (box.watch.fd < 0)
		return;
	loop_del(&d->loop, &box.watch);
	/* The descriptor stays open for the handler. */
}

/* Sanitizers make system calls of their own: LeakSanitizer starts a process and traces it. */
static bool
can_be_used(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
	return false;
#endif
#endif
	return true;
}

static bool
is_used(const struct options *o)
{
	return o->sandbox != OPTION_SANDBOX_OFF && can_be_used();
}

static __thread bool is_worker;

static void
mark_worker(struct worker *w, void *arg)
{
	(void)w;
	(void)arg;
	is_worker = true;
}

struct filters {
	struct filter control, worker;
	int ruleset; /* Landlock's; -1: none */
	int abi;     /* of it, or 0 */
	int failed;  /* errno of a thread that was not restricted; 0: none */
};

/* Any thread, as a signal handler. */
static void
load_in_thread(void *arg)
{
	struct filters *f = arg;

	if ((f->ruleset >= 0 && !landlock_restrict(f->ruleset)) ||
	    !filter_load(is_worker ? &f->worker : &f->control))
		f->failed = errno;
}

static void
ruleset_make(struct filters *f, struct daemon *d, const struct options *o, bool unknown)
{
	f->ruleset = landlock_ruleset(d, o, unknown, &f->abi);
	if (f->ruleset >= 0) {
		broker_reads_owners(d); /* a rule for these files would be one for all of /etc */
		return;
	}
	LOG(NOTICE,
	    "sandbox: the kernel does not accept Landlock rules (%s): uroced could open any file "
	    "of its user",
	    strerror(-f->ruleset));
	f->abi = 0;
}

int
sandbox_start(struct daemon *d, const struct options *o, uint64_t families)
{
	struct filters f = {.ruleset = -1};
	int rc;

	if (!is_used(o))
		return 0;
	rc = handler_install();
	if (rc == 0)
		rc = watch_open(d);
	if (rc < 0)
		return rc;
	ruleset_make(&f, d, o, families == UINT64_MAX);
	filter_make(&f.control, C, families);
	filter_make(&f.worker, W, 0);
	rc = f.control.rc != 0 ? f.control.rc : f.worker.rc;
	worker_call_all(d->workers, mark_worker, NULL);
	if (rc == 0 && !sandbox_every_thread(load_in_thread, &f))
		rc = -ETIMEDOUT;
	if (rc == 0)
		rc = -f.failed;
	filter_free(&f.control);
	filter_free(&f.worker);
	if (f.ruleset >= 0)
		close(f.ruleset);
	if (rc == 0) {
		box.landlock = f.abi;
		box.mode = (enum option_sandbox)o->sandbox;
		return 0;
	}
	LOG(NOTICE,
	    "sandbox: the kernel does not accept seccomp filters (%s): uroced could make "
	    "any system call",
	    strerror(-rc));
	return o->sandbox == OPTION_SANDBOX_KILL ? rc : 0;
}

/* ---- the broker ---- */

const char *
sandbox_broker_arg(const struct options *o)
{
	return is_used(o) ? "sandbox" : "free";
}

void
sandbox_broker(int chan, const char *arg)
{
	struct filter f;

	if (strcmp(arg, "sandbox") != 0)
		return;
	box.broker_chan = chan;
	filter_make(&f, B, 0);
	if (f.rc == 0 && handler_install() == 0)
		(void)filter_load(&f); /* the daemon says it if the kernel has none */
	filter_free(&f);
}
