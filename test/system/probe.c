/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into uroced and its broker by test_sandbox.py: once a thread is restricted, it tries
 * what the sandbox forbids, from inside the calls that the thread makes anyway, and writes a line
 * for each try to the file that PROBE_OUT names: "THREAD CALL RESULT".
 *
 * With PROBE_NO_LANDLOCK, the kernel seems to have no Landlock. With PROBE_FILES, a folder with
 * files `there` and `victim`, no seccomp filters are set, and every thread of the daemon tries what
 * only Landlock forbids.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif

static __thread bool done;
static __thread char name[16];
static int out = -1;
static const char *files; /* PROBE_FILES */
static bool restricted;   /* files: the main thread, and so all threads, had their filters */

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
	} else {
		TRY(readv, -1, NULL, 0); /* only a worker, for net_tap */
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
on_signal(int sig)
{
	const struct sockaddr_in tcp = {.sin_family = AF_INET,
					.sin_port = htons(1),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char there[256], new[256], victim[256];
	int fd, saved = errno;

	(void)sig;
	prctl(PR_GET_NAME, name);
	snprintf(there, sizeof(there), "%s/there", files);
	snprintf(new, sizeof(new), "%s/new.%ld", files, syscall(SYS_gettid));
	snprintf(victim, sizeof(victim), "%s/victim", files);
	say("read", open(there, O_RDONLY | O_CLOEXEC));
	say("read_etc", open("/etc/passwd", O_RDONLY | O_CLOEXEC));
	say("list", open(files, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	say("write", open(there, O_WRONLY | O_CLOEXEC));
	say("write_sysctl", open("/proc/sys/kernel/core_pattern", O_WRONLY | O_CLOEXEC));
	say("create", open(new, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	unlink(new);
	say("mkdir", mkdir(new, 0700));
	rmdir(new);
	say("mkfifo", mkfifo(new, 0600));
	unlink(new);
	say("symlink", symlink("x", new));
	unlink(new);
	say("unlink", unlink(victim));
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	say("connect_tcp", connect(fd, (const struct sockaddr *)&tcp, sizeof(tcp)));
	close(fd);
	say("end", 0);
	errno = saved;
}

/* Main thread: has every thread try. */
static void
signal_all(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct dirent *e;

	sigaction(SIGUSR2, &sa, NULL);
	while (dir != NULL && (e = readdir(dir)) != NULL)
		if (*e->d_name != '.')
			syscall(SYS_tgkill, getpid(), atoi(e->d_name), SIGUSR2);
	closedir(dir);
}

int
prctl(int option, ...)
{
	unsigned long a[4];
	va_list list;

	va_start(list, option);
	for (unsigned i = 0; i < 4; i++)
		a[i] = va_arg(list, unsigned long);
	va_end(list);
	if (files == NULL || option != PR_SET_SECCOMP)
		return (int)syscall(SYS_prctl, option, a[0], a[1], a[2], a[3]);
	if (syscall(SYS_gettid) == getpid())
		restricted = true;
	return 0;
}

static void
look(void)
{
	bool worker;

	if (files != NULL) {
		if (!done && syscall(SYS_gettid) == getpid() &&
		    (restricted || getenv("PROBE_FREE") != NULL)) {
			done = true;
			signal_all();
		}
		return;
	}
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

	if (getenv("PROBE_BROKER") == NULL || getenv("PROBE_FILES") != NULL)
		return next(fd, msg, flags);
	if (!done)
		out = open(getenv("PROBE_OUT"), O_WRONLY | O_APPEND | O_CLOEXEC);
	strcpy(name, "broker");
	look();
	return next(fd, msg, flags);
}

/* Landlock's first call fails with ENOSYS in this process and its children. */
static void
no_landlock(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
		abort();
}

static void __attribute__((constructor)) start(int argc, char **argv)
{
	(void)argc;
	if (getenv("PROBE_NO_LANDLOCK") != NULL) {
		no_landlock();
		return;
	}
	if (argv[1] == NULL || strncmp(argv[1], "--broker", strlen("--broker")) != 0)
		files = getenv("PROBE_FILES");
	if (argv[1] != NULL && strcmp(argv[1], "--broker") == 0)
		setenv("PROBE_BROKER", "1", 1);
	else
		out = open(getenv("PROBE_OUT"), O_WRONLY | O_APPEND | O_CLOEXEC);
}
