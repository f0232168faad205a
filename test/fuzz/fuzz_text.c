/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text from users (fuzz_rx.h's interface): configuration file, command line, specifications of
 * devices, congestion policies and faults, addresses, CPU lists, filters of urocectl. What must
 * hold: a text is accepted, or refused with a reason; accepted values are within their limits.
 *
 * An input is a byte, which chooses the parser, and the text.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../../app/urocectl/filter.h"
#include "../../app/urocectl/urocectl.h"
#include "../../app/uroced/options.h"
#include "../../drivers/impair/impair_spec.h"
#include "cc/param.h"
#include "control/devspec.h"
#include "fuzz_rx.h"
#include "net/net.h"

#define TEXT_MAX  2048
#define WORDS_MAX 16

static int config_fd;
static jmp_buf refused;

static void
require(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "fuzz_text: %s\n", what);
	abort();
}

/* room: what the parser was given. */
static void
check_refusal(const char *err, size_t room)
{
	size_t len = strnlen(err, room);

	require(len > 0 && len < room, "a refusal without a reason");
}

/* urocectl's: exits there. */
void
usage_error(const char *fmt, ...)
{
	char err[4096];
	va_list args;

	va_start(args, fmt);
	vsnprintf(err, sizeof(err), fmt, args);
	va_end(args);
	check_refusal(err, sizeof(err));
	longjmp(refused, 1);
}

static void
check_options(const struct options *o)
{
	char value[4096];
	const char *name, *def;

	require(o->workers >= 1 && o->workers <= UROCE_MAX_WORKERS, "workers");
	require(o->control.max_qps >= 1 && o->control.max_qps <= 1u << 18, "max-qps");
	require(o->dev.n <= CLI_LIST_MAX && o->control.socket_mode <= 0777, "a member's limit");
	for (unsigned i = 0; options_get(o, i, &name, &def, value, sizeof(value)); i++)
		require(strnlen(value, sizeof(value)) < sizeof(value), "an option's text");
}

static void
config(const char *text, size_t len)
{
	char err[OPTIONS_ERR_MAX] = "", path[32];
	struct options o;

	if (ftruncate(config_fd, 0) != 0 || pwrite(config_fd, text, len, 0) != (ssize_t)len)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", config_fd);
	options_init(&o);
	if (options_load(&o, path, err) == 0)
		check_options(&o);
	else
		check_refusal(err, sizeof(err));
	options_free(&o);
}

/* Cuts text into words at spaces. */
static int
words_of(char *text, char **word)
{
	int n = 0;

	for (char *w = strtok(text, " "); w != NULL && n < WORDS_MAX; w = strtok(NULL, " "))
		word[n++] = w;
	word[n] = NULL;
	return n;
}

static void
command_line(char *text)
{
	char *argv[WORDS_MAX + 2] = {(char *)"uroced"};
	int argc = 1 + words_of(text, argv + 1);
	char err[OPTIONS_ERR_MAX] = "";
	struct options o;

	for (int i = 1; i < argc; i++) /* these two exit; files of the machine are not read */
		if (strncmp(argv[i], "--h", 3) == 0 || strncmp(argv[i], "--v", 3) == 0 ||
		    strncmp(argv[i], "--config", 8) == 0 || strcmp(argv[i], "-h") == 0)
			argv[i] = (char *)"--mem";
	options_init(&o);
	if (options_parse(&o, argc, argv, err) == 0)
		check_options(&o);
	else
		check_refusal(err, sizeof(err));
	options_free(&o);
}

