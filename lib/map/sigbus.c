/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include "map/sigbus.h"
#include "map/page.h"

#define SLOTS_PER_BLOCK 256u
#define BUCKETS_LOG2    14
#define REGISTERS       64u /* words of a context that may be general registers */

/* base is stored last and cleared first, because the handler reads it. */
struct guard_slot {
	_Atomic uintptr_t base; /* 0: not in use */
	_Atomic size_t len;
	_Atomic uint8_t owner;
	_Atomic bool failed;
	/* With writers locked: */
	uint64_t cookie;
	struct guard_slot *next; /* of its bucket, or of the free slots */
};

/* Blocks are never freed, so the handler can walk the list at any time. */
struct guard_block {
	struct guard_block *_Atomic next;
	struct guard_slot slot[SLOTS_PER_BLOCK];
};

/*
 * Spare mappings. If the process has as many mappings as vm.max_map_count allows, the handler
 * unmaps one so that its mmap succeeds. Adjacent pages have different protection, so that each is a
 * mapping. The handler uses each spare once; the control thread maps it again.
 */
#define SPARES 32u
static struct {
	uint8_t *base; /* NULL: none yet */
	_Atomic bool there[SPARES];
} spares;

static struct guard_block first_block;
static pthread_mutex_t writers = PTHREAD_MUTEX_INITIALIZER;
/* With writers locked. Hashed, because a client may have as many ranges as mappings. */
static struct guard_slot *bucket[1u << BUCKETS_LOG2]; /* by cookie */
static struct guard_slot *free_slots;
static struct guard_block *last_block = &first_block;
static unsigned last_used; /* slots of last_block that were ever used */
static _Atomic uint64_t failures;
static _Atomic pid_t own_pid; /* of sigbus_guard_release; the handler may not ask */

static struct guard_slot *
slot_at(uintptr_t addr)
{
	for (struct guard_block *b = &first_block; b != NULL; b = atomic_load(&b->next)) {
		for (unsigned i = 0; i < SLOTS_PER_BLOCK; i++) {
			struct guard_slot *s = &b->slot[i];
			uintptr_t base = atomic_load_explicit(&s->base, memory_order_acquire);

			if (base != 0 && addr >= base && addr - base < atomic_load(&s->len))
				return s;
		}
	}
	return NULL;
}

static struct guard_slot **
bucket_of(uint64_t cookie)
{
	return &bucket[cookie * 0x9e3779b97f4a7c15u >> (64 - BUCKETS_LOG2)];
}

/* Returns the pointer to the slot with this cookie, or to NULL. Called with writers locked. */
static struct guard_slot **
slot_of(uint64_t cookie)
{
	struct guard_slot **p = bucket_of(cookie);

	while (*p != NULL && (*p)->cookie != cookie)
		p = &(*p)->next;
	return p;
}

/* Called by the handler. False: no spare is left. */
static bool
spare_give_up(void)
{
	for (unsigned i = 0; i < SPARES; i++) {
		if (atomic_exchange(&spares.there[i], false))
			return munmap(spares.base + i * page_bytes(), page_bytes()) == 0;
	}
	return false;
}

/*
 * Maps zero pages over the whole range. The range has no adjacent mapping that it could have been
 * merged with (mrmap_share), so no mapping is split and their number does not grow.
 */
