/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into programs that qemu-user runs (targets.py): it answers an ioctl that it does not
 * know with ENOSYS, the kernel with ENOTTY. libibverbs tells by this error how to talk to a device.
 */
#include <errno.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int
ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;
	long rc;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	rc = syscall(SYS_ioctl, fd, request, arg);
	if (rc < 0 && errno == ENOSYS)
		errno = ENOTTY;
	return (int)rc;
}
