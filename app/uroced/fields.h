/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every field of what `urocectl show` and the other commands print, once. From these rows come the
 * JSON (show.c), its schemas and the tables of uroce-fields(7) (doc/schema/fields.py),
 * and urocectl's rates and units. A file that includes this header defines the macros that it
 * needs before; the others are empty, and those that are listed here are undefined afterwards.
 *
 *   TOPIC(name, arguments ..) .. END   rows of show NAME; GROUP: a part of other rows
 *   KIND("name", who, .., "description", value)
 *
 * who: ALL, or OWN: not for other users (session_may_see). The value is an expression of the
 * arguments. Kinds:
 *
 *   UINT, INT   a number, with its unit or nothing. UINT_NULL: null if the value is negative
 *   REAL BOOL TEXT HEX              TEXT_NULL: null for NULL. HEX_NULL: null unless the condition
 *   WORD, WORD_NULL                 one of the words between |
 *   PART   an object, absent if NULL; LIST: an array of objects. Both name their GROUP
 *   TEXTS  an array of strings
 *
 *   IF(condition) .. FI   fields that are absent unless the condition is true
 *   RATES(name) .. RATES_END   RATE("counter", "name", bits at which it wraps, "description"):
 *                         what watch and top add to the rows of a topic, growth a second
 */
/* clang-format off */
#ifndef TOPIC
#define TOPIC(name, ...)
#endif
#ifndef GROUP
#define GROUP(name, ...)
#endif
#ifndef END
#define END
#endif
#ifndef UINT
#define UINT(name, who, unit, doc, ...)
#define INT(name, who, unit, doc, ...)
#define UINT_NULL(name, who, unit, doc, ...)
#define REAL(name, who, unit, doc, ...)
#endif
#ifndef TEXT
#define BOOL(name, who, doc, ...)
#define TEXT(name, who, doc, ...)
#define TEXT_NULL(name, who, doc, ...)
#define HEX(name, who, doc, ...)
#define HEX_NULL(name, who, doc, cond, ...)
#define WORD(name, who, words, doc, ...)
#define WORD_NULL(name, who, words, doc, ...)
#define PART(name, who, group, doc, ...)
#define LIST(name, who, group, doc, ...)
#define TEXTS(name, who, doc, ...)
#define IF(cond)
#define FI
#endif
#ifndef RATES
#define RATES(name)
#define RATE(counter, name, bits, doc)
#define RATES_END
#endif

/* --- devices and ports */

TOPIC(device, const struct device *dev)
	TEXT("device", ALL, "verbs device", dev->name)
	TEXT("node_guid", ALL, "node GUID, made from the MAC", guid_text(device_guid(dev)))
	TEXT("port", ALL, "DPDK port", dev->port.name)
	TEXT("mac", ALL, "MAC address", mac_text(dev->port.mac))
	WORD("link", ALL, "up|down", "state of the link", dev->port.link_up ? "up" : "down")
	UINT("path_mtu", ALL, bytes, "largest path MTU", 128 << dev->max_mtu)
	UINT("vlan", ALL, , "VLAN tag control information; 0: no tag", dev->net.vlan_tci)
	WORD("probe", ALL, "on|off", "off: queue pairs that it creates have probe off",
	     dev->plain & QP_PLAIN_TIMERS ? "off" : "on")
	UINT("gids", ALL, , "entries of the GID table in use", count_gids(dev))
	UINT("clients", ALL, , "programs that have the device open", count_clients(dev))
END

GROUP(socket, const struct port_socket_stats *s, const struct port *p)
	UINT("tx_messages", ALL, , "datagrams or frames handed to the kernel", s->tx_messages)
	UINT("rx_messages", ALL, , "datagrams or frames taken from the kernel", s->rx_messages)
	UINT("tx_lost", ALL, , "that the kernel did not take", s->tx_lost)
	UINT("rx_copied", ALL, , "that were copied because they did not fit a buffer as they were", s->rx_copied)
	UINT("rx_truncated", ALL, , "longer than a buffer", s->rx_truncated)
	UINT("rx_too_long", ALL, , "of a length that no packet has", s->rx_too_long)
	UINT("rx_too_many", ALL, , "more segments than fit a burst", s->rx_too_many)
	UINT("rx_malformed", ALL, , "whose addresses or headers made no sense", s->rx_malformed)
	UINT("rx_no_buffer", ALL, , "lost for want of a packet buffer", s->rx_no_buffer)
	UINT("rx_errors", ALL, , "errors that the socket reported", s->rx_errors)
	UINT("rx_socket_full", ALL, , "lost in the kernel because the socket was full", s->rx_socket_full)
	UINT("rx_buffer_bytes", ALL, bytes, "what the socket's receive buffer holds, in the kernel's count", rx_buffer(p))
END

GROUP(hostif, const struct hostif *h, const struct hostif_stats *s)
	TEXT("name", ALL, "interface of the kernel", hostif_name(h))
	UINT("to_kernel", ALL, , "frames passed to the kernel", s->to_kernel)
	UINT("to_kernel_lost", ALL, , "frames that it did not take", s->to_kernel_lost)
	UINT("from_kernel", ALL, , "frames of the kernel sent", s->from_kernel)
	UINT("from_kernel_lost", ALL, , "frames of the kernel that were dropped", s->from_kernel_lost)
	UINT("super_frames", ALL, , "frames of the kernel that were cut", s->super_frames)
	UINT("merged", ALL, , "frames to the kernel that were merged", s->merged)
END

GROUP(port_gid, unsigned i, const struct net_addr *a)
	UINT("index", ALL, , "entry", i)
	TEXT_NULL("gid", ALL, "address", gid_text(a->gid))
	UINT("prefix", ALL, bits, "length of the prefix", a->plen)
