/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroce-loss: prints the table of goodput under loss. Exit status 1 if a goal is missed. The
 * responder does plain go-back-N unless --uroce-responder is given.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_common.h>
#include "cli/cli.h"
#include "goodput.h"
#include "link.h"
#include "qp/env.h"

#define MTU              4096u
#define SHORT_QUEUE      16             /* frames */
#define LONG_QUEUE_SHARE 0.85           /* factor on the goals with longer queues */
#define LONG_NS          20000000000ull /* time limit of a stuck run */

static const char *const op_name[GOODPUT_OPS] = {"WRITE", "SEND", "READ"};
static const uint32_t sizes[] = {4096, 65536, 1 << 20};
static const uint32_t losses_ppm[] = {1000, 10000, 50000};
static const double goals[] = {0, 0.4, 0.1}; /* share of the lossless goodput, by loss */
/* The same with --sr, from SR_SIZE on. */
static const double sr_goals[] = {0.98, 0.95, 0.85};
/* The same with wires of more than SHORT_DELAY: of WRITE and SEND, and of READ, by size. */
static const double long_goals[] = {0.9, 0.9, 0};
static const double long_read_goals[][3] = {{0, 0, 0}, {0.8, 0.5, 0.3}, {0.9, 0.85, 0.3}};
#define SHORT_DELAY  2u
#define SR_SIZE      65536u
#define SR_P99_GOAL  5 /* times that without loss */
#define SR_LATE_GOAL 0.9
#define SR_SETTLED   100u /* packets after which reordering causes no retransmission */
#define LATE_SEEDS   8u

static struct loss_options {
	bool plain_requester, uroce_responder, sr;
	uint32_t packets, queue, delay;
	uint64_t seed;
} opt;

#define ROW(option, kind, member) .name = option, .type = kind, CLI_AT(struct loss_options, member)

static const struct cli_field options[] = {
	{ROW("plain-requester", CLI_SWITCH, plain_requester),
	 .help = "the requester does plain go-back-N; there are no goals then"},
	{ROW("uroce-responder", CLI_SWITCH, uroce_responder),
	 .help = "the responder does not do plain go-back-N"},
	{ROW("sr", CLI_SWITCH, sr),
	 .help = "both sides have agreed to selective repeat; other goals, and rows of reordering"},
	{ROW("queue", CLI_NUMBER, queue), .arg = "FRAMES", .min = 1, .max = LINK_FRAMES,
	 .def = "16",
	 .help = "frames that wait in front of a wire, at most; with many, a retransmitted packet\n"
		 "arrives late, behind all that was sent before it"},
	{ROW("delay", CLI_NUMBER, delay), .arg = "US", .min = 2, .max = 100000, .def = "2",
	 .help = "of each wire; with --sr, long ones have other goals"},
	{ROW("packets", CLI_NUMBER, packets), .arg = "N", .def = "12000",
	 .help = "packets of a measurement"},
	{ROW("seed", CLI_NUMBER, seed), .arg = "S", .def = "1",
	 .help = "of the lost frames; rows of reordering use this seed and the next seven"},
	{NULL},
};

static struct goodput_result
measure_seed(enum goodput_op op, uint32_t size, uint32_t depth, const uint32_t loss_ppm[2],
	     uint32_t late, uint64_t seed)
{
	struct goodput_run r = {
		.op = op,
		.size = size,
		.messages = RTE_MAX(opt.packets / (size / MTU), 64u),
		.depth = depth,
		.loss_ppm = {loss_ppm[0], loss_ppm[1]},
		.plain = {opt.plain_requester ? QP_PLAIN_REQUESTER : 0,
			  opt.uroce_responder || opt.sr ? 0 : QP_PLAIN_RESPONDER},
		.sr = opt.sr,
		.queue = opt.queue,
		.delay_ns = opt.delay * 1000,
		.late = late,
		.seed = seed,
		.most_ns = LONG_NS,
	};

	return goodput_measure(&r);
}

static struct goodput_result
measure(enum goodput_op op, uint32_t size, uint32_t depth, const uint32_t loss_ppm[2])
{
	return measure_seed(op, size, depth, loss_ppm, 0, opt.seed);
}

