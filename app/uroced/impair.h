/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault injectors of devices, for urocectl. Control thread only. */
#ifndef UROCED_IMPAIR_H
#define UROCED_IMPAIR_H

#include "control/handler.h"

/* Handler of IMPAIR. */
ctrl_handler impair_request;

#endif
