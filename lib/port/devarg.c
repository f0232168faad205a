/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_kvargs.h>
#include "port/devarg.h"

/* Calls handle for each value of key. */
static void
for_each(const struct rte_eth_dev_info *info, const char *key, arg_handler_t handle, void *arg)
{
	const struct rte_devargs *da = info->device != NULL ? rte_dev_devargs(info->device) : NULL;
	struct rte_kvargs *kv;

	if (da == NULL || da->args == NULL)
		return;
	kv = rte_kvargs_parse(da->args, NULL);
	if (kv == NULL)
		return;
	rte_kvargs_process(kv, key, handle, arg);
	rte_kvargs_free(kv);
}

static int
take_number(const char *key, const char *value, void *arg)
{
	*(uint32_t *)arg = (uint32_t)strtoul(value, NULL, 0);
	return 0;
}

uint32_t
port_devarg_number(const struct rte_eth_dev_info *info, const char *key, uint32_t fallback)
{
	for_each(info, key, take_number, &fallback);
	return fallback;
}

struct comparison {
	const char *value;
	bool equal;
};

static int
compare(const char *key, const char *value, void *arg)
{
	struct comparison *c = arg;

	c->equal = strcmp(value, c->value) == 0;
	return 0;
}

bool
port_devarg_is(const struct rte_eth_dev_info *info, const char *key, const char *value)
{
	struct comparison c = {.value = value};

	for_each(info, key, compare, &c);
	return c.equal;
}
