/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of rows. A file's rows end with one that has no name. */
#ifndef ROWS_H
#define ROWS_H

#include "errmatrix.h"

extern const struct row rows_responder[], rows_requester[], rows_unreliable[];

#endif
