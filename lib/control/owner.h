/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Owners of subordinate uids, by subuid(5). An ordinary user may run processes with all of its
 * subordinate uids (newuidmap, rootless containers), usually 65,536 of them. Limits for each uid
 * would be none for it. Lines whose owner is in no local passwd(5) are skipped: a name service may
 * block. Needs no EAL. Control thread only.
 */
#ifndef CONTROL_OWNER_H
#define CONTROL_OWNER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct owner_range {
	uint32_t first, count;
	uid_t owner;
};

/* All zero at first. */
struct owner_table {
	struct owner_range *range; /* in the order of the file */
	size_t n;
	/* of the file when it was read; all zero: it was not there */
	struct timespec changed;
	off_t bytes;
	ino_t inode;
};

/*
 * Reads the file subuid, with the names of passwd, if it has changed since the last call. A file
 * that is missing or cannot be read has no ranges. Lines that are not valid are skipped; without
 * memory, the rest of them.
 */
void owner_refresh(struct owner_table *t, const char *subuid, const char *passwd);
/* Returns the owner of the first range that has uid; uid itself: no range has it. */
uid_t owner_of(const struct owner_table *t, uid_t uid);
/* Frees the ranges; t is all zero then. */
void owner_free(struct owner_table *t);

#endif