END

GROUP(pkey, unsigned i, uint16_t pkey)
	UINT("index", ALL, , "entry", i)
	HEX("pkey", ALL, "key", "0x%04x", pkey)
	WORD("member", ALL, "full|limited", "membership", pkey & 0x8000 ? "full" : "limited")
END

GROUP(capabilities, const struct port_caps *c)
	TEXTS("rx_offloads", ALL, "receive offloads, in DPDK's names", offloads(c->rx_offloads, rte_eth_dev_rx_offload_name))
	TEXTS("tx_offloads", ALL, "transmit offloads, in DPDK's names", offloads(c->tx_offloads, rte_eth_dev_tx_offload_name))
	TEXTS("rss", ALL, "packet types that the device can spread over queues", rss_names(c->rss))
	TEXTS("rss_used", ALL, "of these, the types in use", rss_names(c->rss_used))
	UINT("reta_size", ALL, , "entries of the redirection table", c->reta_size)
	TEXT("flow_rule", ALL, "yes: it accepts a rule for RoCE; no: DPDK's driver has none; else why not", flow_rule(c))
	UINT("max_rx_queues", ALL, , "receive queues", c->max_rxq)
	UINT("max_tx_queues", ALL, , "transmit queues", c->max_txq)
	IF(c->max_mtu != 0)
	UINT("max_mtu", ALL, bytes, "largest MTU; absent: unknown", c->max_mtu)
	FI
END

TOPIC(port, const struct device *dev, const struct port *p)
	TEXT("device", ALL, "verbs device", dev->name)
	TEXT("port", ALL, "DPDK port", p->name)
	TEXT("driver", ALL, "its driver", p->driver)
	TEXT("netdev", ALL, "interface of the kernel under it; empty: none", p->netdev)
	UINT("netdev_index", ALL, , "index of that interface in the daemon's network namespace; 0: none",
	     p->netdev[0] != '\0' ? if_nametoindex(p->netdev) : 0)
	UINT("id", ALL, , "DPDK's number of the port", p->id)
	WORD("link", ALL, "up|down", "state of the link", p->link_up ? "up" : "down")
	TEXT("mac", ALL, "MAC address", mac_text(p->mac))
	UINT("link_mtu", ALL, bytes, "largest IP packet", p->link_mtu)
	UINT("rx_queues", ALL, , "receive queues", p->nrxq)
	UINT("tx_queues", ALL, , "send queues", p->ntxq)
	WORD("rx_wake", ALL, "port|own|timer",
	     "what wakes a sleeping worker when a frame arrives: the port's descriptor, only frames of this daemon, or a timer",
	     p->rx_fd != 0 ? "port" : p->inward ? "own" : "timer")
	PART("capabilities", ALL, capabilities, "what the device offers (doc/hardware.md)",
	     p->caps.known ? row_capabilities(true, &p->caps) : NULL)
	PART("udp", ALL, socket, "counters of UDP sockets (port=udp)", socket_part(p, PORT_UDP))
	PART("packet", ALL, socket, "counters of a packet socket (port=packet)", socket_part(p, PORT_PACKET))
	PART("hostif", ALL, hostif, "the kernel's interface beside the device",
	     dev->hostif != NULL ? row_hostif(true, dev->hostif, hostif_stats(dev->hostif)) : NULL)
	LIST("gids", ALL, port_gid, "GID table", port_gids(dev))
	LIST("pkeys", ALL, pkey, "P_Key table", port_pkeys(dev))
END

TOPIC(gid, const struct device *dev, unsigned i, const struct net_addr *a)
	TEXT("device", ALL, "verbs device", dev->name)
	UINT("index", ALL, , "entry of the GID table", i)
	TEXT_NULL("gid", ALL, "address", gid_text(a->gid))
	UINT("prefix", ALL, bits, "length of its prefix", a->plen)
	WORD("type", ALL, "RoCEv2", "kind of the GID", "RoCEv2")
END

TOPIC(neigh, const struct device *dev, const struct net_neigh *e)
	TEXT("device", ALL, "verbs device", dev->name)
	TEXT_NULL("address", ALL, "next hop", gid_text(e->ip))
	TEXT("mac", ALL, "its MAC; empty while unknown", e->state == NET_NEIGH_KNOWN ? mac_text(e->mac) : "")
	WORD("state", ALL, "known|asking", "asking: requests are sent", e->state == NET_NEIGH_KNOWN ? "known" : "asking")
	UINT("asked", ALL, , "requests sent since the last answer", e->requests)
END

/* --- clients and their objects */

#define OWNER(s) \
	UINT("client", OWN, , "number of the client (show client)", (s)->id) \
	UINT("pid", OWN, , "process of the client, as the daemon sees it", (s)->peer.pid) \
	TEXT("program", OWN, "name of that process", (s)->comm) \
	UINT("uid", ALL, , "user of the client", (s)->peer.uid) \
	TEXT("device", ALL, "verbs device", (s)->dev->name)

