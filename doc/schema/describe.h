/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What fields.py reads, through the C preprocessor: the rows of app/uroced/fields.h, the counters,
 * and here the output that urocectl makes itself, in the same form but without values.
 */
/* clang-format off */
#define TOPIC(name, ...)                      @@TOPIC, #name@@
#define GROUP(name, ...)                      @@GROUP, #name@@
#define END                                   @@END@@
#define IF(cond)                              @@IF@@
#define FI                                    @@FI@@
#define UINT(name, who, unit, doc, ...)       @@UINT, name, who, #unit, doc@@
#define INT(name, who, unit, doc, ...)        @@INT, name, who, #unit, doc@@
#define UINT_NULL(name, who, unit, doc, ...)  @@UINT_NULL, name, who, #unit, doc@@
#define REAL(name, who, unit, doc, ...)       @@REAL, name, who, #unit, doc@@
#define BOOL(name, who, doc, ...)             @@BOOL, name, who, doc@@
#define TEXT(name, who, doc, ...)             @@TEXT, name, who, doc@@
#define TEXT_NULL(name, who, doc, ...)        @@TEXT_NULL, name, who, doc@@
#define TEXTS(name, who, doc, ...)            @@TEXTS, name, who, doc@@
#define HEX(name, who, doc, ...)              @@HEX, name, who, doc@@
#define TEXT_UINT(name, who, doc)             @@TEXT_UINT, name, who, doc@@
#define HEX_NULL(name, who, doc, cond, ...)   @@HEX_NULL, name, who, doc@@
#define WORD(name, who, words, doc, ...)      @@WORD, name, who, words, doc@@
#define WORD_NULL(name, who, words, doc, ...) @@WORD_NULL, name, who, words, doc@@
#define PART(name, who, group, doc, ...)      @@PART, name, who, #group, doc@@
#define LIST(name, who, group, doc, ...)      @@LIST, name, who, #group, doc@@
#define RATES(name)                           @@RATES, #name@@
#define RATE(counter, name, bits, doc)        @@RATE, name, doc@@
#define RATES_END                             @@RATES_END@@

#ifdef FIELDS_COMMANDS
#define TYPE_WORDS  "RC|UC|UD"
#define STATE_WORDS "RESET|INIT|RTR|RTS|SQD|SQE|ERR"
#define DEV \
	UINT("ifindex", ALL, , "number of the device in the list of the daemon, from 0") \
	TEXT("ifname", ALL, "verbs device")
#define LINK         DEV UINT("port", ALL, , "1")
#define PROCESS      UINT("pid", ALL, , "process") TEXT("comm", ALL, "its name")
#define PDN          UINT("pdn", ALL, , "protection domain")
#define CTXN         UINT("ctxn", ALL, , "context")

TOPIC(capture)
	TEXT("device", ALL, "verbs device")
	BOOL("running", ALL, "a capture is running")
	UINT("frames", ALL, , "frames written")
	UINT("bytes", ALL, bytes, "of frames written")
	UINT("lost", ALL, , "frames for which there was no space")
	TEXT_NULL("error", ALL, "why writing failed; null: it did not")
END

TOPIC(doctor)
	WORD("check", ALL, "socket|daemon|rights|kernel|memory|memlock|link|gids|mtu|buffers|firewall|peer", "what was checked")
	TEXT("device", ALL, "verbs device; empty: none in particular")
	WORD("verdict", ALL, "ok|hint|fault", "fault: RDMA does not work; hint: it works, but could be better")
	TEXT("text", ALL, "what was found, and what to do")
END

/* A row has the members of one line. */
TOPIC(set)
	TEXT("device", SET_ADDRESS|SET_PKEY|SET_CC|SET_PROBE, "verbs device")
	UINT("index", SET_ADDRESS|SET_PKEY, , "entry of the table that changed")
	TEXT("address", SET_ADDRESS, "address that was added or removed")
	HEX("pkey", SET_PKEY, "key in the entry now; 0x0000: none")
	TEXT("cc", SET_CC, "the congestion policy")
	WORD("probe", SET_PROBE, "on|off", "retransmissions before the ACK timeout")
	IF(of one queue pair)
	UINT("qpn", ALL, , "cc, probe: the queue pair; absent: all of the device")
	FI
	WORD("setting", SET_DAEMON, "log-level|quota", "what changed")
	IF(a quota)
	TEXT("resource", ALL, "quota: the resource")
	FI
	TEXT_UINT("value", SET_DAEMON, "the new level, or the new limit in units of its option")
