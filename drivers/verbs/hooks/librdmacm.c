/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hooks of librdmacm. It opens /dev/infiniband/rdma_cm, checks that it is a character device, and
 * writes commands to it; cm_channel.h implements these. The node that uroce-run and urocectl
 * install create is never opened and need not exist.
 *
 * librdmacm lists the devices before it opens the node for the first time, and listing loads the
 * provider. Usually librdmacm is in the process by then, and the provider's constructor applies the
 * hooks. Otherwise the program has listed the devices first and loads librdmacm (or UCX, or
 * libfabric) later with dlopen. librdmacm then lists the devices, which reads files in sysfs by
 * calls that libibverbs.c redirects; each of these checks whether librdmacm was loaded.
 */

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>
#include "../cm_channel.h"
#include "../fork.h"
#include "got.h"

#define LIBRDMACM "librdmacm.so.1"
#define NODE      "/dev/infiniband/rdma_cm"

static struct {
	pthread_mutex_t mutex;
	unsigned long long adds; /* prov_hooks_loads at the last check */
} looked = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void
looked_fork_child(void)
{
	pthread_mutex_init(&looked.mutex, NULL);
}

static struct fork_part looked_fork = {.child = looked_fork_child};

static __attribute__((constructor)) void
looked_fork_install(void)
{
	fork_part_add(&looked_fork);
}

/* The argument mode exists only if flags say so. */
static int
hook_open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	if (strcmp(path, NODE) == 0)
		return prov_cm_open(flags);
	va_start(ap, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(ap, mode_t);
	va_end(ap);
	return open(path, flags, mode);
}

static int
hook_fxstat(int version, int fd, struct stat *st)
{
	(void)version; /* on 64-bit machines there is only one */
	return prov_cm_fstat(fd, st);
}

void
prov_hooks_librdmacm(void)
{
	static const struct prov_hook hooks[] = {
		{LIBRDMACM, "open", {"open64", "__open_2", "__open64_2"}, (void *)hook_open},
		{LIBRDMACM,
		 "fstat",
		 {"fstat64"},
		 (void *)prov_cm_fstat,
		 "__fxstat",
		 (void *)hook_fxstat},
		{LIBRDMACM, "write", {NULL}, (void *)prov_cm_write},
		{LIBRDMACM, "close", {NULL}, (void *)prov_cm_close},
	};
	unsigned long long adds = prov_hooks_loads();

	fork_enter();
	if (__atomic_load_n(&looked.adds, __ATOMIC_ACQUIRE) == adds)
		return;
	pthread_mutex_lock(&looked.mutex);
	if (prov_hooks_library_loaded(LIBRDMACM))
		prov_hooks_apply(hooks, sizeof(hooks) / sizeof(hooks[0]));
	__atomic_store_n(&looked.adds, adds, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&looked.mutex);
}