/* Prints one line: which frames are lost, and the goodput. Returns true if the goal is met. */
static bool
line(enum goodput_op op, unsigned i, unsigned loss, unsigned way, double whole)
{
	uint32_t size = sizes[i];
	static const char *const ways[] = {"requests", "answers", "both"};
	uint32_t ppm[2] = {way != 1 ? losses_ppm[loss] : 0, way != 0 ? losses_ppm[loss] : 0};
	struct goodput_result r = measure(op, size, GOODPUT_DEPTH, ppm);
	/* With loss both ways, twice as many requests or their responses are lost. */
	double goal = goals[loss] * whole / (way == 2 ? 2 : 1);
	bool met, sr = opt.sr;

	if (sr && opt.delay > SHORT_DELAY)
		goal = op == GOODPUT_READ ? long_read_goals[i][loss] * whole
		       : size >= SR_SIZE  ? long_goals[loss] * whole
					  : 0;
	else if (sr)
		goal = size >= SR_SIZE ? sr_goals[loss] * whole : 0;
	/* A retransmission queues behind all waiting frames, which go-back-N cannot withdraw. */
	if (opt.queue > SHORT_QUEUE && !sr)
		goal *= LONG_QUEUE_SHARE;
	met = !r.failed && r.gbps >= goal;
	/* Besides probes only lost packets are sent again (SR-03). READs are not counted. */
	if (sr && op != GOODPUT_READ)
		met = met && r.resent <= r.lost + r.probes && r.naks == 0;
	printf("%-5s %7u B  %4.1f %% of %-8s %6.2f Gb/s  %.3f  NAKs %5" PRIu64 " gaps %5" PRIu64
	       " probes %5" PRIu64 " (%" PRIu64 " spurious) timeouts %3" PRIu64 " resent %6" PRIu64
	       "%s%s\n",
	       op_name[op], size, losses_ppm[loss] / 1e4, ways[way], r.gbps, r.gbps / whole, r.naks,
	       r.gaps, r.probes, r.spurious, r.timeouts, r.resent, r.failed ? " FAILED" : "",
	       met ? "" : " below the goal");
	fflush(stdout);
	return met;
}

/*
 * Frames overtake others, and none is lost (SR-05). Several seeds, because they differ in when the
 * first packet is late. Prints the worst of each figure.
 */
static bool
late_line(enum goodput_op op, uint32_t size, uint32_t late, double whole)
{
	static const uint32_t none[2];
	struct goodput_result worst = {.gbps = whole};
	bool met;

	for (unsigned i = 0; i < LATE_SEEDS; i++) {
		struct goodput_result r =
			measure_seed(op, size, GOODPUT_DEPTH, none, late, opt.seed + i);

		worst.gbps = RTE_MIN(worst.gbps, r.gbps);
		worst.selective = RTE_MAX(worst.selective, r.selective);
		worst.vain = RTE_MAX(worst.vain, r.vain);
		worst.settled = RTE_MAX(worst.settled, r.settled);
		worst.failed |= r.failed;
	}
	met = !worst.failed && worst.gbps >= SR_LATE_GOAL * whole && worst.settled <= SR_SETTLED;
	printf("%-5s %7u B  overtaken by up to %2u %10.2f Gb/s  %.3f  sent again %" PRIu64
	       ", %" PRIu64 " of these spurious, the last after %" PRIu64 " packets%s%s\n",
	       op_name[op], size, late, worst.gbps, worst.gbps / whole, worst.selective, worst.vain,
	       worst.settled, worst.failed ? " FAILED" : "", met ? "" : " below the goal");
	fflush(stdout);
	return met;
}

/* One message at a time: what a loss costs the slowest hundredth. */
static bool
lone_line(enum goodput_op op)
{
	static const uint32_t none[2], ppm[2] = {10000, 10000};
	struct goodput_result whole = measure(op, MTU, 1, none), r = measure(op, MTU, 1, ppm);
	/* Nothing is ever late, so no probe is spurious, and no round trip is measured from one. */
	bool met = !r.failed && r.p99_ns <= SR_P99_GOAL * whole.p99_ns && r.spurious == 0;

	printf("%-5s %7u B  alone, 1 %% of both: p99 %" PRIu64 " ns, %" PRIu64
	       " without loss; probes %" PRIu64 " (%" PRIu64 " spurious) timeouts %" PRIu64
	       "%s%s\n",
	       op_name[op], MTU, r.p99_ns, whole.p99_ns, r.probes, r.spurious, r.timeouts,
	       r.failed ? " FAILED" : "", met ? "" : " beyond the goal");
	fflush(stdout);
	return met;
}

int
main(int argc, char **argv)
{
	static const struct cli_program program = {.name = "uroce-loss",
						   .usage = "usage: uroce-loss [options]\n",
						   .options = options};
	static const uint32_t none[2];
	bool met = true;

	if (cli_parse(&program, &opt, argc, argv) > 0)
		cli_wrong(&program, "'%s' is not an option: all start with --", argv[1]);
	goodput_open();
	for (enum goodput_op op = 0; op < GOODPUT_OPS; op++) {
		if (opt.sr)
			met &= lone_line(op);
		for (unsigned s = 0; s < RTE_DIM(sizes); s++) {
			double whole = measure(op, sizes[s], GOODPUT_DEPTH, none).gbps;

			printf("%-5s %7u B  lossless %32.2f Gb/s\n", op_name[op], sizes[s], whole);
			for (unsigned loss = 0; loss < RTE_DIM(losses_ppm); loss++)
				for (unsigned way = 0; way < 3; way++)
					met &= line(op, s, loss, way, whole);
			for (uint32_t late = 4; opt.sr && op != GOODPUT_READ && late <= 64;
			     late *= 4)
				met &= late_line(op, sizes[s], late, whole);
		}
	}
	return met || opt.plain_requester ? 0 : 1;
}
