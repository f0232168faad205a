/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the verbs programs of the system tests share: a device opened with the objects that most
 * tests need, queue pairs connected on that one device, and TAP lines.
 */
#ifndef KIT_VERBSIDE_H
#define KIT_VERBSIDE_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include "verbs.h"

#define SIDE_BYTES (1 << 20) /* of buf */
#define SIDE_DEPTH 16        /* WRs of a queue */
#define SIDE_ACCESS                                                                                \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

struct side {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr; /* covers buf */
	uint8_t *buf;
	struct ibv_device_attr_ex attr;
};

/* Opens a device by its name; on failure ends the program with TAP's "Bail out!". */
void side_open(struct side *s, const char *name);

/* A QP with caps of SIDE_DEPTH WRs and one SGE, every WR signaled. NULL and errno. */
struct ibv_qp *side_qp(struct ibv_pd *pd, enum ibv_qp_type type, struct ibv_cq *cq);
/* From RESET to RTS, connected to the QP dest of the same device (RC, UC). 0 or an errno. */
int side_raise(struct side *s, struct ibv_qp *qp, uint32_t dest);
/* As side_raise up to INIT, which accepts receives. */
int side_init_state(struct ibv_qp *qp);

struct side_test {
	const char *name;
	void (*run)(void);
};
#define SIDE_TEST(function)                                                                        \
	{                                                                                          \
#function, function                                                                \
	}
/*
 * main of a program whose arguments are device names: opens the devices and runs all tests, with
 * one TAP line for each. Returns the exit status, 0 if all passed.
 */
int side_main(int argc, char **argv, struct side *s, int sides, const struct side_test *tests,
	      unsigned int n);
/* Failures of the current test so far, or of the program outside of tests. */
int side_failures(void);
/* Marks the current test as failed. */
void side_failed(const char *file, int line, const char *what);

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			side_failed(__FILE__, __LINE__, #cond);                                    \
	} while (0)

#endif
