# SPDX-License-Identifier: BSD-3-Clause
"""Rows as text: one page, at most 118 columns wide."""
import textwrap

WIDTH = 118
NAME, GOAL, FIGURE, RATIO, STATE = 30, 24, 32, 8, 14


def number(value):
    """At least three significant digits; no exponent for common magnitudes."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def figure(row):
    text = f"{number(row['figure'])} {row['unit']}"
    if row.get("samples", 0) > 1:
        text += f" ({number(row['least'])} .. {number(row['most'])})"
    return text


def state(row):
    """near, far or mixed, with the distance."""
    distance = row.get("core_distance_ns")
    return row["state"].partition(",")[0] + (f" {distance[0]:.0f}-{distance[1]:.0f} ns" if distance else "")


def cores(row):
    """Lines about the cores and about samples that were left out because of them."""
    slow = row.get("core_slowdown")
    for word in row["state"].split(", ")[1:]:
        if word == "starved base":
            yield "starved base: the port alone made fewer frames than the transfer over it, so nothing is met"
        elif slow:
            yield f"{word}: at worst {slow[0]:.2f} .. {slow[1]:.2f} times the fastest loop of additions"
    for key, words in (("far", "far cores"), ("shared", "a shared core")):
        if key in row:
            yield (f"with {words} {number(row[key]['figure'])} {row['unit']}, "
                   f"ratio {number(row[key]['ratio'])}")


def possible(row):
    """A line with the machine's limit for a goal that is not met, if it was measured."""
    if not row["met"] and row.get("possible") is not None:
        yield (("beyond this machine: " if row["beyond"] else "possible here: ") +
               f"{row['possible_by']}, ratio {number(row['possible'])}")


def _line(*cells):
    widths = (NAME, GOAL, FIGURE, RATIO, STATE)
    return "  " + " ".join(c.ljust(w) for c, w in zip(cells, widths)) + " " + cells[-1]


def _wrapped(text):
    return textwrap.wrap(text, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)


def lines(pairs, head):
    """The page's lines. pairs: (goal, row); head: the dictionary of machine.describe, with load."""
    yield (f"{head['cpu']}, {head['cores']} cores, Linux {head['kernel']}, commit {head['commit']}; "
           f"load {head['load'][0]:.1f} before, {head['load'][1]:.1f} after; {head['seconds']:.0f} s")
    if head.get("fastest_loop_ns"):
        yield (f"cores: the fastest loop of additions of this run took {head['fastest_loop_ns']:.3f} ns per iteration; "
               "\"shared\" are slower by a tenth")
    yield _line("", "goal", "figure (min .. max)", "ratio", "cores", "met").rstrip()
    title = None
    for goal, row in pairs:
        if goal.title != title:
            title = goal.title
            yield ""
            yield title
        if row["figure"] is None:
            yield _line(goal.name, row["goal"], "no figure", "-", "-", "no")
            yield from _wrapped(row.get("error") or row["skipped"])
            continue
        yield _line(goal.name, row["goal"], figure(row), number(row["ratio"]), state(row),
                    "yes" if row["met"] else "NO")
        for text in (*cores(row), *possible(row)):
            yield from _wrapped(text)
        if "note" in row:
            yield from _wrapped(row["note"])
    met = sum(row["met"] for _, row in pairs)
    failed = sum(row["figure"] is None for _, row in pairs)
    yield ""
    beyond = sum(row.get("beyond", False) and not row["met"] for _, row in pairs)
    yield (f"{met} of {len(pairs)} goals met" + (f", {beyond} beyond this machine" if beyond else "") +
           (f", {failed} not measured" if failed else ""))
