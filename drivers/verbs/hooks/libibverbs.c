/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hooks of libibverbs. It does a few things without calling its provider: it creates a completion
 * channel by writing a command to the uverbs device, reads the channel's events and the
 * asynchronous ones from descriptors, and reads GIDs and P_Keys from sysfs (sysfs.c). The provider
 * answers these calls. Calls for descriptors and files that are not ours go to libc.
 */
#include "../provider.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>
#include <rdma/ib_user_verbs.h>
#include "got.h"

#define LIBIBVERBS "libibverbs.so.1"

/* The command by which libibverbs creates a completion channel. */
struct channel_cmd {
	struct ib_uverbs_cmd_hdr hdr;
	struct ib_uverbs_create_comp_channel core;
};

static ssize_t
hook_write(int fd, const void *buf, size_t len)
{
	const struct channel_cmd *cmd = buf;
	struct ib_uverbs_create_comp_channel_resp resp;
	struct prov_context *ctx = prov_context_by_cmd_fd(fd);
	int channel;

	if (!ctx)
		return write(fd, buf, len);
	if (len != sizeof(*cmd) || cmd->hdr.command != IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL) {
		errno = EOPNOTSUPP;
		return -1;
	}
	channel = prov_event_create_channel(ctx);
	if (channel < 0)
		return -1;
	resp.fd = (uint32_t)channel;
	memcpy((void *)(uintptr_t)cmd->core.response, &resp, sizeof(resp));
	return (ssize_t)len;
}

/* open(2) and openat(2). The argument mode exists only if flags say so. */
static int
open_file(int dir, const char *path, int flags, va_list ap)
{
	int fd = prov_sysfs_open(dir, path);

	if (fd >= 0)
		return fd;
	prov_hooks_librdmacm();
	return openat(dir, path, flags, flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0);
}

static int
hook_open(const char *path, int flags, ...)
{
	va_list ap;
	int fd;

	va_start(ap, flags);
	fd = open_file(AT_FDCWD, path, flags, ap);
	va_end(ap);
	return fd;
}

static int
hook_openat(int dir, const char *path, int flags, ...)
{
	va_list ap;
	int fd;

	va_start(ap, flags);
	fd = open_file(dir, path, flags, ap);
	va_end(ap);
	return fd;
}

static int
hook_fxstat(int version, int fd, struct stat *st)
{
	(void)version; /* on 64-bit machines there is only one */
	return prov_share_fstat(fd, st);
}

void
prov_hooks_install(void)
{
	static const struct prov_hook hooks[] = {
		{LIBIBVERBS, "write", {NULL}, (void *)hook_write},
		{LIBIBVERBS, "read", {NULL}, (void *)prov_event_read},
		{LIBIBVERBS, "close", {NULL}, (void *)prov_event_close},
		/* for sysfs.c */
		{LIBIBVERBS, "open", {"open64"}, (void *)hook_open},
		{LIBIBVERBS, "openat", {"openat64"}, (void *)hook_openat},
		{LIBIBVERBS,
		 "fstat",
		 {"fstat64"},
		 (void *)prov_share_fstat,
		 "__fxstat",
		 (void *)hook_fxstat},
		{LIBIBVERBS, "ioctl", {NULL}, (void *)prov_share_ioctl},
	};

	prov_hooks_apply(hooks, sizeof(hooks) / sizeof(hooks[0]));
	prov_hooks_librdmacm();
}
