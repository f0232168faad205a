/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options of the daemon. One table (options.c) holds the name, type, range, default and help of
 * each; the command line, the configuration file and --help use it. Needs no EAL.
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

enum option_sandbox {
	OPTION_SANDBOX_OFF = 0,
	OPTION_SANDBOX_ON,
	OPTION_SANDBOX_KILL,
};

/* Text points into the command line or into file_text. */
struct options {
	const char *config;
	char *file_text; /* of the file that was loaded */
	struct control_config control;
	struct cli_list vdev, allow, pair, dev;
	bool no_huge;
	bool no_telemetry;
	bool core_dumps;
	bool daemon;         /* --daemon */
	const char *metrics; /* NULL: the option is refused */
	const char *file_prefix;
	const char *lcores; /* CPU list of the workers; NULL: any CPU of the process */
	uint32_t workers;   /* 0: auto (cpus.h) */
	uint32_t idle;      /* enum option_idle */
	uint32_t sandbox;   /* enum option_sandbox */
	uint32_t mem_mib, mbufs;
	uint32_t log_level; /* RTE_LOG_* */
};

/* Set every option to its default. options_free frees the memory of a loaded file. */
void options_init(struct options *o);
void options_free(struct options *o);

/*
 * Set one option from text, which must outlive o; for a list option, append the value. 0, or
 * -EINVAL with a message in err that names the option, the value and the legal range.
 */
int options_set(struct options *o, const char *name, const char *value, char err[OPTIONS_ERR_MAX]);

/*
 * Read the file that --config names, then the command line. The command line wins; a list on it
 * replaces the file's list. 0 or -EINVAL with a message. --help and --version print and exit.
 */
int options_parse(struct options *o, int argc, char **argv, char err[OPTIONS_ERR_MAX]);

/* Set options from section [uroced] of a file of name = value lines; once for o. 0 or -EINVAL. */
int options_load(struct options *o, const char *path, char err[OPTIONS_ERR_MAX]);

/*
 * Get option i, in the table's order: its name, its default (NULL: none), and its value in o as
 * text in value (room bytes). False after the last.
 */
bool options_get(const struct options *o, unsigned i, const char **name, const char **def,
		 char *value, size_t room);

/* Returns the name of option i, in the table's order; NULL after the last. For tests. */
const char *options_name(unsigned i);

/*
 * Parses a CPU list like "0,2-3" into cpu. Returns how many CPUs it has, or -EINVAL if it is
 * malformed or has more than max.
 */
int options_cpus(const char *text, unsigned *cpu, unsigned max);

#endif
