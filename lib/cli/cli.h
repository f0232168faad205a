/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options and key=value text. A program describes its options in one table; the command line, a
 * configuration file, "key=value,.." specifications and --help are all read off such tables.
 *
 *   field.c   a value from text to a member of a struct
 *   args.c    the command line, --help and --version
 *   file.c    a section of "name = value" lines
 *   pairs.c   "key=value,key=value"
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

#define CLI_ERR_MAX    512 /* bytes that hold every message */
#define CLI_LIST_MAX   64
#define CLI_FIELDS_MAX 128 /* rows of a table */

enum cli_type {
	CLI_SWITCH,  /* bool: yes or no; without a value on the command line: yes */
	CLI_NUMBER,  /* unsigned of 1 to 8 bytes, min .. max; decimal, or hexadecimal with 0x */
	CLI_OCTAL,   /* the same, octal */
	CLI_POWER2,  /* CLI_NUMBER that must be a power of two */
	CLI_CHOICE,  /* unsigned or enum: min for the first of names, min + 1 for the second .. */
	CLI_TEXT,    /* const char *, not empty */
	CLI_LIST,    /* struct cli_list: may be given again */
	CLI_OTHER,   /* take() stores it */
	CLI_HEADING, /* not an option: --help prints help as a line of its own */
};

struct cli_list {
	const char *v[CLI_LIST_MAX];
	uint32_t n;
};

/* A row of a table. The last row has the name NULL. */
struct cli_field {
	const char *name; /* without dashes */
	enum cli_type type;
	size_t offset, size; /* of the member: CLI_AT */
	const char *arg;     /* what --help calls the value; NULL for a switch */
	uint64_t min, max;   /* max 0: as much as the member holds */
	const char *const *names;
	const char *def;  /* cli_defaults sets it, --help shows it; NULL: none */
	const char *help; /* may have several lines */
	/* CLI_OTHER: false when value is not what legal says. member is base + offset. */
	bool (*take)(void *member, const char *value);
	const char *legal;
	/* CLI_TEXT, CLI_LIST: further check of a value, NULL: none. 0 or -EINVAL with a message. */
	int (*check)(const char *value, char *err, size_t room);
	size_t given;   /* offset of a bool that becomes true with the value; 0: none */
	bool many;      /* cli_pairs: may be repeated */
	bool args_only; /* cli_file refuses it */
	char letter;    /* -v besides --verbose; 0: none */
};

#define CLI_AT(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)

/* Text as a number from min to max, decimal or 0x and hexadecimal, into *n. False: it is none. */
bool cli_number(const char *text, uint64_t min, uint64_t max, uint64_t *n);
/* Store value in base's member. The message does not name the field. 0 or -EINVAL. */
int cli_set(const struct cli_field *f, void *base, const char *value, char *err, size_t room);
/* The row of that name (len bytes), or NULL. */
const struct cli_field *cli_find(const struct cli_field *table, const char *name, size_t len);
/* Every member that has a default gets it; other members stay. */
void cli_defaults(const struct cli_field *table, void *base);

/*
 * "key=value,key=value" into base; text is cut up. Each key may be given once unless it is `many`;
 * *seen holds a bit for each row that was given and may span several calls. 0 or -EINVAL.
 */
int cli_pairs(const struct cli_field *table, void *base, char *text, uint64_t *seen, char *err,
	      size_t room);

/*
 * The file's [section] of "name = value" lines into base; "#" starts a comment. Other sections and
 * lines of another form are errors. *text is the file's content, which values point into: free()
 * it after the last use of base; NULL on failure. 0 or -EINVAL.
 */
int cli_file(const struct cli_field *table, void *base, const char *path, const char *section,
	     char **text, char *err, size_t room);

struct cli_program {
	const char *name;
	const char *usage; /* --help starts with this; ends with a newline */
	const char *more;  /* and ends with this; NULL: nothing */
	const struct cli_field *options;
	bool command; /* the first word ends the options: what follows is another program's */
};

/*
 * The command line into base. Options and other words may be mixed; "--" ends the options. A list
 * replaces what base had. The words, if any, are moved to argv[1 ..], in order. --help and
 * --version print and exit with 0. Returns how many words there are, or -EINVAL.
 */
int cli_args(const struct cli_program *p, void *base, int argc, char **argv, char *err,
	     size_t room);
/* The same after cli_defaults; prints what is wrong as "NAME: .." and exits with 2. */
int cli_parse(const struct cli_program *p, void *base, int argc, char **argv);
/* Prints "NAME: .." and a newline on stderr and exits with 2. */
_Noreturn void cli_wrong(const struct cli_program *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* What --help prints. */
void cli_help(const struct cli_program *p, FILE *out);

#endif
