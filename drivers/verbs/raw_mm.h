/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory system calls that bypass the C library, because UCX and others intercept its functions to
 * detect unmapped memory. Addresses are integers; errors are -errno, as the kernel returns them.
 */
#ifndef VERBS_RAW_MM_H
#define VERBS_RAW_MM_H

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static inline void *
raw_ptr(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* Returns the address, or 0 with errno (nothing is ever mapped at 0). */
static inline uint64_t
raw_mmap(uint64_t len, int prot, int flags, int fd, uint64_t off)
{
	long p = syscall(SYS_mmap, 0, len, prot, flags, fd, off);

	return p == -1 ? 0 : (uint64_t)p;
}

/* Replaces any mapping at addr. Returns 0 or -errno. */
static inline int
raw_mmap_at(uint64_t addr, uint64_t len, int prot, int flags, int fd, uint64_t off)
{
	long p = syscall(SYS_mmap, addr, len, prot, flags | MAP_FIXED, fd, off);

	return p == -1 ? -errno : 0;
}

static inline void
raw_munmap(uint64_t addr, uint64_t len)
{
	syscall(SYS_munmap, addr, len);
}

static inline int
raw_madvise(uint64_t addr, uint64_t len, int advice)
{
	return syscall(SYS_madvise, addr, len, advice) == 0 ? 0 : -errno;
}

static inline int
raw_mprotect(uint64_t addr, uint64_t len, int prot)
{
	return syscall(SYS_mprotect, addr, len, prot) == 0 ? 0 : -errno;
}

/* Moves a mapping onto another in one step; the other mapping is removed. */
static inline int
raw_mremap_onto(uint64_t from, uint64_t len, uint64_t to)
{
	long p = syscall(SYS_mremap, from, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, to);

	return p == -1 ? -errno : 0;
}

/*
 * Moves the pages of a mapping to a second mapping. The first one stays, without pages. Returns as
 * raw_mmap.
 */
static inline uint64_t
raw_mremap_aside(uint64_t addr, uint64_t len)
{
	long p = syscall(SYS_mremap, addr, len, len, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, 0);

	return p == -1 ? 0 : (uint64_t)p;
}

#endif
