/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes every control operation (include/uroce_abi/ctrl.h): the lengths and spare bytes of its
 * request and reply, and the connections that may use it. Both the daemon and its clients link this
 * file. Any thread; constant data only. Includes: uroce_abi only.
 */
#ifndef UROCE_IPC_OPS_H
#define UROCE_IPC_OPS_H

#include <stdint.h>
#include "uroce_abi/ctrl.h"

/* State of a connection. An operation requires at least its min_state. */
enum ipc_state {
	IPC_STATE_NEW = 0,  /* no HELLO yet */
	IPC_STATE_OBSERVER, /* HELLO without a device */
	IPC_STATE_CONTEXT,  /* HELLO with a device */
};

/* A field of a body whose bytes must be zero. */
struct ipc_spare {
	uint16_t off, len;
	const char *name; /* "gid_req.spare"; NULL ends a list */
};

/* The form of a body. */
struct ipc_body {
	uint16_t len; /* bytes, exactly; 0: none */
	const struct ipc_spare *spare;
};

/* The form of an operation. */
struct ipc_op {
	const char *name;    /* NULL: no such operation */
	struct ipc_body req; /* of the request */
	struct ipc_body rep; /* of a reply with status 0 */
	uint8_t min_state;   /* enum ipc_state */
	uint8_t max_fds;     /* descriptors the request may carry */
};

/* Returns the row of an operation, or NULL if op is unknown. */
const struct ipc_op *ipc_op_get(uint16_t op);

/*
 * Returns the name of the first spare field of a body that is not zero, or NULL if all are zero.
 * Reads form->len bytes at body.
 */
const char *ipc_body_spare_used(const struct ipc_body *form, const void *body);

#endif
