/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options and key=value text. A program describes its options in one table; the parsers of the
 * command line, of a configuration file and of "key=value,.." text, and --help, all use such
 * tables.
 *
 *   field.c   a value from text to a member of a struct
 *   args.c    the command line, --help and --version
 *   file.c    a section of "name = value" lines; "key=value,key=value"
 *   process.c standard input, output and error; progress; other programs of uroce
 *
 * Plain C without DPDK. Values of type CLI_TEXT and CLI_LIST point into the text that was parsed,
 * which must outlive them. Functions that fail return -EINVAL and write one line without a newline
 * to err (room bytes); it names the option, the value and what is legal. Any thread.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CLI_ERR_MAX    512 /* enough bytes for every message */
#define CLI_LIST_MAX   64
#define CLI_FIELDS_MAX 128 /* most rows of a table */

enum cli_type {
	CLI_SWITCH, /* bool: yes or no; without a value on the command line: yes */
	/* unsigned of 1 to 8 bytes, min .. max; decimal, or hexadecimal with 0x. names: NULL, or
	   one word, which stands for 0 */
	CLI_NUMBER,
	CLI_OCTAL,   /* CLI_NUMBER in octal */
	CLI_POWER2,  /* CLI_NUMBER that must be a power of two */
	CLI_CHOICE,  /* unsigned or enum: min for the first of names, min + 1 for the second .. */
	CLI_TEXT,    /* const char *, not empty */
	CLI_LIST,    /* struct cli_list; may be repeated */
	CLI_OTHER,   /* stored by take() */
	CLI_HEADING, /* not an option: --help prints help on a separate line */
};

struct cli_list {
	const char *v[CLI_LIST_MAX];
	uint32_t n;
};

/* A row of a table. The last row has the name NULL. */
struct cli_field {
	const char *name; /* without dashes */
	enum cli_type type;
	size_t offset, size; /* of the member; set by CLI_AT */
	const char *arg;     /* the value's name in --help; NULL for a switch */
	uint64_t min, max;   /* max 0: the largest value of the member */
	const char *const *names;
	const char *def;  /* set by cli_defaults, shown by --help; NULL: none */
	const char *help; /* may have several lines */
	/* CLI_OTHER: false if value is not what legal says. member is base + offset. */
	bool (*take)(void *member, const char *value);
	const char *legal;
	/* CLI_TEXT, CLI_LIST: checks a value; NULL: no check. 0 or -EINVAL with a message. */
	int (*check)(const char *value, char *err, size_t room);
	size_t given;   /* offset of a bool that is set with the value; 0: none */
	bool many;      /* cli_pairs: may be repeated */
	bool args_only; /* cli_file refuses it */
	char letter;    /* short form, v for -v; 0: none */
};

#define CLI_AT(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)

/* Parse text as a number, min .. max, decimal or 0x hexadecimal, into *n. False: not a number. */
bool cli_number(const char *text, uint64_t min, uint64_t max, uint64_t *n);
/* Store value in base's member. The message does not name the field. 0 or -EINVAL. */
int cli_set(const struct cli_field *f, void *base, const char *value, char *err, size_t room);
/* Returns the row of that name (len bytes), or NULL. */
const struct cli_field *cli_find(const struct cli_field *table, const char *name, size_t len);
/*
 * Writes the member's value to out (room bytes) as cli_set reads it: "" for a text that is not set;
 * the values of a list with spaces between them; "" for CLI_OTHER.
 */
void cli_text(const struct cli_field *f, const void *base, char *out, size_t room);
/* Set every member that has a default; other members do not change. */
void cli_defaults(const struct cli_field *table, void *base);

/*
 * Parse "key=value,key=value" into base; text is modified, and may be empty. An empty item, as
 * after a trailing comma, is an error. Each key may be given once unless it is `many`; *seen holds
 * a bit for each row that was given and may span several calls. 0 or -EINVAL.
 */
int cli_pairs(const struct cli_field *table, void *base, char *text, uint64_t *seen, char *err,
	      size_t room);

/*
 * Parse the file's [section] of "name = value" lines into base; "#" starts a comment. Other
 * sections and lines of another form are errors. *text is the file's content, which values point
 * into: free() it after the last use of base; NULL on failure. 0 or -EINVAL.
 */
int cli_file(const struct cli_field *table, void *base, const char *path, const char *section,
	     char **text, char *err, size_t room);

/*
 * Opens /dev/null at those of the descriptors 0 to 2 that are closed, so that no other file gets
 * their numbers and, with them, the program's messages. Reads and writes still fail with EBADF. The
 * first call of main().
 */
void cli_streams_open(void);

/*
 * Finds the first of n places, paths relative to the folder of this program, that exists.
 * Stores its absolute path (PATH_MAX bytes). Returns 0, or -1 with errno.
 */
int cli_find_beside(const char *const *places, unsigned n, char *path);

struct cli_program {
	const char *name;
	const char *usage; /* --help starts with this; ends with a newline */
	const char *more;  /* --help ends with this; NULL: nothing */
	const struct cli_field *options;
	bool command; /* the first word ends the options: the rest belongs to another program */
};

/*
 * Parse the command line into base. Options and other words may be mixed; "--" ends the options. A
 * list replaces the one in base. The words, if any, are moved to argv[1 ..], in order. --help and
 * --version print and exit with 0. Returns the number of words, or -EINVAL.
 */
int cli_args(const struct cli_program *p, void *base, int argc, char **argv, char *err,
	     size_t room);
/* Call cli_defaults, then cli_args; print an error as "NAME: .." and exit with 2. */
int cli_parse(const struct cli_program *p, void *base, int argc, char **argv);
/*
 * The command line with option before its first word: the arguments of an execv that starts the
 * program again. A copy, because parsing changes argv; never freed. NULL: no memory. Any thread.
 */
char **cli_args_with(int argc, char *const *argv, const char *option);
/* Prints "NAME: .." and a newline on stderr and exits with 2. */
_Noreturn void cli_wrong(const struct cli_program *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Print the text of --help. */
void cli_help(const struct cli_program *p, FILE *out);

/*
 * Progress of what takes more than about two seconds: one line on standard error, which the next
 * one replaces. Prints nothing unless standard error is a terminal, or after cli_progress_quiet.
 * One thread. Call cli_progress_end before other output.
 */
void cli_progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void cli_progress_end(void);
void cli_progress_quiet(void);

#endif
