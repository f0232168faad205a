/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file of a capture: pcapng blocks, collected in a buffer and written together. If writing
 * fails, the file is cut behind its last whole block. One thread at a time.
 */
#ifndef UROCED_CAPTURE_FILE_H
#define UROCED_CAPTURE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct capture_frame;

struct capture_file {
	int fd; /* -1: none */
	uint8_t *buffer;
	size_t used;            /* bytes of whole blocks in the buffer */
	uint64_t frames, bytes; /* in the buffer and the file */
	int error;              /* errno of the first failed write; nothing is written after it */
};

/*
 * Starts a file in fd, empty and open for writing, which f owns from now on, also after an error.
 * Returns 0 or an errno.
 */
int capture_file_open(struct capture_file *f, int fd);
/* Adds a frame; comment: "" for none. Returns false if f has failed. */
bool capture_file_frame(struct capture_file *f, const struct capture_frame *c, const char *comment);
/* Writes everything, and the number of lost frames. Returns false if f has failed. */
bool capture_file_end(struct capture_file *f, uint64_t lost);
void capture_file_close(struct capture_file *f);

#endif
