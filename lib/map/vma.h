/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looks at the mappings of a process: by PROCMAP_QUERY (Linux 6.11), which costs a microsecond a
 * mapping, or by reading /proc/PID/maps from its start.
 *
 * Both the provider (what kind of memory is being registered) and the daemon (is this really what
 * the client has mapped) need it. No malloc, no stdio: also called in the child of a fork and
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
	char name[VMA_NAME_MAX]; /* path or "[stack]" and the like, cut off; may be empty */
};

struct vma_scan {
	int fd;      /* of /proc/PID/maps */
	pid_t pid;   /* 0: this process */
	bool query;  /* PROCMAP_QUERY works */
	bool eof;    /* text: nothing left to read */
	size_t have; /* text: bytes in buf */
	size_t pos;  /* text: of which consumed */
	char buf[8192];
};

/*
 * Start looking at pid (0: this process). The scan stays with the address space that pid has now,
 * whatever it execs later. 0 or -errno (-ENOENT, -EACCES, -EMFILE ..). Any thread, one at a time
 * for one scan.
 */
int vma_scan_open(struct vma_scan *scan, pid_t pid);
void vma_scan_close(struct vma_scan *scan);

/*
 * The first mapping that ends above addr. Give ascending addresses, each at or above the end of
 * the mapping that was returned last. 0, -ENOENT when there is none, or -errno.
 */
int vma_scan_next(struct vma_scan *scan, uint64_t addr, struct vma *out);

/* As /proc/PID/maps text only, without PROCMAP_QUERY: for tests and older kernels' sake. */
void vma_scan_force_text(struct vma_scan *scan);

#endif
