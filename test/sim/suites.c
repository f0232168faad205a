/* SPDX-License-Identifier: BSD-3-Clause */
#include <stddef.h>
#include <string.h>
#include "suites.h"

const struct sim_suite sim_suites[] = {
	/* Requirements: REQ-01, REQ-07, RSP-02 */
	{"lossy_schedules_succeed_in_order", 1000, {"family=0"}},
	/* Requirements: REQ-02 */
	{"fence_and_read_depth_hold", 600, {"family=0", "mix=4", "rd_atomic=2"}},
	/* Requirements: REQ-04, REQ-05 */
	{"lost_packets_are_retransmitted", 600, {"family=0", "loss=60000"}},
	/* Requirements: REQ-04, CQE-12 */
	{"no_retry_runs_out_at_five_percent",
	 600,
	 {"family=0", "timeout=14", "retry=7", "loss=50000", "burst=1", "blackout_ns=0"}},
	/* Requirements: REQ-04, REQ-08 */
	{"loss_is_repaired_without_an_ack_timeout",
	 600,
	 {"family=0", "timeout=0", "loss=30000", "burst=1", "apm=0", "skip=0"}},
	/* Requirements: REQ-06, NAK-10 */
	{"late_receives_delay_but_lose_nothing", 600, {"family=0", "recv_late=1", "mix=5"}},
	/* Requirements: REQ-08, RSP-03 */
	{"reads_complete_through_loss", 600, {"family=0", "mix=3", "loss=30000", "reorder=50000"}},
	/* Requirements: RSP-01 */
	{"doubled_packets_are_executed_once", 600, {"family=0", "dup=200000", "reorder=100000"}},
	/* Requirements: NAK-04, NAK-05 */
	{"reordered_packets_are_handled", 600, {"family=0", "reorder=250000"}},
	/* Requirements: NAK-04, REQ-08 */
	{"gaps_close_without_a_timeout",
	 600,
	 {"family=0", "timeout=0", "skip=50000", "loss=0", "corrupt=0", "reorder=0", "jitter_ns=0",
	  "blackout_ns=0"}},
	/* Requirements: RSP-02 */
	{"window_moves_without_a_timeout",
	 100,
	 {"family=0", "timeout=0", "loss=0", "corrupt=0", "reorder=0", "jitter_ns=0",
	  "blackout_ns=0", "mix=2", "mtu=1", "maxlen=131072", "pairs=1"}},
	/* Round trips of 0.5 ms: with selective repeat, windows of all that a SACK describes. */
	/* Requirements: SR-03, SR-04 */
	{"long_path_loses_nothing",
	 200,
	 {"family=0", "delay_ns=250000", "mix=2", "mtu=1", "maxlen=524288", "pairs=1"}},
	/* Requirements: RSP-01, RSP-04 */
	{"atomics_are_executed_once_each", 600, {"family=0", "mix=6"}},
	/* Requirements: RSP-01, RSP-03 */
	{"all_resources_can_be_in_use",
	 300,
	 {"family=0", "mix=6", "rd_atomic=16", "depth=64", "ops=64", "loss=40000", "pairs=2"}},
	/* Requirements: WIRE-04, WIRE-09 */
	{"forged_frames_touch_nothing", 600, {"family=0", "forge=200000", "noise=50000"}},
	/* Requirements: WIRE-03 */
	{"damaged_frames_touch_nothing", 600, {"family=0", "corrupt=150000", "noise=50000"}},
	/* Requirements: WIRE-05 */
	{"long_messages_arrive_whole", 150, {"family=0", "maxlen=131072", "pairs=1"}},
	/* Requirements: WIRE-06 */
	{"psns_wrap", 600, {"family=0", "wrap=1"}},
	/* Requirements: RSP-05 */
	{"immediate_data_and_solicited_events_arrive", 400, {"family=0", "mix=5", "cq_events=2"}},
	/* Requirements: SRQ-01, RSP-05 */
	{"srq_serves_all_qps", 600, {"family=0", "srq=1"}},
	/* Requirements: SRQ-01, EVT-07, QP-19 */
	{"srq_survives_errors_of_its_qps", 400, {"family=1", "srq=1"}},
	/* Requirements: CQ-01 */
	{"no_event_is_lost", 400, {"family=0", "cq_events=1"}},
	/* Requirements: QP-15, QP-16 */
	{"queues_drain_and_resume", 400, {"family=0", "sqd=1"}},
	/* Requirements: REQ-11, EVT-06 */
	{"connections_migrate_when_the_first_path_fails",
	 200,
	 {"family=0", "apm=1", "pairs=2", "ops=24", "maxlen=8192"}},
	/* Requirements: MEM-02, MEM-05 */
	{"copied_regions_work", 300, {"family=0", "copy_mr=1000000"}},
	/* Requirements: REQ-10, QP-19, QP-20, CQE-12, CQE-13 */
	{"finite_retries_end_cleanly", 1500, {"family=1"}},
	/* Requirements: REQ-03, NAK-02, NAK-06, NAK-09, NAK-12 */
	{"wrong_wqes_fail_alone", 1500, {"family=2"}},
	/* Requirements: MEM-03, NAK-03, NAK-06 */
	{"windows_can_be_deregistered_under_traffic", 600, {"family=2", "dereg=1"}},
	/* Requirements: CQE-02, CQE-03, CQE-04, CQE-07, CQE-09, CQE-10, CQE-11 */
	{"every_error_has_its_exact_status",
	 800,
	 {"family=2", "loss=0", "corrupt=0", "dup=0", "reorder=0", "blackout_ns=0", "queue=1000000",
	  "rx_ring=512"}},
	/* A congestion policy with a pace (pace.c). */
	/* Requirements: REQ-01, REQ-04, REQ-05, REQ-08 */
	{"paced_connections_progress", 800, {"family=0", "pace=20000"}},
	/* Requirements: REQ-10, QP-19, CQE-12 */
	{"errors_of_paced_connections_end_cleanly", 400, {"family=1", "pace=20000"}},
	/* Requirements: REQ-03, NAK-06, CQE-16 */
	{"wrong_wqes_of_paced_connections_fail_alone", 400, {"family=2", "pace=20000"}},
	/* Sockets that were full: READs are requested in parts at times. */
	/* Requirements: REQ-01, REQ-05, REQ-08, RSP-03 */
	{"reads_into_full_sockets_progress", 600, {"family=0", "full=1024", "mix=3"}},
	/* Requirements: REQ-10, QP-19, CQE-12 */
	{"errors_with_full_sockets_end_cleanly", 300, {"family=1", "full=2048"}},
	/* The mesh: all types, checked at the ends. */
	/* Requirements: REQ-01, QP-15, RSP-06 */
	{"paced_qps_of_all_types_progress",
	 250,
	 {"must=1", "pace=20000", "rc=3", "uc=2", "sqd=300000"},
	 true},
	/* Requirements: RSP-06, WIRE-01 */
	{"unreliable_connections_lose_whole_messages_only",
	 250,
	 {"must=1", "rc=0", "uc=3", "ud=0", "loss=60000"},
	 true},
	/* Requirements: RSP-06, WIRE-04 */
	{"forged_and_doubled_frames_of_uc_are_dropped",
	 200,
	 {"must=1", "rc=0", "uc=3", "ud=0", "dup=150000", "forge=150000", "corrupt=50000"},
	 true},
	/* Requirements: CQE-14, RSP-06 */
	{"aborted_messages_return_their_srq_wqe",
	 250,
	 {"rc=0", "uc=3", "ud=0", "srq=1000000", "loss=50000"},
	 true},
	/* Requirements: WIRE-07, WIRE-08, WIRE-09 */
	{"datagrams_arrive_whole_at_their_qp",
	 250,
	 {"must=1", "rc=0", "uc=0", "ud=6", "forge=100000"},
	 true},
	/* Requirements: WIRE-10 */
	{"multicast_reaches_members_on_all_workers",
	 200,
	 {"must=1", "rc=0", "uc=0", "ud=6", "mcast=700000", "workers=4"},
	 true},
	/* Requirements: REQ-01, RSP-06, CQE-01 */
	{"qps_move_between_workers",
	 400,
	 {"must=1", "rc=4", "uc=2", "workers=4", "move=100000", "srq=0"},
	 true},
	/* Requirements: REQ-04, CQE-12 */
	{"qps_with_faults_move_between_workers",
	 400,
	 {"must=0", "rc=4", "uc=2", "workers=2", "move=300000", "srq=0", "sr=1"},
	 true},
	/* Requirements: MEM-04, CQE-06 */
	{"windows_are_bound_and_invalidated",
	 300,
	 {"rc=3", "uc=0", "ud=0", "windows=500000", "ops=48"},
	 true},
	/* Requirements: MEM-03, MEM-04, NAK-06 */
	{"regions_are_deregistered_or_changed_under_traffic",
	 300,
	 {"must=0", "dereg=1000000"},
	 true},
	/* Requirements: CQ-02, CQ-01, SRQ-01 */
	{"queues_are_resized_under_traffic", 300, {"resize=300000", "srq=500000"}, true},
	/* Requirements: SRQ-01, EVT-07, EVT-10 */
	{"srq_and_cq_are_shared_by_all_types",
	 250,
	 {"srq=1000000", "rc=2", "uc=2", "ud=3", "workers=2"},
	 true},
	/* Requirements: QP-15, QP-16, EVT-05 */
	{"queues_of_all_types_drain", 250, {"must=1", "sqd=1000000", "ops=48"}, true},
	/* Requirements: QP-17, QP-18, CQE-05 */
	{"qps_recover_from_SQE",
	 250,
	 {"must=0", "rc=0", "uc=3", "ud=4", "faults=80000", "ops=48"},
	 true},
	/* Requirements: QP-10, QP-19, QP-22 */
	{"killed_processes_reconnect", 300, {"must=0", "kill=1000000", "lives=4"}, true},
	/* Requirements: REQ-04, REQ-07 */
	{"lost_responses_are_requested_again",
	 200,
	 {"must=1", "rc=4", "uc=0", "ud=0", "ackloss=200000", "loss=0"},
	 true},
	/* Requirements: CQE-12, CQE-13, REQ-10 */
	{"both_ends_report_a_blackout",
	 200,
	 {"must=0", "rc=4", "uc=0", "ud=0", "blackout_ns=3000000"},
	 true},
	/* Requirements: NAK-11, REQ-06 */
	{"every_rnr_timer_code_works",
	 200,
	 {"must=1", "rc=3", "rnr_code=32", "recv_late=400000"},
	 true},
	/* Requirements: CQE-16, NAK-09, REQ-03 */
	{"wrong_wqes_of_both_ends_fail_alone", 300, {"must=0", "rc=4", "faults=80000"}, true},
	/* Requirements: WIRE-06, REQ-02 */
	{"psns_of_all_types_wrap", 200, {"must=1", "wrap=1"}, true},
	/* Requirements: RSP-01, RSP-04 */
	{"atomics_of_all_nodes_share_one_counter",
	 200,
	 {"must=1", "rc=4", "dup=200000", "loss=30000", "nodes=2"},
	 true},
	/* Requirements: MEM-05, NAK-10, RSP-01 */
	{"late_memory_delays_but_loses_nothing",
	 200,
	 {"must=1", "copy_mr=1000000", "late=20000", "rnr_retry=7"},
	 true},
	/* Requirements: MEM-05, RSP-01, SR-02 */
	{"memory_that_is_mostly_late_loses_nothing",
	 150,
	 {"must=1", "copy_mr=1000000", "late=500000", "rnr_retry=7"},
	 true},
	/* Requirements: MEM-05, NAK-09, QP-19 */
	{"late_memory_hides_no_error", 150, {"must=0", "copy_mr=1000000", "late=60000"}, true},
	{NULL, 0, {NULL}, false},
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
