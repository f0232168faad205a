/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of lib/cli that test/unit/ipc/test_options.c does not cover: words, letters, files,
 * pairs. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"
#include "../../kit/unit.h"

struct values {
	bool fast, given;
	uint16_t small;
	uint64_t large;
	const char *text;
	struct cli_list list;
};

#define ROW(option, kind, member) .name = option, .type = kind, CLI_AT(struct values, member)

static const struct cli_field table[] = {
	{ROW("fast", CLI_SWITCH, fast), .letter = 'f'},
	{ROW("small", CLI_POWER2, small), .arg = "N", .min = 8, .max = 32, .def = "16"},
	{ROW("large", CLI_NUMBER, large), .arg = "N", .given = offsetof(struct values, given)},
	{ROW("text", CLI_TEXT, text), .arg = "T", .args_only = true},
	{ROW("list", CLI_LIST, list), .arg = "L", .many = true},
	{NULL},
};
static const struct cli_program mixed = {.name = "mixed", .usage = "", .options = table};
static const struct cli_program runner = {.name = "runner",
					  .usage = "",
					  .options = table,
					  .command = true};

static int
args(const struct cli_program *p, struct values *v, char *err, char **argv)
{
	int argc = 0;

	memset(v, 0, sizeof(*v));
	cli_defaults(table, v);
	while (argv[argc] != NULL)
		argc++;
	return cli_args(p, v, argc, argv, err, CLI_ERR_MAX);
}

#define ARGV(...) ((char *[]){"program", __VA_ARGS__, NULL})

UNIT_TEST(words_may_stand_between_options)
{
	char **argv = ARGV("one", "-f", "two", "--large=0x10", "--", "--three", NULL);
	char err[CLI_ERR_MAX];
	struct values v;

	assert_int_equal(args(&mixed, &v, err, argv), 3);
	assert_string_equal(argv[1], "one");
	assert_string_equal(argv[2], "two");
	assert_string_equal(argv[3], "--three");
	assert_null(argv[4]);
	assert_true(v.fast && v.given);
	assert_int_equal(v.large, 16);
	assert_int_equal(v.small, 16);
}

UNIT_TEST(letters_of_switches_may_share_a_word)
{
	static const struct cli_field two[] = {
		{ROW("fast", CLI_SWITCH, fast), .letter = 'f'},
		{ROW("given", CLI_SWITCH, given), .letter = 'g'},
		{ROW("large", CLI_NUMBER, large), .letter = 'l', .arg = "N"},
		{NULL},
	};
	static const struct cli_program p = {.name = "p", .usage = "", .options = two};
	char err[CLI_ERR_MAX];
	struct values v = {0};

	assert_int_equal(cli_args(&p, &v, 2, ARGV("-gf"), err, sizeof(err)), 0);
	assert_true(v.fast && v.given);
	v.fast = false;
	assert_int_equal(cli_args(&p, &v, 2, ARGV("-fx"), err, sizeof(err)), -22);
	assert_string_equal(err, "unknown option -fx (--help lists them)");
	assert_false(v.fast);
	assert_int_equal(cli_args(&p, &v, 3, ARGV("-fl", "5"), err, sizeof(err)), -22);
}

UNIT_TEST(an_option_can_be_put_before_the_words)
{
	char **argv = ARGV("one", "--", "two");
	char **with = cli_args_with(4, argv, "--fast");

	assert_non_null(with);
	argv[1] = argv[3]; /* as parsing does */
	assert_string_equal(with[0], argv[0]);
	assert_string_equal(with[1], "--fast");
	assert_string_equal(with[2], "one");
	assert_string_equal(with[3], "--");
	assert_string_equal(with[4], "two");
	assert_null(with[5]);
	for (char **arg = with; *arg != NULL; arg++)
		free(*arg);
	free(with);
}

UNIT_TEST(options_behind_a_command_are_the_commands)
{
	char **argv = ARGV("--text", "x", "run", "--fast", "-f");
	char err[CLI_ERR_MAX];
	struct values v;

	assert_int_equal(args(&runner, &v, err, argv), 3);
	assert_string_equal(argv[1], "run");
	assert_string_equal(argv[3], "-f");
	assert_false(v.fast || v.given);
	assert_string_equal(v.text, "x");
}

UNIT_TEST(errors_name_the_option_and_the_range)
{
	static const struct {
		char *arg;
		const char *says;
	} bad[] = {
		{"--small=24", "option --small: '24' is not 8, 16 or 32"},
		{"--small=64", "option --small: '64' is not 8, 16 or 32"},
		{"--large=18446744073709551616", "from 0 to 18446744073709551615"},
		{"--large=0x", "option --large: '0x' is not a number"},
		{"--large=+1", "option --large: '+1' is not a number"},
		{"--large", "option --large: needs a value N"},
		{"--text=", "option --text: the value is empty"},
		{"--lar=1", "unknown option --lar=1"},
		{"-x", "unknown option -x"},
		{"-fx", "unknown option -fx"},
	};
	char err[CLI_ERR_MAX];
	struct values v;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(args(&mixed, &v, err, ARGV(bad[i].arg)), -22);
		if (strstr(err, bad[i].says) == NULL)
			fail_msg("%s: %s", bad[i].arg, err);
	}
	assert_int_equal(args(&mixed, &v, err, ARGV("--text", "--small=8")), -22);
	assert_string_equal(err, "option --text: needs a value T, not the option --small=8");
}

