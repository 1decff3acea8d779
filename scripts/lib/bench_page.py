"""Keeps the results of scripts/bench for each row, and makes Documentation/Performance.md's tables and plot of them.
Called by bench.py, and by scripts/bench --plot with the root of the repository."""

import json
import math
import os
import sys
from xml.sax.saxutils import escape

# The order of the groups of the plot, and how each is titled: by what a ratio compares with.
GROUPS = (
    ("C", "against C on libcurl"),
    ("Go", "against Go's net/http"),
    ("URLSession", "against URLSession"),
    ("curl", "against the curl program"),
    ("SQLite's C API", "against SQLite's C API"),
    ("1 segment", "against one connection"),
    ("a GET by hiredis", "against a GET by hiredis in C"),
    ("one without a fleet", "against the same without a fleet"),
)


def collect(report, path):
    """Adds the results of a run to the file, in place of older ones of the same rows."""
    rows = load(path)
    run = {"date": report["date"], "rounds": report["rounds"], "machine": report["machine"]}
    for verdict in report["limits"]:
        row = rows.setdefault(verdict["row"], {})
        if row.get("date") != run["date"]:
            row.clear()
            row.update(run, limits=[])
        row["limits"].append(verdict)
    if report["costs"]:
        rows["costs"] = {**run, "rounds": report["costs_rounds"], "costs": report["costs"]}
    with open(path, "w") as file:
        json.dump(rows, file, indent=2)
        file.write("\n")


def load(path):
    try:
        with open(path) as file:
            return json.load(file)
    except OSError:
        return {}


# Tables.

def number(value, unit=""):
    digits = 0 if value >= 1000 or (not unit and value > 10) else 1 if unit else 2
    return f"{value:,.{digits}f} {unit}".strip()


def verdict_cells(verdict):
    what = verdict["what"] + (f", ÷ {verdict['against']}" if "against" in verdict else "")
    if "ratio" in verdict:
        ours = number(verdict["ratio"])
        spread = f"{verdict['lowest']:.2f} … {verdict['highest']:.2f}"
        limit = "" if verdict["limit"] is None else number(verdict["limit"])
    else:
        ours, spread = number(verdict["ours"], verdict["unit"]), ""
        limit = number(verdict["limit"], verdict["unit"]) if verdict["kept"] is not None else ""
    if verdict["kept"] is False:
        ours = f"**{ours}**"
    return f"| {what} | {ours} | {spread} | {limit} |"


def results_text(rows):
    verdicts = [verdict for row in rows.values() for verdict in row.get("limits", [])]
    missed = [verdict for verdict in verdicts if verdict["kept"] is False]
    kept = sum(verdict["kept"] is True for verdict in verdicts)
    lines = ["| measured | ours | spread of the rounds | at most |", "|---|--:|--:|--:|"]
    lines += [verdict_cells(verdict) for verdict in verdicts]
    lines += ["", f"{kept} of the {kept + len(missed)} limits are kept; a value that is over its limit is bold.", ""]
    # Rows of one run have one line.
    runs = {}
    for name, row in rows.items():
        if "limits" in row:
            runs.setdefault((row["date"], row["rounds"]), (row["machine"], []))[1].append(name)
    for (date, rounds), (machine, names) in runs.items():
        libcurl = machine["libcurl"].split(" (")[0]
        swift = machine["swift"].split(" (")[0]
        lines.append(
            f"- {', '.join(names)}: {date[:10]}, {rounds} round{'s' if rounds > 1 else ''}, "
            f"{machine['processors']} processors, Linux {machine['kernel']}, {swift}, {libcurl}, "
            f"{machine['nginx'].removeprefix('nginx version: ')}")
    return lines


def shortfall_text(rows):
    """What is over its limit, the furthest first."""
    missed = sorted(
        (verdict for row in rows.values() for verdict in row.get("limits", []) if verdict["kept"] is False),
        key=lambda verdict: -verdict.get("ratio", verdict["ours"]) / verdict["limit"])
    if not missed:
        return ["Nothing: every limit is kept."]
    lines = ["| measured | ours | goal | over by |", "|---|--:|--:|--:|"]
    for verdict in missed:
        what = verdict["what"] + (f", ÷ {verdict['against']}" if "against" in verdict else "")
        value, unit = verdict.get("ratio", verdict["ours"]), verdict.get("unit", "")
        lines.append(f"| {what} | {number(value, unit)} | {number(verdict['limit'], unit)} "
                     f"| {(value / verdict['limit'] - 1) * 100:.0f} % |")
    return lines


