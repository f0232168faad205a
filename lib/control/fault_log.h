/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONTROL_FAULT_LOG_H
#define CONTROL_FAULT_LOG_H

struct obj_qp;

/*
 * Control thread. Logs why q has failed, in a sentence with its program, its peer and what to do;
 * at most ten a second. Without keys and addresses, which are for the QP's owner.
 */
void fault_log(const struct obj_qp *q);

#endif
