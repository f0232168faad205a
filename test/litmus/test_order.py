#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The protocols of doc/memory-order.md on arm64, each as its accesses and the result that must not occur. The result is
impossible as the code is, and possible without any one of the orders that are named: each is needed, and each test can
fail. First the model itself, by results that the literature gives."""
import dataclasses
import unittest

from armv8 import fence, load, possible, store, swap


def without(threads, thread, number):
    """threads, with access `number` of a thread as a plain one; a fence is left out."""
    changed = [list(row) for row in threads]
    access = changed[thread][number]
    if access.kind == "F":
        del changed[thread][number]
    else:
        changed[thread][number] = dataclasses.replace(access, acq=False, rel=False)
    return changed


class Model(unittest.TestCase):
    """Names of tests as in the literature."""

    def test_message_passing(self):
        def bad(r):
            return r["flag"] == 1 and r["data"] == 0
        for rel in (False, True):
            for acq in (False, True):
                threads = [[store("d", 1), store("f", 1, rel=rel)], [load("f", "flag", acq=acq), load("d", "data")]]
                self.assertEqual(possible(threads, bad), not (rel and acq), (rel, acq))

    def test_store_buffering(self):
        def bad(r):
            return r["a"] == 0 and r["b"] == 0
        plain = [[store("x", 1), load("y", "a")], [store("y", 1), load("x", "b")]]
        fenced = [[row[0], fence("full"), row[1]] for row in plain]
        self.assertTrue(possible(plain, bad))
        self.assertFalse(possible(fenced, bad))
        # an exchange of both orders is no full fence
        swaps = [[row[0], swap(f"z{i}", 1, f"z{i}", acq=True, rel=True), row[1]] for i, row in enumerate(plain)]
        self.assertTrue(possible(swaps, bad))

    def test_load_buffering(self):
        def bad(r):
            return r["a"] == 1 and r["b"] == 1
        self.assertTrue(possible([[load("x", "a"), store("y", 1)], [load("y", "b"), store("x", 1)]], bad))
        self.assertFalse(possible([[load("x", "a", ctrl=True), store("y", 1)],
                                   [load("y", "b", ctrl=True), store("x", 1)]], bad))

    def test_coherence(self):
        self.assertFalse(possible([[store("x", 1), store("x", 2)], [load("x", "a"), load("x", "b")]],
                                  lambda r: r["a"] == 2 and r["b"] == 1))

    def test_independent_reads_of_independent_writes(self):
        def bad(r):
            return (r["a"], r["b"], r["c"], r["d"]) == (1, 0, 1, 0)

        def threads(acq):
            return [[store("x", 1)], [store("y", 1)], [load("x", "a", acq=acq), load("y", "b")],
                    [load("y", "c", acq=acq), load("x", "d")]]
        self.assertTrue(possible(threads(False), bad))
        self.assertFalse(possible(threads(True), bad))

    def test_a_chain_of_three(self):
        def bad(r):
            return r["a"] == 1 and r["b"] == 1 and r["c"] == 0

        def threads(rel):
            return [[store("x", 1), store("y", 1, rel=True)], [load("y", "a"), store("z", 1, rel=rel)],
                    [load("z", "b", acq=True), load("x", "c")]]
        self.assertTrue(possible(threads(False), bad))
        self.assertFalse(possible(threads(True), bad))

    def test_one_of_two_exchanges_comes_first(self):
        self.assertFalse(possible([[swap("x", 1, "a")], [swap("x", 2, "b")]], lambda r: r["a"] == 0 and r["b"] == 0))


class Protocol(unittest.TestCase):
    def check(self, threads, bad, *needed):
        """needed: thread and number of each access whose order the protocol needs."""
        self.assertFalse(possible(threads, bad))
        for thread, number in needed:
            self.assertTrue(possible(without(threads, thread, number), bad), (thread, number))

    def test_messages_in_memory(self):
        """lib/mem/store.h: two messages, of a body and a tail each."""
        worker = [fence("full"), store("body1", 1), fence("full"), store("tail1", 1),
                  fence("full"), store("body2", 1), fence("full"), store("tail2", 1)]

        def program(first, then):
            return [worker, [load(first, "first"), fence("ld"), load(then, "then")]]

        def bad(r):
            return r["first"] == 1 and r["then"] == 0
        self.check(program("tail1", "body1"), bad, (0, 2), (1, 1))
        self.check(program("tail2", "body2"), bad, (0, 6))
        self.check(program("body2", "tail1"), bad, (0, 4))
        for then in ("body1", "tail1"):
            self.check(program("tail2", then), bad)

    def test_a_copied_message(self):
        """lib/map/copier_serve.c: the kernel gives mmap_lock back and takes it again between two vectors."""
        kernel = [store("body", 1), swap("lock", 1, "_1", rel=True), swap("lock", 2, "_2", acq=True), store("tail", 1)]
        self.check([kernel, [load("tail", "tail"), fence("ld"), load("body", "body")]],
                   lambda r: r["tail"] == 1 and r["body"] == 0, (0, 1), (0, 2))

    def test_reads_of_a_flag_and_of_data(self):
        """mr_load: two READs, of a flag and of the data that it announces."""
        program = [store("data", 1), store("flag", 1, rel=True)]
        self.check([program, [load("flag", "flag"), fence("ld"), load("data", "data")]],
                   lambda r: r["flag"] == 1 and r["data"] == 0, (0, 1), (1, 1))

    def test_ring_entries_are_whole(self):
        """Ring 1: also an entry of a CQ and its phase, mail, jobs, pointers in tables, a lock."""
        self.check([[store("entry", 1), store("prod", 1, rel=True)], [load("prod", "prod", acq=True), load("entry", "entry")]],
                   lambda r: r["prod"] == 1 and r["entry"] == 0, (0, 1), (1, 0))

    def test_ring_entries_are_not_overwritten(self):
        """Ring 1: the consumer's last read, then cons."""
        consumer = [load("entry", "entry"), store("cons", 1, rel=True)]
        self.check([consumer, [load("cons", "cons", acq=True), store("entry", 2)]],
                   lambda r: r["cons"] == 1 and r["entry"] == 2, (0, 1), (1, 0))

    def test_sleeper(self):
        """Ring 2: work is put while a thread goes to sleep."""
        waker = [store("work", 1, rel=True), fence("full"), load("asleep", "asleep")]
        sleeper = [store("asleep", 1), fence("full"), load("work", "work", acq=True)]
        self.check([waker, sleeper], lambda r: r["asleep"] == 0 and r["work"] == 0, (0, 1), (1, 1))

    def test_cq_room_seen_by_another_worker(self):
        """Ring 3: worker A reads the client's index, worker B writes the entry."""
        threads = [[load("entry", "entry"), store("hdr", 1, rel=True)],
                   [load("hdr", "hdr", acq=True), store("cons", 1, rel=True)],
                   [load("cons", "cons", acq=True), store("entry", 2)]]
        self.check(threads, lambda r: r["hdr"] == 1 and r["cons"] == 1 and r["entry"] == 2, (0, 1), (2, 0))

    def test_rte_ring_of_two_producers(self):
        """Ring 4: the second producer waits for the first by relaxed loads, as in DPDK 22.11."""
        threads = [[store("entry", 1), store("tail", 1, rel=True)],
                   [load("tail", "seen", ctrl=True), store("tail", 2, rel=True)],
                   [load("tail", "tail", acq=True), load("entry", "entry")]]
        self.check(threads, lambda r: r["seen"] == 1 and r["tail"] == 2 and r["entry"] == 0, (0, 1), (2, 0))

    def test_payload_of_a_handed_over_frame(self):
        """A client's payload, its queue, the ring to the owner worker, the payload's copy."""
        threads = [[store("payload", 1), store("prod", 1, rel=True)],
                   [load("prod", "prod", acq=True), store("ring", 1, rel=True)],
                   [load("ring", "ring", acq=True), load("payload", "payload")]]
        self.check(threads, lambda r: r["prod"] == 1 and r["ring"] == 1 and r["payload"] == 0, (0, 1), (2, 0))

    def test_a_removed_object(self):
        """Ring 5: the last access, the quiescent state, the object's end."""
        worker = [load("object", "object"), store("quiescent", 1, rel=True)]
        self.check([worker, [load("quiescent", "quiescent", acq=True), store("object", 2)]],
                   lambda r: r["quiescent"] == 1 and r["object"] == 2, (0, 1), (1, 0))

    def test_a_window_that_changes(self):
        """lib/mem/mw.c"""
        writer = [store("changes", 1), fence("full"), store("addr", 1), store("len", 1), store("changes", 2, rel=True)]
        reader = [load("changes", "before", acq=True), load("addr", "addr"), load("len", "len"), fence("ld"),
                  load("changes", "after")]
        self.check([writer, reader],
                   lambda r: r["before"] == r["after"] != 1 and r["addr"] != r["len"], (0, 1), (0, 4), (1, 0), (1, 3))

    def test_a_record_is_not_seen_before_the_last_count(self):
        """lib/qp/recorder.c"""
        writer = [store("count", 1, rel=True), fence("full"), store("record", 2), store("count", 2, rel=True)]
        reader = [load("count", "before", acq=True), load("record", "record"), fence("ld"), load("count", "after")]
        self.check([writer, reader], lambda r: r["before"] == r["after"] == 0 and r["record"] == 2, (0, 1), (1, 2))

    def test_a_slot_that_nobody_frees(self):
        """lib/map/copier.c: the owner of a late operation leaves while another worker settles it."""
        owner = [store("left", 1), fence("full"), load("settled", "settled")]
        settler = [store("settled", 1), fence("full"), load("left", "left")]
        self.check([owner, settler], lambda r: r["settled"] == 0 and r["left"] == 0, (0, 1), (1, 1))

    def test_a_lost_completion(self):
        """ring.h, CQE-15: who sees done sees the phase, and who sees the phase sees cons."""
        worker = [store("cons", 1, rel=True), store("phase", 1, rel=True), store("done", 1, rel=True)]
        for first, then, release in (("done", "phase", 2), ("phase", "cons", 1)):
            self.check([worker, [load(first, "first", acq=True), load(then, "then")]],
                       lambda r: r["first"] == 1 and r["then"] == 0, (0, release), (1, 0))


if __name__ == "__main__":
    unittest.main()