TOPIC(client, const struct session *s)
	UINT("client", ALL, , "number of the client", s->id)
	UINT("uid", ALL, , "user of the client", s->peer.uid)
	TEXT("device", ALL, "verbs device", s->dev->name)
	TEXT("program", OWN, "name of its process", s->comm)
	UINT("pid", OWN, , "its process, as the daemon sees it", s->peer.pid)
	UINT("own_pid", OWN, , "process id in the namespace of the client", s->client_pid)
	TEXT_NULL("cgroup", OWN, "with quota-by=cgroup: its control group; else null", s->user->cgroup)
	UINT("qps", OWN, , "queue pairs", s->qps.used)
	UINT("cqs", OWN, , "completion queues", s->cqs.used)
	UINT("mrs", OWN, , "memory regions", s->mrs.used)
	UINT("pds", OWN, , "protection domains", s->pds.used)
	UINT("channels", OWN, , "completion channels", s->channels.used)
	UINT("ring_bytes", OWN, bytes, "memory of its queues", ipc_arena_bytes(s->arena))
	BOOL("huge", OWN, "its queues are in huge pages", ipc_arena_huge(s->arena))
	UINT("events_lost", OWN, , "asynchronous events for which there was no space", s->async.lost)
	UINT("paused_ms", OWN, ms,
	     "for so long no queue pair of its user is served: workers had to wait for its memory (doc/security.md)",
	     worker_paused_ns(s->d->workers, qp_user_place(s->user->id)) / NS_PER_MS)
END

TOPIC(pd, const struct obj_pd *p)
	OWNER(p->o.s)
	UINT("pd", OWN, , "number of the protection domain", p->id)
	UINT("users", OWN, , "objects that refer to it", p->o.refs)
	UINT("contexts", OWN, , "contexts that share it", p->shared->users)
END

/* The reason of a QP's end and its last error, also after a retry. */
#define FAULT(f, why) \
	TEXT_NULL("error", OWN, "reason for which the QP failed (doc/errors.md); null: it has not", uroce_error_word(why)) \
	TEXT_NULL("last_error", OWN, "reason of the last error, also of one that a retry mended; null: none", \
		  uroce_error_word((f)->reason)) \
	IF(uroce_error_sentence((f)->reason) != NULL) \
	UINT("last_error_code", OWN, , "vendor_err of the completion", (f)->reason) \
	TEXT("last_error_text", OWN, "the reason as the end of a sentence", uroce_error_sentence((f)->reason)) \
	TEXT("last_error_remedy", OWN, "what to do about it", uroce_error_remedy((f)->reason)) \
	WORD("last_error_effect", OWN, "failed|refused", \
	     "failed: the QP went to its error state; refused: it continues", (f)->fatal ? "failed" : "refused") \
	TEXT("last_error_side", OWN, "requester or responder", fault_side(f)) \
	TEXT("last_error_operation", OWN, "opcode of the packet or work request", fault_opcode(f)) \
	UINT("last_error_psn", OWN, , "PSN of the packet", (f)->psn) \
	HEX("last_error_key", OWN, "key in the packet", "0x%llx", (unsigned long long)(f)->key) \
	HEX("last_error_address", OWN, "address in the packet", "0x%llx", (unsigned long long)(f)->addr) \
	UINT("last_error_length", OWN, bytes, "length that it concerned", (f)->length) \
	TEXT_NULL("last_error_peer", OWN, "address of the peer", gid_text((f)->peer)) \
	UINT("last_error_peer_qpn", OWN, , "QPN of the peer", (f)->peer_qpn) \
	UINT("last_error_time_ns", OWN, ns, "when, since 1970", trace_epoch_ns((f)->at_ns)) \
	INT("last_error_ago_ms", OWN, ms, "how long ago", (int64_t)(timer_now_ns() - (f)->at_ns) / NS_PER_MS) \
	FI

#define TYPE_WORDS  "RC|UC|UD"
#define STATE_WORDS "RESET|INIT|RTR|RTS|SQD|SQE|ERR"
#define PATH_WORDS  "wire|loopback|unresolved"
#define MIG_WORDS   "MIGRATED|REARM|ARMED"

