/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "mr_linger.h"
#include "page_return.h"
#include "page_swap.h"

#define LINGER_MS    50
#define LINGER_BYTES (16ull << 20) /* in total */
#define LINGER_PINS  256u
#define STACK_BYTES  (128u << 10)
#define AT_ONCE      8u /* pins returned before the lock is released to others */

/* All state below is under mr_adopt.c's lock, except start_mutex. */
static pthread_mutex_t start_mutex = PTHREAD_MUTEX_INITIALIZER;
static bool started; /* a start was attempted */
static const struct mr_linger_ops *lock_ops;
static int watch_fd = -1; /* userfaultfd; -1: nothing lingers */
static int wake_fd = -1;
static bool asleep; /* nothing lingers, so the thread waits for wake_fd */
static struct mr_pin *oldest, *newest, *dead;
static uint64_t bytes;
static unsigned pins;

static uint64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t
pin_bytes(const struct mr_pin *h)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < h->nrefs; i++)
		sum += h->ref[i].end - h->ref[i].start;
	return sum;
}

static void
append(struct mr_pin *h)
{
	h->since_ms = now_ms();
	h->next_put_off = NULL;
	if (newest != NULL)
		newest->next_put_off = h;
	else
		oldest = h;
	newest = h;
	bytes += pin_bytes(h);
	pins++;
}

/* Removes a pin from the list. prev: the pin before it, NULL for the oldest. */
static struct mr_pin *
take(struct mr_pin *prev)
{
	struct mr_pin **p = prev != NULL ? &prev->next_put_off : &oldest;
	struct mr_pin *h = *p;

	*p = h->next_put_off;
	if (newest == h)
		newest = prev;
	bytes -= pin_bytes(h);
	pins--;
	return h;
}

/* Returns a pin's memory. prev: as for take. */
static void
end_after(struct mr_pin *prev)
{
	struct mr_pin *h = take(prev);

	mr_ref_release(h);
	h->next_put_off = dead;
	dead = h;
}

static void
end_oldest(void)
{
	end_after(NULL);
}

void
mr_linger_end_all(void)
{
	while (oldest != NULL)
		end_oldest();
}

static bool
overlaps(const struct mr_pin *h, uint64_t start, uint64_t end)
{
	for (unsigned i = 0; i < h->nrefs; i++) {
		const struct mr_ref *c = &h->ref[i];

		if (c->file->base + c->start < end && start < c->file->base + c->end)
			return true;
	}
	return false;
}

void
mr_linger_end_range(uint64_t start, uint64_t end)
{
	struct mr_pin *prev = NULL, *next;

	for (struct mr_pin *h = oldest; h != NULL; h = next) {
		next = h->next_put_off;
		if (overlaps(h, start, end))
			end_after(prev);
		else
			prev = h;
	}
}

/*
 * Returns memory, or part of it, that has lingered long enough. Gives the time until the next call
 * in ms; -1: until woken.
 */
static int
end_some(void)
{
	uint64_t now = now_ms();
	unsigned n = 0;

	while (oldest != NULL && oldest->since_ms + LINGER_MS <= now && n++ < AT_ONCE)
		end_oldest();
	asleep = oldest == NULL;
	if (asleep)
		return -1;
	return oldest->since_ms + LINGER_MS <= now ? 0
						   : (int)(oldest->since_ms + LINGER_MS - now) + 1;
}

struct start {
	sem_t ready;
	int watch_fd, wake_fd;
};

/* Ends only in a process that has closed the descriptors: the child of a fork. */
static void *
keeper(void *arg)
{
	struct start *start = arg;
	struct pollfd fd[2] = {{.fd = start->watch_fd, .events = POLLIN},
			       {.fd = start->wake_fd, .events = POLLIN}};
	struct uffd_msg msg;
	uint64_t count;
	int wait;

	sem_post(&start->ready);
	for (;;) {
		lock_ops->lock();
		wait = end_some();
		lock_ops->unlock();
		if (poll(fd, 2, wait) <= 0)
			continue;
		if (fd[0].revents != 0) {
			lock_ops->lock();
			mr_ref_cut_growth();
			mr_linger_end_all();
			/*
			 * Reading a message lets its sender continue. Locked: whatever memory the
			 * sender freed is among the memory that was just returned. Only one
			 * message: the sender of the next one may have moved memory since then.
			 */
			(void)!read(fd[0].fd, &msg, sizeof(msg));
			lock_ops->unlock();
		}
		if (fd[1].revents != 0 && read(fd[1].fd, &count, sizeof(count)) < 0)
			continue;
	}
	return NULL;
}

