/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The metrics as text. Names follow Prometheus: prefix uroce_, base units, suffix _total for
 * counters.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "control/daemon.h"
#include "control/device.h"
#include "control/session.h"
#include "metrics.h"

#define PORT   "1" /* of each device, as verbs number it */
#define FAMILY "# HELP uroce_%s %s\n# TYPE uroce_%s %s\n"

/*
 * One line per counter: what it counts, and its name if that differs from urocectl's. A counter
 * without a line is exported, too.
 */
static const struct counter_text {
	const char *help, *name;
} counter_text[COUNTER_NUM] = {
	[COUNTER_RX_FRAMES] = {"Frames received from the port or from loopback",
			       "port_rcv_packets"},
	[COUNTER_RX_BYTES] = {"Bytes of received frames", "port_rcv_bytes"},
	[COUNTER_RX_ROCE] = {"RoCEv2 frames accepted by a queue pair"},
	[COUNTER_TX_FRAMES] = {"Frames handed to the port or to loopback", "port_xmit_packets"},
	[COUNTER_TX_BYTES] = {"Bytes of sent frames", "port_xmit_bytes"},
	[COUNTER_TX_ROCE] = {"RoCEv2 frames sent"},
	[COUNTER_TX_BUSY] = {"Bursts that the port accepted only in part"},
	[COUNTER_RX_HANDOFF] = {"Frames passed to the worker that owns the queue pair"},
	[COUNTER_LOOPBACK] = {"Frames to a GID of the same device"},
	[COUNTER_SLOW_PATH] = {"Frames passed to the control thread or to the kernel"},
	[COUNTER_TX_PORT_DOWN] = {"Frames not sent because the port was gone or stalled"},
	[COUNTER_TX_NO_NEIGHBOUR] = {"Frames not sent because the next hop's MAC was unknown"},
	[COUNTER_TX_CONTROL_LOST] = {"ARP, ND and ICMP frames not sent for lack of space"},
	[COUNTER_MCAST_REFUSED] = {"Multicast frames refused by a member of the group"},
	[COUNTER_MCAST_BAD_PKEY] = {"Multicast frames refused for their P_Key"},
	[COUNTER_DOORBELLS] = {"Doorbells of clients"},
	[COUNTER_WQE_SEND] = {"Send work requests taken"},
	[COUNTER_CQE] = {"Completions posted"},
	[COUNTER_REQ_CQE_ERROR] = {"Completions of send requests with an error"},
	[COUNTER_REQ_CQE_FLUSH] = {"Send requests flushed"},
	[COUNTER_REQ_REM_ACCESS] = {"Send requests whose memory access the peer refused"},
	[COUNTER_REQ_REM_INVALID] = {"Send requests that the peer refused as invalid"},
	[COUNTER_RSP_CQE_ERROR] = {"Completions of receive requests with an error"},
	[COUNTER_RSP_CQE_FLUSH] = {"Receive requests flushed"},
	[COUNTER_RSP_LOCAL_LENGTH] = {"Receive requests whose buffer was too small"},
	[COUNTER_RSP_REM_ACCESS] = {"NAKs sent because a memory access was refused"},
	[COUNTER_CQ_EVENTS] = {"Completion events sent to clients"},
	[COUNTER_REQ_RETRANS] = {"Packets retransmitted"},
	[COUNTER_REQ_TIMEOUT] = {"Expired ACK timeouts"},
	[COUNTER_REQ_EXCUSED] = {"ACK timeouts that used up no retry because a worker stalled"},
	[COUNTER_REQ_PROBE] = {"Packets retransmitted before the timeout, as a probe"},
	[COUNTER_REQ_PROBE_VAIN] = {"Probes that were not needed: the packet or ACK was only late"},
	[COUNTER_REQ_SEQ_NAK] = {"Sequence NAKs received"},
	[COUNTER_REQ_RNR_NAK] = {"RNR NAKs received"},
	[COUNTER_REQ_FATAL_NAK] = {"NAKs received that fail the queue pair"},
	[COUNTER_REQ_RETRY_EXC] = {"Queue pairs that ran out of retries"},
	[COUNTER_REQ_READ_GAP] = {"Gaps in READ responses"},
	[COUNTER_RP_CNP_HANDLED] = {"Congestion notifications received that a policy handled"},
	[COUNTER_RP_CNP_IGNORED] = {"Congestion notifications received that no policy handled"},
	[COUNTER_NP_CNP_SENT] = {"Congestion notifications sent"},
	[COUNTER_NP_MARKED] = {"Packets received with the ECN mark of a congested switch"},
	[COUNTER_REQ_DUP_ACK] = {"Responses that were no longer expected"},
	[COUNTER_RSP_DUP] = {"Duplicate requests received"},
	[COUNTER_RSP_OUT_OF_SEQ] = {"Requests received out of sequence"},
	[COUNTER_RSP_ACK] = {"ACKs sent"},
	[COUNTER_RSP_SEQ_NAK] = {"Sequence NAKs sent"},
	[COUNTER_RSP_RNR_NAK] = {"RNR NAKs sent"},
	[COUNTER_RSP_FATAL_NAK] = {"NAKs sent that fail the peer's queue pair"},
	[COUNTER_RSP_WRONG_KEY] = {"Requests with an R_Key that names nothing"},
	[COUNTER_RSP_READ_PKTS] = {"READ response packets sent"},
	[COUNTER_RSP_MSG_LOST] = {"UC messages lost by a gap"},
	[COUNTER_MIGRATED] = {"Migrations to an alternate path"},
	[COUNTER_MIG_FAILED] = {"Migrations that the alternate path did not allow"},
};