TOPIC(qp, const struct obj_qp *q, const struct qp *qp, const struct cc_view *v, const struct cm_ece *ece,
      const struct qp_fault *f)
	OWNER(q->o.s)
	UINT("qpn", OWN, , "queue pair number", qp->conn.qpn)
	WORD("type", ALL, TYPE_WORDS, "service", qp_type_name[qp->conn.type])
	WORD("state", ALL, STATE_WORDS, "state", qp_state_name[qp->conn.state])
	TEXT_NULL("local", ALL, "address of this end; null: none yet", gid_text(qp->conn.sgid))
	TEXT_NULL("remote", ALL, "address of the peer; null: none", gid_text(qp->conn.dgid))
	UINT("worker", OWN, , "worker that runs it", qp_worker(qp))
	UINT("worker_moves", OWN, , "times that it has moved to another worker", qp->bind.moves)
	BOOL("worker_fixed", OWN, "true: it never moves (UD, an SRQ, or an older client)", qp->bind.fixed)
	BOOL("worker_pinned", OWN, "true: it does not follow its packets: urocectl set worker, or balance, has placed it", qp->bind.pinned)
	UINT("pd", OWN, , "protection domain", q->o.pd->id)
	UINT("send_cq", OWN, , "completion queue of sends", q->send_cq->cq.id)
	UINT("recv_cq", OWN, , "completion queue of receives", q->recv_cq->cq.id)
	UINT_NULL("srq", OWN, , "shared receive queue; null: none", q->srq != NULL ? (int64_t)q->srq->o.handle : -1)
	UINT("dest_qpn", OWN, , "QPN of the peer", qp->conn.attr.dest_qp_num)
	WORD("path", OWN, PATH_WORDS, "where packets go; unresolved: the next hop's MAC is unknown",
	     path_kind(qp->conn.loopback, qp->conn.path_ok))
	WORD("path_mig_state", OWN, MIG_WORDS, "state of path migration", qp_mig_name[qp->conn.mig])
	TEXT_NULL("alt_local", OWN, "address of the alternate path", qp->conn.alt_loaded ? gid_text(qp->conn.alt.wire.sgid) : NULL)
	TEXT_NULL("alt_remote", OWN, "peer's address of the alternate path",
		  qp->conn.alt_loaded ? gid_text(qp->conn.alt.wire.dgid) : NULL)
	WORD_NULL("alt_path", OWN, PATH_WORDS, "where packets of the alternate path go",
		  qp->conn.alt_loaded ? path_kind(qp->conn.alt.loopback, qp->conn.alt.path_ok) : NULL)
	UINT("path_mtu", OWN, bytes, "path MTU", qp->conn.mtu)
	UINT("ece_vendor", OWN, , "vendor id of the peer's ECE, of rdma_cm; 0: none", ece->vendor_id)
	UINT("ece_options", OWN, , "options of the peer's ECE", ece->options)
	UINT("sq_entries", OWN, , "size of the send queue", qp->bind.sq.mask + 1)
	INT("sq_waiting", OWN, , "send work requests posted and not retired; -1: the queue is corrupt",
	    queue_depth(&qp->bind.sq, qp->conn.snd.tail))
	UINT("sq_in_flight", OWN, , "of these, begun", (uint32_t)(qp->conn.snd.head - qp->conn.snd.tail))
	UINT("una_psn", OWN, , "oldest PSN not acknowledged", qp->conn.snd.una_psn)
	UINT("next_psn", OWN, , "next PSN to send", qp->conn.snd.next_psn)
	UINT("high_psn", OWN, , "one past the highest PSN sent", qp->conn.snd.high_psn)
	UINT("sq_retired", OWN, , "send work requests retired, modulo 2^32", qp->conn.snd.tail)
	UINT("tx_bytes", OWN, bytes, "of frames sent since the QP was created, with headers, also of those sent again",
	     qp->conn.tx_bytes)
	UINT("reads_out", OWN, , "READs and atomics outstanding", qp->conn.snd.rd_out)
	UINT("retry_cnt", OWN, , "retries of a packet allowed", qp->conn.attr.retry_cnt)
	UINT("retries_left", OWN, , "retries left", qp->conn.snd.retry_left)
	UINT("rnr_retry", OWN, , "retries after RNR NAKs allowed; 7: any number", qp->conn.attr.rnr_retry)
	UINT("rnr_left", OWN, , "of these left", qp->conn.snd.rnr_left)
	BOOL("rnr_wait", OWN, "waits after an RNR NAK", qp_deadline_is_set(&qp->conn, QP_DEADLINE_RNR))
	UINT("timeout_us", OWN, us, "ACK timeout", qp->conn.loss.timeout_ns / 1000)
	UINT("round_trip_us", OWN, us, "smoothed round trip; 0: not measured", qp->conn.loss.srtt_ns / 1000)
	UINT("probe_after_us", OWN, us, "silence after which it probes; 0: never", qp->conn.snd.wait_ns / 1000)
	WORD("probe", OWN, "on|off",
	     "off: it retransmits only for a NAK or at the end of the ACK timeout, and sends one NAK for a gap",
	     qp->bind.plain & QP_PLAIN_TIMERS ? "off" : "on")
	UINT("window", OWN, packets, "request packets that may be unacknowledged", qp->conn.snd.cc.window_pkts)
	WORD("sr", OWN, "off|not agreed|on", "selective repeat with the peer", sr_state[qp->conn.sr.state])
	UINT("sr_resent", OWN, , "packets sent again without those behind them", qp->conn.sr.resent)
	UINT("sr_spurious", OWN, , "of these, the original had arrived", qp->conn.sr.spurious)
	UINT("sr_threshold", OWN, , "packets that must arrive behind a missing one before it counts as lost",
	     qp_sr_threshold(&qp->conn.sr))
	UINT("peer_buffer", OWN, bytes, "size of the peer's receive buffer, as its daemon says; 0: it says none, or has no limit",
	     qp->conn.peer_buffer * QP_PEER_BUFFER_BYTES)
	TEXT("policy", OWN, "congestion policy", cc_policies[qp->conn.cc_flow.param.policy]->name)
	IF(cc_policies[qp->conn.cc_flow.param.policy]->view != NULL)
	UINT("rate_kbps", OWN, kb/s, "rate that the policy allows; fixed has none",
	     v->rate_kbps != 0 ? v->rate_kbps : qp->conn.cc_flow.param.max_kbps)
	FI
	IF(qp->conn.cc_flow.param.policy == CC_DCQCN)
	REAL("alpha", OWN, , "dcqcn: alpha, 0 to 1", v->alpha_ppm / 1e6)
	FI
	IF(qp->conn.cc_flow.param.policy == CC_SWIFT)
	REAL("cwnd", OWN, packets, "swift: window", v->cwnd_ppm / 1e6)
	FI
	IF(v->delay_ns != 0)
	UINT("delay_us", OWN, us, "swift, timely: last round trip that the policy saw", v->delay_ns / 1000)
	FI
	UINT("marked_packets", OWN, , "packets received with the ECN mark", qp->conn.ecn.marks)
	UINT("cnps_sent", OWN, , "congestion notifications sent", qp->conn.ecn.cnps_sent)
	UINT("cnps_received", OWN, , "congestion notifications received", qp->conn.ecn.cnps_got)
	UINT("retransmitted_bytes", OWN, bytes, "of frames sent again", qp->conn.ecn.again_bytes)
	UINT("rq_entries", OWN, , "size of the receive queue", qp->bind.rq.mask + 1)
	INT("rq_waiting", OWN, , "receive work requests posted and not taken; -1: the queue is corrupt",
	    queue_depth(&qp->bind.rq, qp->conn.rcv.head))
	UINT("rq_taken", OWN, , "receive work requests taken, modulo 2^32", qp->conn.rcv.head)
	UINT("expected_psn", OWN, , "next PSN expected from the peer", qp->conn.rcv.epsn)
	UINT("msn", OWN, , "messages received, modulo 2^24", qp->conn.rcv.msn)
	UINT("rx_bytes", OWN, bytes, "of frames received since the QP was created, with headers, also of duplicates",
	     qp->conn.rx_bytes)
	UINT("sr_held", OWN, , "requests that came too early and wait for their turn",
	     /* in the worker's memory, which outlives the QP: the QPN may have been reused */
	     qp->bind.reorder != NULL ? __atomic_load_n(&qp->bind.reorder->n, __ATOMIC_RELAXED) : 0)
	UINT("reads_in", OWN, , "READs and atomics of the peer being answered", qp->conn.rcv.rdq_n)
	UINT("wrong_keys", OWN, , "requests with an R_Key that names nothing", qp->conn.wrong_keys.total)
	FAULT(f, qp->conn.why)