static int
pairs(struct values *v, const char *text, char *err)
{
	char copy[256];
	uint64_t seen = 0;

	memset(v, 0, sizeof(*v));
	strcpy(copy, text);
	return cli_pairs(table, v, copy, &seen, err, CLI_ERR_MAX);
}

UNIT_TEST(a_key_is_given_once_unless_it_may_be_repeated)
{
	char err[CLI_ERR_MAX];
	struct values v;

	assert_int_equal(pairs(&v, "list=a,large=3,list=b", err), 0);
	assert_int_equal(v.list.n, 2);
	assert_int_equal(v.large, 3);
	assert_int_equal(pairs(&v, "large=3,large=3", err), -22);
	assert_string_equal(err, "large: given twice");
	assert_int_equal(pairs(&v, "large=", err), -22);
	assert_string_equal(err, "large: needs a value, large=..");
	assert_int_equal(pairs(&v, "size=3", err), -22);
	assert_string_equal(err, "unknown 'size'; legal: fast small large text list");
}

UNIT_TEST(an_empty_item_is_refused)
{
	char err[CLI_ERR_MAX];
	struct values v;

	assert_int_equal(pairs(&v, "", err), 0);
	assert_int_equal(pairs(&v, "large=3,", err), -22);
	assert_string_equal(err,
			    "nothing follows the ',' after large=..; legal: key=value,key=value");
	assert_int_equal(pairs(&v, "large=3,,list=b", err), -22);
	assert_string_equal(err,
			    "nothing follows the ',' after large=..; legal: key=value,key=value");
	assert_int_equal(pairs(&v, ",large=3", err), -22);
	assert_string_equal(err, "begins with ','; legal: key=value,key=value");
}

static int
load(struct values *v, const char *text, char **kept, char *err)
{
	char path[] = "/tmp/uroce-cli-XXXXXX";
	int fd = mkstemp(path), rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	memset(v, 0, sizeof(*v));
	rc = cli_file(table, v, path, "s", kept, err, CLI_ERR_MAX);
	unlink(path);
	return rc;
}

UNIT_TEST(a_file_has_one_section)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"large = 1\n", "line 1: 'large = 1' is not 'name = value' under [s]"},
		{"[s]\n\nlarge\n", "line 3: 'large' is not"},
		{"[s]\n[t]\n", "line 2: unknown section [t]; there is only [s]"},
		{"[s\n", "line 1: '[s' has no ']'; legal: [s]"},
		{"[s]\n= 3\n", "line 2: '= 3' is not 'name = value' under [s]"},
		{"[s]\nlarge = -1", "line 2: option large: '-1' is not a number"},
		{"[s]\ntext = x", "option text is for the command line only"},
		{"[s]\nbig = x", "unknown option big"},
	};
	char err[CLI_ERR_MAX], *kept;
	struct values v;

	assert_int_equal(load(&v, "", &kept, err), 0);
	free(kept);
	assert_int_equal(load(&v, "# c\r\n [s] # d\r\n\tlist=a b \r\nlist = c=d#e\nlarge = 7",
			      &kept, err),
			 0);
	assert_int_equal(v.list.n, 2);
	assert_string_equal(v.list.v[0], "a b");
	assert_string_equal(v.list.v[1], "c=d");
	assert_int_equal(v.large, 7);
	free(kept);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(load(&v, bad[i].text, &kept, err), -22);
		assert_null(kept);
		if (strstr(err, bad[i].says) == NULL)
			fail_msg("%s: %s", bad[i].text, err);
	}
	assert_int_equal(cli_file(table, &v, "/nonexistent", "s", &kept, err, sizeof(err)), -22);
	assert_string_equal(err, "/nonexistent: No such file or directory");
	assert_int_equal(cli_file(table, &v, "/tmp", "s", &kept, err, sizeof(err)), -22);
	assert_string_equal(err, "/tmp: Is a directory");
}

UNIT_TEST(values_are_written_as_they_are_read)
{
	static const char *const names[] = {"red", "green", NULL};
	static const struct cli_field more[] = {
		{ROW("colour", CLI_CHOICE, small), .min = 8, .names = names},
		{ROW("mode", CLI_OCTAL, large)},
		{NULL},
	};
	static const char *const want[] = {"yes", "32", "5000000000", "", "a b"};
	struct values v = {.fast = true, .small = 32, .large = 5000000000, .list = {{"a", "b"}, 2}};
	char out[32];

	for (unsigned i = 0; table[i].name != NULL; i++) {
		cli_text(&table[i], &v, out, sizeof(out));
		assert_string_equal(out, want[i]);
	}
	v.small = 9;
	v.large = 0660;
	cli_text(&more[0], &v, out, sizeof(out));
	assert_string_equal(out, "green");
	cli_text(&more[1], &v, out, sizeof(out));
	assert_string_equal(out, "0660");
	cli_text(&table[4], &v, out, 3); /* is cut */
	assert_string_equal(out, "a ");
}
