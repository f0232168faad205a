#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two processes, each with many threads on one context that create, use and destroy everything that verbs and rdma_cm
offer (storm/). UROCE_STORM_SECONDS: how long; UROCE_STORM_THREADS: per process.

UROCE_TSAN: a build folder whose provider and program have ThreadSanitizer; the daemon is that of UROCE_BUILD."""
import collections
import os
import pathlib

import lib

SECONDS = os.environ.get("UROCE_STORM_SECONDS", "2" if lib.SHORT else "3")
THREADS = os.environ.get("UROCE_STORM_THREADS", "14")
TSAN = os.environ.get("UROCE_TSAN")
SUPPRESSIONS = lib.HERE.parent / "unit/tsan.supp"


def storm(link, build, env):
    """Both processes at once, each on a separate device."""
    progs = [lib.Proc([build / "app/uroce-run/uroce-run", "--socket", side.daemon.socket,
                       build / "test/system/storm/storm", side.dev, f"10.9.0.{101 + i}", SECONDS, THREADS],
                      side.daemon.ns, {**lib.asan_env(), **env})
             for i, side in enumerate((link.a, link.b))]
    for side, prog in zip((link.a, link.b), progs):
        lib.tap(prog, side.dev, 200)


def main():
    lib.need_root()
    build, env, log = lib.BUILD, {}, None
    if TSAN:
        build, log = pathlib.Path(TSAN).resolve(), lib.tmpdir() / "tsan"
        env = {"TSAN_OPTIONS": f"suppressions={SUPPRESSIONS} history_size=4 exitcode=0 die_after_fork=0 log_path={log}",
               "UROCE_SANITIZED": "1"}
    elif lib.SANITIZED:
        env = {"UROCE_SANITIZED": "1"}
    link = lib.link_ring(lib.TWO_WORKERS)
    storm(link, build, env)
    if TSAN:
        with lib.case("no race was reported"):
            found = "\n".join(path.read_text(errors="replace") for path in log.parent.glob(f"{log.name}.*"))
            kinds = collections.Counter(line for line in found.splitlines() if line.startswith("SUMMARY"))
            assert not found, f"{kinds}:\n{found[:20000]}"
    link.end()
    lib.finish()


main()