END
RATES(qp) /* top: also of a client's queue pairs together */
	RATE("tx_bytes", "tx_bytes", 64, "bytes of frames sent, with headers, also of those sent again")
	RATE("rx_bytes", "rx_bytes", 64, "bytes of frames received, with headers, also of duplicates")
	RATE("high_psn", "tx_psns", 24, "PSNs sent for the first time: packets of requests, and of the responses to READs")
	RATE("expected_psn", "rx_psns", 24, "PSNs of requests received in order")
	RATE("sq_retired", "sends", 32, "send work requests retired")
	RATE("rq_taken", "receives", 32, "receive work requests taken")
RATES_END

TOPIC(cq, const struct obj_cq *q)
	OWNER(q->o.s)
	UINT("cq", OWN, , "number of the completion queue", q->cq.id)
	UINT("entries", OWN, , "size", q->cq.ring->mask + 1)
	UINT("posted", OWN, , "completions posted, modulo 2^32", q->cq.ring->prod)
	UINT("waiting", OWN, , "completions that the program has not polled", (uint32_t)(q->cq.ring->prod - q->cq.ring->hdr->cons))
	BOOL("armed", OWN, "the program waits for an event", q->cq.ring->hdr->arm != UROCE_CQ_UNARMED)
	BOOL("channel", OWN, "it has a completion channel", q->channel != NULL)
	UINT("queues", OWN, , "queues of QPs that complete to it", q->o.refs)
	BOOL("error", OWN, "it overflowed or is corrupt", q->cq.dead)
END
RATES(cq)
	RATE("posted", "completions", 32, "completions posted")
RATES_END

TOPIC(srq, const struct obj_srq *q)
	OWNER(q->o.s)
	UINT("srq", OWN, , "handle of the shared receive queue", q->o.handle)
	UINT("pd", OWN, , "protection domain", q->srq.pd)
	UINT("worker", OWN, , "worker that runs its QPs", q->srq.worker)
	UINT("entries", OWN, , "size", q->srq.rq.mask + 1)
	UINT_NULL("waiting", OWN, , "receive work requests posted and not taken; null: the queue is corrupt",
		  queue_depth(&q->srq.rq, __atomic_load_n(&q->srq.head, __ATOMIC_RELAXED)))
	UINT("limit", OWN, , "raises IBV_EVENT_SRQ_LIMIT_REACHED below this; 0: disarmed",
	     __atomic_load_n(&q->srq.limit, __ATOMIC_RELAXED))
	UINT("queues", OWN, , "QPs that use it", q->o.refs)
	BOOL("error", OWN, "it is corrupt", __atomic_load_n(&q->srq.dead, __ATOMIC_RELAXED))
END

TOPIC(mr, const struct obj_mr *m)
	OWNER(m->o.s)
	HEX("key", OWN, "L_Key and R_Key", "0x%x", m->mr.key)
	UINT("pd", OWN, , "protection domain", m->mr.pd)
	UINT("windows", OWN, , "memory windows bound to it", m->mr.windows)
	HEX("address", OWN, "address in the program", "0x%llx", (unsigned long long)m->mr.va)
	HEX("iova", OWN, "address in work requests", "0x%llx", (unsigned long long)m->mr.iova)
	UINT("length", OWN, bytes, "length", m->mr.len)
	TEXT("access", OWN, "rights, with commas", access_text(m->mr.access))
	WORD("path", OWN, "copy|adopted|shared", "how the daemon reaches the memory (doc/memory.md)", mr_path[mrmap_path(m->map)])
	BOOL("failed", OWN, "the memory is gone", mrmap_failed(m->map))
END

/* A worker may be binding it: the values may be from different moments. */
TOPIC(mw, const struct obj_mw *m, bool bound)
	OWNER(m->o.s)
	HEX("key", OWN, "R_Key", "0x%x", __atomic_load_n(&m->mr.key, __ATOMIC_RELAXED))
	UINT("type", OWN, , "type of the window", m->mr.kind == MR_WINDOW_1 ? 1 : 2)
	UINT("pd", OWN, , "protection domain", m->mr.pd)
	BOOL("bound", OWN, "it is bound to a region", bound)
	UINT_NULL("qpn", OWN, , "type 2, bound: its queue pair",
		  bound && m->mr.kind == MR_WINDOW_2 ? (int64_t)__atomic_load_n(&m->mr.qpn, __ATOMIC_RELAXED) : -1)
	HEX_NULL("iova", OWN, "bound: its first address", bound, "0x%llx",
		 (unsigned long long)__atomic_load_n(&m->mr.iova, __ATOMIC_RELAXED))
	UINT_NULL("length", OWN, bytes, "bound: its length",
		  bound ? (int64_t)__atomic_load_n(&m->mr.len, __ATOMIC_RELAXED) : -1)
	TEXT_NULL("access", OWN, "bound: rights, with commas",
		  bound ? access_text(__atomic_load_n(&m->mr.access, __ATOMIC_RELAXED)) : NULL)
