# SPDX-License-Identifier: BSD-3-Clause
"""One self-contained page of HTML with pictures (SVG by matplotlib), in a light and a dark colour scheme."""
import html
import io
import re

import page

# Placeholders that matplotlib draws with; the page replaces them by CSS variables.
INK, GRID = "#010203", "#040506"
SERIES = ("#0a0001", "#0a0002", "#0a0003", "#0a0004", "#0a0005", "#0a0006")
TICKS, LINE_GAP = 8, 0.06  # most labels of the x axis; distance of two names, as a part of the height
SCHEMES = {
    "light": {"paper": "#ffffff", "ink": "#1c2330", "grid": "#d8dce3", "good": "#18794e", "bad": "#b3261e",
              "series": ("#1f5fbf", "#c2571a", "#2b8a3e", "#7a4fb5", "#b0306a", "#5b6472")},
    "dark": {"paper": "#14181f", "ink": "#e4e8ee", "grid": "#363d49", "good": "#5fd39a", "bad": "#ff8a80",
             "series": ("#7fb2ff", "#ffab70", "#7ee08f", "#c6a5ff", "#ff8fc0", "#aeb6c2")},
}
SIZE = "message size, bytes"
PLAIN = ("checksum", "kernel")  # first words of series for comparison, which are dashed
PICTURES = (
    ("bandwidth", "Bandwidth", "Payload that one program sends to another over one connection. Higher is better. The "
     "dashed lines are for comparison: checksum and copy of both sides on one core without a protocol, and kernel TCP. uroce "
     "uses a core for each side, so it may be above the first.", SIZE, "Gb/s", True),
     ("messages", "Message rate", "Messages per second on one connection. Higher is better; small messages show the fixed "
     "cost of a message.", SIZE, "million messages/s", True),
     ("latency", "Latency", "Half of the round-trip time. Lower is better. p99: one message in a hundred takes longer.",
     SIZE, "microseconds", True),
    ("loss", "Goodput when frames are lost", "Share of the lossless bandwidth that remains when frames are dropped in both "
     "directions.", "frames lost, %", "% of lossless", False),
    ("qps", "Many connections", "Messages per second of all connections together. A flat line means that more connections "
     "cost nothing.", "queue pairs", "million messages/s", False),
)
CSS = """
:root {{ {light} }}
@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}
* {{ box-sizing: border-box; }}
body {{ background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 68rem; padding: 1.5rem; }}
h1, h2, h3 {{ line-height: 1.2; }}
figure {{ margin: 0; }} svg {{ max-width: 100%; height: auto; }}
.pictures {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1.5rem 2rem; }}
.table {{ overflow-x: auto; }} table {{ border-collapse: collapse; width: 100%; font-size: .9rem; }}
th, td {{ text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--grid); overflow-wrap: anywhere; }}
.met {{ color: var(--good); font-weight: 600; }} .not {{ color: var(--bad); font-weight: 600; }}
"""


def _variables(scheme):
    colours = {key: value for key, value in scheme.items() if key != "series"}
    colours.update({f"s{i}": colour for i, colour in enumerate(scheme["series"])})
    return " ".join(f"--{name}: {value};" for name, value in colours.items())


def _size(value, _=None):
    for unit, step in (("M", 1 << 20), ("K", 1 << 10)):
        if value >= step:
            return f"{value / step:g}{unit}"
    return f"{value:g}"


def _label_lines(axes, series):
    """The name of each line at its right end, in its colour, moved apart where they would overlap."""
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = sorted((to_axes.transform(points[-1])[1], label, colour)
                  for colour, (label, points) in zip(SERIES, series.items()))
    low = 0
    for at, label, colour in ends:
        low = max(at, low)
        axes.text(1.02, low, label, color=colour, transform=axes.transAxes, va="center")
        low += LINE_GAP


