/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions to the daemon. Results are the caller's; NULL with errno (EPROTO: no valid answer). */
#ifndef UROCECTL_QUERY_H
#define UROCECTL_QUERY_H

#include <stdint.h>
#include <jansson.h>
#include "ipc/client.h"

/*
 * call, whose reply of these bytes comes as a descriptor: JSON text. When the reply has no
 * descriptor, *call says so and the result is NULL with errno EPROTO.
 */
json_t *call_for_json(struct ipc_client *c, struct ipc_call *call, const uint64_t *bytes);

/* The daemon's answer for a topic: {"what": [rows]}. qpn: of this QP only; NULL: of all. */
json_t *query(struct ipc_client *c, const char *what, const uint32_t *qpn);
/* The rows alone. */
json_t *query_rows(struct ipc_client *c, const char *what);

static inline long long
row_int(const json_t *row, const char *key)
{
	return (long long)json_integer_value(json_object_get(row, key));
}
/* A string member; "-" if there is none. */
static inline const char *
row_text(const json_t *row, const char *key)
{
	const char *s = json_string_value(json_object_get(row, key));

	return s != NULL ? s : "-";
}

#endif