END

TOPIC(rdma-dev)
	DEV
	WORD("node_type", ALL, "ca", "kind of device")
	TEXT("fw", ALL, "version of uroce")
	TEXT("node_guid", ALL, "node GUID")
	TEXT("sys_image_guid", ALL, "the same")
END

TOPIC(rdma-link)
	LINK
	WORD("state", ALL, "ACTIVE|DOWN", "state of the port")
	WORD("physical_state", ALL, "LINK_UP|POLLING", "state of the link")
	IF(there is one)
	TEXT("netdev", ALL, "interface of the kernel under it")
	UINT("netdev_index", ALL, , "its index")
	FI
END

TOPIC(rdma-res)
	DEV
	UINT("pd", ALL, , "protection domains")
	UINT("cq", ALL, , "completion queues")
	UINT("qp", ALL, , "queue pairs")
	UINT("cm_id", ALL, , "ids of rdma_cm")
	UINT("mr", ALL, , "memory regions")
	UINT("ctx", ALL, , "contexts")
	UINT("srq", ALL, , "shared receive queues")
END

TOPIC(rdma-res-qp)
	LINK
	UINT("lqpn", ALL, , "queue pair number")
	PDN
	WORD("type", ALL, TYPE_WORDS, "service")
	WORD("state", ALL, STATE_WORDS, "state")
	IF(not UD)
	UINT("rqpn", ALL, , "QPN of the peer; not of UD")
	UINT("rq-psn", ALL, , "next PSN expected; not of UD")
	WORD("path-mig-state", ALL, "MIGRATED|REARM|ARMED", "path migration; not of UD")
	FI
	UINT("sq-psn", ALL, , "next PSN to send")
	PROCESS
END

TOPIC(rdma-res-cq)
	DEV
	UINT("cqn", ALL, , "completion queue")
	UINT("cqe", ALL, , "entries")
	UINT("users", ALL, , "queues that complete to it")
	CTXN
	PROCESS
END

TOPIC(rdma-res-mr)
	DEV
	UINT("mrn", ALL, , "number, from its key")
	TEXT("rkey", ALL, "R_Key, hexadecimal without 0x")
	TEXT("lkey", ALL, "L_Key, hexadecimal without 0x")
	TEXT("iova", ALL, "address in work requests, hexadecimal without 0x")
	UINT("mrlen", ALL, bytes, "length")
	PDN
	PROCESS
END

TOPIC(rdma-res-pd)
	DEV
	PDN
	UINT("users", ALL, , "objects that refer to it")
	CTXN
	PROCESS
END

TOPIC(rdma-res-srq)
	DEV
	UINT("srqn", ALL, , "shared receive queue")
	WORD("type", ALL, "BASIC", "kind")
	PDN
	PROCESS
END

TOPIC(rdma-res-ctx)
	DEV
	CTXN
	PROCESS
END

TOPIC(rdma-res-cm_id)
	DEV
	IF(bound to a device)
	UINT("port", ALL, , "1")
	FI
	UINT("cm-idn", ALL, , "id")
	IF(there is one)
	UINT("lqpn", ALL, , "queue pair; not before there is one")
	FI
	WORD("qp-type", ALL, "RC|UD", "service")
	TEXT("state", ALL, "state as rdma(8) names it")
	WORD("ps", ALL, "TCP|UDP|IB", "port space")
	PROCESS
	TEXT("src-addr", ALL, "address and port")
	IF(not a listener)
	TEXT("dst-addr", ALL, "peer's address and port; not of listeners")
	FI
END
#undef TYPE_WORDS
#undef STATE_WORDS

#include "counters/counters.h"
#define COUNTER(id, name, doc) UINT(name, ALL, , doc)
GROUP(stats_counters) COUNTER_LIST(COUNTER) END
GROUP(drops_counters) DROP_LIST(COUNTER) END
TOPIC(rdma-statistic) LINK COUNTER_LIST(COUNTER) END

#include "app/uroced/fields.h"
#endif
