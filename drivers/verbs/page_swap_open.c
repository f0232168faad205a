/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens the kernel facilities that page_swap.h needs; keeps the page_swap of this process. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include "alone.h"
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
