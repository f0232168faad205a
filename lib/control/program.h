/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hooks of the program that runs the control plane: operations that need more than the library
 * links (JSON, files, the fault injector), and a notification when a port closes.
 */
#ifndef CONTROL_PROGRAM_H
#define CONTROL_PROGRAM_H

#include "control/handler.h"

struct device;

/* Called on the control thread. A NULL member means EOPNOTSUPP, or nothing to do. */
struct control_program {
	ctrl_handler *show, *impair, *capture;
	/* Called when workers have released dev's port, just before it is closed. */
	void (*port_released)(struct device *dev);
};

#endif
