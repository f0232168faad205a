/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into uroced and its broker by test_privilege.py: once a thread is restricted, it tries
 * what the sandbox forbids, from inside the calls that the thread makes anyway, and writes a line
 * for each try to the file that PROBE_OUT names: "THREAD CALL RESULT".
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif

static __thread bool done;
static __thread char name[16];
static int out = -1;

static void
say(const char *call, long rc)
{
	char line[96];
	int n = snprintf(line, sizeof(line), "%s %s %s\n", name, call,
			 rc < 0 ? strerrorname_np(errno) : "done");

	if (write(out, line, (size_t)n) != n)
		abort();
}

/* Without effect where they are allowed: they fail for another reason than EPERM. */
static void
try_all(bool worker)
{
	char *const none[] = {NULL};
	long rc;

#define TRY(call, ...) say(#call, syscall(SYS_##call, ##__VA_ARGS__))
	TRY(execve, "/nonexistent", none, none);
	TRY(execveat, -1, "nonexistent", none, none, 0);
	TRY(ptrace, PTRACE_ATTACH, 0, 0, 0);
	TRY(process_vm_readv, 0, NULL, 0, NULL, 0, 1);
	TRY(pidfd_getfd, -1, 0, 0);
	TRY(mount, NULL, NULL, NULL, 0, NULL);
	TRY(unshare, -1);
	TRY(setns, -1, 0);
	TRY(chroot, "/nonexistent");
	TRY(pivot_root, NULL, NULL);
	TRY(init_module, NULL, 0, NULL);
	TRY(bpf, -1, NULL, 0);
	TRY(perf_event_open, NULL, 0, 0, 0, 0);
	TRY(userfaultfd, -1);
	TRY(io_uring_setup, 0, NULL);
	TRY(keyctl, -1, 0, 0, 0, 0);
	TRY(setresuid, -1, -1, -1);
	TRY(personality, 0xffffffff);
	TRY(kill, 1, 0);
	TRY(tgkill, 1, 1, 0);
	TRY(symlinkat, "x", -1, "y");
	TRY(linkat, -1, "x", -1, "y", 0);
	TRY(mknodat, -1, "x", 0, 0);
	TRY(memfd_secret, -1);
	if (worker) {
		TRY(openat, AT_FDCWD, "/etc/passwd", O_RDONLY);
		TRY(unlinkat, -1, "x", 0);
		TRY(ioctl, -1, 0, 0);
		TRY(connect, -1, NULL, 0);
		TRY(memfd_create, "probe", 0);
		TRY(prctl, PR_GET_DUMPABLE);
	}
	/* PR_GET_SECCOMP is 0 without a filter, 2 or a refusal with one. */
	rc = syscall(SYS_socket, AF_ALG, SOCK_SEQPACKET, 0);
	say("socket_alg", rc);
	rc = syscall(SYS_socket, AF_PACKET, SOCK_RAW, 0);
	say("socket_packet", rc);
	rc = (long)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	say("mmap_exec", rc);
	rc = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (rc == 0)
		_exit(0);
	say("clone_process", rc);
	say("end", 0);
}

static void
look(void)
{
	bool worker;

	if (done || out < 0)
		return;
	if (strcmp(name, "broker") != 0)
		prctl(PR_GET_NAME, name); /* a restricted worker keeps the last one */
	worker = strncmp(name, "rte-worker", 10) == 0 || strncmp(name, "lcore-worker", 12) == 0;
	if (getenv("PROBE_FREE") == NULL && prctl(PR_GET_SECCOMP) == 0)
		return;
	done = true; /* before: the calls below may come here */
	try_all(worker);
}

int
ppoll(struct pollfd *fds, nfds_t n, const struct timespec *limit, const sigset_t *set)
{
	int (*next)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *) =
		dlsym(RTLD_NEXT, "ppoll");

	look();
	return next(fds, n, limit, set);
}

int
epoll_wait(int fd, struct epoll_event *ev, int max, int ms)
{
	int (*next)(int, struct epoll_event *, int, int) = dlsym(RTLD_NEXT, "epoll_wait");

	look();
	return next(fd, ev, max, ms);
}

/* The broker closes all descriptors first; then this is its first call. */
ssize_t
recvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t (*next)(int, struct msghdr *, int) = dlsym(RTLD_NEXT, "recvmsg");

	if (getenv("PROBE_BROKER") == NULL)
		return next(fd, msg, flags);
	if (!done)
		out = open(getenv("PROBE_OUT"), O_WRONLY | O_APPEND | O_CLOEXEC);
	strcpy(name, "broker");
	look();
	return next(fd, msg, flags);
}

static void __attribute__((constructor)) start(int argc, char **argv)
{
	(void)argc;
	if (argv[1] != NULL && strcmp(argv[1], "--broker") == 0)
		setenv("PROBE_BROKER", "1", 1);
	else
		out = open(getenv("PROBE_OUT"), O_WRONLY | O_APPEND | O_CLOEXEC);
}
