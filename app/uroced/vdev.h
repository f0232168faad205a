/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the arguments of --vdev before EAL does, because EAL's messages name neither the argument
 * nor the remedy. Adds the arguments that af_packet needs to carry the interface's MTU.
 */
#ifndef UROCED_VDEV_H
#define UROCED_VDEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Sizes of an af_packet ring in bytes. A slot holds one frame, preceded by up to 64 bytes of the
 * kernel. The driver assumes contiguous slots, so the slot size must divide the block size.
 */
#define VDEV_SLOT_MIN  1024
#define VDEV_SLOT_MAX  8192 /* what the daemon's packet buffers hold */
#define VDEV_BLOCK_MAX (1u << 20)

#define VDEV_VALUE_MAX 128

/*
 * Derives the arguments for EAL from those of the user: "net_af_packet0,iface=eth0" becomes
 * "net_af_packet0,iface=eth0,blocksz=16384,framesz=2048,framecnt=1024". A block is at least a page.
 * Arguments that the user gave stay as they are. page: bytes of the kernel's page. Other drivers'
 * arguments are checked for interfaces that do not exist. The socket file of a memif server is
 * removed if no process listens on it.
 *
 * Returns a string that the caller frees. NULL, with the reason in err (room bytes): an interface
 * does not exist, a size is not legal, another process listens on a memif's socket, or no memory.
 */
char *vdev_prepare(const char *args, uint32_t page, char *err, size_t room);

/* Copies the value of key in "name,key=value,..". Returns false if there is no such key. */
bool vdev_value(const char *args, const char *key, char value[VDEV_VALUE_MAX]);

/* The af_packet slot size, in bytes, for an interface of this MTU. Exposed for the unit test. */
uint32_t vdev_slot_bytes(uint32_t mtu);

#endif
