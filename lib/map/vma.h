/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the mappings of a process: by PROCMAP_QUERY (Linux 6.11), which takes about a microsecond
 * per mapping, or by reading /proc/PID/maps from its start.
 *
 * The provider uses it to find the kind of memory being registered, the daemon to check that the
 * client really mapped the memory. No malloc, no stdio: also called in the child of a fork and
 * while heap pages are write-protected. Includes nothing of the project; no DPDK.
 */
#ifndef UROCE_MAP_VMA_H
#define UROCE_MAP_VMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define VMA_NAME_MAX 64

struct vma {
	uint64_t start, end; /* page aligned; end is exclusive */
	uint64_t offset;     /* of start in the file, bytes; 0 for anonymous memory */
	uint64_t inode;      /* 0: anonymous */
	uint32_t dev_major, dev_minor;
	uint32_t page_size;      /* bytes; above the base page size: hugetlb */
	int prot;                /* PROT_READ | PROT_WRITE | PROT_EXEC */
	bool shared;             /* MAP_SHARED */
	char name[VMA_NAME_MAX]; /* path or "[stack]" etc., truncated; may be empty */
};

struct vma_scan {
	int fd;      /* of /proc/PID/maps */
	pid_t pid;   /* 0: this process */
	bool query;  /* PROCMAP_QUERY works */
	bool eof;    /* text: nothing left to read */
	size_t have; /* text: bytes in buf */
	size_t pos;  /* text: bytes of buf consumed */
	char buf[8192];
};

/*
 * Open a scan of pid (0: this process). The scan stays with pid's current address space, even if
 * pid execs. Returns 0 or -errno (-ENOENT, -EACCES, -EMFILE ..). Any thread; one thread at a time
 * per scan.
 */
int vma_scan_open(struct vma_scan *scan, pid_t pid);
void vma_scan_close(struct vma_scan *scan);

/*
 * Get the first mapping that ends above addr. addr must ascend: at or above the end of the last
 * result. Returns 0, -ENOENT if there is none, or -errno.
 */
int vma_scan_next(struct vma_scan *scan, uint64_t addr, struct vma *out);

/* Use /proc/PID/maps only, not PROCMAP_QUERY. For tests, which then cover older kernels. */
void vma_scan_force_text(struct vma_scan *scan);

#endif
