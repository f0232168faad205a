/* SPDX-License-Identifier: BSD-3-Clause */
/* A TCP connection that synchronises the two sides of a test program. Failures end the program. */
#ifndef KIT_LINK_H
#define KIT_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Connects to host or, if that is NULL, accepts one peer; waits up to wait_s seconds. */
int link_open(const char *host, uint16_t port, unsigned int wait_s);
void link_send(int fd, const void *buf, size_t len);
void link_recv(int fd, void *buf, size_t len);
/* Sends mine and receives theirs, len bytes each; both sides must call it with the same len. */
void link_swap(int fd, const void *mine, void *theirs, size_t len);
/* Waits until both sides have called link_barrier. */
void link_barrier(int fd);
/* Are bytes (or the peer's end of file) waiting to be read? Never blocks. */
bool link_readable(int fd);

#endif