/* Objects that clients hold. */
static const struct {
	enum quota_kind kind;
	const char *name;
} object_text[] = {
	{QUOTA_CLIENTS, "connections"},
	{QUOTA_CONTEXTS, "contexts"},
	{QUOTA_PDS, "pds"},
	{QUOTA_MRS, "mrs"},
	{QUOTA_CHANNELS, "channels"},
	{QUOTA_CQS, "cqs"},
	{QUOTA_SRQS, "srqs"},
	{QUOTA_QPS, "qps"},
	{QUOTA_AHS, "ahs"},
	{QUOTA_CM_CHANNELS, "cm_channels"},
	{QUOTA_CM_IDS, "cm_ids"},
	{QUOTA_MCAST, "multicast_memberships"},
	{QUOTA_FDS, "descriptors"},
	{QUOTA_MAPS, "mappings"},
};
static const struct {
	enum quota_kind kind;
	const char *name;
} memory_text[] = {{QUOTA_QUEUE_MEM, "queues"}, {QUOTA_REG_MEM, "registered"}};

/* Writes a label's value and escapes special characters. */
static void
put_value(FILE *out, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc(*text == '\n' ? ' ' : *text, out);
	}
}

static void
put_head(FILE *out, const char *name, const char *help, const char *type)
{
	fprintf(out, FAMILY, name, help, name, type);
}

/* Writes a counter for every device and worker. reason NULL: without that label. */
static void
put_blocks(FILE *out, const struct daemon *d, const char *name, unsigned id, const char *reason)
{
	for (uint32_t i = 0; i < d->ndevs; i++) {
		const struct device *dev = d->dev[i];

		for (uint32_t w = 0; w <= d->nworkers; w++) {
			bool control = w == d->nworkers;
			const struct counter_block *b =
				control ? worker_control_obs(d->workers, dev->port.id)
					: worker_counters(worker_get(d->workers, w), dev->port.id);
			uint64_t v = counters_read(reason != NULL ? &b->drop[id] : &b->ctr[id]);
			char worker[16] = "control";

			/* Most of the control thread's counters stay 0: leave those out. */
			if (control && v == 0)
				continue;
			if (!control)
				snprintf(worker, sizeof(worker), "%u", w);
			fprintf(out, "uroce_%s{device=\"%s\",port=\"" PORT "\",worker=\"%s\"", name,
				dev->name, worker);
			if (reason != NULL)
				fprintf(out, ",reason=\"%s\"", reason);
			fprintf(out, "} %" PRIu64 "\n", v);
		}
	}
}

