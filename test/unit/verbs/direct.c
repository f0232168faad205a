/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program whose system calls do not go through libc, as in Go: test_run.py links it statically,
 * or dynamically with the section by which Go programs are known. It prints what it finds of
 * uroce0.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NETLINK_RDMA 20

/* What getdents64 stores. */
struct entry {
	uint64_t ino;
	int64_t next;
	uint16_t len;
	uint8_t type;
	char name[];
};

#ifdef GO
static const char mark[] __attribute__((used, section(".go.buildinfo"))) = "\xff Go buildinf:";
#endif

static int
open_path(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

/* Prints the names in the folder path that begin with prefix. */
static void
list(const char *path, const char *prefix)
{
	_Alignas(struct entry) char buf[4096];
	int fd = open_path(path, O_RDONLY | O_DIRECTORY);
	long n;

	printf("%s:", path);
	while (fd >= 0 && (n = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < n; at += ((struct entry *)(buf + at))->len) {
			const char *name = ((struct entry *)(buf + at))->name;

			if (strncmp(name, prefix, strlen(prefix)) == 0)
				printf(" %s", name);
		}
	}
	printf("\n");
}

static void
print_line(const char *path)
{
	char line[64] = "";
	int fd = open_path(path, O_RDONLY);
	long n = fd < 0 ? -1 : syscall(SYS_read, fd, line, sizeof(line) - 1);

	printf("%s: %s", path, n > 0 ? line : "none\n");
}

static void
print_open(const char *path)
{
	printf("%s: %s\n", path, open_path(path, O_RDWR) < 0 ? strerrorname_np(errno) : "open");
}

int
main(void)
{
	list("/sys/class/infiniband", "uroce0");
	list("/sys/class/infiniband_verbs", "uverbs");
	print_line("/sys/class/infiniband/uroce0/node_guid");
	print_line("/sys/class/infiniband/uroce0/ports/1/state");
	print_line("/etc/libibverbs.d/uroce.driver");
	print_open("/dev/infiniband/uverbs0");
	print_open("/dev/infiniband/rdma_cm");
	printf("netlink: %s\n", syscall(SYS_socket, AF_NETLINK, SOCK_RAW, NETLINK_RDMA) < 0
					? strerrorname_np(errno)
					: "open");
	return 0;
}
