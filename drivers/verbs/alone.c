/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "alone.h"

#define RING_NAME "anon_inode:[io_uring]"

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

/* Returns true if entry name of folder dir is an io_uring. */
static bool
is_ring(int dir, const char *name)
{
	char to[sizeof(RING_NAME)];
	long n = syscall(SYS_readlinkat, dir, name, to, sizeof(to));

	return n == sizeof(RING_NAME) - 1 && memcmp(to, RING_NAME, sizeof(RING_NAME) - 1) == 0;
}

static bool
has_no_ring(void)
{
	_Alignas(struct dirent64_abi) char buf[2048];
	bool found = false;
	long n = 0;
	int dir;

	dir = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/fd",
			   O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return false;
	while (!found && (n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0) {
		for (long pos = 0; !found && pos < n;) {
			struct dirent64_abi *d = (struct dirent64_abi *)(buf + pos);

			found = is_ring(dir, d->name);
			pos += d->reclen;
		}
	}
	syscall(SYS_close, dir);
	return !found && n == 0;
}

bool
process_is_alone(void)
{
	return has_one_thread() && has_no_ring();
}
