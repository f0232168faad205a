/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports peers that guess R_Keys. Workers count keys that match no region and stop receiving for a
 * QP whose peer tries too many (struct qp_wrong_keys). A program's mistake costs its connection and
 * stays below the limit. Control thread only.
 */
#ifndef CONTROL_GUESS_H
#define CONTROL_GUESS_H

#include "control/device.h"

/* Reports peers that keep trying R_Keys (MEM-01). Called several times a second. */
void guess_look(struct device *dev);

#endif
