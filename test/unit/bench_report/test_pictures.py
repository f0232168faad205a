#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of `uroce-bench report --html`: one drawn from fixed figures, and the one in README.md."""
import importlib.util
import pathlib
import re
import sys
import unittest
from unittest import mock
from xml.etree import ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "test/bench/report"), str(ROOT / "test/kit_py")]

import machine  # noqa: E402
import pictures  # noqa: E402
import sweeps  # noqa: E402

README_PICTURE = "doc/pictures/bandwidth.svg"
COMPARED = ("checksum and copy, one core", "kernel TCP")  # not bounds: a measured line may cross them
SVG = "{http://www.w3.org/2000/svg}"
GLYPH, LINE = 7, 11  # units of the picture: an average character's width, and the height of a name
ACROSS, UP = 0.5, -90  # degrees: text is horizontal but for the name of the y axis


class Text:
    def __init__(self, element):
        self.words = element.text
        self.x, self.y = float(element.get("x")), float(element.get("y"))
        self.anchor, self.colour = (re.search(rf"{key}: ([^;]+)", element.get("style"))[1] for key in ("text-anchor", "fill"))
        self.angle = float(re.search(r"rotate\((-?[\d.]+)", element.get("transform"))[1])


def figures():
    """Bandwidth by size: lines that end close together, as those of a real run, and cross."""
    def line(*rates, sizes=sweeps.SIZES):
        return [list(pair) for pair in zip(sizes, rates)]
    return {"write": line(1, 4, 14, 40, 70, 90, 120, 110), "send": line(1, 4, 14, 40, 70, 95, 125, 111),
            "read": line(1, 3, 10, 30, 60, 90, 100, 109),
            COMPARED[0]: line(9, 30, 45, 60, 75, 85, 85, sizes=(64, 256, 512, 1024, 2048, 4096, 1 << 20)),
            COMPARED[1]: line(0.3, 1, 3, 6, 12, 20, 22, 21)}


def dashed(svg):
    """Colours of dashed lines."""
    styles = [path.get("style", "") for path in svg.iter(SVG + "path")]
    return {re.search("stroke: ([^;]+)", style)[1] for style in styles if "stroke-dasharray" in style}


class Picture(unittest.TestCase):
    def check(self, text):
        """The rules of a picture of bandwidth. text: of the SVG file."""
        svg = ElementTree.fromstring(text)
        texts = [Text(element) for element in svg.iter(SVG + "text")]
        for shown in texts:
            self.assertLessEqual(abs(shown.angle - (UP if shown.words == "Gb/s" else 0)), ACROSS, shown.words)
        self.assertEqual([shown.words for shown in texts].count("message size, bytes"), 1)

        ticks = [shown for shown in texts if re.fullmatch(r"\d+[KM]?", shown.words) and shown.anchor == "middle"]
        self.assertEqual((ticks[0].words, ticks[-1].words), ("64", "1M"))
        for left, right in zip(ticks, ticks[1:]):
            self.assertGreater(right.x - left.x, GLYPH * (len(left.words) + len(right.words)) / 2 + GLYPH)

        # Each line's name is at its end, in its colour, on a line for itself; so there is no legend.
        names = [shown for shown in texts if shown.anchor == "start"]
        self.assertEqual({shown.words for shown in names}, {*sweeps.OPS, *COMPARED})
        self.assertTrue(all(shown.x > ticks[-1].x for shown in names))
        self.assertEqual(len({shown.colour for shown in names}), len(names))
        heights = sorted(shown.y for shown in names)
        self.assertTrue(all(high - low >= LINE for low, high in zip(heights, heights[1:])), heights)
        self.assertNotIn("legend", text)
        # A line that is called a limit must not be crossed, so no line is called that; dashed lines are for comparison.
        self.assertNotIn("limit", " ".join(shown.words for shown in texts))
        self.assertEqual(dashed(svg), {shown.colour for shown in names if shown.words in COMPARED})

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "python3-matplotlib is not installed")
    def test_picture_from_fixed_figures(self):
        self.check(pictures.standalone(pictures.draw(figures(), pictures.SIZE, "Gb/s", True)))

    def test_picture_of_the_readme(self):
        self.assertIn(f"]({README_PICTURE})", (ROOT / "README.md").read_text())
        self.check((ROOT / README_PICTURE).read_text())

    def test_what_a_run_compares_with(self):
        """A sweep's lines for comparison have these names, and the page says what they are."""
        def run(mode, *_, **__):
            if mode == "memory":
                return {"rows": [{"name": f"both, {size} B", "both": {"median": 50}} for size in sweeps.SIZES]}
            row = {key: {"median": 1} for key in ("goodput", "messages", "share", "p50", "p99", "p99.9")}
            return {"rows": [row]}
        with (mock.patch.object(machine, "run_bench", run), mock.patch.object(machine, "run_limits", run),
              mock.patch.object(sweeps, "_tcp", lambda sizes: [[64, 1]]),
              mock.patch.object(sweeps.os, "geteuid", lambda: 0)):
            found = sweeps.measure(False, 0)
        self.assertEqual((set(found["bandwidth"]), found["missing"]), ({*sweeps.OPS, *COMPARED}, []))
        words = next(words for name, _, words, *_ in pictures.PICTURES if name == "bandwidth")
        self.assertIn("dashed lines are for comparison: checksum and copy of both sides on one core", words)
        self.assertIn("kernel TCP", words)


if __name__ == "__main__":
    unittest.main(verbosity=2)
