/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONTROL_FAULT_LOG_H
#define CONTROL_FAULT_LOG_H

struct obj_qp;

/*
 * Control thread. Logs why q has failed, in a sentence with its program, its peer and the remedy;
 * at most ten a second. Omits keys and addresses, which only the QP's owner may see.
 */
void fault_log(const struct obj_qp *q);

#endif
