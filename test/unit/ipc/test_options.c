/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of the daemon: both ways in, every wrong value, and the file that documents them. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "control/devspec.h"
#include "options.h"
#include "uroce_abi/ctrl.h"
#include "../../kit/unit.h"

/* Wrong values: the message must name the option, the value and the legal values. */
static const struct {
	const char *name, *value, *legal;
} illegal[] = {
	{"socket-mode", "888", "from 0 to 777"},
	{"socket-mode", "1000", "from 0 to 777"},
	{"socket", "", "empty"},
	{"workers", "0", "from 1 to 16"},
	{"workers", "17", "from 1 to 16"},
	{"workers", "-1", "from 1 to 16"},
	{"workers", " 1", "from 1 to 16"},
	{"workers", "two", "'two' is not auto or a number from 1 to 16"},
	{"workers", "AUTO", "from 1 to 16"},
	{"lcores", "1,", "list of 1 to 16 CPUs"},
	{"lcores", "3-1", "list of 1 to 16 CPUs"},
	{"lcores", "0-99", "list of 1 to 16 CPUs"},
	{"idle", "lazy", "auto poll adaptive"},
	{"no-huge", "maybe", "yes or no"},
	{"mem", "63", "from 64 to 1048576"},
	{"mem", "1048577", "from 64 to 1048576"},
	{"mbufs", "99999999999999999999", "from 1024 to 4194304"},
	{"max-qps", "0", "from 1 to 262144"},
	{"max-mrs", "1048576", "from 1 to 1048575"},
	{"max-cqs", "1x", "from 1 to 1048576"},
	{"max-pds", "", "from 1 to 1048576"},
	{"client-mem", "1", "from 2 to 1048576"},
	{"max-reg-mem-per-uid", "1073741825", "from 0 to 1073741824"},
	{"max-new-per-uid", "-1", "from 0 to 1073741824"},
	{"hello-timeout", "0", "from 1 to 3600"},
	{"allow", "eth0", "'eth0' is not a PCI address like 0000:03:00.0 (lspci -D), nor none"},
	{"allow", "0000:03:00", "not a PCI address"},
	{"allow", "03:00.0x", "not a PCI address"},
	{"file-prefix", "a/b", "is not a name of 1 to 48 characters without '/'"},
	{"log-level", "loud", "error warning notice info debug"},
	{"dev", "name=uroce0", "needs port="},
	{"dev", "port=p0", "needs name="},
	{"dev", "name=eth0,port=p0", "starts with uroce"},
	{"dev", "name=uroce0,port=p0,addr=10.9.0.1", "prefix length"},
	{"dev", "name=uroce0,port=p0,addr=10.9.0.1/33", "prefix length"},
	{"dev", "name=uroce0,port=p0,addr=fd00::1/129", "prefix length"},
	{"dev", "name=uroce0,port=p0,mac=01:00:00:00:00:01", "unicast MAC"},
	{"dev", "name=uroce0,port=p0,mac=02:00:00:00:00", "unicast MAC"},
	{"dev", "name=uroce0,port=p0,mac=02:00:00:00:00:-1", "unicast MAC"},
	{"dev", "name=uroce0,port=p0,mac=02:00:00:00:00: 1", "unicast MAC"},
	{"dev", "name=uroce0,port=p0,mtu=1500", "256, 512, 1024, 2048 or 4096"},
	{"dev", "name=uroce0,port=p0,vlan=4095", "from 1 to 4094"},
	{"dev", "name=uroce0,port=p0,gateway=here", "IPv4 or IPv6 address"},
	{"dev", "name=uroce0,port=p0,loopback=yes", "loopback: unknown 'yes'; legal: inside wire"},
	{"dev", "name=uroce0,port=p0,speed=9",
	 "name port addr gateway mac mtu vlan pkey peer loopback"},
	{"dev", "name=uroce0,port=p0,pkey=", "from 0x0001 to 0xffff"},
	{"dev", "name=uroce0,port=p0,pkey=0", "from 0x0001 to 0xffff"},
	{"dev", "name=uroce0,port=p0,pkey=0x8000", "other than 0x8000"},
	{"dev", "name=uroce0,port=p0,pkey=0x10000", "from 0x0001 to 0xffff"},
	{"dev", "name=uroce0,port=p0,pkey=0x1g", "from 0x0001 to 0xffff"},
	{"dev", "name=uroce0,port=p0,pkey=-1", "from 0x0001 to 0xffff"},
	{"dev",
	 "name=uroce0,port=p0,pkey=1,pkey=2,pkey=3,pkey=4,pkey=5,pkey=6,pkey=7,pkey=8,pkey=9,"
	 "pkey=10,pkey=11,pkey=12,pkey=13,pkey=14,pkey=15,pkey=16,pkey=17",
	 "at most 16"},
};
#define NILLEGAL (sizeof(illegal) / sizeof(illegal[0]))

