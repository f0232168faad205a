# SPDX-License-Identifier: BSD-3-Clause
"""Plots as SVG, written as text: bars of what is reached of each goal, pairs of bars for comparisons."""
import math
from xml.sax.saxutils import escape

import goals
import page

ROW, LEFT, PLOT, RIGHT, TOP = 26, 430, 420, 190, 46
GOOD, BAD, OTHER, INK = "#2f7d4f", "#b5482f", "#9aa3ad", "#222"
DECADES = 2  # to either side of the goal


def _text(x, y, text, anchor="start", size=13, weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'font-weight="{weight}" fill="{INK}">{escape(text)}</text>')


def _rect(x, y, width, height, colour):
    return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{height}" '
            f'fill="{colour}"/>')


def _rule(x, y1, y2, dash=""):
    dash = f' stroke-dasharray="{dash}"' if dash else ""
    return (f'<line x1="{x:.1f}" y1="{y1}" x2="{x:.1f}" y2="{y2}" stroke="{INK}" '
            f'stroke-width="{0.4 if dash else 1}"{dash}/>')


def _label(goal):
    """A row's name as far as there is room: a title's first words say which one it is."""
    return f"{goal.title.partition(',')[0]}: {goal.name}"


def document(width, height, parts, caption):
    return "\n".join([
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *parts, _text(10, height - 10, caption, size=11), "</svg>", ""])


def reached(pairs, caption):
    """One bar a row, on a logarithmic axis: how much of the goal is reached."""
    parts = [_text(10, 24, "What is reached of each goal (1: the goal)", size=16, weight="bold")]
    bottom = TOP + ROW * len(pairs)

    def at(value):
        exponent = max(-DECADES, min(DECADES, math.log10(value)))
        return LEFT + PLOT * (exponent + DECADES) / (2 * DECADES)

    for decade in range(-DECADES, DECADES + 1):
        x = at(10.0 ** decade)
        parts += [_rule(x, TOP, bottom, "" if decade == 0 else "2 3"),
                  _text(x, bottom + 16, f"{10.0 ** decade:g}", "middle", 11)]
    for i, (goal, row) in enumerate(pairs):
        y = TOP + ROW * i
        share = goals.reached(row, goal)
        parts.append(_text(LEFT - 8, y + 17, _label(goal), "end", 12))
        if share is None:
            parts.append(_text(LEFT + PLOT + 8, y + 17, "no figure", size=12))
            continue
        x, one = at(share), at(1)
        parts += [_rect(min(x, one), y + 5, abs(x - one), ROW - 10, GOOD if row["met"] else BAD),
                  _text(LEFT + PLOT + 8, y + 17,
                        f"{page.number(share)}: {page.number(row['figure'])} {row['unit']}", size=12)]
    return document(LEFT + PLOT + RIGHT, bottom + 48, parts, caption)


def compared(pairs, caption):
    """Two bars a row that was measured beside something else, each pair in its own scale."""
    pairs = [(goal, row) for goal, row in pairs if row.get("base")]
    parts = [_text(10, 24, "uroce beside what it is compared with", size=16, weight="bold")]
    for i, (goal, row) in enumerate(pairs):
        y = TOP + 2 * ROW * i
        most = max(row["figure"], row["base"])
        parts.append(_text(LEFT - 8, y + 17, _label(goal), "end", 12))
        for k, (label, value, colour) in enumerate((
                ("uroce", row["figure"], GOOD if row["met"] else BAD), (goal.of, row["base"], OTHER))):
            width = PLOT * value / most
            parts += [_rect(LEFT, y + 4 + k * 20, width, 16, colour),
                      _text(LEFT + width + 6, y + 17 + k * 20,
                            f"{label} {page.number(value)} {row['unit']}", size=12)]
    return document(LEFT + PLOT + RIGHT, TOP + 2 * ROW * len(pairs) + 36, parts, caption)


def write_all(folder, pairs, head):
    """goals.svg and versus.svg in folder."""
    caption = (f"{head['cpu']}, {head['cores']} cores, commit {head['commit']}, load "
               f"{head['load'][0]:.1f} .. {head['load'][1]:.1f}")
    (folder / "goals.svg").write_text(reached(pairs, caption), encoding="utf-8")
    (folder / "versus.svg").write_text(compared(pairs, caption), encoding="utf-8")
