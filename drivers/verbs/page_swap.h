/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replaces the pages of a range of this process, private anonymous memory by a shared memfd or vice
 * versa, in chunks, while other threads and system calls keep storing into it.
 *
 * Into a memfd: userfaultfd write-protects the chunk, so that a store (of a thread, or
 * of the kernel in read(2)) waits. The present pages are copied to the memfd, and mremap moves a
 * mapping of it over the chunk in one step. The waiting stores are woken and go to the new pages.
 * Loads never wait. A page that was never touched stays a hole in the memfd (Linux 6.4; before, it
 * is populated). Back to private memory: page_return.h, where loads wait, too; huge pages
 * by the same method as above.
 *
 * Without a userfaultfd no store can be held back. A process with one thread does not need that:
 * the same steps then work without it (process_is_alone). In a process with threads, the daemon
 * stops the others for each chunk (page_pause.h).
 *
 * The caller's thread must not touch the range meanwhile: it would wait for itself. The range
 * therefore contains neither its stack nor its thread control block, all signals are blocked while
 * a chunk is protected, and no function is called that allocates.
 */
#ifndef VERBS_PAGE_SWAP_H
#define VERBS_PAGE_SWAP_H

#include <stdbool.h>
#include <stdint.h>

struct page_swap {
	int uffd;         /* -1: no other thread runs while pages move */
	bool pauses;      /* because the daemon stops them; else there is none */
	bool unpopulated; /* the kernel can write-protect absent pages (Linux 6.4) */
	int pagemap;      /* shows which pages are present; -1: all are populated */
	int return_uffd;  /* page_return.h's, once it is needed; negative before */
};

/*
 * Get a userfaultfd that holds back the kernel's own stores too. 0, or -EPERM (needs
 * CAP_SYS_PTRACE, vm.unprivileged_userfaultfd or access to /dev/userfaultfd), -ENOSYS, -EINVAL
 * (kernel without write protection of shared memory, before Linux 5.19), -EMFILE ..
 */
int page_swap_open(struct page_swap *swap);
void page_swap_close(struct page_swap *swap);

/*
 * Returns the page_swap that this process keeps, opened at first use; NULL and *err as for
 * page_swap_open. A new one per call would cost a walk over all mappings when it is closed. If the
 * process gets no userfaultfd but has one thread, the result has uffd -1 and is valid until the
 * thread returns to the program. With threads, too, and with pauses set, if the daemon may be asked
 * to stop them: page_swap_run then fails with -EPERM or -EBUSY if that does not work. adopts: for a
 * registration, of which only so many get pauses (page_pause.h). The caller serialises calls.
 */
struct page_swap *page_swap_process(bool adopts, int *err);

/*
 * Called unlocked: prepares what page_return.h needs for the process's page_swap, including its
 * thread, before memory is first returned. lock and unlock serialise the caller. 0 or -errno.
 */
int page_swap_prepare_return(void (*lock)(void), void (*unlock)(void));

/* In the child of a fork: drops the parent's page_swap, which acts on the parent's memory. */
void page_swap_forget(void);

/*
 * Copies whole pages, whatever they contain: AddressSanitizer poisons bytes between the program's
 * objects.
 */
void page_swap_copy(uint64_t to, uint64_t from, uint64_t len);

/*
 * Returns true if the kernel may store into this process's memory on behalf of no thread: it has an
 * io_uring, or a descriptor of vhost. When in doubt, returns true. Any thread; does not allocate.
 */
bool process_has_kernel_stores(void);

/* A userfaultfd with these features, or -errno. */
int page_swap_uffd(uint64_t features);

/* A range and the memfd that has its pages, or is to have them. */
struct page_swap_job {
	uint64_t addr, len; /* multiples of page_size; one kind of memory throughout */
	uint32_t page_size; /* of the present and the new memory */
	int prot;           /* protection of the range */
	int fd;             /* the memfd */
	uint64_t fd_off;    /* of addr in fd */
	bool back;          /* it is mapped there, and becomes private; the pages in fd are freed */
	bool moved;         /* the program has moved it since it was adopted; only with back */
};

/*
 * Executes the job. 0 or -errno. *done is the number of bytes from addr that were replaced, all of
 * them on success. A chunk that was not replaced is unchanged. -EBUSY: another userfaultfd works
 * there; -ENOENT: the program changed the mapping meanwhile.
 */
int page_swap_run(struct page_swap *swap, const struct page_swap_job *job, uint64_t *done);

/*
 * Replaces a shared range by a private copy in a process with one thread: the child of a fork. fd
 * is the memfd that is mapped there, at off; -1: unknown, and holes in it are filled. 0 or -errno.
 * If huge pages have run out, base pages replace them.
 */
int page_swap_privatize(uint64_t addr, uint64_t len, uint32_t page_size, int prot, int fd,
			uint64_t off);

/*
 * The first run of bytes from *pos on, and before end, for which a memfd has pages: 0, *pos and
 * *len; -ENOENT if there is none. Offset off of the memfd is mapped shared at address at + off.
 * With fd -1, and for huge pages, whose file system cannot report it: the whole range.
 */
int page_swap_data(int fd, uint64_t at, uint32_t page_size, uint64_t *pos, uint64_t end,
		   uint64_t *len);

#endif
