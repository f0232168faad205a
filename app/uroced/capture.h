/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures of devices into files. Control thread only. */
#ifndef UROCED_CAPTURE_H
#define UROCED_CAPTURE_H

#include "control/device.h"
#include "control/handler.h"

/* Handler of CAPTURE. */
ctrl_handler capture_request;

/*
 * End the capture of dev, if one is running. On return all captured frames are in the file, which
 * is closed.
 */
void capture_stop(struct device *dev);

#endif
