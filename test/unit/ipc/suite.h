/* SPDX-License-Identifier: BSD-3-Clause */
/* cmocka wants these in this order before its own header. */
#ifndef TEST_IPC_SUITE_H
#define TEST_IPC_SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#endif
