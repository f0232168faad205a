/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/handler.h"

#include <stdarg.h>
#include <stdio.h>

int
ctrl_refuse(struct ctrl_rep *rep, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(rep->why, sizeof(rep->why), format, args);
	va_end(args);
	return err;
}
