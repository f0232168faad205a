/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that guess R_Keys. Workers count keys that name nothing and stop listening to a QP whose
 * peer tries too many (struct qp_wrong_keys); here is the word about it. A program's mistake costs
 * its connection and stays below the limit. Control thread only.
 */
#ifndef CONTROL_GUESS_H
#define CONTROL_GUESS_H

#include "control/device.h"

/* Some times a second: tell of peers that try R_Keys until one is right (MEM-01). */
void guess_look(struct device *dev);

#endif
