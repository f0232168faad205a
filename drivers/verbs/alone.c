/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "alone.h"

/* What descriptors of the kernel's own writers refer to: the beginnings of names. */
static const char *const writers[] = {"anon_inode:[io_uring]", "/dev/vhost-"};
#define NAME_BYTES 24

struct dirent64_abi {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

/* Checks the link count of the folder task, which has two links and one for each thread. */
static bool
has_one_thread(void)
{
	struct stat st;

	return syscall(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &st, 0) == 0 &&
	       st.st_nlink == 3;
}

/* Returns true if entry name of folder dir is a descriptor of one of the writers. */
static bool
is_writer(int dir, const char *name)
{
	char to[NAME_BYTES] = {0};

	if (syscall(SYS_readlinkat, dir, name, to, sizeof(to) - 1) <= 0)
		return false;
	for (unsigned i = 0; i < sizeof(writers) / sizeof(writers[0]); i++)
		if (strncmp(to, writers[i], strlen(writers[i])) == 0)
			return true;
	return false;
}

bool
process_has_kernel_stores(void)
{
	_Alignas(struct dirent64_abi) char buf[2048];
	bool found = false;
	long n = 0;
	int dir;

	dir = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/fd",
			   O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return true;
	while (!found && (n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0) {
		for (long pos = 0; !found && pos < n;) {
			struct dirent64_abi *d = (struct dirent64_abi *)(buf + pos);

			found = is_writer(dir, d->name);
			pos += d->reclen;
		}
	}
	syscall(SYS_close, dir);
	return found || n != 0;
}

bool
process_is_alone(void)
{
	return has_one_thread() && !process_has_kernel_stores();
}