END

TOPIC(ah, const struct obj_ah *h)
	OWNER(h->o.s)
	UINT("ah", OWN, , "handle", h->o.handle)
	UINT("pd", OWN, , "protection domain", h->ah->pd)
	UINT("gid_index", OWN, , "entry of the GID table that it sends from", h->sgid_index)
	TEXT_NULL("local", OWN, "address that it sends from", gid_text(h->ah->path.sgid))
	TEXT_NULL("remote", OWN, "destination", gid_text(h->ah->path.dgid))
	WORD("path", OWN, PATH_WORDS "|multicast", "where packets go",
	     h->ah->multicast ? "multicast" : path_kind(h->ah->loopback, h->ah->path_ok))
END

/* --- the daemon */

TOPIC(quota, const struct quota_user *u, enum quota_kind k)
	UINT("uid", ALL, , "user", u->uid)
	TEXT_NULL("cgroup", ALL, "with quota-by=cgroup: the control group that the user's limits are for; else null", u->cgroup)
	TEXT("resource", ALL, "what is limited, as set quota names it", quota_name(k))
	WORD("unit", ALL, "objects|bytes", "what used and limits count", quota_unit(k) == 1 ? "objects" : "bytes")
	UINT("used", ALL, , "what the user holds", u->used[k])
	UINT("limit", ALL, , "what the user may hold", quota_max(u, k))
	UINT("all_used", ALL, , "what all users hold", u->quota->used_all[k])
	UINT("all_limit", ALL, , "what all users may hold", u->quota->limit[k].all)
	TEXT("option", ALL, "option of uroced.conf that sets the limit of a user", quota_option(k))
END

TOPIC(worker, const struct daemon *d, unsigned i, const struct worker_usage *u, int64_t qps)
	UINT("worker", ALL, , "number", i)
	UINT("lcore", ALL, , "EAL lcore", u->lcore)
	WORD("state", ALL, "running|asleep", "now", u->asleep ? "asleep" : "running")
	UINT("busy_ns", ALL, ns, "time of iterations that did work, since the start", u->busy_ns)
	UINT("idle_ns", ALL, ns, "time of others, sleeps included", u->idle_ns)
	UINT("qps", ALL, , "queue pairs", qps)
	UINT("rx_frames", ALL, , "frames received", sum_of(d, i, COUNTER_RX_FRAMES))
	UINT("rx_bytes", ALL, bytes, "of frames received", sum_of(d, i, COUNTER_RX_BYTES))
	UINT("tx_frames", ALL, , "frames sent", sum_of(d, i, COUNTER_TX_FRAMES))
	UINT("tx_bytes", ALL, bytes, "of frames sent", sum_of(d, i, COUNTER_TX_BYTES))
	UINT("doorbells", ALL, , "doorbells of clients", sum_of(d, i, COUNTER_DOORBELLS))
END
RATES(worker)
	RATE("rx_frames", "rx_frames", 64, "frames received")
	RATE("rx_bytes", "rx_bytes", 64, "bytes of frames received")
	RATE("tx_frames", "tx_frames", 64, "frames sent")
	RATE("tx_bytes", "tx_bytes", 64, "bytes of frames sent")
	RATE("doorbells", "doorbells", 64, "doorbells of clients")
RATES_END

TOPIC(daemon, const struct daemon *d, uint64_t caps, uint64_t broker_caps)
	TEXT("version", ALL, "of uroced", UROCE_VERSION)
	UINT("pid", ALL, , "its process", getpid())
	UINT("uid", ALL, , "its user", geteuid())
	UINT("broker_pid", ALL, , "process id of its broker", d->broker.pid)
	WORD("pages", ALL, "huge|ordinary", "of its packet buffers", d->huge ? "huge" : "ordinary")
	BOOL("reads_any_user", ALL, "it reaches memory of every user's programs (CAP_SYS_PTRACE)",
	     broker_caps >> CAP_SYS_PTRACE & 1)
	BOOL("maps_any_file", ALL, "it maps files without a descriptor or a name (CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE)",
	     (broker_caps >> CAP_SYS_ADMIN | broker_caps >> CAP_CHECKPOINT_RESTORE) & 1)
	TEXT("capabilities", ALL, "names of its effective capabilities, joined by spaces", capability_names(caps))
	TEXT("broker_capabilities", ALL, "names of the capabilities that its broker uses, joined by spaces",
	     capability_names(broker_caps))
	WORD("balance", ALL, "off|on", "on: it moves QPs from busy workers to others (urocectl set balance)",
	     d->balance != NULL ? "on" : "off")
	UINT("balance_rounds", ALL, , "times that it has compared the workers for that, since the start", d->balance_rounds)
	UINT("balance_moves", ALL, , "QPs that it has moved for that", d->balance_moves)
	WORD("sandbox", ALL, "off|on|kill", "whether it refuses system calls that it does not need (option sandbox)",
	     sandbox_mode())
	UINT("refused_calls", ALL, , "system calls that it has refused to itself and to its broker", sandbox_refused())
	UINT("landlock", ALL, , "version of Landlock that limits the files it opens; 0: none", sandbox_landlock())
	INT("open_files", ALL, , "RLIMIT_NOFILE; -1: none", limit_of(RLIMIT_NOFILE))
	INT("memlock_bytes", ALL, bytes, "RLIMIT_MEMLOCK; -1: none", limit_of(RLIMIT_MEMLOCK))
