#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""`uroce-bench report --html`: the page from a recorded run, rendered by headless Chromium in both colour schemes."""
import json
import os
import re
import shutil
import subprocess

import lib

BENCH = lib.BUILD / "app/uroce-bench/uroce-bench"
SIZES = (64, 1024, 4096, 65536, 1 << 20)


def record():
    """A run as `report --json` prints it, with made-up figures."""
    row = {"name": "engine: messages <64 B>", "goal": ">= 8 M/s", "figure": 9.1, "unit": "M/s", "ratio": 1.1, "state": "near",
           "met": True, "least": 8.5, "most": 9.9, "samples": 3}
    rows = [row, {**row, "name": "wire: memif", "met": False},
            {**row, "name": "rxe: messages", "figure": None, "met": False, "skipped": "needs root"}]
    curves = {op: [[size, size / 1000 + n] for size in SIZES] for n, op in enumerate(("write", "send", "read"), 1)}
    sweeps = {"missing": ["tcp: iperf3 is missing"], "bandwidth": curves, "messages": curves, "latency": curves,
              "loss": {"write, 64 KiB": [[0.1, 90], [1, 60], [5, 20]]}, "qps": {"64 B": [[1, 5], [1024, 4]]}}
    return {"mode": "report", "cpu": "A & B", "cores": 2, "kernel": "6.1", "commit": "0", "load": [0, 1], "rows": rows,
            "sweeps": sweeps}


def report(*argv):
    """Runs it with a python3 first in PATH that has no matplotlib, as that of conda or pyenv."""
    other = lib.tmpdir() / "python3"
    other.write_text("#!/bin/sh\necho 'another python3' >&2\nexit 3\n")
    other.chmod(0o755)
    return subprocess.run([BENCH, "report", *argv], text=True, capture_output=True, check=False, timeout=280,
                          env={**os.environ, "PATH": f"{other.parent}:{os.environ['PATH']}"})


def look(page, width, dark):
    """Width of the page's contents, the background's colour, and the pixels of a screenshot."""
    folder = lib.tmpdir()
    probe = folder / "page.html"
    probe.write_text(page.read_text().replace("</body>", "<script>document.title = "
                     "document.documentElement.scrollWidth + ' ' + innerWidth + ' ' + "
                     "getComputedStyle(document.body).backgroundColor</script></body>"))
    argv = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}/user",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--window-size={width},1600"]
    dom = lib.sh(*argv, "--dump-dom", f"file://{probe}", timeout=60)
    scroll, inner, colour = re.search(r"<title>(\d+) (\d+) (.*?)</title>", dom).groups()
    lib.sh(*argv, f"--screenshot={folder}/shot.png", f"file://{page}", timeout=60)
    import matplotlib.image  # pylint: disable=import-outside-toplevel
    return int(scroll), int(inner), colour, matplotlib.image.imread(folder / "shot.png")[:, :, :3]


def check_look(page, width, dark):
    scroll, inner, colour, pixels = look(page, width, dark)
    assert scroll <= inner, f"the page is {scroll} wide, the window {inner}"
    assert colour == ("rgb(20, 24, 31)" if dark else "rgb(255, 255, 255)"), colour
    assert (pixels.mean() < 0.4) == dark, pixels.mean()
    used = (abs(pixels - pixels[2, 2]) > 0.2).any(axis=2).mean()
    assert 0.02 < used < 0.6, f"{used:.3f} of the page differs from its background"


def main():
    lib.sh("bash", "-c", f". {lib.HERE.parent.parent}/scripts/setup.sh; setup_packages python3-matplotlib", timeout=300)
    folder = lib.tmpdir()
    page, picture, recorded = folder / "page.html", folder / "picture.svg", folder / "run.json"
    recorded.write_text(json.dumps(record()))
    with lib.case("a page from a recorded run: self-contained, every picture and goal"):
        done = report("--from", recorded, "--html", page, "--picture", picture)
        assert done.returncode == 0, done.stderr
        text = page.read_text()
        assert text.count("<svg") == 5 and "prefers-color-scheme: dark" in text, text[:500]
        assert not re.search(r'(src|href)="(?!#)|url\((?!#)|@import', text.replace("http://www.w3.org", "")), "refers outside"
        for words in ("A &amp; B", "engine: messages &lt;64 B&gt;", "needs root", "iperf3 is missing", "1 of 2 measured goals"):
            assert words in text, words
        drawn = picture.read_text()
        assert ">message size, bytes<" in drawn and ">limit" not in drawn and "rotate(-30" not in drawn, drawn
        assert all(f">{op}<" in drawn for op in ("write", "send", "read")) and "legend" not in drawn, drawn
        ids = re.findall(r' id="([^"]+)"', text)
        assert len(ids) == len(set(ids)), "an id is used twice"
        assert picture.read_text().startswith("<svg") and "var(--s0)" in picture.read_text()
    with lib.case("the same record makes the same page"):
        again = folder / "again.html"
        assert report("--from", recorded, "--html", again).returncode == 0
        assert again.read_text() == text
    with lib.case("wrong use is refused with the reason"):
        done = report("--from", recorded)
        assert done.returncode == 2 and "only with --html" in done.stderr, done
        done = report("--from", "/nowhere", "--html", page)
        assert done.returncode == 1 and "/nowhere" in done.stderr, done
    with lib.case("without a bandwidth there is a page, but no picture"):
        without = record()
        del without["sweeps"]["bandwidth"]
        recorded.write_text(json.dumps(without))
        done = report("--from", recorded, "--html", page, "--picture", picture)
        assert done.returncode == 1 and "the bandwidth was not measured" in done.stderr, done
        assert page.read_text().count("<svg") == 4
    with lib.case("a page from a quick run of one goal's group"):
        done = report("--quick", "--only", "engine64", "--repeats", "1", "--html", page, "--json")
        assert done.returncode == 0, done.stderr
        sweeps = json.loads(done.stdout)["sweeps"]
        assert set(sweeps) - {"missing"} == {"bandwidth", "messages", "latency", "loss", "qps"}, sweeps
        assert page.read_text().count("<svg") == 5 and "protocol, requester" in page.read_text()
    recorded.write_text(json.dumps(record()))
    report("--from", recorded, "--html", page)
    chromium = shutil.which("chromium")
    for width in (1200, 600):
        for dark in (False, True):
            name = f"in Chromium, {width} pixels wide, {'dark' if dark else 'light'}: not blank, no scrolling"
            if chromium is None:
                lib.skip_case(name, "chromium is not installed (BENCH_PACKAGES of scripts/setup.sh)")
                continue
            with lib.case(name):
                check_look(page, width, dark)
    lib.finish()


main()
