"""The plots that README and the benchmark's show, from the data file alone: plain SVG that reads well on light and on dark ground."""

import math
import os
from statistics import median
from xml.sax.saxutils import escape

from figures import column

WIDTH = 760
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #59636e; }
  .title { font-weight: 600; font-size: 15px; fill: #1f2328; }
  .end { text-anchor: end; }
  .middle { text-anchor: middle; }
  .grid { stroke: #d1d9e0; stroke-width: 1; }
  .spread { stroke: #1f2328; stroke-width: 1.5; }
  .relay { fill: #0969da; } .relay-line { stroke: #0969da; }
  .other { fill: #9aa4af; } .other-line { stroke: #9aa4af; }
  .line { fill: none; stroke-width: 2.5; stroke-linejoin: round; }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1; }
    .title { fill: #f0f6fc; }
    .grid { stroke: #3d444d; }
    .spread { stroke: #f0f6fc; }
    .relay { fill: #4493f8; } .relay-line { stroke: #4493f8; }
    .other { fill: #656c76; } .other-line { stroke: #656c76; }
  }
"""


class Picture:
    def __init__(self, title, height):
        self.height = height
        self.title = title
        self.parts = []
        self.text(0, 18, title, "title")

    def text(self, x, y, text, kind=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(text)}</text>')

    def line(self, x1, y1, x2, y2, kind):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')

    def box(self, x, y, width, height, kind):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{height:.1f}" rx="2" class="{kind}"/>')

    def path(self, points, kind):
        listed = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{listed}" class="line {kind}-line"/>')

    def save(self, path):
        with open(path, "w") as f:
            f.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" height="{self.height}"'
                    f' role="img" aria-label="{escape(self.title)}">\n<style>{STYLE}</style>\n' + "\n".join(self.parts) + "\n</svg>\n")


def show(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def bars(title, groups):
    """groups: [(heading, unit, [(label, kind, values)])]: a bar for the median, a stroke from the least to the greatest."""
    left, row, right = 230, 26, WIDTH - 70
    picture = Picture(title, 30 + sum(34 + row * len(items) for _, _, items in groups))
    repetitions = len(groups[0][2][0][2])
    picture.text(WIDTH, 18, f"median of {repetitions}, least to greatest", "end")
    y = 30
    for heading, unit, items in groups:
        top = max(max(values) for _, _, values in items)
        scale = (right - left) / top
        picture.text(0, y + 16, f"{heading}, {unit}")
        y += 24
        for label, kind, values in items:
            middle = median(values)
            picture.text(left - 8, y + 16, label, "end")
            picture.box(left, y + 4, middle * scale, row - 8, kind)
            picture.line(left + min(values) * scale, y + row / 2, left + max(values) * scale, y + row / 2, "spread")
            picture.text(left + max(values) * scale + 8, y + 16, show(middle))
            y += row
        y += 10
    return picture


def ticks(least, greatest):
    """1, 2, 5, 10, … from below the least to above the greatest."""
    found = [m * 10 ** e for e in range(math.floor(math.log10(least)), math.ceil(math.log10(greatest)) + 1) for m in (1, 2, 5)]
    first = max([t for t in found if t <= least], default=found[0])
    last = min([t for t in found if t >= greatest], default=found[-1])
    return [t for t in found if first <= t <= last]


def drain(part):
    runs = part["runs"]
    items = [("OpenFGA alone", "other", column(runs["direct"], "rows_per_s"))]
    items += [(name, "relay", column(runs[name], "rows_per_s")) for name in ("relay", "2 relays", "4 relays")]
    return bars("A backlog", [(f"{part['rows']:,} rows of two tuples", "rows/s", items)])


def latency(part):
    """The share of rows, from left to right, and how long they took at most: on a logarithmic scale, since the rare slow ones
    are what is looked for."""
    picture = Picture(f"From a row's commit until its tuples are in force, at {part['rate']} rows/s, ms", 300)
    left, right, top, bottom = 50, WIDTH - 130, 40, 265
    curves = [("direct write", "other", part["percentiles"]["direct"]), ("relay", "relay", part["percentiles"]["relay"])]
    marks = ticks(min(values[0] for _, _, values in curves), max(values[-1] for _, _, values in curves))
    low, high = math.log(marks[0]), math.log(marks[-1])

    def at(percent, value):
        return left + percent / 99 * (right - left), bottom - (math.log(value) - low) / (high - low) * (bottom - top)

    for mark in marks:
        picture.line(left, at(0, mark)[1], right, at(0, mark)[1], "grid")
        picture.text(left - 8, at(0, mark)[1] + 4, show(mark), "end")
    for percent in (10, 50, 90, 99):
        picture.text(at(percent, marks[0])[0], bottom + 20, f"p{percent}", "middle")
    # The labels stand beside the ends of their curves, but not on each other.
    labels = sorted((at(99, values[99])[1], label, values[99]) for label, _, values in curves)
    if labels[1][0] - labels[0][0] < 18:
        labels[1] = (labels[0][0] + 18, *labels[1][1:])
    for y, label, value in labels:
        picture.text(right + 8, y + 4, f"{label}: {show(value)}")
    for _, kind, values in curves:
        picture.path([at(percent, value) for percent, value in enumerate(values)], kind)
    return picture


def insert(part):
    runs = part["runs"]
    names = {"none": ("nothing", "other"), "sweep": ("relay, no trigger", "relay"), "trigger": ("relay and its trigger", "relay")}
    groups = []
    for clients in (8, 32):
        items = [(label, kind, column(runs[f"{arm} {clients}"], "inserts_per_s")) for arm, (label, kind) in names.items()]
        groups.append((f"{clients} clients", "rows/s", items))
    return bars("What the application gets through", groups)


def claim(part):
    groups = []
    for unit in ("buffers", "ms"):
        items = [(label, "other" if label == "empty" else "relay", column(rounds, unit)) for label, rounds in part["conditions"].items()]
        groups.append(("100 rows at the end of the table", unit, items))
    return bars("What claims cost", groups)


def through(part):
    points = part["through"]
    picture = Picture("What claims cost while another session holds an old snapshot, buffers for 100 rows", 270)
    left, right, top, bottom = 70, WIDTH - 20, 40, 225
    first, greatest, width = points[0]["buffers"], max(column(points, "buffers")), points[-1]["processed"]
    height = max(2 * first, greatest)

    def at(processed, buffers):
        return left + processed / width * (right - left), bottom - buffers / height * (bottom - top)

    marks = [0, first, 2 * first] + ([greatest] if greatest > 2.2 * first else [])
    for mark in marks:
        y = at(0, mark)[1]
        picture.line(left, y, right, y, "grid")
        picture.text(left - 8, y + 4, show(mark), "end")
    for i in range(5):
        picture.text(at(width * i / 4, 0)[0], bottom + 20, f"{width * i // 4:,}", "middle" if i < 4 else "end")
    picture.text(right, bottom + 38, "rows delivered since", "end")
    picture.path([at(point["processed"], point["buffers"]) for point in points], "relay")
    return picture


def draw(data, folder):
    """One file for each plot of what was measured."""
    os.makedirs(folder, exist_ok=True)
    for name, of, made in (
        ("drain", "drain", drain), ("latency", "latency", latency), ("insert", "insert", insert), ("claim", "claim", claim),
        ("claim-through", "claim", through),
    ):
        if of in data:
            made(data[of]).save(os.path.join(folder, f"{name}.svg"))
