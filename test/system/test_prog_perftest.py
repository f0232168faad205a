#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's perftest between two daemons: every program but raw_ethernet, every service, every option that this
network supports. UROCE_TEST_FULL=1 runs each combination, otherwise a selection."""
import functools
import itertools

import lib
import perftool

SERVICES = {"send": ("RC", "UC", "UD"), "write": ("RC", "UC"), "read": ("RC",),
            "atomic": ("RC",)}
QPS = (1, 2, 3, 4, 8, 16, 32, 64) if lib.FULL else (1, 2, 16, 64)


def size_of(op, service):
    return [] if op == "atomic" else ["-s", "1024" if service == "UD" else "8192"]


def plain(op, service):
    """(options, sizes in the result) valid for both the _bw and the _lat program of an operation."""
    one = size_of(op, service)
    shown = [8 if op == "atomic" else int(one[1])]
    limit = 12 if service == "UD" else 23
    yield ["-n", "200", *one], shown
    if op != "atomic":
        yield ["-n", "5", "-a"], [1 << n for n in range(1, limit + 1)]
    if op != "write":  # write has no event mode
        yield ["-n", "200", "-e", *one], shown
    yield ["-n", "200", "--use_hugepages", *one], shown
    if op in ("send", "write"):
        yield ["-n", "200", "-I", "64", "-s", "64"], [64]
        yield ["-n", "200", "-I", "0", "-s", "64"], [64]
    yield ["-D", "1", *one], shown


def bandwidth(op, service):
    one = size_of(op, service)
    shown = [8 if op == "atomic" else int(one[1])]
    for qps in QPS:
        yield ["-n", "100", "-q", str(qps), *one], shown
    yield ["-n", "200", "-b", *one], shown
    if op != "atomic":
        yield ["-n", "5", "-b", "-a"], [1 << n for n in range(1, 13 if service == "UD" else 24)]
    yield ["-n", "200", "--report_gbits", *one], shown
    yield ["-n", "100", "-b", "-q", "8", *one], shown
    if op != "write":
        # One QP only: after an event perftest polls once, for one QP's number of receives, and then sleeps even if
        # CQEs remain.
        yield ["-n", "100", "-b", "-e", *one], shown
    yield ["-n", "200", "-t", "16", "-Q", "4", *one], shown
    if op != "send":
        yield ["-n", "1000", "-l", "4", *one], shown
    elif service == "RC":
        yield ["-n", "1000", "-r", "64", *one], shown
    else:  # UC and UD drop messages that find no receive
        yield ["-n", "60", "-r", "64", *one], shown


def combinations():
    """(program, options, sizes)"""
    for op, service_list in SERVICES.items():
        for service, kind in itertools.product(service_list, ("bw", "lat")):
            service_args = [] if op in ("read", "atomic") else ["-c", service]
            for args, sizes in plain(op, service):
                yield f"ib_{op}_{kind}", service_args + args, sizes
            if kind == "bw":
                for args, sizes in bandwidth(op, service):
                    yield f"ib_{op}_{kind}", service_args + args, sizes
    for atomic in ("CMP_AND_SWAP", "FETCH_AND_ADD"):
        for kind in ("bw", "lat"):
            yield f"ib_atomic_{kind}", ["-A", atomic, "-n", "200"], [8]


def worth_it(seen, tool, args):
    """Whether a short run includes this combination: it covers each service of each program, each option and each
    number of QPs once."""
    words = iter(args)
    keys = set()
    for word in words:
        if word in ("-n", "-s"):
            next(words)
        elif word in ("-c", "-q", "-A"):
            keys.add((tool, word, next(words)))
        elif word.startswith("-"):
            keys.add((tool, word))
    new = keys - seen or not any(key[0] == tool for key in seen)
    seen |= keys
    return bool(new)


def fits(link, tool, args):
    """Excludes combinations over a veth pair. Latency clients never sleep and leave the kernel and the daemons too
    little of two cores: a table or a second of it takes minutes. A burst of UC or UD from many QPs is legally lost,
    but the receiver would wait for it."""
    if link.kind != "veth":
        return True
    many = "-q" in args and int(args[args.index("-q") + 1]) > 16
    if tool.endswith("_lat") and ("-a" in args or "-D" in args):
        return False
    return "RC" in args or "-c" not in args or not (many or "-a" in args)


def wanted(link):
    """Tests for lib.cases_beside."""
    seen = set()
    for tool, args, sizes in combinations():
        new = worth_it(seen, tool, args)
        if not (fits(link, tool, args) if lib.FULL else new):
            continue
        mtu = [] if "UD" in args else ["-m", str(link.mtu)]
        yield (f"{tool}: {' '.join(args)}" + (f" ({link.kind})" if lib.FULL else ""),
               functools.partial(perftool.run, link, tool, *mtu, *args, sizes=sizes))


def perftest(link):
    # In parallel, because they mostly measure the CPU frequency; some of the full set do not.
    lib.cases_beside(1 if lib.FULL else 2, wanted(link))
    link.end(link.kind)


def main():
    lib.need_root()
    with perftool.huge_pages(64):
        for make in (lib.link_memif, lib.link_veth) if lib.FULL else (lib.link_memif,):
            perftest(make())
    lib.finish()


main()