static void
device(const char *text)
{
	char err[512] = "", small[20];
	struct devspec spec;

	if (devspec_parse(&spec, text, err, sizeof(err)) == 0) {
		require(memchr(spec.name, '\0', sizeof(spec.name)) != NULL &&
				memchr(spec.port, '\0', sizeof(spec.port)) != NULL &&
				memchr(spec.hostif, '\0', sizeof(spec.hostif)) != NULL &&
				memchr(spec.iface, '\0', sizeof(spec.iface)) != NULL,
			"a name without end");
		require(strncmp(spec.name, "uroce", 5) == 0 && spec.vlan < 4095, "name or VLAN");
		require(spec.naddrs <= DEVSPEC_MAX_ADDRS && spec.npkeys <= UROCE_MAX_PKEYS &&
				spec.ngateways <= 2,
			"a number of things");
		require(spec.cc_text == NULL, "a pointer into the text");
		return;
	}
	check_refusal(err, sizeof(err));
	(void)devspec_parse(&spec, text, small, sizeof(small));
	check_refusal(small, sizeof(small));
}

static void
congestion(const char *text)
{
	char err[300] = "";
	struct cc_param p;

	if (!cc_param_parse(&p, text, err, sizeof(err)) ||
	    !cc_param_fill(&p, 25000000, err, sizeof(err)))
		check_refusal(err, sizeof(err));
}

static void
faults(const char *text)
{
	static struct impair_cfg cfg;
	char err[300] = "";

	if (impair_spec_parse(text, &cfg, err, sizeof(err)) == 0)
		require(cfg.nrules <= IMPAIR_MAX_RULES, "rules");
	else
		check_refusal(err, sizeof(err));
}

static void
addresses(char *text)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
	char *word[WORDS_MAX + 1];
	struct net_dev dev;
	int n = words_of(text, word);

	net_dev_init(&dev, mac);
	for (int i = 0; i < n; i++) {
		int slot = word[i][0] == '-' ? net_addr_del(&dev, word[i] + 1)
					     : net_addr_add(&dev, word[i]);

		require(slot < UROCE_MAX_GIDS, "a slot beyond the table");
		(void)devspec_pkey(word[i]);
	}
}

static void
cpus(const char *text)
{
	unsigned cpu[UROCE_MAX_WORKERS];
	int n = options_cpus(text, cpu, UROCE_MAX_WORKERS);

	require(n <= UROCE_MAX_WORKERS, "more CPUs than workers");
	for (int i = 0; i < n; i++)
		require(cpu[i] <= 4095, "a CPU's number");
}

static void
filters(char *text)
{
	char *word[WORDS_MAX + 1];
	struct filters fs = {0};
	json_t *rows;
	int n;

	if (setjmp(refused) != 0)
		return;
	n = words_of(text, word);
	for (int i = 0; i < n; i++)
		(void)filter_take(&fs, 0x7f, "show qp", word[i]);
	filter_check(&fs, "show qp", "INIT RTR RTS ERR", "RC UC UD");
	require(fs.n <= FILTER_MAX, "filters");
	rows = json_pack("[{s:s,s:i,s:s},{s:n}]", "device", "uroce0", "pid", 7, "state", "RTS",
			 "qpn");
	filter_rows(&fs, rows);
	require(fs.n > 0 || json_array_size(rows) == 2, "a row is gone without a filter");
	json_decref(rows);
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	config_fd = memfd_create("config", MFD_CLOEXEC);
	require(config_fd >= 0, "no memory file");
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t len = size > TEXT_MAX ? TEXT_MAX : size;
	char *text;

	if (len == 0)
		return 0;
	text = malloc(len); /* just as long as it is, for the sanitizer */
	require(text != NULL, "no memory");
	memcpy(text, data + 1, len - 1);
	text[len - 1] = '\0';
	switch (data[0] % 8) {
	case 0:
		config(text, len - 1);
		break;
	case 1:
		command_line(text);
		break;
	case 2:
		device(text);
		break;
	case 3:
		congestion(text);
		break;
	case 4:
		faults(text);
		break;
	case 5:
		addresses(text);
		break;
	case 6:
		cpus(text);
		break;
	default:
		filters(text);
		break;
	}
	free(text);
	return 0;
}
