/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs inputs of the fuzzer without it: replay FILE.. Aborts if a check fails. */
#include <stdio.h>
#include <stdlib.h>
#include "fuzz_rx.h"

#define INPUT_MAX (1 << 20)

int
main(int argc, char **argv)
{
	static uint8_t data[INPUT_MAX];
	int i;

	LLVMFuzzerInitialize(&argc, &argv);
	for (i = 1; i < argc; i++) {
		FILE *f = fopen(argv[i], "rb");
		size_t n;

		if (f == NULL) {
			perror(argv[i]);
			return EXIT_FAILURE;
		}
		n = fread(data, 1, sizeof(data), f);
		fclose(f);
		fprintf(stderr, "%s: %zu bytes\n", argv[i], n);
		LLVMFuzzerTestOneInput(data, n);
	}
	printf("%d inputs hold\n", argc - 1);
	return EXIT_SUCCESS;
}