END

TOPIC(config, const char *name, const char *def, const char *value)
	TEXT("option", ALL, "name of the option", name)
	TEXT("value", ALL, "value that the daemon runs with; empty: not set; of a list, the values with spaces between them",
	     value)
	TEXT_NULL("default", ALL, "value without that option; null: none", def)
END

/* --- the connection manager */

/* i NULL: the program has destroyed the id. ch NULL: it has ended. c NULL: no connection. */
TOPIC(cm, const struct cm_service *svc, const struct cma_info *i, const struct ucma_channel *ch, const struct cm_info *c)
	IF(i != NULL)
	UINT("id", OWN, , "number of the rdma_cm id", i->id)
	UINT_NULL("pid", OWN, , "process; null: it has ended", ch != NULL ? ch->pid : -1)
	TEXT_NULL("program", OWN, "its name", ch != NULL ? ch->comm : NULL)
	UINT("events", OWN, , "events that the program has not taken", i->waiting)
	UINT("uid", ALL, , "user", ch != NULL ? ch->uid : ((const struct quota_user *)i->payer)->uid)
	FI
	TEXT_NULL("device", ALL, "verbs device; null: not bound to one yet", device_name(svc, i != NULL ? i->dev : c->addr.dev))
	IF(i != NULL)
	WORD("space", ALL, "TCP|UDP|IB", "port space", space_name(i->space))
	FI
	TEXT("state", ALL, "state of the id, or destroyed", i != NULL ? cma_state_name[i->state] : "destroyed")
	TEXT_NULL("local", ALL, "address and port of this end", i != NULL ? address_text(&i->src) : gid_text(c->addr.local))
	TEXT_NULL("remote", ALL, "address and port of the peer",
		  i == NULL ? gid_text(c->addr.remote) : i->state == CMA_LISTEN ? NULL : address_text(&i->dst))
	IF(c != NULL)
	TEXT("connection", ALL, "state of the connection", cm_state_name[c->state])
	UINT("age_ms", ALL, ms, "time since it began", c->made_ns != 0 ? (daemon_now_ns() - c->made_ns) / NS_PER_MS : 0)
	UINT("retries_left", ALL, , "retries of its last MAD left", c->retries_left)
	IF(c->state == CM_LISTEN)
	UINT("backlog", ALL, , "listener: requests that may wait", c->backlog)
	UINT("pending", ALL, , "listener: requests that wait", c->pending)
	FI
	UINT("comm_id", OWN, , "communication id", c->id)
	UINT("remote_comm_id", OWN, , "communication id of the peer", c->remote_id)
	UINT("qpn", OWN, , "queue pair", c->local_qpn)
	UINT("remote_qpn", OWN, , "queue pair of the peer", c->remote_qpn)
	UINT("ece_vendor", OWN, , "vendor of the enhanced connection options", c->ece.vendor_id)
	UINT("ece_options", OWN, , "these options", c->ece.options)
	FI
END

#define MADS(dir, verb, X) \
	X(dir, verb, REQ) X(dir, verb, MRA) X(dir, verb, REJ) X(dir, verb, REP) X(dir, verb, RTU) X(dir, verb, DREQ) \
	X(dir, verb, DREP) X(dir, verb, SIDR_REQ) X(dir, verb, SIDR_REP) X(dir, verb, LAP) X(dir, verb, APR)
#define MAD(dir, verb, name) UINT(#dir "_" #name, ALL, , #name " messages " #verb, n->dir[WIRE_CM_INDEX(WIRE_CM_##name)])
#define DROP(id, name, doc) UINT("drop_" name, ALL, , "messages dropped: " doc, n->dropped[CM_DROP_##id])
#define EVENT(name) UINT("event_" #name, ALL, , #name " events", n->events[CM_EV_##name])

GROUP(cm_stats_counters, const struct cm_service *svc, const struct cm_counters *n)
	UINT("ids", ALL, , "ids of connections now", cm_nids(cma_cm(svc->cma)))
	MADS(tx, sent, MAD)
	MADS(rx, received, MAD)
	DROP(QKEY, "bad_qkey", "not QP1's Q_Key")
	DROP(SRC_QPN, "bad_source_qpn", "not from QP1")
	DROP(LENGTH, "bad_length", "not 256 bytes")
	DROP(BASE_VERSION, "bad_base_version", "unknown base version")
	DROP(CLASS, "bad_class", "not of the CM's class")
	DROP(CLASS_VERSION, "bad_class_version", "unknown version of the class")
	DROP(METHOD, "bad_method", "not a send")
	DROP(ATTR, "bad_attribute", "unknown attribute")
	DROP(FIELD, "bad_field", "a value that no sender may use")
	DROP(UNKNOWN_ID, "unknown_id", "no such id")
	DROP(WRONG_PEER, "wrong_peer", "the id has another peer")
	DROP(UNEXPECTED, "unexpected", "not allowed in the id's state")
	EVENT(CONNECT_REQUEST)
	EVENT(CONNECT_RESPONSE)
	EVENT(ESTABLISHED)
	EVENT(REJECTED)
	EVENT(UNREACHABLE)
	EVENT(DISCONNECTED)
	EVENT(TIMEWAIT_EXIT)
	EVENT(PATH_REQUEST)
	EVENT(PATH_RESPONSE)
	EVENT(SIDR_REQUEST)
	EVENT(SIDR_RESPONSE)
	UINT("duplicates", ALL, , "messages received again", n->duplicates)
	UINT("retries", ALL, , "messages sent again", n->retries)
	UINT("no_listener", ALL, , "requests without a listener", n->no_listener)
	UINT("over_backlog", ALL, , "requests beyond a backlog", n->over_backlog)
	UINT("over_peer", ALL, , "requests beyond a peer's share", n->over_peer)
	UINT("over_ids", ALL, , "requests for which there was no id", n->over_ids)
	UINT("evicted", ALL, , "requests that gave way to others", n->evicted)
	UINT("stale", ALL, , "requests of a connection that existed", n->stale)
	UINT("tx_waited", ALL, , "messages that waited for a MAC", svc->counters.held)
	UINT("tx_after_wait", ALL, , "messages sent after such a wait", svc->counters.resent)
	UINT("tx_unreachable", ALL, , "messages given up after such a wait", svc->counters.unreachable)
