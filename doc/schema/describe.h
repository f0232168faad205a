/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What fields.py reads, through the C preprocessor: the rows of app/uroced/fields.h, the counters,
 * and here the output that urocectl makes itself, in the same form but without values.
 */
/* clang-format off */
#ifdef FIELDS_DESCRIBE
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
#define HEX_TEXT(name, who, doc, ...)         TEXT(name, who, doc)
#define JSON_UINT(name, who, unit, doc, ...)  UINT(name, who, unit, doc)
#define DEV \
	UINT("ifindex", ALL, , "number of the device in the list of the daemon, from 0") \
	TEXT("ifname", ALL, "verbs device")
#define DEV_NUMBERED                          DEV
#define LINK                                  DEV UINT("port", ALL, , "1")
#define LINK_IF(cond)                         DEV IF(cond) UINT("port", ALL, , "1") FI
#define COUNTER(id, name, doc)                UINT(name, ALL, , doc)

#ifndef FIELDS_DAEMON
#define FIELDS_DAEMON
#include "counters/counters.h"
GROUP(stats_counters) COUNTER_LIST(COUNTER) END
GROUP(drops_counters) DROP_LIST(COUNTER) END
TOPIC(rdma_statistic) LINK COUNTER_LIST(COUNTER) END
#include "app/uroced/fields.h"
#include "describe.h" /* defines the macros again, and has the rest */
#else
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

TOPIC(rdma_res)
	DEV
	UINT("pd", ALL, , "protection domains")
	UINT("cq", ALL, , "completion queues")
	UINT("qp", ALL, , "queue pairs")
	UINT("cm_id", ALL, , "ids of rdma_cm")
	UINT("mr", ALL, , "memory regions")
	UINT("ctx", ALL, , "contexts")
	UINT("srq", ALL, , "shared receive queues")
END
#include "app/urocectl/fields.h"
#endif
#endif
