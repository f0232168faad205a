/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The system calls that sandbox.c's filters allow: CALL(name, roles). W: workers; C: the control
 * thread, and the threads of EAL, telemetry, logs, hostif; B: the broker. Call fstatat instead of
 * stat and lstat, which are other system calls before glibc 2.33.
 */
#ifndef UROCED_SANDBOX_CALLS_H
#define UROCED_SANDBOX_CALLS_H

#define SANDBOX_CALLS(CALL)                                                                        \
	/* open files */                                                                           \
	CALL(read, W | C | B)                                                                      \
	CALL(write, W | C | B)                                                                     \
	CALL(readv, W | C)                                                                         \
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

#endif
