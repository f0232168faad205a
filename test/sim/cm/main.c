/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroce-cm-sim [--start N] [--runs N] [--seed N] [--digest] [-v]: schedules of the connection
 * manager by seed (world.h). Each 50th schedule runs twice, and both runs must be the same. Exit
 * status 1: a schedule failed; the command that replays it is printed.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "world.h"

#define REPLAY_EACH 50

static struct world world;

struct totals {
	uint64_t established, unreachable, rejected, lost, doubled, deaths;
};

static bool
run(uint64_t seed, const char *program, struct totals *t)
{
	if (!world_run(&world, seed, NULL)) {
		printf("FAILED seed %" PRIu64 ": %s\n  replay: %s --seed %" PRIu64 " -v\n", seed,
		       world.why, program, seed);
		return false;
	}
	t->established += world.established;
	t->unreachable += world.unreachable;
	t->rejected += world.rejected;
	t->lost += world.lost;
	t->doubled += world.doubled;
	t->deaths += world.deaths;
	return true;
}

static bool
same_again(uint64_t seed)
{
	uint64_t digest = world.digest;

	world_run(&world, seed, NULL);
	if (world.digest == digest)
		return true;
	printf("FAILED seed %" PRIu64 ": another schedule when it runs again\n", seed);
	return false;
}

int
main(int argc, char **argv)
{
	static const struct option longs[] = {{"start", required_argument, NULL, 's'},
					      {"runs", required_argument, NULL, 'n'},
					      {"seed", required_argument, NULL, 'o'},
					      {"digest", no_argument, NULL, 'd'},
					      {0}};
	uint64_t start = 1, runs = 1000, i;
	struct totals t = {0};
	bool good = true, digest = false;
	int c;

	while ((c = getopt_long(argc, argv, "v", longs, NULL)) != -1) {
		switch (c) {
		case 's':
			start = strtoull(optarg, NULL, 0);
			break;
		case 'n':
			runs = strtoull(optarg, NULL, 0);
			break;
		case 'o':
			start = strtoull(optarg, NULL, 0);
			runs = 1;
			break;
		case 'd':
			digest = true;
			break;
		case 'v':
			world.verbose = true;
			break;
		default:
			return 2;
		}
	}
	for (i = 0; i < runs && good; i++) {
		good = run(start + i, argv[0], &t);
		if (digest)
			printf("%" PRIu64 " %016" PRIx64 "\n", start + i, world.digest);
		if (good && !world.verbose && i % REPLAY_EACH == 0)
			good = same_again(start + i);
	}
	printf("%" PRIu64 " schedules: %" PRIu64 " established, %" PRIu64 " rejected, %" PRIu64
	       " unreachable; %" PRIu64 " MADs lost, %" PRIu64 " doubled; %" PRIu64 " deaths\n",
	       i, t.established, t.rejected, t.unreachable, t.lost, t.doubled, t.deaths);
	return good ? 0 : 1;
}