static void
assert_says(const char *err, const char *what)
{
	if (strstr(err, what) == NULL)
		fail_msg("'%s' does not say '%s'", err, what);
}

UNIT_TEST(errors_name_the_wrong_value_and_the_range)
{
	for (unsigned i = 0; i < NILLEGAL; i++) {
		char err[OPTIONS_ERR_MAX] = "", dashed[64];
		char *argv[3] = {(char *)"uroced", dashed, (char *)(uintptr_t)illegal[i].value};
		struct options o;

		options_init(&o);
		assert_int_equal(options_set(&o, illegal[i].name, illegal[i].value, err), -EINVAL);
		assert_says(err, illegal[i].name);
		assert_says(err, illegal[i].legal);
		snprintf(dashed, sizeof(dashed), "--%s", illegal[i].name);
		err[0] = '\0';
		if (strcmp(illegal[i].name, "no-huge") != 0) { /* a switch takes no next word */
			assert_int_equal(options_parse(&o, 3, argv, err), -EINVAL);
			assert_says(err, dashed);
			assert_says(err, illegal[i].legal);
		}
		options_free(&o);
	}
}

UNIT_TEST(unknown_options_and_missing_values_are_refused)
{
	static const struct {
		char *arg;
		const char *says;
	} bad[] = {
		{(char *)"--worker", "--worker"},
		{(char *)"-w", "-w"},
		{(char *)"workers=1", "workers=1"},
		{(char *)"--workers", "needs a value"},
		{(char *)"--no-huge=maybe", "yes or no"},
		{(char *)"--config=/nonexistent", "/nonexistent"},
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char err[OPTIONS_ERR_MAX] = "";
		char *argv[2] = {(char *)"uroced", bad[i].arg};
		struct options o;

		options_init(&o);
		assert_int_equal(options_parse(&o, 2, argv, err), -EINVAL);
		assert_says(err, bad[i].says);
		options_free(&o);
	}
}

