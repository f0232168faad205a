/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "map/vma.h"
#include "map/page.h"

/* Kernel ABI since Linux 6.11, newer than the headers we build with. */
struct procmap_query_abi {
	uint64_t size;
	uint64_t query_flags;
	uint64_t query_addr;
	uint64_t vma_start, vma_end;
	uint64_t vma_flags;
	uint64_t vma_page_size;
	uint64_t vma_offset;
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	uint32_t vma_name_size;
	uint32_t build_id_size;
	uint64_t vma_name_addr;
	uint64_t build_id_addr;
};
_Static_assert(sizeof(struct procmap_query_abi) == 104, "kernel ABI");
#define PROCMAP_QUERY_IOC _IOWR('f', 17, struct procmap_query_abi)
enum {
	PROCMAP_READABLE = 1 << 0,
	PROCMAP_WRITABLE = 1 << 1,
	PROCMAP_EXECUTABLE = 1 << 2,
	PROCMAP_SHARED = 1 << 3,
	PROCMAP_COVERING_OR_NEXT = 1 << 4,
};

static int
proc_open(pid_t pid, const char *file)
{
	char path[48];
	int fd;

	if (pid == 0)
		snprintf(path, sizeof(path), "/proc/self/%s", file);
	else
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int
query_next(struct vma_scan *scan, uint64_t addr, struct vma *out)
{
	char name[PATH_MAX] = {0}; /* valgrind does not know that the call writes it */
	struct procmap_query_abi q = {
		.size = sizeof(q),
		.query_flags = PROCMAP_COVERING_OR_NEXT,
		.query_addr = addr,
		.vma_name_size = sizeof(name),
		.vma_name_addr = (uintptr_t)name,
	};

	if (ioctl(scan->fd, PROCMAP_QUERY_IOC, &q) != 0) {
		if (errno != ENAMETOOLONG)
			return -errno;
		q.vma_name_size = 0;
		q.vma_name_addr = 0;
		if (ioctl(scan->fd, PROCMAP_QUERY_IOC, &q) != 0)
			return -errno;
	}
	*out = (struct vma){
		.start = q.vma_start,
		.end = q.vma_end,
		.offset = q.vma_offset,
		.inode = q.inode,
		.dev_major = q.dev_major,
		.dev_minor = q.dev_minor,
		.page_size = (uint32_t)q.vma_page_size,
		.shared = (q.vma_flags & PROCMAP_SHARED) != 0,
	};
	if (q.vma_flags & PROCMAP_READABLE)
		out->prot |= PROT_READ;
	if (q.vma_flags & PROCMAP_WRITABLE)
		out->prot |= PROT_WRITE;
	if (q.vma_flags & PROCMAP_EXECUTABLE)
		out->prot |= PROT_EXEC;
	if (q.vma_name_size > 0) {
		size_t n = strnlen(name, sizeof(out->name) - 1);

		memcpy(out->name, name, n);
	}
	return 0;
}

/* Returns the next line without newline, truncated to the buffer; NULL at the end or on error. */
static char *
text_line(struct vma_scan *scan)
{
	for (;;) {
		char *line = scan->buf + scan->pos;
		char *nl = memchr(line, '\n', scan->have - scan->pos);
		ssize_t n;

		if (nl != NULL) {
			*nl = '\0';
			scan->pos = (size_t)(nl - scan->buf) + 1;
			return line;
		}
		memmove(scan->buf, line, scan->have - scan->pos);
		scan->have -= scan->pos;
		scan->pos = 0;
		/* The line does not fit: only its path, which comes last, is truncated. */
		if (scan->have == sizeof(scan->buf))
			scan->have = sizeof(scan->buf) / 2;
		n = scan->eof ? 0
			      : read(scan->fd, scan->buf + scan->have,
				     sizeof(scan->buf) - scan->have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			scan->eof = true;
			return NULL;
		}
		scan->have += (size_t)n;
	}
}

static uint64_t
parse_number(const char **p, unsigned base)
{
	uint64_t v = 0;

	for (;; (*p)++) {
		unsigned digit;

		if (**p >= '0' && **p <= '9')
			digit = (unsigned)(**p - '0');
		else if (base == 16 && **p >= 'a' && **p <= 'f')
			digit = (unsigned)(**p - 'a') + 10;
		else
			return v;
		v = v * base + digit;
	}
}

/* "start-end rwxs offset major:minor inode   name" */
static bool
parse_line(const char *p, struct vma *out)
{
	memset(out, 0, sizeof(*out));
	out->start = parse_number(&p, 16);
	if (*p++ != '-')
		return false;
	out->end = parse_number(&p, 16);
	if (*p++ != ' ' || strnlen(p, 5) < 5)
		return false;
	out->prot = (p[0] == 'r' ? PROT_READ : 0) | (p[1] == 'w' ? PROT_WRITE : 0) |
		    (p[2] == 'x' ? PROT_EXEC : 0);
	out->shared = p[3] == 's';
	p += 5;
	out->offset = parse_number(&p, 16);
	if (*p++ != ' ')
		return false;
	out->dev_major = (uint32_t)parse_number(&p, 16);
	if (*p++ != ':')
		return false;
	out->dev_minor = (uint32_t)parse_number(&p, 16);
	if (*p++ != ' ')
		return false;
	out->inode = parse_number(&p, 10);
	while (*p == ' ')
		p++;
	memcpy(out->name, p, strnlen(p, sizeof(out->name) - 1));
	return true;
}

/* Page size of the mapping at start, from smaps. Slow, so only used if it may be hugetlb. */
static uint32_t
text_page_size(pid_t pid, uint64_t start)
{
	static const char key[] = "KernelPageSize:";
	struct vma_scan smaps = {.fd = proc_open(pid, "smaps")};
	uint32_t size = (uint32_t)page_bytes();
	bool here = false;
	struct vma v;
	char *line;

	if (smaps.fd < 0)
		return size;
	while ((line = text_line(&smaps)) != NULL) {
		if (parse_line(line, &v)) {
			here = v.start == start;
		} else if (here && strncmp(line, key, sizeof(key) - 1) == 0) {
			const char *p = line + sizeof(key) - 1;

			while (*p == ' ')
				p++;
			size = (uint32_t)parse_number(&p, 10) * 1024;
			break;
		}
	}
	close(smaps.fd);
	return size;
}

static int
text_next(struct vma_scan *scan, uint64_t addr, struct vma *out)
{
	char *line;

	do {
		line = text_line(scan);
		if (line == NULL)
			return -ENOENT;
		if (!parse_line(line, out))
			return -EIO;
	} while (out->end <= addr);
	out->page_size = (uint32_t)page_bytes();
	if (out->name[0] == '/' && ((out->start | out->end | out->offset) & (HUGE_LEAST - 1)) == 0)
		out->page_size = text_page_size(scan->pid, out->start);
	return 0;
}

int
vma_scan_open(struct vma_scan *scan, pid_t pid)
{
	struct procmap_query_abi probe = {
		.size = sizeof(probe),
		.query_flags = PROCMAP_COVERING_OR_NEXT,
	};

	scan->pid = pid;
	scan->eof = false;
	scan->have = 0;
	scan->pos = 0;
	scan->fd = proc_open(pid, "maps");
	if (scan->fd < 0)
		return scan->fd;
	scan->query = ioctl(scan->fd, PROCMAP_QUERY_IOC, &probe) == 0;
	return 0;
}

void
vma_scan_force_text(struct vma_scan *scan)
{
	scan->query = false;
}

void
vma_scan_close(struct vma_scan *scan)
{
	if (scan->fd >= 0)
		close(scan->fd);
	scan->fd = -1;
}

int
vma_scan_next(struct vma_scan *scan, uint64_t addr, struct vma *out)
{
	return scan->query ? query_next(scan, addr, out) : text_next(scan, addr, out);
}
