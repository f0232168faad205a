/* SPDX-License-Identifier: BSD-3-Clause */
/* uroce-fabric: congestion policies on one switch (line.h). Exit status 1: a goal is missed. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "cc/param.h"
#include "cli/cli.h"
#include "fabric.h"
#include "runs.h"

static struct fabric_options {
	const char *policy;
	bool share, pfc, read, sr, goals;
	uint32_t gbps, senders, ms, warm_ms, cnp_us;
	uint64_t seed;
	const char *csv;
} opt;

#define ROW(option, kind, member)                                                                  \
	.name = option, .type = kind, CLI_AT(struct fabric_options, member)

static const struct cli_field options[] = {
	{ROW("policy", CLI_TEXT, policy), .arg = "POLICY", .def = "fixed",
	 .help = "congestion policy of all QPs, with parameters: NAME:parameter=value:.."},
	{ROW("share", CLI_SWITCH, share),
	 .help = "two flows share a bottleneck; without it: incast"},
	{ROW("read", CLI_SWITCH, read), .help = "incast of READ responses"},
	{ROW("sr", CLI_SWITCH, sr), .help = "all hosts have agreed to selective repeat"},
	{ROW("gbps", CLI_NUMBER, gbps), .arg = "N", .min = 1, .max = 400, .def = "25",
	 .help = "rate of each line, Gb/s"},
	{ROW("senders", CLI_NUMBER, senders), .arg = "N", .min = 1, .max = FABRIC_HOSTS - 2,
	 .def = "32", .help = "incast: senders to one receiver"},
	{ROW("ms", CLI_NUMBER, ms), .arg = "MS", .min = 1, .max = 60, .def = "10",
	 .help = "virtual time that is measured"},
	{ROW("warm-ms", CLI_NUMBER, warm_ms), .arg = "MS", .max = 100, .def = "0",
	 .help = "incast: virtual time before the measured time"},
	{ROW("cnp-us", CLI_NUMBER, cnp_us), .arg = "US", .min = 1, .max = 1000, .def = "50",
	 .help = "least time between two CNPs for one QP"},
	{ROW("pfc", CLI_SWITCH, pfc), .help = "the switch sends pause frames"},
	{ROW("seed", CLI_NUMBER, seed), .arg = "S", .def = "1", .help = "of all random numbers"},
	{ROW("csv", CLI_TEXT, csv), .arg = "FILE",
	 .help = "share: rates over time; without it they go to standard output"},
	{ROW("goals", CLI_SWITCH, goals), .help = "exit with status 1 if a goal is missed"},
	{NULL},
};

static const struct cli_program program = {.name = "uroce-fabric",
					   .usage = "usage: uroce-fabric [options]\n",
					   .options = options};

static struct cc_param
policy_of(const char *text, uint32_t gbps)
{
	struct cc_param p;
	char err[CLI_ERR_MAX];

	if (!cc_param_parse(&p, text, err, sizeof(err)) ||
	    !cc_param_fill(&p, gbps * 1000000, err, sizeof(err)))
		cli_wrong(&program, "policy: %s", err);
	return p;
}

static bool
goal(const char *what, bool met)
{
	if (!met)
		printf("  missed: %s\n", what);
	return met;
}

static bool
incast(const struct runs_options *o)
{
	struct incast_result r = runs_incast(o);
	bool met = true;

	printf("incast %u:1%s, %u Gb/s, %s%s%s: goodput %.3f, Jain %.3f, queue p99 %u KB max %u KB "
	       "(Kmax %" PRIu64 " KB), victim p99 %.1f us (alone %.1f us)\n"
	       "  messages %" PRIu64 " marked %" PRIu64 " CNPs %" PRIu64 " dropped %" PRIu64
	       " pauses %" PRIu64 " NAKs %" PRIu64 " probes %" PRIu64 " timeouts %" PRIu64
	       " resent %" PRIu64 " retries exhausted %" PRIu64 "%s\n",
	       o->senders, o->read ? " of READs" : "", o->gbps, opt.policy, o->pfc ? ", PFC" : "",
	       o->sr ? ", selective repeat" : "", r.goodput, r.jain, r.queue_p99 / 1000,
	       r.queue_max / 1000, r.kmax_bytes / 1000, r.victim_p99_ns / 1000.0,
	       r.unloaded_p99_ns / 1000.0, r.messages, r.marked, r.cnps, r.dropped, r.pauses,
	       r.naks, r.probes, r.timeouts, r.resent, r.exhausted, r.failed ? " FAILED" : "");
	if (o->sr)
		printf("  SACKs %" PRIu64 " resent selectively %" PRIu64 " spurious %" PRIu64
		       " fallbacks %" PRIu64 "\n",
		       r.sacks, r.selective, r.spurious, r.fallbacks);
	met &= goal("retries exhausted: none", r.exhausted == 0);
	met &= goal("goodput at least 0.9", r.goodput >= 0.9);
	met &= goal("Jain's index at least 0.95", r.jain >= 0.95);
	met &= goal("p99 of the queue below Kmax", r.queue_p99 < r.kmax_bytes);
	met &= goal("victim's p99 at most 3 times that of a flow alone",
		    r.victim_p99_ns <= 3 * r.unloaded_p99_ns);
	return !r.failed && (met || !opt.goals);
}

static bool
share(const struct runs_options *o)
{
	FILE *out = opt.csv == NULL ? stdout : fopen(opt.csv, "w");
	struct share_result r;

	if (out == NULL)
		cli_wrong(&program, "%s: cannot be written: %m", opt.csv);
	r = runs_share(o, out);
	if (out != stdout && fclose(out) != 0)
		cli_wrong(&program, "%s: %m", opt.csv);
	fprintf(stderr, "share, %u Gb/s, %s: Jain %.3f, sum of rates %.3f%s\n", o->gbps, opt.policy,
		r.jain, r.goodput, r.failed ? " FAILED" : "");
	return !r.failed && (!opt.goals || (r.jain >= 0.95 && r.goodput >= 0.9));
}

int
main(int argc, char **argv)
{
	struct runs_options o;

	if (cli_parse(&program, &opt, argc, argv) > 0)
		cli_wrong(&program, "'%s' is not an option: all start with --", argv[1]);
	o = (struct runs_options){.policy = policy_of(opt.policy, opt.gbps),
				  .gbps = opt.gbps,
				  .senders = opt.senders,
				  .ms = opt.ms,
				  .warm_ms = opt.warm_ms,
				  .cnp_us = opt.cnp_us,
				  .pfc = opt.pfc,
				  .read = opt.read,
				  .sr = opt.sr,
				  .seed = opt.seed};
	fabric_open_eal();
	return (opt.share ? share(&o) : incast(&o)) ? 0 : 1;
}