def draw(series, x_label, y_label, log_y):
    """SVG text of a picture. series: {label: [[x, y], ..]}. Colours are placeholders."""
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "uroce", "font.family": "sans-serif",
                                "font.size": 11, "text.color": INK, "axes.edgecolor": GRID, "axes.labelcolor": INK,
                                "xtick.color": INK, "ytick.color": INK, "grid.color": GRID})
    from matplotlib import pyplot, ticker  # pylint: disable=import-outside-toplevel
    figure, axes = pyplot.subplots(figsize=(6.4, 4))
    for colour, (label, points) in zip(SERIES, series.items()):
        plain = label.startswith(PLAIN)
        axes.plot(*zip(*points), color=colour, label=label, marker="" if plain else "o", markersize=4,
                  linestyle="--" if plain else "-", linewidth=2)
    if x_label != "frames lost, %":
        axes.set_xscale("log", base=2)
        ticks = sorted({x for points in series.values() for x, _ in points})
        axes.set_xticks([x for x in ticks if len(ticks) <= TICKS or (x.bit_length() - ticks[0].bit_length()) % 2 == 0])
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(_size))
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    if log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, _: f"{y:g}"))
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.grid(True, linewidth=0.8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    _label_lines(axes, series)
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)
    return text.getvalue()[text.getvalue().index("<svg"):]


def themed(svg):
    """The picture with CSS variables for colours."""
    names = {INK: "ink", GRID: "grid", **{colour: f"s{i}" for i, colour in enumerate(SERIES)}}
    return re.sub("|".join(names), lambda match: f"var(--{names[match[0]]})", svg)


def standalone(svg):
    """The picture as a file, with both schemes and a background."""
    style = (f"<style>:root {{ {_variables(SCHEMES['light'])} }} @media (prefers-color-scheme: dark) "
             f"{{ :root {{ {_variables(SCHEMES['dark'])} }} }} svg {{ background: var(--paper); }}</style>")
    head = svg.index(">") + 1
    return themed(svg[:head]) + style + themed(svg[head:])


def _unique(svg, name):
    """Ids of one picture must not be those of another on the same page."""
    return re.sub(r'(id="|url\(#|href="#)', lambda match: match[1] + name + "-", svg)


def _goals(rows):
    yield "<div class=table><table><thead><tr><th>Goal<th>wanted<th>measured<th>met</tr></thead><tbody>"
    for row in rows:
        met = ("<td class=met>yes" if row["met"] else "<td>not measured" if row["figure"] is None else "<td class=not>no")
        figure = html.escape(page.figure(row)) if row["figure"] is not None else html.escape(
            row.get("error") or row.get("skipped") or "-")
        yield f"<tr><td>{html.escape(row['name'])}<td>{html.escape(row['goal'])}<td>{figure}{met}</tr>"
    yield "</tbody></table></div>"


def document(data):
    """The page. data: what `report --json` prints, with "sweeps"."""
    rows, sweeps = data["rows"], data.get("sweeps", {})
    measured = [row for row in rows if row["figure"] is not None]
    yield "<!doctype html><html lang=en><head><meta charset=utf-8>"
    yield '<meta name=viewport content="width=device-width, initial-scale=1"><title>uroce: measured</title>'
    yield f"<style>{CSS.format(**{name: _variables(scheme) for name, scheme in SCHEMES.items()})}</style></head><body>"
    yield "<h1>uroce: RDMA over any Ethernet port, measured</h1>"
    yield ("<p>uroce lets programs move data by RDMA, directly between their memories, without a special network card. A "
           "daemon does the work of such a card on a processor core. This page shows how fast it is on this machine.</p>")
    yield (f"<p>{html.escape(data['cpu'])}, {data['cores']} cores, Linux {html.escape(data['kernel'])}, commit "
           f"{html.escape(data['commit'])}. {sum(row['met'] for row in rows)} of {len(measured)} measured goals met. Other "
           f"programs kept {data['load'][0]:.1f} cores busy at the start and {data['load'][1]:.1f} at the end; figures of a "
           "busy machine are too low.</p><div class=pictures>")
    for name, title, words, x_label, y_label, log_y in PICTURES:
        if not sweeps.get(name):
            continue
        svg = _unique(themed(draw(sweeps[name], x_label, y_label, log_y)), name)
        yield f"<figure><h2>{title}</h2><p>{words}</p>{svg}</figure>"
    yield "</div>"
    for why in sweeps.get("missing", ()):
        yield f"<p>Not measured: {html.escape(why)}</p>"
    yield "<h2>Goals</h2><p>Each with the figure of this run: the median, minimum and maximum.</p>"
    yield from _goals(rows)
    yield "</body></html>"
