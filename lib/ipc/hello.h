/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How both sides agree on a version and on features (include/uroce_abi/hello.h). Both the daemon
 * and its clients link this file. Any thread; no state. Includes: uroce_abi only.
 */
#ifndef UROCE_IPC_HELLO_H
#define UROCE_IPC_HELLO_H

#include <stdint.h>
#include "uroce_abi/ctrl.h"

/* The versions and features of one side. */
struct ipc_offer {
	uint16_t version_min, version_max; /* version_min <= version_max */
	uint64_t features;
	uint64_t required; /* a subset of features */
};

/* The versions and features of this source. */
extern const struct ipc_offer ipc_offer_own;

/*
 * Daemon: sets version and features of rep from its own offer and the client's. Returns 0;
 * EPROTONOSUPPORT if there is no common version or a required feature is missing; EINVAL if the
 * request contradicts itself. On error rep is unchanged and why holds the reason, NUL terminated.
 */
int ipc_hello_agree(const struct ipc_offer *own, const struct uroce_hello_req *req,
		    struct uroce_hello_rep *rep, char why[UROCE_CTRL_MAX_WHY]);

/*
 * Daemon: writes the reason for refusing a HELLO with a length other than that of struct
 * uroce_hello_req. Its sender is older than version 7 and supports only the version in its header.
 */
void ipc_hello_refuse_old(const struct ipc_offer *own, uint16_t version,
			  char why[UROCE_CTRL_MAX_WHY]);

/*
 * Client: checks the daemon's choice. Returns 0 if the client offered its version and features and
 * all required features are among them; else EPROTO, with the reason in why.
 */
int ipc_hello_check(const struct ipc_offer *own, const struct uroce_hello_rep *rep,
		    char why[UROCE_CTRL_MAX_WHY]);

#endif