static void *
replace(void *base, size_t len)
{
	void *p;

	do
		p = mmap(base, len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
	while (p == MAP_FAILED && errno == ENOMEM && spare_give_up());
	return p;
}

/* Called by the handler. False: the range could not be replaced. */
static bool
fail(struct guard_slot *s)
{
	if (replace((void *)atomic_load(&s->base), atomic_load(&s->len)) == MAP_FAILED)
		return false;
	if (!atomic_exchange(&s->failed, true))
		atomic_fetch_add_explicit(&failures, 1, memory_order_relaxed);
	return true;
}

/* Does a register of the interrupted thread point into the range of s, or to its end? */
static bool
is_in_use(const ucontext_t *context, const struct guard_slot *s)
{
	const uintptr_t *word =
		(const uintptr_t *)&context->uc_mcontext; /* general registers first */
	uintptr_t base = atomic_load_explicit(&s->base, memory_order_acquire);
	size_t len = atomic_load(&s->len), n = sizeof(context->uc_mcontext) / sizeof(*word);

	for (size_t i = 0; base != 0 && i < n && i < REGISTERS; i++) {
		if (word[i] >= base && word[i] - base <= len)
			return true;
	}
	return false;
}

/*
 * The signal of sigbus_guard_release. The lock is for ranges that the thread does not use: a
 * register may have the address of one that is being unmapped. The control thread may hold it, and
 * may be the interrupted one.
 */
static void
release(const ucontext_t *context, uint8_t owner)
{
	if (pthread_mutex_trylock(&writers) != 0)
		return;
	for (struct guard_block *b = &first_block; b != NULL; b = atomic_load(&b->next)) {
		for (unsigned i = 0; i < SLOTS_PER_BLOCK; i++) {
			struct guard_slot *s = &b->slot[i];

			if (atomic_load_explicit(&s->owner, memory_order_relaxed) == owner &&
			    is_in_use(context, s))
				fail(s);
		}
	}
	pthread_mutex_unlock(&writers);
}

static void
sigbus_handler(int sig, siginfo_t *info, void *context)
{
	struct guard_slot *s = NULL;
	int saved = errno;

	if (info->si_code == SI_QUEUE && info->si_pid == atomic_load(&own_pid) &&
	    info->si_value.sival_int != 0) {
		release(context, (uint8_t)info->si_value.sival_int);
		errno = saved;
		return;
	}
	if (info->si_code > 0) /* raised by the kernel for an access, not sent by kill(2) */
		s = slot_at((uintptr_t)info->si_addr);
	if (s == NULL || !fail(s)) {
		/* Without a handler, repeat the access or raise the signal again. */
		signal(sig, SIG_DFL);
		if (info->si_code <= 0)
			raise(sig);
	}
	errno = saved;
}

int
sigbus_guard_release(pid_t tid, uint8_t owner)
{
	siginfo_t info = {.si_code = SI_QUEUE};

	info.si_pid = getpid();
	info.si_value.sival_int = owner;
	atomic_store(&own_pid, info.si_pid);
	return syscall(SYS_rt_tgsigqueueinfo, info.si_pid, tid, SIGBUS, &info) == 0 ? 0 : -errno;
}

void
sigbus_guard_refill(void)
{
	const size_t page = page_bytes();
	uint8_t *p = spares.base;

	if (p == NULL) {
		/* An unmapped page at each end prevents merging with adjacent mappings. */
		p = mmap(NULL, (SPARES + 2) * page, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED)
			return;
		munmap(p, page);
		munmap(p + (SPARES + 1) * page, page);
		spares.base = p + page;
		munmap(spares.base, SPARES * page);
	}
	for (unsigned i = 0; i < SPARES; i++) {
		int prot = i % 2 != 0 ? PROT_READ : PROT_NONE;

		if (atomic_load(&spares.there[i]))
			continue;
		/* If another mapping has taken the address, there is one spare less. */
		if (mmap(spares.base + i * page, page, prot,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
			continue;
		atomic_store(&spares.there[i], true);
	}
}

int
sigbus_guard_install(void)
{
	struct sigaction sa = {.sa_sigaction = sigbus_handler, .sa_flags = SA_SIGINFO | SA_RESTART};

	sigbus_guard_refill();
	return sigaction(SIGBUS, &sa, NULL) == 0 ? 0 : -errno;
}

/* Returns a free slot, in a new block if necessary. Called with writers locked. */
static struct guard_slot *
slot_take(void)
{
	struct guard_slot *s = free_slots;
	struct guard_block *b;

	if (s != NULL) {
		free_slots = s->next;
		return s;
	}
	if (last_used == SLOTS_PER_BLOCK) {
		b = calloc(1, sizeof(*b));
		if (b == NULL)
			return NULL;
		atomic_store(&last_block->next, b);
		last_block = b;
		last_used = 0;
	}
	return &last_block->slot[last_used++];
}

int
sigbus_guard_add(void *base, size_t len, uint64_t cookie, uint8_t owner)
{
	struct guard_slot *s;

	if (cookie == 0 || len == 0 || base == NULL ||
	    (((uintptr_t)base | len) & (page_bytes() - 1)) != 0)
		return -EINVAL;
	pthread_mutex_lock(&writers);
	s = slot_take();
	if (s != NULL) {
		s->cookie = cookie;
		s->next = *bucket_of(cookie);
		*bucket_of(cookie) = s;
		atomic_store(&s->failed, false);
		atomic_store(&s->len, len);
		atomic_store(&s->owner, owner);
		atomic_store_explicit(&s->base, (uintptr_t)base, memory_order_release);
	}
	pthread_mutex_unlock(&writers);
	return s != NULL ? 0 : -ENOMEM;
}

void
sigbus_guard_del(uint64_t cookie)
{
	struct guard_slot **p, *s;

	pthread_mutex_lock(&writers);
	p = slot_of(cookie);
	s = *p;
	if (s != NULL) {
		atomic_store(&s->base, 0);
		*p = s->next;
		s->next = free_slots;
		free_slots = s;
	}
	pthread_mutex_unlock(&writers);
}

bool
sigbus_guard_failed(uint64_t cookie)
{
	const struct guard_slot *s;
	bool failed;

	pthread_mutex_lock(&writers);
	s = *slot_of(cookie);
	failed = s != NULL && atomic_load(&s->failed);
	pthread_mutex_unlock(&writers);
	return failed;
}

uint64_t
sigbus_guard_failures(void)
{
	return atomic_load_explicit(&failures, memory_order_relaxed);
}
