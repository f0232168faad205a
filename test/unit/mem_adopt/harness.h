/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes: the test's parent plays the daemon (lib/map/mrmap). A child forked for each test
 * plays the client (drivers/verbs/mr_adopt) and requests that the parent maps, reads and writes its
 * regions. Every check crosses a process boundary, as with the real daemon.
 */
#ifndef MEM_ADOPT_HARNESS_H
#define MEM_ADOPT_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "uroce_abi/ctrl.h"

#if defined(__aarch64__)
#define PAGE 16384u /* one page or four; a kernel with pages of 64 KiB cannot run these tests */
#else
#define PAGE 4096u
#endif
#define HUGE (2ull << 20)

/* In the client: report and leave with a failure. */
#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: client: %s\n", __FILE__, __LINE__, #cond);         \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#define ACCESS_READ  (1u << 2) /* remote read only */
#define ACCESS_WRITE (1u << 0 | 1u << 1 | 1u << 2)

struct mr_pin;

/* A registration as the client sees it. */
struct reg {
	uint8_t *addr;
	size_t len;
	int id;   /* the daemon's */
	int path; /* enum uroce_mr_path */
	struct mr_pin *hold;
};

/* The tests need root: userfaultfd, map_files, huge pages, other users. Else main returns 77. */
bool harness_can_run(void);

/* n repetitions, a tenth of them with UROCE_TEST_SHORT=1, which an emulated machine sets. */
unsigned harness_count(unsigned n);

/*
 * Run client() in a child, serve it, and assert that it left with status 0. as_uid: run it as this
 * user, without the right to a userfaultfd; 0 for root.
 */
void harness_run(void (*client)(void));
void harness_run_as(void (*client)(void), unsigned as_uid);

/* Client: may the daemon stop its threads? False at first. */
void client_allow_pauses(bool allowed);

/* Calls of the client. A positive errno where they return int. */
int client_reg(struct reg *r, void *addr, size_t len, uint32_t access);
void client_dereg(struct reg *r);
/* Sends the request unchanged, without mr_pieces_build. */
int client_send_reg(const struct uroce_reg_mr_req *req, const int *fds, unsigned nfds, int *id,
		    int *path);
void client_send_dereg(int id);

/* The daemon reads or fills len bytes at addr; 0 or a positive errno. */
int daemon_read(const struct reg *r, const void *addr, size_t len, uint64_t *hash);
int daemon_fill(const struct reg *r, void *addr, size_t len, uint64_t seed);
/* Has the daemon's mapping failed (SIGBUS)? */
bool daemon_failed(const struct reg *r);

void fill(void *p, size_t len, uint64_t seed);
bool filled(const void *p, size_t len, uint64_t seed);
uint64_t hash_of(const void *p, size_t len);

/*
 * Register [addr, addr + len), expect this path, and prove the way in both directions, up to the
 * exact bounds; the bytes before and after the range, if guard is set, must not change.
 */
void check_region(uint8_t *addr, size_t len, int path, bool guard);

/* The mapping of addr is private (not adopted). */
bool is_private(const void *addr);

/* Number of free, unreserved huge pages of 2 MiB. */
long huge_pages_spare(void);
/*
 * Adds n huge pages of 2 MiB to the machine's; false if they cannot be had. Until
 * huge_pages_restore, which removes them, other tests that add or remove some wait.
 */
bool huge_pages_get(unsigned n);
void huge_pages_restore(void);

/* Client: len bytes of private memory in a separate mapping. */
uint8_t *map_private(size_t len);
/* Before Linux 6.4 a userfaultfd cannot protect an absent page: all pages are copied. */
bool kernel_protects_absent_pages(void);
/* Client: whether the daemon reads from the region the bytes at addr here. */
bool daemon_sees(const struct reg *r, const void *addr, size_t len);
/* Waits for a child: did it end with this status, or by this signal? */
bool has_status(pid_t pid, bool signalled, int value);

#endif