static char *
write_file(const char *text)
{
	static char path[64];
	int fd;

	strcpy(path, "/tmp/uroce-conf-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	return path;
}

static int
load(struct options *o, const char *text, char err[OPTIONS_ERR_MAX])
{
	char *path = write_file(text);
	int rc;

	options_init(o);
	rc = options_load(o, path, err);
	unlink(path);
	return rc;
}

UNIT_TEST(file_and_command_line_agree)
{
	char *argv[] = {(char *)"uroced",
			(char *)"--socket=/tmp/s",
			(char *)"--workers",
			(char *)"4",
			(char *)"--no-huge",
			(char *)"--idle",
			(char *)"poll",
			(char *)"--vdev",
			(char *)"net_null0",
			(char *)"--vdev",
			(char *)"net_memif0,role=server",
			(char *)"--dev",
			(char *)"name=uroce0,port=p0,addr=10.0.0.1/8",
			(char *)"--socket-mode",
			(char *)"0666"};
	char err[OPTIONS_ERR_MAX];
	struct options a, b;

	options_init(&a);
	assert_int_equal(options_parse(&a, sizeof(argv) / sizeof(argv[0]), argv, err), 0);
	assert_int_equal(load(&b,
			      "# comment\n[uroced]\nsocket = /tmp/s\nworkers=4 # four\n"
			      "no-huge = yes\nidle = poll\nvdev = net_null0\n"
			      "vdev = net_memif0,role=server\n"
			      "dev = name=uroce0,port=p0,addr=10.0.0.1/8\nsocket-mode = 0666\n",
			      err),
			 0);
	assert_string_equal(a.control.socket, b.control.socket);
	assert_int_equal(a.control.socket_mode, 0666);
	assert_int_equal(b.control.socket_mode, 0666);
	assert_int_equal(a.workers, 4);
	assert_int_equal(b.workers, 4);
	assert_true(a.no_huge && b.no_huge);
	assert_int_equal(a.idle, b.idle);
	assert_int_equal(a.vdev.n, 2);
	assert_int_equal(b.vdev.n, 2);
	assert_string_equal(a.vdev.v[1], b.vdev.v[1]);
	assert_string_equal(a.dev.v[0], b.dev.v[0]);
	options_free(&a);
	options_free(&b);
}

/* The nth pkey is entry n; decimal or hexadecimal, as people write them. */
REQUIREMENT("QP-04")
UNIT_TEST(pkeys_of_a_device_are_parsed)
{
	char err[OPTIONS_ERR_MAX];
	struct devspec s;

	assert_int_equal(devspec_parse(&s, "name=uroce0,port=p0", err, sizeof(err)), 0);
	assert_int_equal(s.npkeys, 0);
	assert_int_equal(devspec_parse(&s, "pkey=0xffff,name=uroce0,pkey=32769,port=p0,pkey=0x00A1",
				       err, sizeof(err)),
			 0);
	assert_int_equal(s.npkeys, 3);
	assert_int_equal(s.pkey[0], 0xffff);
	assert_int_equal(s.pkey[1], 0x8001);
	assert_int_equal(s.pkey[2], 0x00a1);
}

UNIT_TEST(keys_that_do_not_suit_the_kind_of_port_are_refused)
{
	static const struct {
		const char *text, *says; /* NULL: accepted */
	} specs[] = {
		{"port=packet,iface=eth0", NULL},
		{"port=packet,iface=eth0,addr=10.0.0.1/24,mac=02:00:00:00:00:01,vlan=7", NULL},
		{"port=packet,iface=eth0,share=yes,mtu=1024", NULL},
		{"port=packet,iface=eth0,share=no,addr=10.0.0.1/24", NULL},
		{"port=packet", "needs an interface"},
		{"port=packet,iface=eth0,addr=10.0.0.1", "prefix length"},
		{"port=packet,iface=eth0,share=maybe", "legal: no yes"},
		{"port=packet,iface=eth0,share=yes,addr=10.0.0.1/24", "the kernel has its own"},
		{"port=packet,iface=eth0,share=yes,vlan=7", "the kernel has its own"},
		{"port=udp,iface=eth0,share=yes", "share=yes is for"},
		{"port=net_af_packet0,share=yes", NULL},
		{"port=net_af_packet0,iface=eth0", "port=packet only"},
		{"port=net_af_packet0,cc=swift:rate=25000:target=30,cnp=0,cnp_dscp=63", NULL},
		{"port=net_af_packet0,cc=cubic", "legal: fixed, dcqcn, dcqcn-paper, swift"},
		{"port=net_af_packet0,cc=swift:min=20000", "legal: min <= limit <= rate"},
		{"port=net_af_packet0,peer=10.9.0.0/24,peer=10.8.0.7,peer=fd00::/64", NULL},
		{"port=udp,iface=eth0,peer=0.0.0.0/0", NULL},
		{"port=net_af_packet0,peer=10.9.0.1/24", "without bits behind its prefix"},
		{"port=net_af_packet0,peer=fd00::1/64", "without bits behind its prefix"},
		{"port=net_af_packet0,peer=10.9.0.0/33", "a network like 10.9.0.0/24"},
		{"port=net_af_packet0,peer=fd00::/129", "a network like 10.9.0.0/24"},
		{"port=net_af_packet0,peer=host", "a network like 10.9.0.0/24"},
		{"port=net_af_packet0,peer=", "a network like 10.9.0.0/24"},
		{"port=net_af_packet0,cnp=1000001", "0 to 1000000"},
		{"port=net_af_packet0,cnp_dscp=64", "0 to 63"},
	};
	char err[OPTIONS_ERR_MAX], text[256];
	struct devspec s;

	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		int rc;

		snprintf(text, sizeof(text), "name=uroce0,%s", specs[i].text);
		rc = devspec_parse(&s, text, err, sizeof(err));
		print_message("%s: %s\n", text, rc == 0 ? "accepted" : err);
		assert_int_equal(rc, specs[i].says == NULL ? 0 : -EINVAL);
		assert_true(rc == 0 || strstr(err, specs[i].says) != NULL);
		assert_int_equal(s.packet, strstr(text, "port=packet") != NULL);
	}
}

