/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports: which ids may bind and listen on the same port. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cm/port.h"
#include "wire/mad.h"
#include "../../kit/unit.h"

#define V4_A                                                                                       \
	{                                                                                          \
		[10] = 0xff, 0xff, 10, 0, 0, 1                                                     \
	}
#define V4_B                                                                                       \
	{                                                                                          \
		[10] = 0xff, 0xff, 10, 0, 0, 2                                                     \
	}
#define V6_A                                                                                       \
	{                                                                                          \
		0xfd, [15] = 1                                                                     \
	}

static struct cm_ports *ports;

static int
make(void **state)
{
	ports = cm_ports_init(malloc(cm_ports_bytes(8)), 8, 3);
	return 0;
}

static int
drop(void **state)
{
	free(ports);
	return 0;
}

/* Bind as b to port 7471: the owner. */
static uint32_t
bind_as(struct cm_bind b, int want)
{
	uint32_t owner = 0;
	uint16_t port = 0;

	b.space = b.space != 0 ? b.space : WIRE_CM_PS_TCP;
	b.port = 7471;
	assert_int_equal(cm_port_bind(ports, &b, &owner, &port), want);
	if (want == 0)
		assert_int_equal(port, 7471);
	return owner;
}

#define TEST(name) UNIT_TEST_IN(name, make, drop)

REQUIREMENT("CM-10")
TEST(an_address_and_port_belong_to_one_owner)
{
	uint32_t a = bind_as((struct cm_bind){.gid = V4_A}, 0);

	bind_as((struct cm_bind){.gid = V4_A}, -EADDRINUSE);
	bind_as((struct cm_bind){.gid = V4_A, .reuse = true}, -EADDRINUSE);
	bind_as((struct cm_bind){.gid = V4_B}, 0);
	bind_as((struct cm_bind){.gid = V6_A}, 0);
	bind_as((struct cm_bind){.gid = V6_A, .dev = 1}, 0); /* link-local, on another link */
	bind_as((struct cm_bind){.gid = V6_A, .dev = 1}, -EADDRINUSE);
	bind_as((struct cm_bind){.gid = V4_A, .space = WIRE_CM_PS_UDP}, 0);
	cm_port_release(ports, a);
	bind_as((struct cm_bind){.gid = V4_A}, 0);
}

REQUIREMENT("CM-10")
TEST(a_wildcard_overlaps_every_address_of_its_families)
{
	static const struct {
		struct cm_bind wild, other;
		int want;
	} cases[] = {
		{{.v6 = false}, {.gid = V4_A}, -EADDRINUSE},
		{{.v6 = false}, {.gid = V6_A}, 0},
		{{.v6 = false}, {.v6 = false}, -EADDRINUSE},
		{{.v6 = true}, {.gid = V4_A}, -EADDRINUSE},
		{{.v6 = true}, {.gid = V6_A}, -EADDRINUSE},
		{{.v6 = true}, {.v6 = false}, -EADDRINUSE},
		{{.v6 = true, .afonly = true}, {.gid = V4_A}, 0},
		{{.v6 = true, .afonly = true}, {.gid = V6_A}, -EADDRINUSE},
		{{.v6 = true, .afonly = true}, {.v6 = false}, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		/* in either order */
		for (uint32_t turn = 0; turn < 2; turn++) {
			uint32_t first = bind_as(turn ? cases[i].other : cases[i].wild, 0);
			uint32_t second =
				bind_as(turn ? cases[i].wild : cases[i].other, cases[i].want);

			cm_port_release(ports, first);
			cm_port_release(ports, second);
		}
	}
}

REQUIREMENT("CM-10")
TEST(reuse_shares_a_port_until_somebody_listens)
{
	struct cm_bind reuse = {.gid = V4_A, .reuse = true};
	uint32_t a = bind_as(reuse, 0), b = bind_as(reuse, 0);

	assert_int_equal(cm_port_listen(ports, a), -EADDRINUSE);
	cm_port_release(ports, b);
	assert_int_equal(cm_port_listen(ports, a), 0);
	assert_int_equal(cm_port_listen(ports, a), 0);
	bind_as(reuse, -EADDRINUSE);
	assert_int_equal(cm_port_listen(ports, b), -ENOENT);
	assert_int_equal(cm_port_listen(ports, 0), -ENOENT);
	cm_port_release(ports, 0);
}

REQUIREMENT("CM-10")
TEST(ephemeral_ports_are_the_owners_alone)
{
	struct cm_bind b = {.space = WIRE_CM_PS_TCP, .reuse = true};
	uint32_t owner[9];
	uint16_t port[9];

	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(cm_port_bind(ports, &b, &owner[i], &port[i]), 0);
		assert_in_range(port[i], CM_PORT_FIRST, CM_PORT_LAST);
		for (uint32_t k = 0; k < i; k++)
			assert_int_not_equal(port[i], port[k]);
	}
	assert_int_equal(cm_port_bind(ports, &b, &owner[8], &port[8]), -ENOMEM);
	cm_port_release(ports, owner[3]);
	assert_int_equal(cm_port_bind(ports, &b, &owner[8], &port[8]), 0);
}

REQUIREMENT("CM-10")
TEST(ephemeral_ports_run_out)
{
	uint32_t n = CM_PORT_LAST - CM_PORT_FIRST + 1, owner;
	struct cm_ports *many = cm_ports_init(malloc(cm_ports_bytes(n + 1)), n + 1, 1);
	struct cm_bind b = {.space = WIRE_CM_PS_TCP};
	uint16_t port;

	for (uint32_t i = 0; i < n; i++) {
		b.port = (uint16_t)(CM_PORT_FIRST + i);
		assert_int_equal(cm_port_bind(many, &b, &owner, &port), 0);
	}
	b.port = 0;
	assert_int_equal(cm_port_bind(many, &b, &owner, &port), -EADDRNOTAVAIL);
	cm_port_release(many, owner + 1 - 1000);
	assert_int_equal(cm_port_bind(many, &b, &owner, &port), 0);
	free(many);
}
