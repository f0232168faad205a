/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options of the daemon. One table (options.c) says of each its name, type, range, default and
 * help; the command line, the configuration file and --help are all read off it. Needs no EAL.
 */
#ifndef UROCED_OPTIONS_H
#define UROCED_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include "cli/cli.h"
#include "control/config.h"

#define OPTIONS_ERR_MAX CLI_ERR_MAX

enum option_idle {
	OPTION_IDLE_AUTO = 0,
	OPTION_IDLE_POLL,
	OPTION_IDLE_ADAPTIVE,
};

/* Text points into the command line or into file_text. */
struct options {
	const char *config;
	char *file_text; /* of the file that was loaded */
	struct control_config control;
	struct cli_list vdev, allow, pair, dev;
	bool no_huge;
	const char *file_prefix;
	const char *lcores; /* CPU list of the workers; NULL: any CPU we may use */
	uint32_t workers;
	uint32_t idle; /* enum option_idle */
	uint32_t mem_mib, mbufs;
	uint32_t log_level; /* RTE_LOG_* */
};

/* Everything at its default. options_free gives back what it holds. */
void options_init(struct options *o);
void options_free(struct options *o);

/*
 * Set one option from text, which must outlive o; a list option is added to. 0, or -EINVAL with a
 * message in err that names the option, the value and what is legal.
 */
int options_set(struct options *o, const char *name, const char *value, char err[OPTIONS_ERR_MAX]);

/*
 * Read the command line, after the file that its --config names. What stands on the command line
 * wins; a list given there replaces the file's. 0 or -EINVAL with a message. --help and --version
 * print and exit.
 */
int options_parse(struct options *o, int argc, char **argv, char err[OPTIONS_ERR_MAX]);

/* Set options from a file: section [uroced] of name = value lines. Once. 0 or -EINVAL. */
int options_load(struct options *o, const char *path, char err[OPTIONS_ERR_MAX]);

/* The names of all options, in the table's order; NULL behind the last. For tests. */
const char *options_name(unsigned i);

/* CPU numbers of a list like "0,2-3"; how many, or -EINVAL (also when there are more than max). */
int options_cpus(const char *text, unsigned *cpu, unsigned max);

#endif
