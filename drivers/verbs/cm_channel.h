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
 * open(2) of /dev/infiniband/rdma_cm; of flags only O_CLOEXEC and O_NONBLOCK have an effect. The
 * channel's descriptor, which the caller closes. -1 with errno, and the reason on stderr: as of
 * connect(2) if no daemon is reached; as the daemon refuses it (a quota: ENOMEM or EMFILE); ENOMEM.
 */
int prov_cm_open(int flags);

/*
 * write(2) of a command, struct rdma_ucm_cmd_hdr and its body. len, or -1 with errno: the daemon's;
 * EINVAL for a length that does not fit; EBADF, EINVAL for a MIGRATE_ID from no open descriptor,
 * from one that is not a channel; EFAULT for a command that needs a response address and has none;
 * EIO once the daemon is gone, but ids then get DEVICE_REMOVAL and can be destroyed (cm_ids.h).
 * GET_EVENT waits for an event unless the descriptor is O_NONBLOCK (EAGAIN). The wait is a
 * cancellation point, and interrupted by signals (EINTR) as read(2) is.
 */
ssize_t prov_cm_write(int fd, const void *buf, size_t len);

/* fstat(2): a channel is a character device of the number in /sys/class/misc/rdma_cm/dev. */
int prov_cm_fstat(int fd, struct stat *st);

/* close(2). Also releases what is left of a few channels that have ended. */
int prov_cm_close(int fd);

/* Number of channels in the table, ended ones too; for tests. */
unsigned int prov_cm_count(void);

#endif
