/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of --vdev: which ones the daemon adds for af_packet, and which it refuses. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "vdev.h"
#include "../../kit/unit.h"

/* lo exists in every network namespace; its MTU needs the largest slot. */
static const struct {
	uint32_t page;
	const char *given, *added;
} right[] = {
	{4096, "net_af_packet0,iface=lo", ",blocksz=16384,framesz=8192,framecnt=1024"},
	{4096, "net_af_packet7,iface=lo,qpairs=1", ",blocksz=16384,framesz=8192,framecnt=1024"},
	{4096, "net_af_packet0,iface=lo,framesz=2048", ",blocksz=16384,framecnt=1024"},
	{4096, "net_af_packet0,blocksz=32768,iface=lo", ",framesz=8192,framecnt=1024"},
	{4096, "net_af_packet0,iface=lo,blocksz=4096", ",framesz=4096,framecnt=1024"},
	{4096, "net_af_packet0,iface=lo,framecnt=64", ",blocksz=16384,framesz=8192"},
	{4096, "net_af_packet0,iface=lo,blocksz=16384,framesz=8192,framecnt=1024,qpairs=1", ""},
	{4096, "net_af_packet0,iface=lo,blocksz=1048576,framesz=1024,framecnt=4096", ""},
	{16384, "net_af_packet0,iface=lo", ",blocksz=16384,framesz=8192,framecnt=1024"},
	{16384, "net_af_packet0,iface=lo,framesz=2048", ",blocksz=16384,framecnt=1024"},
	{65536, "net_af_packet0,iface=lo", ",blocksz=65536,framesz=8192,framecnt=1024"},
	{65536, "net_af_packet0,iface=lo,framecnt=64", ",blocksz=65536,framesz=8192"},
	{65536, "net_af_packet0,iface=lo,blocksz=131072", ",framesz=8192,framecnt=1024"},
	{4096, "net_memif0,role=server,bsize=2048", ""},
	{4096, "net_tap0,iface=new0", ""},
	{4096, "net_ring0", ""},
};

UNIT_TEST(defaults_are_added_to_the_arguments)
{
	char err[512], want[256];

	for (unsigned i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		char *args = vdev_prepare(right[i].given, right[i].page, err, sizeof(err));

		if (args == NULL)
			fail_msg("%s: %s", right[i].given, err);
		snprintf(want, sizeof(want), "%s%s", right[i].given, right[i].added);
		assert_string_equal(args, want);
		free(args);
	}
}

static const struct {
	uint32_t page;
	const char *given, *named, *legal;
} illegal[] = {
	{4096, "net_af_packet0,iface=eth99x", "interface eth99x not found", "interfaces: lo"},
	{4096, "net_af_xdp0,iface=eth99x", "interface eth99x not found", "lo"},
	{4096, "net_tap0,iface=new0,remote=eth99x", "interface eth99x not found", "lo"},
	{4096, "net_pcap0,iface=eth99x", "interface eth99x not found", "lo"},
	{4096, "net_pcap0,rx_iface=lo,tx_iface=eth99x", "interface eth99x not found", "lo"},
	{4096, "eth_af_packet0,iface=eth99x", "interface eth99x not found", "lo"},
	{4096, "eth_af_packet0,iface=lo,framesz=16384", "framesz=16384", "from 1024 to 8192"},
	{4096, "net_af_packet0", "iface=", "name of an interface"},
	{4096, "net_af_packet0,iface=lo,framesz=16384", "framesz=16384", "from 1024 to 8192"},
	{4096, "net_af_packet0,iface=lo,framesz=-1", "framesz=-1", "from 1024 to 8192"},
	{4096, "net_af_packet0,iface=lo,framesz=8k", "framesz=8k", "from 1024 to 8192"},
	{4096, "net_af_packet0,iface=lo,framesz=", "framesz=", "from 1024 to 8192"},
	{4096, "net_af_packet0,iface=lo,blocksz=1024", "blocksz=1024", "from 4096 to 1048576"},
	{4096, "net_af_packet0,iface=lo,blocksz=0", "blocksz=0", "from 4096 to 1048576"},
	{4096, "net_af_packet0,iface=lo,framecnt=0", "framecnt=0", "from 1 to"},
	{4096, "net_af_packet0,iface=lo,blocksz=16384,framesz=4608", "framesz=4608",
	 "framesz=8192"},
	{4096, "net_af_packet0,iface=lo,blocksz=9216,framesz=1024", "blocksz=9216",
	 "blocksz=16384"},
	{4096, "net_af_packet0,iface=lo,blocksz=16384,framesz=2048,framecnt=12", "framecnt=12",
	 "framecnt=1024"},
	{16384, "net_af_packet0,iface=lo,blocksz=4096", "blocksz=4096", "from 16384 to 1048576"},
	{65536, "net_af_packet0,iface=lo,blocksz=16384", "blocksz=16384", "from 65536 to 1048576"},
	{65536, "net_af_packet0,iface=lo,blocksz=98304", "page size 65536",
	 "such as blocksz=65536,"},
};

UNIT_TEST(errors_name_the_argument_and_the_legal_values)
{
	char err[512];

	for (unsigned i = 0; i < sizeof(illegal) / sizeof(illegal[0]); i++) {
		err[0] = '\0';
		assert_null(vdev_prepare(illegal[i].given, illegal[i].page, err, sizeof(err)));
		if (strstr(err, illegal[i].named) == NULL || strstr(err, illegal[i].legal) == NULL)
			fail_msg("%s: '%s' names not both %s and %s", illegal[i].given, err,
				 illegal[i].named, illegal[i].legal);
	}
}

/* A slot holds the frame, a VLAN tag and 64 bytes of the kernel's, up to the largest slot. */
UNIT_TEST(slots_hold_a_frame_of_the_interface)
{
	assert_int_equal(vdev_slot_bytes(1500), 2048);
	assert_int_equal(vdev_slot_bytes(2048 - 82), 2048);
	assert_int_equal(vdev_slot_bytes(2048 - 81), 4096);
	assert_int_equal(vdev_slot_bytes(4200), 8192);
	assert_int_equal(vdev_slot_bytes(9000), 8192);
	assert_int_equal(vdev_slot_bytes(9001), 8192);
	assert_int_equal(vdev_slot_bytes(65536), 8192);
}

/* A socket file at path, on which a process listens or does not any more. */
static int
bind_socket(const char *path)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

UNIT_TEST(stale_socket_of_a_memif_server_is_removed)
{
	char path[] = "/tmp/uroce-test-XXXXXX", file[64], given[256], err[512];
	char *args;
	int fd;

	assert_non_null(mkdtemp(path));
	snprintf(file, sizeof(file), "%s/m", path);
	snprintf(given, sizeof(given), "net_memif0,role=server,socket=%s,socket-abstract=no", file);
	fd = bind_socket(file);
	assert_null(vdev_prepare(given, 4096, err, sizeof(err)));
	assert_non_null(strstr(err, file));
	assert_non_null(strstr(err, "role=client"));
	assert_int_equal(accept(fd, NULL, NULL), -1); /* nobody connected */
	close(fd);
	args = vdev_prepare(given, 4096, err, sizeof(err));
	assert_string_equal(args, given);
	free(args);
	assert_int_equal(access(file, F_OK), -1);

	/* a file that is not a socket stays */
	fd = open(file, O_CREAT | O_EXCL | O_CLOEXEC | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	free(vdev_prepare(given, 4096, err, sizeof(err)));
	assert_int_equal(unlink(file), 0);
	rmdir(path);
}