static void
put_counters(FILE *out, const struct daemon *d)
{
	char name[80];

	for (unsigned i = 0; i < COUNTER_NUM; i++) {
		const struct counter_text *t = &counter_text[i];

		snprintf(name, sizeof(name), "%s_total",
			 t->name != NULL ? t->name : counter_name[i]);
		put_head(out, name, t->help != NULL ? t->help : counter_name[i], "counter");
		put_blocks(out, d, name, i, NULL);
	}
	put_head(out, "port_drops_total", "Received frames that were dropped", "counter");
	for (unsigned i = 0; i < DROP_NUM; i++)
		put_blocks(out, d, "port_drops_total", i, drop_reason_name[i]);
}

static unsigned
clients_of(const struct device *dev)
{
	const struct session *s;
	unsigned n = 0;

	TAILQ_FOREACH (s, &dev->d->sessions, link)
		n += s->state == IPC_STATE_CONTEXT && s->dev == dev;
	return n;
}

static void
put_ports(FILE *out, const struct daemon *d)
{
	put_head(out, "port_info", "The port behind a device", "gauge");
	for (uint32_t i = 0; i < d->ndevs; i++) {
		const struct port *p = &d->dev[i]->port;

		fprintf(out, "uroce_port_info{device=\"%s\",port=\"" PORT "\",name=\"",
			d->dev[i]->name);
		put_value(out, p->name);
		fprintf(out, "\",driver=\"");
		put_value(out, p->driver);
		fprintf(out, "\",netdev=\"");
		put_value(out, p->netdev);
		fprintf(out, "\"} 1\n");
	}
	put_head(out, "port_up", "1 if the link is up", "gauge");
	for (uint32_t i = 0; i < d->ndevs; i++)
		fprintf(out, "uroce_port_up{device=\"%s\",port=\"" PORT "\"} %d\n", d->dev[i]->name,
			d->dev[i]->port.link_up);
	put_head(out, "clients", "Programs that have the device open", "gauge");
	for (uint32_t i = 0; i < d->ndevs; i++)
		fprintf(out, "uroce_clients{device=\"%s\"} %u\n", d->dev[i]->name,
			clients_of(d->dev[i]));
}

static void
put_quotas(FILE *out, const struct quota *q)
{
	put_head(out, "objects", "Objects that clients hold", "gauge");
	for (unsigned i = 0; i < sizeof(object_text) / sizeof(object_text[0]); i++)
		fprintf(out, "uroce_objects{kind=\"%s\"} %" PRIu64 "\n", object_text[i].name,
			q->used_all[object_text[i].kind]);
	put_head(out, "objects_limit", "Most objects of all clients together", "gauge");
	for (unsigned i = 0; i < sizeof(object_text) / sizeof(object_text[0]); i++)
		fprintf(out, "uroce_objects_limit{kind=\"%s\"} %" PRIu64 "\n", object_text[i].name,
			q->limit[object_text[i].kind].all);
	put_head(out, "memory_bytes", "Memory that clients hold", "gauge");
	for (unsigned i = 0; i < sizeof(memory_text) / sizeof(memory_text[0]); i++)
		fprintf(out, "uroce_memory_bytes{kind=\"%s\"} %" PRIu64 "\n", memory_text[i].name,
			q->used_all[memory_text[i].kind]);
	put_head(out, "memory_limit_bytes", "Most memory of all clients together", "gauge");
	for (unsigned i = 0; i < sizeof(memory_text) / sizeof(memory_text[0]); i++)
		fprintf(out, "uroce_memory_limit_bytes{kind=\"%s\"} %" PRIu64 "\n",
			memory_text[i].name, q->limit[memory_text[i].kind].all);
}

char *
metrics_text(const struct daemon *d, size_t *len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, len);

	if (out == NULL)
		return NULL;
	put_head(out, "build_info", "The daemon's version", "gauge");
	fprintf(out, "uroce_build_info{version=\"%s\"} 1\n", UROCE_VERSION);
	put_head(out, "workers", "Worker threads", "gauge");
	fprintf(out, "uroce_workers %u\n", d->nworkers);
	put_ports(out, d);
	put_quotas(out, &d->quota);
	put_counters(out, d);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}
