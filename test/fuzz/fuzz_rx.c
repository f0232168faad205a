/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions that libFuzzer, or replay.c instead, calls. */
#include "fuzz_rx.h"
#include "world.h"

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	world_init();
	/* So that the mutator knows keys and paths before the first input. */
	world_run((const uint8_t *)"", 0);
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	world_run(data, size);
	return 0;
}