def costs_text(rows):
    if "costs" not in rows:
        return ["Not measured yet: `scripts/bench --costs`."]
    plain, *others = rows["costs"]["costs"]
    lines = ["| what is added to a request | thousand instructions | spread of the rounds | of a plain request |",
             "|---|--:|--:|--:|"]
    noise = (plain["highest"] - plain["lowest"]) / 1000
    for one in others:
        count, share = one["instructions"] / 1000, one["instructions"] / plain["instructions"] * 100
        cells = f"under {noise:.0f} | | under {noise * 1e5 / plain['instructions']:.0f} %" if count < noise else (
            f"{count:.0f} | {one['lowest'] / 1000:.0f} … {one['highest'] / 1000:.0f} | {share:.0f} %")
        lines.append(f"| {one['what']} | {cells} |")
    rounds = rows["costs"]["rounds"]
    return lines + [
        "", f"Counted on {rows['costs']['date'][:10]}, {rounds} round{'s' if rounds > 1 else ''}. A plain request, one in",
        f"flight, took {plain['lowest'] / 1000:.0f} to {plain['highest'] / 1000:.0f} thousand instructions; what is smaller than "
        "this difference cannot be told from nothing."]


def fill(path, parts):
    """Replaces what is between the markers of each part."""
    with open(path) as file:
        text = file.read()
    for name, lines in parts.items():
        begin, end = f"<!-- {name}: made by scripts/bench --plot -->", f"<!-- {name}: end -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            sys.exit(f"error: {path} lacks \"{begin}\" or \"{end}\"; put both back where the part belongs.")
        text = before + begin + "\n" + "\n".join(lines) + "\n" + end + after
    with open(path, "w") as file:
        file.write(text)


# The plot.

STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de }
  text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328 }
  .title { font-size: 16px; font-weight: 600 }
  .group { font-weight: 600 }
  .note, .tick { fill: #59636e; font-size: 12px }
  .grid { stroke: #d0d7de; stroke-width: 1 }
  .equal { stroke: #59636e; stroke-width: 1.5 }
  .value { font-variant-numeric: tabular-nums }
  .kept { fill: #0969da } .missed { fill: #bc4c00 } .open { fill: #818b98 }
  line.kept { stroke: #0969da } line.missed { stroke: #bc4c00 } line.open { stroke: #818b98 }
  .spread { stroke-width: 4; stroke-opacity: .35; stroke-linecap: round }
  .limit { stroke: #1f2328; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #3d444d }
    text { fill: #f0f6fc }
    .note, .tick { fill: #9198a1 }
    .grid { stroke: #3d444d }
    .equal { stroke: #9198a1 }
    .kept { fill: #4493f8 } .missed { fill: #f0883e } .open { fill: #9198a1 }
    line.kept { stroke: #4493f8 } line.missed { stroke: #f0883e } line.open { stroke: #9198a1 }
    .limit { stroke: #f0f6fc }
  }
"""
LEFT, RIGHT, LINE, WIDTH = 390, 880, 22, 960


def plot(rows):
    """The ratios of all rows as an SVG: a point for the median, a band for the spread, a bar for the limit."""
    # A wall time without a limit says the same as the processor time beside it.
    verdicts = [
        verdict for row in rows.values() for verdict in row.get("limits", [])
        if "ratio" in verdict and (verdict["limit"] is not None or not verdict["what"].endswith("wall time"))
    ]
    if not verdicts:
        sys.exit("error: there are no results with ratios yet; run scripts/bench, or scripts/bench --rounds 1 --only cpu.")
    values = [value for v in verdicts for value in (v["lowest"], v["highest"], v["limit"] or 1)]
    low, high = min(0.5, *values) * 0.9, max(2, *values) * 1.1

    def x(ratio):
        return LEFT + (RIGHT - LEFT) * math.log(ratio / low) / math.log(high / low)

    body, y = [], 92
    for name, title in GROUPS:
        members = [v for v in verdicts if v["against"] == name or name == "curl" and v["against"].startswith("curl")]
        if not members:
            continue
        y += 10
        body.append(f'<text class="group" x="24" y="{y + 4}">{escape(title)}</text>')
        y += LINE
        for v in members:
            mark = {True: "kept", False: "missed", None: "open"}[v["kept"]]
            # A measurement on the executor comes after the same measurement without it.
            what, executor, _ = v["what"].partition(", on manager.executor")
            label = f'<text x="56" y="{y + 4}">on manager.executor</text>' if executor else (
                f'<text x="40" y="{y + 4}">{escape(what)}</text>')
            body.append(label)
            body.append(f'<line class="spread {mark}" x1="{x(v["lowest"]):.1f}" x2="{x(v["highest"]):.1f}" y1="{y}" y2="{y}"/>')
            body.append(f'<circle class="{mark}" cx="{x(v["ratio"]):.1f}" cy="{y}" r="5"/>')
            if v["limit"] is not None:
                body.append(f'<line class="limit" x1="{x(v["limit"]):.1f}" x2="{x(v["limit"]):.1f}" y1="{y - 7}" y2="{y + 7}"/>')
            body.append(f'<text class="value {mark}" x="{WIDTH - 24}" y="{y + 4}" text-anchor="end">{v["ratio"]:.2f}</text>')
            y += LINE
    bottom = y - 4
    ticks = [t for t in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 1.5, 2, 3, 4, 6, 10) if low < t < high]
    frame = []
    for tick in ticks:
        kind = "equal" if tick == 1 else "grid"
        frame.append(f'<line class="{kind}" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="84" y2="{bottom}"/>')
        frame.append(f'<text class="tick" x="{x(tick):.1f}" y="{bottom + 18}" text-anchor="middle">{tick:g}</text>')
    height = bottom + 34
    head = [
        '<text class="title" x="24" y="34">What LATNetworking costs, as a ratio</text>',
        '<text class="note" x="24" y="56">Ours divided by the other program\'s, in the same run. '
        '1 is equal; further left is less.</text>',
        f'<circle class="kept" cx="{LEFT + 6}" cy="70" r="5"/><text class="note" x="{LEFT + 17}" y="74">within the limit</text>',
        f'<circle class="missed" cx="{LEFT + 126}" cy="70" r="5"/><text class="note" x="{LEFT + 137}" y="74">over it</text>',
        f'<circle class="open" cx="{LEFT + 196}" cy="70" r="5"/><text class="note" x="{LEFT + 207}" y="74">no limit</text>',
        f'<line class="limit" x1="{LEFT + 276}" x2="{LEFT + 276}" y1="63" y2="77"/>'
        f'<text class="note" x="{LEFT + 284}" y="74">the limit</text>',
        f'<line class="spread open" x1="{LEFT + 352}" x2="{LEFT + 376}" y1="70" y2="70"/>'
        f'<text class="note" x="{LEFT + 386}" y="74">spread of the rounds</text>',
    ]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" aria-label="Ratios of LATNetworking to other programs; the table on the page has the numbers">',
        f"<style>{STYLE}</style>",
        f'<rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        *head, *frame, *body, "</svg>", ""])


def make(root):
    rows = load(os.path.join(root, ".build/bench/page.json"))
    order = ("cpu", "entity", "latency", "inflight", "closure", "urls", "pages", "post", "http2", "fresh", "burst", "download",
             "upload", "resumable", "segments", "queue", "instructions", "waiting", "events", "live", "cache", "fleet", "store", "outbox", "build", "costs")
    rows = {name: rows[name] for name in order if name in rows}
    picture = plot(rows)
    page = os.path.join(root, "Documentation/Performance.md")
    fill(page, {"results": results_text(rows), "costs": costs_text(rows), "shortfall": shortfall_text(rows)})
    path = os.path.join(root, "Documentation/Pictures/performance.svg")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(picture)
    print(f"{page} and {path} have the results of: {', '.join(rows)}")


if __name__ == "__main__":
    make(sys.argv[1])
