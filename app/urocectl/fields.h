/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What `urocectl rdma` prints, once, in the form of ../uroced/fields.h: the value is an expression
 * of row, a row of the daemon's reply, and of port for links. DEV, LINK, DEV_NUMBERED: the columns
 * of a device or port before the others; LINK_IF: of a port only if the condition is true.
 * HEX_TEXT: hexadecimal, in JSON without 0x.
 */
/* clang-format off */
#ifndef TOPIC
#define TOPIC(name)
#endif
#ifndef END
#define END
#endif
#ifndef DEV
#define DEV
#define LINK
#define LINK_IF(cond)
#define DEV_NUMBERED
#endif
#ifndef UINT
#define UINT(name, who, unit, doc, ...)
#endif
#ifndef TEXT
#define TEXT(name, who, doc, ...)
#endif
#ifndef IF
#define IF(cond)
#define FI
#endif
#ifndef WORD
#define WORD(name, who, words, doc, ...) TEXT(name, who, doc, __VA_ARGS__)
#define HEX_TEXT(name, who, doc, ...)    TEXT(name, who, doc, __VA_ARGS__)
#define JSON_UINT(name, who, unit, doc, ...)
#endif
#define NUMBER(name, key, doc) UINT(name, ALL, , doc, row_int(row, key))
#define STRING(name, key, doc) TEXT(name, ALL, doc, row_text(row, key))
#define HEX64(name, key, doc)  HEX_TEXT(name, ALL, doc, strtoull(row_text(row, key), NULL, 16))
#define PDN                    NUMBER("pdn", "pd", "protection domain")
#define CTXN                   NUMBER("ctxn", "client", "context")
#define PROCESS                NUMBER("pid", "pid", "process") STRING("comm", "program", "its name")

#ifndef RDMA_OBJECTS
TOPIC(rdma_dev)
	DEV_NUMBERED
	WORD("node_type", ALL, "ca", "kind of device", "ca")
	TEXT("fw", ALL, "version of uroce", UROCE_VERSION)
	STRING("node_guid", "node_guid", "node GUID")
	STRING("sys_image_guid", "node_guid", "the same")
END

TOPIC(rdma_link)
	LINK
	WORD("state", ALL, "ACTIVE|DOWN", "state of the port", is_up(row) ? "ACTIVE" : "DOWN")
	WORD("physical_state", ALL, "LINK_UP|POLLING", "state of the link", is_up(row) ? "LINK_UP" : "POLLING")
	IF(row_int(port_of(t, row), "netdev_index") != 0)
	TEXT("netdev", ALL, "interface of the kernel under it", row_text(port_of(t, row), "netdev"))
	JSON_UINT("netdev_index", ALL, , "its index", row_int(port_of(t, row), "netdev_index"))
	FI
END
#endif

TOPIC(rdma_res_qp)
	LINK
	NUMBER("lqpn", "qpn", "queue pair number")
	PDN
	IF(is_connected(row))
	NUMBER("rqpn", "dest_qpn", "QPN of the peer; not of UD")
	FI
	WORD("type", ALL, "RC|UC|UD", "service", row_text(row, "type"))
	WORD("state", ALL, "RESET|INIT|RTR|RTS|SQD|SQE|ERR", "state", row_text(row, "state"))
	IF(is_connected(row))
	NUMBER("rq-psn", "expected_psn", "next PSN expected; not of UD")
	FI
	NUMBER("sq-psn", "next_psn", "next PSN to send")
	IF(is_connected(row))
	WORD("path-mig-state", ALL, "MIGRATED|REARM|ARMED", "path migration; not of UD", row_text(row, "path_mig_state"))
	FI
	PROCESS
END

TOPIC(rdma_res_cq)
	DEV
	NUMBER("cqn", "cq", "completion queue")
	NUMBER("cqe", "entries", "entries")
	NUMBER("users", "queues", "queues that complete to it")
	CTXN
	PROCESS
END

/* A key is both; its slot has no number that anybody else uses. */
TOPIC(rdma_res_mr)
	DEV
	UINT("mrn", ALL, , "number, from its key", (long long)(strtoull(row_text(row, "key"), NULL, 16) >> 8))
	HEX64("rkey", "key", "R_Key, hexadecimal without 0x")
	HEX64("lkey", "key", "L_Key, hexadecimal without 0x")
	HEX64("iova", "iova", "address in work requests, hexadecimal without 0x")
	UINT("mrlen", ALL, bytes, "length", row_int(row, "length"))
	PDN
	PROCESS
END

TOPIC(rdma_res_pd)
	DEV
	PDN
	NUMBER("users", "users", "objects that refer to it")
	CTXN
	PROCESS
END

TOPIC(rdma_res_srq)
	DEV
	NUMBER("srqn", "srq", "shared receive queue")
	WORD("type", ALL, "BASIC", "kind", "BASIC")
	PDN
	PROCESS
END

TOPIC(rdma_res_ctx)
	DEV
	CTXN
	PROCESS
END

TOPIC(rdma_res_cm_id)
	LINK_IF(json_is_string(json_object_get(row, "device")))
	NUMBER("cm-idn", "id", "id")
	IF(row_int(row, "qpn") != 0)
	NUMBER("lqpn", "qpn", "queue pair; not before there is one")
	FI
	WORD("qp-type", ALL, "RC|UD", "service", strcmp(row_text(row, "space"), "UDP") == 0 ? "UD" : "RC")
	TEXT("state", ALL, "state as rdma(8) names it", cm_state(row_text(row, "state")))
	WORD("ps", ALL, "TCP|UDP|IB", "port space", row_text(row, "space"))
	PROCESS
	STRING("src-addr", "local", "address and port")
	IF(json_is_string(json_object_get(row, "remote")))
	STRING("dst-addr", "remote", "peer's address and port; not of listeners")
	FI
END

#undef TOPIC
#undef END
#undef DEV
#undef LINK
#undef LINK_IF
#undef DEV_NUMBERED
#undef UINT
#undef TEXT
#undef IF
#undef FI
#undef WORD
#undef HEX_TEXT
#undef JSON_UINT
#undef RDMA_OBJECTS
