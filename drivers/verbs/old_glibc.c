/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of which libc has a version later than 2.31, for this library only: the linker prefers
 * these to libc's.
 */
#include "old_glibc.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* Defines the function name, which calls libc's of this version. */
#define OLD(version, type, name, params, args)                                                     \
	OLD_DECLARE(version, type, name, params);                                                  \
	HIDDEN type name params;                                                                   \
	type name params                                                                           \
	{                                                                                          \
		return old_##name args;                                                            \
	}

OLD(OLD_FIRST, void *, dlopen, (const char *path, int flags), (path, flags))
OLD(OLD_FIRST, void *, dlsym, (void *handle, const char *name), (handle, name))
OLD(OLD_FIRST, int, dlclose, (void *handle), (handle))

OLD(OLD_FIRST, int, pthread_create,
    (pthread_t * thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg),
    (thread, attr, fn, arg))
OLD(OLD_FIRST, int, pthread_attr_setstacksize, (pthread_attr_t * attr, size_t size), (attr, size))
OLD(OLD_FIRST, int, pthread_mutexattr_init, (pthread_mutexattr_t * attr), (attr))
OLD(OLD_FIRST, int, pthread_mutexattr_destroy, (pthread_mutexattr_t * attr), (attr))
OLD(OLD_FIRST, int, pthread_mutexattr_setpshared, (pthread_mutexattr_t * attr, int shared),
    (attr, shared))
OLD(OLD_SINCE_2_12, int, pthread_mutexattr_setrobust, (pthread_mutexattr_t * attr, int robust),
    (attr, robust))
OLD(OLD_SINCE_2_12, int, pthread_mutex_consistent, (pthread_mutex_t * mutex), (mutex))
OLD(OLD_FIRST, int, pthread_once, (pthread_once_t * once, void (*fn)(void)), (once, fn))
OLD(OLD_FIRST, int, pthread_sigmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old))
/* called by pthread_cleanup_push and pthread_cleanup_pop */
OLD(OLD_SINCE_2_3, void, __pthread_register_cancel, (__pthread_unwind_buf_t * buf), (buf))
OLD(OLD_SINCE_2_3, void, __pthread_unregister_cancel, (__pthread_unwind_buf_t * buf), (buf))
OLD_DECLARE(OLD_SINCE_2_3, __attribute__((noreturn)) void, __pthread_unwind_next,
	    (__pthread_unwind_buf_t * buf));
HIDDEN void __pthread_unwind_next(__pthread_unwind_buf_t *buf);
void
__pthread_unwind_next(__pthread_unwind_buf_t *buf)
{
	old___pthread_unwind_next(buf);
}

OLD(OLD_FIRST, int, sem_init, (sem_t * sem, int shared, unsigned int value), (sem, shared, value))
OLD(OLD_FIRST, int, sem_destroy, (sem_t * sem), (sem))
OLD(OLD_FIRST, int, sem_post, (sem_t * sem), (sem))
OLD(OLD_FIRST, int, sem_wait, (sem_t * sem), (sem))

/* glibc 2.38 and later: strtoul of C23. */
OLD_DECLARE(OLD_FIRST, unsigned long, strtoul, (const char *text, char **end, int base));
HIDDEN unsigned long __isoc23_strtoul(const char *text, char **end, int base);
unsigned long
__isoc23_strtoul(const char *text, char **end, int base)
{
	return old_strtoul(text, end, base);
}

/* glibc 2.31 has no such functions, but on 64-bit machines the kernel's structure is libc's. */
HIDDEN int fstat(int fd, struct stat *st);
int
fstat(int fd, struct stat *st)
{
	return (int)syscall(SYS_newfstatat, fd, "", st, AT_EMPTY_PATH);
}

HIDDEN int lstat(const char *path, struct stat *st);
int
lstat(const char *path, struct stat *st)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}
