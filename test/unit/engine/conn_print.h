/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection as text, for people and for tests that compare two of them. */
#ifndef QP_CONN_PRINT_H
#define QP_CONN_PRINT_H

#include <stddef.h>
#include "qp/conn.h"

#define QP_CONN_PRINT_BYTES (24 * 1024) /* enough for any connection */

/*
 * Write each field of conn to buf, one per line: its name as in struct qp_conn, a space, its value.
 * Numbers are decimal; addresses and other bytes are hexadecimal, spare bytes included. The text
 * ends in a NUL and is truncated to room - 1 bytes; room may be 0. Returns the length of the whole
 * text without the NUL. Called on the owner worker, or on any thread if conn does not change.
 */
size_t qp_conn_print(const struct qp_conn *conn, char *buf, size_t room);

#endif
