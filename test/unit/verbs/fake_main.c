/* SPDX-License-Identifier: BSD-3-Clause */
/* fake-uroced PATH: the fake daemon as a program, for test_run.py. Runs until its input ends. */
#include <stdio.h>
#include "fake.h"

int
main(int argc, char **argv)
{
	struct fake *f;

	if (argc != 2) {
		fprintf(stderr, "usage: fake-uroced PATH\n");
		return 2;
	}
	f = fake_start(argv[1]);
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	fake_stop(f);
	return 0;
}
