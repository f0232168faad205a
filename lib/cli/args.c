/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"

struct walk {
	const struct cli_program *p;
	void *base;
	char **next, **end;        /* the arguments not parsed yet */
	bool seen[CLI_FIELDS_MAX]; /* lists that already started anew */
	char *err;
	size_t room;
};

static const struct cli_field *
find_letter(const struct cli_field *table, const char *arg)
{
	for (const struct cli_field *f = table; f->name != NULL; f++) {
		if (f->letter != 0 && arg[1] == f->letter && arg[2] == '\0')
			return f;
	}
	return NULL;
}

/* Several switches in one word, like -jp. Returns false if it is anything else. */
static bool
take_letters(struct walk *w)
{
	const char *arg = *w->next;
	char one[3] = "-";
	char why[CLI_ERR_MAX];

	for (const char *p = arg + 1; *p != '\0'; p++) {
		const struct cli_field *f;

		one[1] = *p;
		f = find_letter(w->p->options, one);
		if (f == NULL || f->type != CLI_SWITCH)
			return false;
	}
	for (const char *p = arg + 1; *p != '\0'; p++) {
		one[1] = *p;
		(void)cli_set(find_letter(w->p->options, one), w->base, "yes", why, sizeof(why));
	}
	w->next++;
	return true;
}

/* One option and its value, which may be the next argument. */
static int
take_option(struct walk *w)
{
	const struct cli_field *table = w->p->options, *f;
	const char *arg = *w->next++, *eq = strchr(arg, '=');
	const char *value = eq != NULL ? eq + 1 : NULL;
	char why[CLI_ERR_MAX];

	if (arg[1] == '-')
		f = cli_find(table, arg + 2, eq != NULL ? (size_t)(eq - arg - 2) : strlen(arg + 2));
	else
		f = find_letter(table, arg);
	if (f == NULL) {
		snprintf(w->err, w->room, "unknown option %.200s (--help lists them)", arg);
		return -EINVAL;
	}
	if (value == NULL && f->type == CLI_SWITCH)
		value = "yes";
	if (value == NULL && w->next == w->end) {
		snprintf(w->err, w->room, "option --%s: needs a value %s", f->name, f->arg);
		return -EINVAL;
	}
	if (value == NULL && strncmp(*w->next, "--", 2) == 0) {
		snprintf(w->err, w->room, "option --%s: needs a value %s, not the option %.200s",
			 f->name, f->arg, *w->next);
		return -EINVAL;
	}
	if (value == NULL)
		value = *w->next++;
	if (f->type == CLI_LIST && !w->seen[f - table])
		((struct cli_list *)((char *)w->base + f->offset))->n = 0;
	w->seen[f - table] = true;
	if (cli_set(f, w->base, value, why, sizeof(why)) == 0)
		return 0;
	snprintf(w->err, w->room, "option --%s: %.400s", f->name, why);
	return -EINVAL;
}

/* A word like -5: the caller says which numbers are legal. */
static bool
is_negative(const struct cli_field *table, const char *arg)
{
	return arg[1] >= '0' && arg[1] <= '9' && find_letter(table, arg) == NULL;
}

int
cli_args(const struct cli_program *p, void *base, int argc, char **argv, char *err, size_t room)
{
	struct walk w = {.p = p,
			 .base = base,
			 .next = argv + 1,
			 .end = argv + argc,
			 .err = err,
			 .room = room};
	bool options = true; /* options may follow */
	int words = 0;

	while (w.next < w.end) {
		const char *arg = *w.next;

		if (!options || arg[0] != '-' || arg[1] == '\0' || is_negative(p->options, arg)) {
			options = options && !p->command;
			argv[++words] = *w.next++;
		} else if (strcmp(arg, "--") == 0) {
			options = false;
			w.next++;
		} else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
			cli_help(p, stdout);
			exit(EXIT_SUCCESS);
		} else if (strcmp(arg, "--version") == 0) {
			printf("%s " UROCE_VERSION "\n", p->name);
			exit(EXIT_SUCCESS);
		} else if (arg[1] != '-' && take_letters(&w)) {
			continue;
		} else if (take_option(&w) < 0) {
			return -EINVAL;
		}
	}
	if (words > 0 && words + 1 < argc)
		argv[words + 1] = NULL;
	return words;
}

char **
cli_args_with(int argc, char *const *argv, const char *option)
{
	char **copy = calloc((size_t)argc + 2, sizeof(*copy));
	bool ok = copy != NULL && argc > 0;

	for (int i = 0; ok && i <= argc; i++) {
		const char *arg = i == 1 ? option : argv[i == 0 ? 0 : i - 1];

		copy[i] = strdup(arg);
		ok = copy[i] != NULL;
	}
	return ok ? copy : NULL;
}

int
cli_parse(const struct cli_program *p, void *base, int argc, char **argv)
{
	char err[CLI_ERR_MAX];
	int words;

	cli_defaults(p->options, base);
	words = cli_args(p, base, argc, argv, err, sizeof(err));
	if (words < 0)
		cli_wrong(p, "%s", err);
	return words;
}

void
cli_wrong(const struct cli_program *p, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", p->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(2);
}

/* Prints "  --name ARG   help", further help lines below it, then range, names and default. */
static void
help_one(FILE *out, const struct cli_field *f)
{
	char left[40];

	if (f->type == CLI_HEADING) {
		fprintf(out, "\n%s\n", f->help);
		return;
	}
	snprintf(left, sizeof(left), "%s%c%s--%s %s", f->letter != 0 ? "-" : "",
		 f->letter != 0 ? f->letter : ' ', f->letter != 0 ? ", " : "", f->name,
		 f->arg != NULL ? f->arg : "");
	fprintf(out, "  %-22s ", left + (f->letter == 0));
	if (strlen(left) > 23)
		fprintf(out, "\n%25s", "");
	for (const char *p = f->help; *p != '\0'; p++) {
		fputc(*p, out);
		if (*p == '\n')
			fprintf(out, "%25s", "");
	}
	if (f->max != 0 && (f->type == CLI_NUMBER || f->type == CLI_POWER2))
		fprintf(out, " (%llu..%llu)", (unsigned long long)f->min,
			(unsigned long long)f->max);
	for (unsigned i = 0; f->names != NULL && f->names[i] != NULL; i++)
		fprintf(out, "%s%s%s", i == 0 ? " (" : "|", f->names[i],
			f->names[i + 1] == NULL ? ")" : "");
	if (f->def != NULL)
		fprintf(out, " [%s]", f->def);
	fputc('\n', out);
}

void
cli_help(const struct cli_program *p, FILE *out)
{
	static const struct cli_field common[] = {
		{.name = "help", .help = "print this and exit"},
		{.name = "version", .help = "print the version and exit"},
	};

	fprintf(out, "%s\n", p->usage);
	for (const struct cli_field *f = p->options; f->name != NULL; f++)
		help_one(out, f);
	help_one(out, &common[0]);
	help_one(out, &common[1]);
	if (p->more != NULL)
		fprintf(out, "\n%s", p->more);
}
