/* SPDX-License-Identifier: BSD-3-Clause */
/* The world of fuzz_rx with a hostile client. */
#include "fuzz_rx.h"
#include "world.h"

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	world_hostile = true;
	world_init();
	world_run((const uint8_t *)"", 0);
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	world_run(data, size);
	return 0;
}