/* Waits until the thread runs: see page_return.c. */
static int
start_thread(struct start *start)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	sem_init(&start->ready, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	err = pthread_create(&thread, &attr, keeper, start);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	while (err == 0 && sem_wait(&start->ready) != 0)
		;
	return -err;
}

/* Opens the descriptors and starts the thread. 0 or -errno. */
static int
start_keeper(struct start *start)
{
	int err;

	start->watch_fd =
		page_swap_uffd(UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM |
			       UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP);
	if (start->watch_fd < 0)
		return start->watch_fd;
	start->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = start->wake_fd < 0 ? -errno : 0;
	if (err == 0 && fcntl(start->watch_fd, F_SETFL, O_NONBLOCK) != 0)
		err = -errno;
	if (err == 0)
		err = start_thread(start);
	if (err != 0) {
		close(start->watch_fd);
		if (start->wake_fd >= 0)
			close(start->wake_fd);
	}
	return err;
}

void
mr_linger_start(const struct mr_linger_ops *ops)
{
	struct start start;

	if (__atomic_load_n(&started, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&start_mutex);
	if (!started) {
		lock_ops = ops;
		/* Starts a thread as well, which must not happen while memory is being returned. */
		if (page_swap_prepare_return(ops->lock, ops->unlock) == 0 &&
		    start_keeper(&start) == 0) {
			ops->lock();
			watch_fd = start.watch_fd;
			page_return_watched_by(watch_fd);
			wake_fd = start.wake_fd;
			ops->unlock();
		}
		__atomic_store_n(&started, true, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&start_mutex);
}

bool
mr_linger_arm(uint64_t addr, uint64_t len)
{
	struct uffdio_register reg = {
		.range = {.start = addr, .len = len},
		.mode = UFFDIO_REGISTER_MODE_WP, /* the call needs a mode; nothing is protected */
	};

	return watch_fd >= 0 && len <= MR_LINGER_MAX && ioctl(watch_fd, UFFDIO_REGISTER, &reg) == 0;
}

/* Returns true if a pin for the same memory lingers, and restarts its linger time. */
static bool
refresh(const struct mr_pin *pin)
{
	struct mr_pin *prev = NULL;

	for (struct mr_pin *h = oldest; h != NULL; prev = h, h = h->next_put_off) {
		if (h->nrefs != 1 || pin->nrefs != 1 || h->ref[0].file != pin->ref[0].file ||
		    h->ref[0].start != pin->ref[0].start || h->ref[0].end != pin->ref[0].end)
			continue;
		append(take(prev));
		return true;
	}
	return false;
}

bool
mr_linger_add(struct mr_pin *pin)
{
	static const uint64_t one = 1;

	if (watch_fd < 0 || refresh(pin))
		return false;
	append(pin);
	while (bytes > LINGER_BYTES || pins > LINGER_PINS)
		end_oldest();
	if (asleep && write(wake_fd, &one, sizeof(one)) == sizeof(one))
		asleep = false;
	return true;
}

struct mr_pin *
mr_linger_dead(void)
{
	struct mr_pin *h = dead;

	dead = NULL;
	return h;
}

void
mr_linger_forget(void)
{
	pthread_mutex_init(&start_mutex, NULL);
	if (watch_fd >= 0)
		close(watch_fd);
	if (wake_fd >= 0)
		close(wake_fd);
	watch_fd = -1;
	page_return_watched_by(-1);
	wake_fd = -1;
	started = false;
	asleep = false;
	oldest = newest = dead = NULL;
	bytes = 0;
	pins = 0;
}
