/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration file: an ini file read by rte_cfgfile, each line an option of the table. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <rte_cfgfile.h>
#include "options.h"

#define SECTION "uroced"

/* Any other section is a slip of the pen that must not pass in silence. */
static int
check_sections(struct rte_cfgfile *file, const char *path, char err[OPTIONS_ERR_MAX])
{
	char names[16][CFG_NAME_LEN];
	char *ptr[16];
	int n;

	for (unsigned i = 0; i < 16; i++)
		ptr[i] = names[i];
	n = rte_cfgfile_sections(file, ptr, 16);
	for (int i = 0; i < n; i++) {
		if (strcmp(names[i], SECTION) == 0)
			continue;
		snprintf(err, OPTIONS_ERR_MAX,
			 "%.200s: unknown section [%.64s]; there is only [%s]", path, names[i],
			 SECTION);
		return -EINVAL;
	}
	return 0;
}

/* What makes no sense in a file. */
static bool
is_for_command_line(const char *name)
{
	return strcmp(name, "config") == 0 || strcmp(name, "help") == 0 ||
	       strcmp(name, "version") == 0;
}

static int
set_entries(struct options *o, struct rte_cfgfile *file, const char *path,
	    char err[OPTIONS_ERR_MAX])
{
	int n = rte_cfgfile_section_num_entries(file, SECTION);
	struct rte_cfgfile_entry *entry;
	char why[OPTIONS_ERR_MAX];
	int rc = 0;

	if (n <= 0)
		return 0;
	entry = calloc((size_t)n, sizeof(*entry));
	if (entry == NULL) {
		snprintf(err, OPTIONS_ERR_MAX, "out of memory");
		return -EINVAL;
	}
	n = rte_cfgfile_section_entries(file, SECTION, entry, n);
	for (int i = 0; i < n && rc == 0; i++) {
		if (is_for_command_line(entry[i].name)) {
			snprintf(why, sizeof(why), "option %.64s is for the command line only",
				 entry[i].name);
			rc = -EINVAL;
		} else {
			rc = options_set(o, entry[i].name, entry[i].value, why);
		}
		if (rc < 0)
			snprintf(err, OPTIONS_ERR_MAX, "%.120s: %.380s", path, why);
	}
	free(entry);
	return rc;
}

/* rte_cfgfile passes over lines that it cannot read; nothing of the operator's may be lost. */
static int
check_lines(const char *path, char err[OPTIONS_ERR_MAX])
{
	FILE *f = fopen(path, "re");
	unsigned number = 0;
	char *line = NULL;
	size_t room = 0;
	int rc = 0;

	if (f == NULL) {
		snprintf(err, OPTIONS_ERR_MAX, "option --config: %.200s: %s", path,
			 strerror(errno));
		return -EINVAL;
	}
	while (rc == 0 && getline(&line, &room, f) >= 0) {
		char *text = line + strspn(line, " \t\r\n");

		number++;
		text[strcspn(text, "#\n")] = '\0';
		if (*text != '\0' && *text != '[' && strchr(text, '=') == NULL) {
			snprintf(err, OPTIONS_ERR_MAX, "%.200s: line %u is not 'name = value'",
				 path, number);
			rc = -EINVAL;
		}
	}
	free(line);
	fclose(f);
	return rc;
}

int
conf_load(struct options *o, const char *path, char err[OPTIONS_ERR_MAX])
{
	struct rte_cfgfile_parameters params = {.comment_character = '#'};
	struct rte_cfgfile *file;
	int rc = check_lines(path, err);

	if (rc < 0)
		return rc;
	file = rte_cfgfile_load_with_params(path, 0, &params);
	if (file == NULL) {
		snprintf(err, OPTIONS_ERR_MAX,
			 "%.200s: not lines of the form 'name = value' under [%s]", path, SECTION);
		return -EINVAL;
	}
	rc = check_sections(file, path, err);
	if (rc == 0)
		rc = set_entries(o, file, path, err);
	rte_cfgfile_close(file);
	return rc;
}