UNIT_TEST(command_line_overrides_the_file)
{
	char *path = write_file("[uroced]\nworkers = 4\nmem = 100\nvdev = a\nvdev = b\n");
	char *argv[] = {(char *)"uroced", (char *)"--workers", (char *)"2", (char *)"--vdev",
			(char *)"c",      (char *)"--config",  path};
	char err[OPTIONS_ERR_MAX];
	struct options o;

	options_init(&o);
	assert_int_equal(options_parse(&o, 7, argv, err), 0);
	unlink(path);
	assert_int_equal(o.workers, 2);
	assert_int_equal(o.mem_mib, 100);
	assert_int_equal(o.vdev.n, 1);
	assert_string_equal(o.vdev.v[0], "c");
	options_free(&o);
}

UNIT_TEST(bad_files_are_refused)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"[uroced]\nworkers = 99\n", "from 1 to 16"},
		{"[uroced]\nworkres = 1\n", "workres"},
		{"[urocde]\nworkers = 1\n", "[urocde]"},
		{"[uroced]\nno equals sign\n", "name = value"},
		{"[uroced]\nconfig = /tmp/other\n", "config"},
		{"[uroced]\nmetrics = 9464\n", "urocectl metrics --listen 9464"},
	};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char err[OPTIONS_ERR_MAX] = "";
		struct options o;

		assert_int_equal(load(&o, bad[i].text, err), -EINVAL);
		assert_says(err, bad[i].says);
		options_free(&o);
	}
}

/* config/uroced.conf has every option, commented, and each of its examples is legal. */
UNIT_TEST(shipped_file_documents_every_option)
{
	FILE *f = fopen(UROCED_CONF, "r");
	char line[512], shown_socket[128] = "", err[OPTIONS_ERR_MAX];
	bool seen[128] = {false};
	struct options o, plain;

	assert_non_null(f);
	options_init(&o);
	options_init(&plain);
	assert_int_equal(options_load(&plain, UROCED_CONF, err), 0);
	while (fgets(line, sizeof(line), f) != NULL) {
		char *eq = strstr(line, " = ");

		if (line[0] != '#' || line[1] == ' ' || eq == NULL)
			continue;
		*eq = '\0';
		line[strcspn(eq + 3, "\n") + (size_t)(eq + 3 - line)] = '\0';
		if (options_set(&o, line + 1, eq + 3, err) < 0)
			fail_msg("%s", err);
		if (strcmp(line + 1, "socket") == 0)
			snprintf(shown_socket, sizeof(shown_socket), "%.127s", o.control.socket);
		for (unsigned i = 0; options_name(i) != NULL; i++)
			seen[i] |= strcmp(options_name(i), line + 1) == 0;
	}
	fclose(f);
	for (unsigned i = 0; options_name(i) != NULL; i++) {
		const char *name = options_name(i);

		/* two are for the command line only, and one is refused */
		if (strcmp(name, "config") != 0 && strcmp(name, "daemon") != 0 &&
		    strcmp(name, "metrics") != 0 && !seen[i])
			fail_msg("%s is not in %s", name, UROCED_CONF);
	}
	/* the numbers that it shows are the defaults */
	assert_int_equal(o.workers, plain.workers);
	assert_int_equal(o.mem_mib, plain.mem_mib);
	assert_int_equal(o.mbufs, plain.mbufs);
	assert_int_equal(o.control.max_qps, plain.control.max_qps);
	assert_int_equal(o.control.max_cqs, plain.control.max_cqs);
	assert_int_equal(o.control.max_mrs, plain.control.max_mrs);
	assert_int_equal(o.control.max_pds, plain.control.max_pds);
	assert_int_equal(o.control.client_mem_mib, plain.control.client_mem_mib);
	assert_int_equal(o.control.max_srqs, plain.control.max_srqs);
	assert_int_equal(o.control.max_ahs, plain.control.max_ahs);
	assert_int_equal(o.control.max_mcast, plain.control.max_mcast);
	assert_int_equal(o.control.max_channels, plain.control.max_channels);
	assert_int_equal(o.control.max_cm_channels, plain.control.max_cm_channels);
	assert_int_equal(o.control.max_cm_ids, plain.control.max_cm_ids);
	assert_int_equal(o.control.hello_timeout_s, plain.control.hello_timeout_s);
	assert_int_equal(o.control.socket_mode, plain.control.socket_mode);
	assert_int_equal(o.log_level, plain.log_level);
	assert_null(plain.control.socket); /* main.c chooses */
	assert_string_equal(shown_socket, UROCE_DEFAULT_SOCK);
	options_free(&o);
	options_free(&plain);
}
