/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens the kernel facilities that page_swap.h needs; keeps the page_swap of this process. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include "page_pause.h"
#include "page_return.h"
#include "page_swap.h"
#include "raw_mm.h"

#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#endif

static int
uffd_new(void)
{
	long fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	int dev;

	if (fd >= 0 || errno != EPERM)
		return fd < 0 ? -errno : (int)fd;
	dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (dev < 0)
		return -EPERM;
	fd = ioctl(dev, USERFAULTFD_IOC_NEW, O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	close(dev);
	return (int)fd;
}

int
page_swap_uffd(uint64_t features)
{
	struct uffdio_api api = {.api = UFFD_API, .features = features};
	int fd = uffd_new();
	int err;

	if (fd < 0)
		return fd;
	if (ioctl(fd, UFFDIO_API, &api) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int
page_swap_open(struct page_swap *swap)
{
	const uint64_t need = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;

	swap->return_uffd = -1;
	swap->pauses = false;
	swap->pagemap = -1;
	swap->unpopulated = true;
	swap->uffd = page_swap_uffd(need | UFFD_FEATURE_WP_UNPOPULATED);
	if (swap->uffd == -EINVAL) {
		swap->unpopulated = false;
		swap->uffd = page_swap_uffd(need);
	}
	if (swap->uffd < 0)
		return swap->uffd;
	swap->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	return 0;
}

void
page_swap_close(struct page_swap *swap)
{
	if (swap->uffd >= 0)
		close(swap->uffd);
	if (swap->return_uffd >= 0)
		close(swap->return_uffd);
	if (swap->pagemap >= 0)
		close(swap->pagemap);
	swap->pagemap = -1;
	swap->uffd = -1;
	swap->return_uffd = -1;
}

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

/*
 * Returns true if only the calling thread can store into this process's memory until it returns to
 * the program; signals are blocked. The process then has no other thread, including the kernel's
 * io_uring workers, and no io_uring, whose requests could also complete in this thread. When in
 * doubt, returns false. Does not detect debuggers or another process that shares the memory after a
 * bare clone(2). Any thread; does not allocate.
 */
static bool
process_is_alone(void)
{
	return has_one_thread() && !process_has_kernel_stores();
}

static struct page_swap process_swap = {.uffd = -1, .return_uffd = -1, .pagemap = -1};
static pid_t process_pid; /* the process whose memory the descriptors act on */

/* Makes a page_swap that holds no store back, because no other thread runs meanwhile. */
static int
page_swap_open_alone(struct page_swap *swap, bool pauses)
{
	swap->pauses = pauses;
	swap->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	swap->unpopulated = true;
	return 0;
}

struct page_swap *
page_swap_process(bool adopts, int *err)
{
	static int refused; /* the kernel gives this process no userfaultfd: the reason */
	pid_t pid = getpid();

	if (process_pid != pid || process_swap.uffd < 0)
		page_swap_close(&process_swap);
	process_pid = pid;
	*err = process_swap.uffd >= 0 ? 0 : refused;
	if (process_swap.uffd < 0 && refused == 0)
		*err = page_swap_open(&process_swap);
	if (*err == -EPERM || *err == -ENOSYS || *err == -EINVAL)
		refused = *err;
	/* ENOSYS: under valgrind, which reports the copy of whole pages as errors */
	if (*err != 0 && *err != -ENOSYS) {
		bool alone = process_is_alone();

		if (alone || (page_pause_may() && (!adopts || page_pause_take())))
			*err = page_swap_open_alone(&process_swap, !alone);
	}
	return *err == 0 ? &process_swap : NULL;
}

int
page_swap_prepare_return(void (*lock)(void), void (*unlock)(void))
{
	struct page_swap *swap;
	int err, fd;

	lock();
	swap = page_swap_process(false, &err);
	if (swap != NULL && swap->uffd < 0)
		err = -EPERM; /* without a userfaultfd, memory is returned at once */
	unlock();
	if (err != 0)
		return err;
	fd = page_return_open();
	if (fd < 0)
		return fd;
	lock();
	if (swap->return_uffd < 0)
		swap->return_uffd = fd;
	else
		close(fd);
	unlock();
	return 0;
}

void
page_swap_forget(void)
{
	page_return_forget();
	page_swap_close(&process_swap);
}
