#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""uroce-bench report and versus without a measurement: ratio and met, the form of the JSON, messages
that name missing programs and bad options."""
import contextlib
import dataclasses
import io
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

BENCH = pathlib.Path(os.environ["UROCE_BENCH"])
ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPTS = ROOT / "test/bench/report"
sys.dont_write_bytecode = True
sys.path[:0] = [str(SCRIPTS), str(ROOT / "test/kit_py")]

import congestion  # noqa: E402
import goals  # noqa: E402
import machine  # noqa: E402
import measure  # noqa: E402
import page  # noqa: E402
import processes  # noqa: E402
import rxe  # noqa: E402
import sweeps  # noqa: E402
import versus  # noqa: E402
from goals import Goal, Sample  # noqa: E402

MORE = Goal("rate", "more & <better>", "g", "M/s", ">=", 1, 8)
LESS = Goal("time", "less is better", "g", "us", "<=", 0.5, of="TCP")
SHARE = Goal("share", "of a limit", "g", "Gb/s", ">=", 0.8, of="limit")
HEAD = {"cpu": "a <cpu> & more", "cores": 2, "commit": "abc", "kernel": "6.1", "load": [1.0, 2.0],
        "seconds": 3.0}
KEYS = {"name", "goal", "figure", "unit", "ratio", "state", "met"}  # of a row in the report's JSON


ONE = Goal("messages", "one core", "engine64", "M/s", ">=", 1, 8)


def near(figure, base=None, core="whole"):
    return Sample(figure, base, state="near", core=core, distance_ns=(25.0, 30.0))


def far(figure, base=None, core="whole"):
    return Sample(figure, base, state="far", core=core, distance_ns=(140.0, 150.0))


def run(*argv, env=None):
    return subprocess.run([BENCH, *argv], text=True, capture_output=True, check=False, timeout=300,
                          env={**os.environ, **(env or {})})


class Rows(unittest.TestCase):
    def test_more_is_better(self):
        for figure, met in ((8.0, True), (8.01, True), (7.99, False)):
            row = goals.make_row(MORE, [near(figure)])
            self.assertEqual((row["figure"], row["ratio"], row["met"]), (figure, figure / 8, met))

    def test_less_is_better(self):
        for figure, met in ((5.0, True), (4.9, True), (5.1, False)):
            row = goals.make_row(LESS, [near(figure, 10.0)])
            self.assertEqual((row["base"], row["ratio"], row["met"]), (10.0, figure / 10, met))

    def test_ratio_is_of_the_same_run(self):
        # The median of the ratios, not the ratio of the medians, which would be 0.5 and met.
        row = goals.make_row(LESS, [near(2, 2), near(5, 10), near(6, 10)])
        self.assertEqual((row["figure"], row["ratio"], row["met"]), (5, 0.6, False))
        self.assertEqual((row["least"], row["most"], row["samples"]), (2, 6, 3))

    def test_near_samples_count_far_ones_are_told(self):
        row = goals.make_row(MORE, [near(10), far(1), near(12), far(3)])
        self.assertEqual((row["figure"], row["state"], row["met"]), (11, "near", True))
        self.assertEqual(row["far"], {"figure": 2, "ratio": 0.25})
        self.assertEqual(row["core_distance_ns"], [25.0, 30.0])

    def test_whole_cores_count_shared_ones_are_told(self):
        row = goals.make_row(MORE, [near(10), near(5, core="shared"), near(12), near(1, core="mixed")])
        self.assertEqual((row["figure"], row["state"], row["samples"]), (11, "near", 2))
        self.assertEqual(row["shared"], {"figure": 3, "ratio": 3 / 8})
        self.assertNotIn("far", row)

    def test_near_comes_before_whole(self):
        samples = [near(5, core="shared"), far(9), far(11)]
        row = goals.make_row(MORE, samples)
        self.assertEqual((row["figure"], row["state"]), (5, "near, shared core"))
        self.assertEqual(row["far"]["figure"], 10)
        self.assertNotIn("shared", row)
        # A row for one core ignores the distance, so whole cores come first.
        row = goals.make_row(ONE, samples)
        self.assertEqual((row["figure"], row["state"]), (10, "far"))
        self.assertEqual(row["shared"]["figure"], 5)

    def test_only_shared_cores(self):
        samples = [dataclasses.replace(near(5), core="shared", slowdown=slow) for slow in (1.5, 1.8)]
        row = goals.make_row(MORE, samples)
        self.assertEqual((row["figure"], row["state"]), (5, "near, shared core"))
        self.assertEqual(row["core_slowdown"], [1.5, 1.8])
        self.assertNotIn("shared", row)
        self.assertIn("shared core: at worst 1.50 .. 1.80 times", "\n".join(page.lines([(MORE, row)], HEAD)))
        row = goals.make_row(MORE, [near(5, core="mixed"), near(5, core="shared")])
        self.assertEqual(row["state"], "near, mixed core")

    def test_note_is_of_the_sample_nearest_to_the_ratio(self):
        samples = [dataclasses.replace(near(figure), note=str(figure)) for figure in (10, 13, 11)]
        self.assertEqual(goals.make_row(MORE, samples)["note"], "11")

    def test_only_far_samples(self):
        row = goals.make_row(MORE, [far(9), far(9)])
        self.assertEqual((row["figure"], row["state"], row["met"]), (9, "far", True))
        self.assertNotIn("far", row)

    def test_a_starved_base_meets_nothing(self):
        starved = dataclasses.replace(near(9, 3.0), starved=True)
        row = goals.make_row(SHARE, [starved, near(9, 10.0), starved])
        self.assertEqual((row["ratio"], row["met"], row["samples"]), (0.9, True, 1))
        row = goals.make_row(SHARE, [starved])
        self.assertEqual((row["ratio"], row["state"], row["met"]), (3.0, "near, starved base", False))
        self.assertRegex("\n".join(page.cores(row)), "^starved base: the port alone")

    def test_an_error_is_no_met_goal(self):
        for row in (goals.make_row(MORE, error=processes.Failed("no link")), goals.make_row(MORE),
                    goals.make_row(SHARE, [near(3)]), goals.make_row(SHARE, [near(3, 0.0)])):
            self.assertTrue(row["error"])
            self.assertEqual((row["figure"], row["ratio"], row["met"]), (None, None, False))

    def test_what_is_possible(self):
        def row(goal, *best):
            samples = [dataclasses.replace(near(7.0, 10.0), possible=p, possible_by=f"{p} alone") for p in best]
            return goals.make_row(goal, samples)
        got = row(MORE, 6.0, 7.5, None)
        self.assertEqual((got["possible"], got["possible_by"], got["beyond"]), (7.5 / 8, "7.5 alone", True))
        self.assertFalse(row(MORE, 6.0, 8.0)["beyond"])
        self.assertFalse(row(LESS, 6.0, 5.0)["beyond"])
        self.assertTrue(row(LESS, 6.0, 5.5)["beyond"])
        self.assertNotIn("possible", row(MORE, None))

    def test_exit_status_is_of_errors_not_of_goals(self):
        bad = goals.make_row(MORE, [near(1)])
        self.assertEqual(goals.exit_status([bad]), 0)
        self.assertEqual(goals.exit_status([bad, goals.make_row(MORE, error="x")]), 1)

    def test_states(self):
        self.assertEqual([machine.state(*d) for d in ((25, 99), (25, 150), (150, 230))],
                         ["near", "mixed", "far"])

    def test_shares(self):
        for loops, word in (((0.54, 0.59), "whole"), ((0.54, 0.6), "mixed"), ((0.6, 1.1), "shared"), ((), "")):
            self.assertEqual(machine.share(loops, 0.54), word)

    def test_goal_in_words(self):
        self.assertEqual([g.text() for g in (MORE, LESS, SHARE)],
                         [">= 8 M/s", "<= 0.5 x TCP", ">= 80 % of limit"])

    def test_every_goal_has_its_measurement_and_a_name_of_its_own(self):
        names = [goals.name_of(g) for g in goals.GOALS]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual({g.group for g in goals.GOALS}, set(measure.GROUPS))
        self.assertLessEqual({*measure.ONCE, *measure.VERSUS}, set(measure.GROUPS))


class Measuring(unittest.TestCase):
    def setUp(self):
        self.distances = itertools.cycle([20.0])
        self.loops = itertools.cycle([(0.5, 0.5)])
        for what in (mock.patch.object(machine, "cores",
                                       lambda: machine.Cores(next(self.distances), next(self.loops))),
                     contextlib.redirect_stderr(io.StringIO())):
            self.enterContext(what)

    def rows(self, call, repeats=2, group="engine64"):
        with mock.patch.dict(measure.GROUPS, {group: call}):
            return [row for _, row in measure.rows([group], measure.Plan(True, repeats), measure.Prober())]

    def test_samples_carry_the_state_around_them(self):
        self.distances = iter([20.0, 30.0, 200.0])
        figures = iter([9.0, 1.0])
        row = self.rows(lambda plan: {"messages": Sample(next(figures))})[0]
        self.assertEqual((row["figure"], row["state"], row["samples"]), (9.0, "near", 1))
        self.assertEqual((row["far"]["figure"], row["core_distance_ns"]), (1.0, [20.0, 30.0]))

    def test_samples_carry_the_cores_around_them(self):
        # 0.6 counts as slow only after the last loop has shown the fastest time, 0.5.
        self.loops = iter([(0.6, 0.6), (0.6, 0.5), (0.5, 0.5), (0.5, 0.5)])
        figures = iter([1.0, 2.0, 9.0])
        row = self.rows(lambda plan: {"first message after idle": Sample(next(figures))}, 3, "wake")[0]
        self.assertEqual((row["figure"], row["state"], row["samples"]), (9.0, "near", 1))
        self.assertEqual((row["shared"]["figure"], row["core_slowdown"]), (1.5, [1.0, 1.0]))

    def test_one_core_says_itself_what_it_was_like(self):
        self.loops = itertools.cycle([(0.5, 0.9)])  # the other core is shared all the time
        row = self.rows(lambda plan: {"messages": Sample(9.0, loops_ns=(0.5,))})[0]
        self.assertEqual((row["state"], row["samples"]), ("near", 2))
        row = self.rows(lambda plan: {"messages": Sample(9.0, loops_ns=(0.9,))})[0]
        self.assertEqual(row["state"], "near, shared core")

    def test_each_run_of_a_mode_is_a_sample(self):
        figures = {"packets": [1.0, 2.0, 3.0, 9.0], "testpmd": [4.0, 4.0, 4.0, 4.0],
                   "core_speed": [0.9, 0.5, 0.5, 0.5], "distance": [20.0, 30.0, 200.0, 40.0],
                   "goodput": [1.0] * 4, "possible": [2.0, 3.0, 3.5, 3.0]}
        doc = {"rows": [{key: {"each": each} for key, each in figures.items()}]}
        with (mock.patch.object(machine, "run_limits", return_value=doc),
              mock.patch.object(machine, "need")):  # starts nothing
            row = self.rows(measure.GROUPS["wire-af_packet64"], 1, "wire-af_packet64")[0]
        # The second run counts: the first ran on a shared core, the third was far, the last's testpmd starved.
        self.assertEqual((row["figure"], row["ratio"], row["samples"], row["state"]), (2.0, 0.5, 1, "near"))
        self.assertEqual((row["far"]["figure"], row["shared"]["figure"]), (3.0, 1.0))
        self.assertEqual(row["core_distance_ns"], [30.0, 30.0])
        # The best of all runs.
        self.assertEqual((row["possible"], row["possible_by"], row["beyond"]),
                         (0.875, "testpmd with an ICRC", True))

    def test_one_odd_run_is_no_measure_of_many(self):
        def chosen(whole, shared):
            row = goals.make_row(SHARE, [near(1.0, 10.0)] * whole + [near(6.0, 10.0, "shared")] * shared)
            return row["samples"], "shared" in row
        self.assertEqual(chosen(1, 3), (1, True))
        self.assertEqual(chosen(1, 4), (5, False))
        self.assertEqual(chosen(2, 30), (32, False))
        self.assertEqual(chosen(3, 30), (3, True))

    def test_groups_without_a_whole_core_have_more_turns(self):
        call = mock.Mock(side_effect=lambda plan: {"messages": Sample(9.0, loops_ns=(0.5,))})
        self.rows(call, 2)
        self.assertEqual(call.call_count, 2)
        loops = iter([0.9, 0.9, 0.5, 0.9])
        call = mock.Mock(side_effect=lambda plan: {"messages": Sample(9.0, loops_ns=(next(loops),))})
        row = self.rows(call, 2)[0]
        self.assertEqual((call.call_count, row["samples"], row["state"]), (3, 1, "near"))
        loops = itertools.cycle([0.9])
        call.reset_mock()
        self.rows(call, 2)
        self.assertEqual(call.call_count, 4)  # the number of turns is limited

    def test_what_goes_wrong_is_in_every_row_of_the_group(self):
        for why in (machine.Missing("iperf3 is missing"), processes.Failed("x"), RuntimeError("x"),
                    KeyError("rows"), OSError("x")):
            rows = self.rows(mock.Mock(side_effect=why))
            self.assertEqual(len(rows), 3)
            self.assertTrue(all(str(why) in row["error"] for row in rows), rows)

    def test_samples_before_a_failure_count(self):
        rows = self.rows(mock.Mock(side_effect=[{"messages": Sample(9.0)}, processes.Failed("late")]))
        self.assertEqual((rows[0]["figure"], rows[0]["samples"]), (9.0, 1))
        self.assertIn("late", rows[1]["error"])

    def test_a_quick_run_ends_in_time(self):
        now = itertools.count(0, 30)  # each clock read advances 30 s
        with mock.patch.object(measure.time, "monotonic", lambda: next(now)):
            call = mock.Mock(return_value={"messages": Sample(9.0)})
            row = self.rows(call, 64)[0]
        self.assertEqual((row["met"], row["samples"]), (True, call.call_count))
        self.assertLess(call.call_count, 3)

    def test_a_group_of_many_runs_ends_in_time(self):
        now = [0]

        def run(*_):
            now[0] += 100
            return [Sample(9.0, 9.0)]

        with mock.patch.object(measure.time, "monotonic", lambda: now[0]), mock.patch.object(congestion, "_loss", run):
            rows = self.rows(congestion.loss_ops, group="loss-ops")
        self.assertEqual(now[0], 200)
        self.assertEqual([row.get("samples") for row in rows[:3]], [1, 1, None])
        self.assertTrue(all("not in this --quick" in row["skipped"] for row in rows[2:]), rows)

    def test_what_there_is_no_time_for_is_no_failure(self):
        with mock.patch.object(measure, "QUICK_S", -1):
            call = mock.Mock()
            rows = self.rows(call)
        call.assert_not_called()  # no further turn starts
        self.assertTrue(all("not in this --quick" in row["skipped"] for row in rows))
        self.assertEqual(goals.exit_status(rows), 0)
        self.assertIn("not in this", "\n".join(page.lines([(MORE, rows[0])], HEAD)))

    def test_what_is_measured_last_has_more_time(self):
        with mock.patch.object(measure, "QUICK_S", -1), mock.patch.object(machine, "need"):
            call = mock.Mock(return_value={})
            self.rows(call, group="rxe")
            call.assert_called_once()
            with mock.patch.object(measure, "LAST_S", rxe.BOOT_S - 1):
                rows = self.rows(call, group="rxe")
        call.assert_called_once()
        self.assertTrue(all(f"s of {rxe.BOOT_S - 1} were left" in row["skipped"] for row in rows), rows)

    def test_a_guest_takes_longer_where_it_is_not_built(self):
        with tempfile.TemporaryDirectory() as folder:
            with mock.patch.object(rxe, "build_folder", lambda: pathlib.Path(folder)):
                self.assertEqual(rxe.first_s(), rxe.BUILD_S + rxe.BOOT_S)
                (pathlib.Path(folder) / "build.ninja").touch()
                self.assertEqual(rxe.first_s(), rxe.BOOT_S)

    def test_a_guest_that_is_built_too_late_is_no_failure(self):
        with mock.patch.object(rxe, "guest_build"), mock.patch.object(rxe, "image"):
            call = mock.Mock(side_effect=lambda plan: rxe.boot("source", 1, 2, plan.deadline))
            with mock.patch.object(measure, "LAST_S", rxe.BOOT_S - 1):
                rows = self.rows(call, 1)
        call.assert_called_once()
        self.assertTrue(all("the guest is built now" in row["skipped"] for row in rows), rows)

    def test_a_missing_program_is_named_with_its_package(self):
        with mock.patch.object(shutil, "which", lambda name: None):
            for program, package in (("ucx_perftest", "ucx-utils"), ("ib_write_bw", "perftest"),
                                     ("iperf3", "iperf3")):
                with self.assertRaisesRegex(machine.Missing, f"{program} .*apt-get install {package}"):
                    machine.need(program)


CELLS = ("goodput", "messages", "p50", "p99", "p99.9", "share", "both")
ROW = {"name": "both, 64 B", **{cell: {"median": 1.0} for cell in CELLS}}


class Sweeps(unittest.TestCase):
    """What --html measures in addition, on a clock that only runs while uroce-bench or iperf3 would."""

    def measured(self, quick, seconds):
        """(series, time at the end), if each run would take this long."""
        now = [0.0]

        def run_bench(*_, timeout=120):
            now[0] += min(seconds, timeout)
            if seconds > timeout:
                raise RuntimeError(f"did not end within {timeout} s")
            return {"rows": [ROW]}

        with (mock.patch.object(sweeps.time, "monotonic", lambda: now[0]), mock.patch.object(machine, "run_bench", run_bench),
              mock.patch.object(machine, "run_limits", run_bench),
              mock.patch.object(os, "geteuid", lambda: 1000)):
            return sweeps.measure(quick, sweeps.QUICK_S), now[0]

    def test_a_quick_run_has_every_series_on_a_usual_machine(self):
        out, _ = self.measured(True, 2)
        self.assertEqual((set(out), out["missing"]), ({"bandwidth", "messages", "latency", "loss", "qps", "missing"},
                                                      ["tcp: needs root"]))

    def test_a_quick_run_ends_in_time(self):
        self.assertLessEqual(measure.LAST_S, sweeps.QUICK_S)
        self.assertLessEqual(sweeps.QUICK_S, 240)
        for seconds in (15, 70, 1000):
            out, end = self.measured(True, seconds)
            self.assertLessEqual(end, sweeps.QUICK_S)
            self.assertIn(f"qps: not in this --quick, which ends after {sweeps.QUICK_S} s", out["missing"])
        self.assertIn("bandwidth", self.measured(True, 15)[0])

    def test_a_whole_run_takes_its_time(self):
        out, end = self.measured(False, 15)
        self.assertEqual(out["missing"], ["tcp: needs root"])
        self.assertGreater(end, sweeps.QUICK_S)


class Outputs(unittest.TestCase):
    def test_perftest(self):
        text = (" #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
                " 1048576    2493             0.00               1244.21\t\t   0.001244\n ---\n")
        self.assertEqual(versus.perftest_line(text)[3], 1244.21)
        with self.assertRaises(ValueError):
            versus.perftest_line("Couldn't connect\n")

    def test_ucx(self):
        text = "Final:             20000      7.430     8.110     8.110        7.53        7.53  1 2\n"
        self.assertEqual(versus.ucx_line(text)[1], 7.43)
        with self.assertRaises(ValueError):
            versus.ucx_line("[error] no transport\n")

    def test_guest(self):
        text = "figure rxe rate 15.7\r\nnoise\r\nfigure rxe rate 17.7\r\nfigure uroce bandwidth 2e+02\r\n"
        self.assertEqual(rxe.figures(text), {("rxe", "rate"): 16.7, ("uroce", "bandwidth"): 200.0})

    def test_limits_of_the_guest(self):
        got = rxe.figures("figure veth rate 92\nfigure port rate 50\nfigure crc us 12.25\n"
                          "figure copy us 1.4\nfigure port bandwidth 82\n")
        self.assertEqual(rxe.limits(got, "rate", "k/s"),
                         "veth alone carries 92 k/s by pktgen, two af_packet ports alone 50 k/s")
        self.assertEqual(rxe.limits(got, "bandwidth", "MB/s"), "two af_packet ports alone 82 MB/s, "
                         "CRC and copy of 4 KiB take 12.2 and 1.4 us, on each side")
        self.assertEqual(rxe.limits({}, "rate", "k/s"), "")


def pairs():
    return [(MORE, goals.make_row(MORE, [near(9), far(2)])),
            (LESS, goals.make_row(LESS, [dataclasses.replace(near(7, 10), possible=6.0, possible_by="so")])),
            (SHARE, goals.make_row(SHARE, [far(1e-9, 10)])),
            (SHARE, goals.make_row(SHARE, error="iperf3 <is> missing & so on" + " and more" * 30))]


class Pages(unittest.TestCase):
    def test_page(self):
        text = "\n".join(page.lines(pairs(), HEAD))
        self.assertTrue(all(len(line) <= page.WIDTH for line in text.splitlines()), text)
        for words in ("9 M/s", "with far cores 2 M/s", "<= 0.5 x TCP", "iperf3 <is> missing & so on",
                      "beyond this machine: so, ratio 0.6",
                      "1 of 4 goals met, 1 beyond this machine, 1 not measured",
                      "load 1.0 before, 2.0 after"):
            self.assertIn(words, text)


class Program(unittest.TestCase):
    def test_options(self):
        for argv in (["report", "--only", "nothing"], ["versus", "--only", "engine64"],
                     ["report", "--only", ""], ["loss", "--only", ""],
                     ["report", "--repeats", "0"], ["report", "more"]):
            done = run(*argv)
            self.assertEqual((done.returncode, done.stdout), (2, ""), argv)
            self.assertIn(argv[-1], done.stderr)

    def test_no_python(self):
        if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
            self.skipTest("no user namespaces here, as in a chroot")
        done = subprocess.run(["unshare", "-rm", "sh", "-c",
                               'mount --bind /dev/null "$(realpath /usr/bin/python3)" && PATH=/nothing exec "$1" report', "sh", BENCH],
                              text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("apt-get install python3", done.stderr)

    def test_no_scripts(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copy(BENCH, folder)
            done = subprocess.run([copy, "report"], text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("its scripts are not in", done.stderr)

    def test_json_and_status(self):
        # Without ip, iperf3 and the others the rows report it and the status is 1.
        with tempfile.TemporaryDirectory() as path:
            os.symlink("/usr/bin/python3", pathlib.Path(path) / "python3")
            done = run("versus", "--json", "--repeats", "1", "--only", "tcp-goodput,ucx-lat",
                       env={"PATH": path})
        self.assertEqual(done.returncode, 1, done.stderr)
        rows = json.loads(done.stdout)["rows"]
        self.assertEqual(len(rows), 2)
        for row in rows:
            self.assertLessEqual(KEYS, set(row))
            self.assertRegex(row["error"], "is missing: apt-get install")


if __name__ == "__main__":
    unittest.main(verbosity=2)
