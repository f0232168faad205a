/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of lib/cc. */
#ifndef CC_CC_PARTS_H
#define CC_CC_PARTS_H

#include "cc/cc.h"

extern const struct cc_ops cc_fixed; /* fixed.c */

#endif
