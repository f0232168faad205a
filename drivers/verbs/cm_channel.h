/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rdma_cm channels of this process (uroce_abi/cm.h): the file operations of librdmacm on
 * /dev/infiniband/rdma_cm, implemented with the daemon's sockets.
 *
 * A program gets the channel's socket as its descriptor, so poll, epoll, fcntl, dup and close work
 * on it without uroce. A table maps the socket's inode to its command socket. Each call compares
 * the inode, so copies of a descriptor are the same channel, and a number that the program closed
 * and opened again is not taken for one. A forked child has its parent's channels, as it has files
 * of the device; a lock in shared memory keeps the commands of both apart. A process that gets a
 * channel by exec or over a socket does not have the table: its commands fail, but the channel
 * lives until it closes its copy, too.
 *
 * Calls for descriptors that are no channel go to libc. Any thread.
 */
#ifndef UROCE_VERBS_CM_CHANNEL_H
#define UROCE_VERBS_CM_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct stat;

/*
 * Implements open(2) of /dev/infiniband/rdma_cm. Only the flags O_CLOEXEC and O_NONBLOCK have an
 * effect. Returns the channel's descriptor, which the caller closes. On failure prints the reason
 * to stderr and returns -1 with errno: that of connect(2) if no daemon is reached; that of the
 * daemon's refusal (a quota: ENOMEM or EMFILE); or ENOMEM.
 */
int prov_cm_open(int flags);

/*
 * Implements write(2) of a command: struct rdma_ucm_cmd_hdr and its body. Returns len, or -1 with
 * errno:
 *
 *   the daemon's errno
 *   EINVAL  the length does not match the command
 *   EBADF   MIGRATE_ID from a descriptor that is not open; EINVAL from one that is not a channel
 *   EFAULT  the command needs a response address and has none
 *   EIO     the daemon is gone; ids then get DEVICE_REMOVAL and can be destroyed (cm_command.h)
 *
 * GET_EVENT waits for an event unless the descriptor is O_NONBLOCK (EAGAIN). The wait is a
 * cancellation point and is interrupted by signals (EINTR) like read(2).
 */
ssize_t prov_cm_write(int fd, const void *buf, size_t len);

/* fstat(2): a channel is a character device of the number in /sys/class/misc/rdma_cm/dev. */
int prov_cm_fstat(int fd, struct stat *st);

/* Implements close(2). Also frees the entries of a few channels that have ended. */
int prov_cm_close(int fd);

/* Returns the number of channels in the table, including ended ones; for tests. */
unsigned int prov_cm_count(void);

#endif