END

/* --- recorders and faults */

GROUP(record, const struct qp_record *r)
	UINT("time_ns", ALL, ns, "when, since 1970", trace_epoch_ns(trace_record_ns(r)))
	TEXT("what", ALL, "kind of the event", trace_kind(r))
	UINT("psn", ALL, , "PSN that it concerns", r->psn)
	UINT("count", ALL, , "PSNs that it concerns", r->n)
	UINT("arg", ALL, , "a number that depends on the kind", r->arg | r->arg2 << 8)
	TEXT("text", ALL, "the event in words", trace_words(r))
END

TOPIC(trace, const struct past_qp *q, bool records)
	UINT("qpn", ALL, , "queue pair number", q->qpn)
	WORD("type", ALL, TYPE_WORDS, "service", qp_type_name[q->type])
	WORD("state", ALL, STATE_WORDS, "state, the last one if it was destroyed", qp_state_name[q->state])
	TEXT("device", ALL, "verbs device", q->dev)
	UINT("uid", ALL, , "user", q->uid)
	UINT("pid", ALL, , "process", q->pid)
	TEXT("program", ALL, "its name", q->comm)
	TEXT_NULL("local", ALL, "address of this end", gid_text(q->sgid))
	TEXT_NULL("remote", ALL, "address of the peer", gid_text(q->dgid))
	UINT("dest_qpn", ALL, , "QPN of the peer", q->dest_qpn)
	BOOL("destroyed", ALL, "it no longer exists", q->end_ns != 0)
	UINT_NULL("destroyed_time_ns", ALL, ns, "when it was destroyed, since 1970",
		  q->end_ns != 0 ? trace_epoch_ns(q->end_ns) : -1)
	UINT("events", ALL, , "events recorded so far", q->recorder.count)
	FAULT(&q->recorder.fault, q->why)
	IF(records)
	LIST("records", ALL, record, "trace QPN only: the last events, oldest first", records_json(&q->recorder))
	FI
END

GROUP(rule, uint64_t matched, uint64_t acted)
	UINT("matched", ALL, , "frames that it matched", matched)
	UINT("acted", ALL, , "frames that it acted on", acted)
END

TOPIC(impair, const char *device, const struct impair_show *s, bool on)
	TEXT("device", ALL, "verbs device", device)
	TEXT_NULL("spec", ALL, "what was set; null: not impaired", on ? s->spec : NULL)
	IF(on)
	UINT("drop", ALL, , "frames dropped", s->ctr[IMPAIR_DROP])
	UINT("dup", ALL, , "frames delivered twice", s->ctr[IMPAIR_DUP])
	UINT("reorder", ALL, , "frames held back", s->ctr[IMPAIR_REORDER])
	UINT("delay", ALL, , "frames delayed", s->ctr[IMPAIR_DELAY])
	UINT("corrupt", ALL, , "frames with flipped bits", s->ctr[IMPAIR_CORRUPT])
	UINT("corrupt_fixed", ALL, , "frames with flipped bits under a right ICRC", s->ctr[IMPAIR_CORRUPT_FIXED])
	UINT("ce", ALL, , "frames marked Congestion Experienced", s->ctr[IMPAIR_CE])
	UINT("rate", ALL, , "frames that waited for the rate", s->ctr[IMPAIR_RATE])
	UINT("queue_drop", ALL, , "frames dropped because the bottleneck's queue was full", s->ctr[IMPAIR_QUEUE_DROP])
	UINT("queue_mark", ALL, , "frames marked by the bottleneck's queue", s->ctr[IMPAIR_QUEUE_MARK])
	UINT("received", ALL, , "frames received", s->ctr[IMPAIR_RECEIVED])
	UINT("delivered", ALL, , "frames delivered", s->ctr[IMPAIR_DELIVERED])
	UINT("overflow", ALL, , "frames for which there was no space to wait", s->ctr[IMPAIR_OVERFLOW])
	UINT("no_mbuf", ALL, , "frames for which there was no buffer", s->ctr[IMPAIR_NO_MBUF])
	UINT("held", ALL, , "frames that wait now", s->held)
	UINT("queue_bytes", ALL, bytes, "in the bottleneck's queue now", s->queue_bytes)
	UINT("queue_peak", ALL, bytes, "most that were in it", s->queue_peak)
	FI
	LIST("rules", ALL, rule, "of each rule", impair_rules(s, on))
END

#undef TOPIC
#undef GROUP
#undef END
#undef UINT
#undef INT
#undef UINT_NULL
#undef REAL
#undef BOOL
#undef TEXT
#undef TEXT_NULL
#undef HEX
#undef HEX_NULL
#undef WORD
#undef WORD_NULL
#undef PART
#undef LIST
#undef TEXTS
#undef IF
#undef FI
#undef RATES
#undef RATE
#undef RATES_END
