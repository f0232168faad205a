/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the program around the control plane adds to it: operations that need more than the library
 * links (JSON, files, the fault injector), and what is to be done when a port goes.
 */
#ifndef CONTROL_PROGRAM_H
#define CONTROL_PROGRAM_H

#include "control/handler.h"

struct device;

/* Called on the control thread. A member that is NULL: EOPNOTSUPP, or nothing to do. */
struct control_program {
	ctrl_handler *show, *impair, *capture;
	/* Workers have let go of dev's port, which is closed next. */
	void (*port_released)(struct device *dev);
};

#endif
