/* SPDX-License-Identifier: BSD-3-Clause */
#include <stddef.h>
#include <string.h>
#include "suites.h"

const struct sim_suite sim_suites[] = {
	{"test_REQ_01_REQ_07_RSP_02_lossy_schedules_succeed_in_order", 1000, {"family=0"}},
	{"test_REQ_02_fence_and_read_depth", 600, {"family=0", "mix=4", "rd_atomic=2"}},
	{"test_REQ_04_REQ_05_lost_packets_are_sent_again", 600, {"family=0", "loss=60000"}},
	{"test_REQ_06_NAK_10_late_receives", 600, {"family=0", "recv_late=1", "mix=5"}},
	{"test_REQ_08_RSP_03_reads_through_loss",
	 600,
	 {"family=0", "mix=3", "loss=30000", "reorder=50000"}},
	{"test_RSP_01_doubled_packets_are_executed_once",
	 600,
	 {"family=0", "dup=200000", "reorder=100000"}},
	{"test_NAK_04_NAK_05_reordered_packets", 600, {"family=0", "reorder=250000"}},
	{"test_NAK_04_REQ_08_gaps_close_without_a_timeout",
	 600,
	 {"family=0", "timeout=0", "skip=50000", "loss=0", "corrupt=0", "reorder=0", "jitter_ns=0",
	  "blackout_ns=0"}},
	{"test_RSP_02_window_moves_without_a_timeout",
	 100,
	 {"family=0", "timeout=0", "loss=0", "corrupt=0", "reorder=0", "jitter_ns=0",
	  "blackout_ns=0", "mix=2", "mtu=1", "maxlen=131072", "pairs=1"}},
	{"test_RSP_01_RSP_04_atomics_once_each", 600, {"family=0", "mix=6"}},
	{"test_RSP_01_RSP_03_all_resources_in_use",
	 300,
	 {"family=0", "mix=6", "rd_atomic=16", "depth=64", "ops=64", "loss=40000", "pairs=2"}},
	{"test_WIRE_04_WIRE_09_forged_frames_touch_nothing",
	 600,
	 {"family=0", "forge=200000", "noise=50000"}},
	{"test_WIRE_03_damaged_frames_touch_nothing",
	 600,
	 {"family=0", "corrupt=150000", "noise=50000"}},
	{"test_WIRE_05_long_messages", 150, {"family=0", "maxlen=131072", "pairs=1"}},
	{"test_WIRE_06_psn_wrap", 600, {"family=0", "wrap=1"}},
	{"test_RSP_05_immediate_data_and_solicited_events",
	 400,
	 {"family=0", "mix=5", "cq_events=2"}},
	{"test_SRQ_01_RSP_05_shared_receive_queue", 600, {"family=0", "srq=1"}},
	{"test_SRQ_01_EVT_07_QP_19_shared_receive_queue_and_errors", 400, {"family=1", "srq=1"}},
	{"test_CQ_01_no_event_is_lost", 400, {"family=0", "cq_events=1"}},
	{"test_QP_15_QP_16_drain_and_resume", 400, {"family=0", "sqd=1"}},
	{"test_MEM_02_MEM_05_regions_that_are_not_mapped", 300, {"family=0", "copy_mr=1000000"}},
	{"test_REQ_10_QP_19_QP_20_CQE_12_CQE_13_finite_retries_end_cleanly", 1500, {"family=1"}},
	{"test_REQ_03_NAK_02_NAK_06_NAK_09_NAK_12_wrong_wqes_fail_alone", 1500, {"family=2"}},
	{"test_MEM_03_NAK_03_NAK_06_windows_that_go_away", 600, {"family=2", "dereg=1"}},
	{"test_CQE_02_CQE_03_CQE_04_CQE_07_CQE_09_CQE_10_CQE_11_exact_status",
	 800,
	 {"family=2", "loss=0", "corrupt=0", "dup=0", "reorder=0", "blackout_ns=0", "queue=1000000",
	  "rx_ring=512"}},
	{NULL, 0, {NULL}},
};

const struct sim_suite *
sim_suite_find(const char *name)
{
	const struct sim_suite *s;

	for (s = sim_suites; s->name != NULL; s++) {
		if (strcmp(s->name, name) == 0)
			return s;
	}
	return NULL;
}
