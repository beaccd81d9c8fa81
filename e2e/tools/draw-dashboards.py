#!/usr/bin/env python3
"""Draws the chart's dashboards from what Prometheus answered their queries, an image each, for docs/metrics.md.

    draw-dashboards.py ANSWERS FOLDER

ANSWERS is dashboards.json, which `e2e/run.sh monitoring` leaves beside its record; names and units of a table's columns
are those of the chart's dashboards. Needs matplotlib. Grafana itself draws them better; these show which panels there
are and what they say.
"""

import itertools
import json
import math
import pathlib
import re
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

DASHBOARDS = pathlib.Path(__file__).parents[2] / "charts/slipway/files/dashboards"
COLUMNS = 4
INK, DIM, LINES, PAPER = "#d8d9da", "#8e9195", "#2c3235", "#111217"
COLOURS = ["#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#8ab8ff", "#fade2a"]
MOST_ROWS = 8


def name_of(legend, labels):
    """The name of a series, as Grafana makes it of the legend."""
    if legend and legend != "__auto":
        return re.sub(r"{{\s*(\w+)\s*}}", lambda found: labels.get(found[1], ""), legend).strip()
    shown = {key: value for key, value in labels.items() if key not in ("__name__",)}
    return ", ".join(shown.values()) or "value"


def text_of(value, unit):
    if math.isnan(value):
        return "-"
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "percent":
        return f"{value:.3g} %"
    if unit == "s":
        return f"{value * 1000:.3g} ms" if abs(value) < 1 else f"{value:.3g} s"
    if unit in ("bytes", "decbytes"):
        return f"{value / 2**30:.3g} GiB" if abs(value) >= 2**30 else f"{value / 2**20:.3g} MiB"
    if unit == "ops":
        return f"{value:.3g}/s"
    if unit == "watt":
        return f"{value:.3g} W"
    if unit in ("hertz", "rothz"):
        return f"{value / 1e9:.3g} GHz"
    return f"{value:.4g}"


def panels_of_the_chart():
    """The chart's panels by the titles of dashboard and panel."""
    known = {}
    for file in sorted(DASHBOARDS.glob("*.json")):
        dashboard = json.loads(file.read_text(encoding="utf-8"))
        known.update({(dashboard["title"], panel["title"]): panel for panel in dashboard["panels"]})
    return known


def columns_of(panel, unit):
    """Name and unit of each query's column in a table."""
    renamed = {}
    for step in panel.get("transformations", []):
        renamed.update(step.get("options", {}).get("renameByName", {}))
    units = {}
    for override in panel["fieldConfig"].get("overrides", []):
        for of in override["properties"]:
            if of["id"] == "unit":
                units[override["matcher"]["options"]] = of["value"]
    names = [renamed.get(f"Value #{target['refId']}", target["refId"]) for target in panel["targets"]]
    return [(name, units.get(name, unit)) for name in names]


def points(series):
    pairs = [(at, float(value)) for at, value in series["values"]]
    return [at for at, _ in pairs], [value for _, value in pairs]


def all_series(queries):
    return [(name_of(query["legend"], one["metric"]), one) for query in queries for one in query["series"]]


def bare(axes):
    axes.set_xticks([])
    axes.set_yticks([])


def draw_lines(axes, queries, unit, start):
    colours = itertools.cycle(COLOURS)
    for name, one in all_series(queries)[:MOST_ROWS]:
        at, values = points(one)
        axes.plot([(x - start) / 60 for x in at], values, color=next(colours), linewidth=1.2, label=name[:44])
    axes.grid(color=LINES, linewidth=0.5)
    axes.yaxis.set_major_formatter(lambda value, _: text_of(value, unit))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.3g} min")
    axes.legend(
        fontsize=5.5, frameon=False, labelcolor=DIM, loc="upper left", bbox_to_anchor=(-0.02, -0.08), ncols=2
    )


def draw_heat(axes, queries, start):
    rows = sorted(all_series(queries), key=lambda named: float(named[1]["metric"].get("le", "inf")))
    times = sorted({at for _, one in rows for at in points(one)[0]})
    table, before = [], [0.0] * len(times)
    for _, one in rows:
        known = dict(zip(*points(one)))
        now = [known.get(at, 0.0) for at in times]
        table.append([max(0.0, a - b) for a, b in zip(now, before)])
        before = now
    axes.pcolormesh([(at - start) / 60 for at in times], range(len(table)), table, cmap="magma", shading="nearest")
    bounds = [one["metric"].get("le", "") for _, one in rows]
    axes.set_yticks(range(0, len(bounds), 4), [f"{bounds[i]} s" for i in range(0, len(bounds), 4)])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.3g} min")


def draw_stats(axes, queries, unit):
    bare(axes)
    shown = [(name, points(one)[1][-1]) for name, one in all_series(queries)][:4]
    for row, (name, value) in enumerate(shown):
        height = 1 - (row + 0.5) / len(shown)
        size = 22 if len(shown) == 1 else 12
        axes.text(0.5, height, text_of(value, unit), color=COLOURS[0], fontsize=size, ha="center", va="center")
        if len(shown) > 1:
            axes.text(0.04, height, name[:24], color=DIM, fontsize=6, va="center")


def draw_table(axes, queries, columns):
    bare(axes)
    rows = {}
    for query in queries:
        unit = columns[query["number"]][1]
        for one in query["series"]:
            key = "  ".join(value for label, value in one["metric"].items() if label != "__name__")
            rows.setdefault(key, {})[query["number"]] = text_of(points(one)[1][-1], unit)
    places = [0.99 - 0.13 * (len(columns) - 1 - column) for column in range(len(columns))]
    for place, (name, _) in zip(places, columns):
        axes.text(place, 0.95, name.replace(" ", "\n"), color=DIM, fontsize=4.5, va="center", ha="right")
    most = int((places[0] - 0.1) * 72)
    for row, (key, values) in enumerate(list(rows.items())[:MOST_ROWS]):
        height = 0.82 - row * 0.11
        axes.text(0.01, height, key[:most], color=INK, fontsize=5, va="center")
        for place, column in zip(places, range(len(columns))):
            axes.text(place, height, values.get(column, ""), color=COLOURS[2], fontsize=5.5, va="center", ha="right")


def draw_bars(axes, queries, unit):
    shown = [(name, points(one)[1][-1]) for name, one in all_series(queries)][:MOST_ROWS]
    axes.barh([name[:28] for name, _ in shown], [value for _, value in shown], color=COLOURS[2], height=0.5)
    axes.xaxis.set_major_formatter(lambda value, _: text_of(value, unit))


def draw_panel(axes, title, queries, start, panel):
    kind, unit = queries[0]["kind"], queries[0]["unit"]
    axes.set_facecolor("#181b1f")
    axes.set_title(title, color=INK, fontsize=8, loc="left")
    axes.tick_params(colors=DIM, labelsize=5.5, length=0)
    for spine in axes.spines.values():
        spine.set_color(LINES)
    if not any(query["series"] for query in queries):
        bare(axes)
        axes.text(0.5, 0.5, "No data", color=DIM, fontsize=9, ha="center")
    elif kind == "stat":
        draw_stats(axes, queries, unit)
    elif kind == "table":
        draw_table(axes, queries, columns_of(panel, unit))
    elif kind == "bargauge":
        draw_bars(axes, queries, unit)
    elif kind == "heatmap":
        draw_heat(axes, queries, start)
    else:
        draw_lines(axes, queries, unit, start)


def draw(title, queries, file):
    of_chart = panels_of_the_chart()
    panels = {}
    for query in queries:
        panels.setdefault(query["panel"], []).append(query)
    start = min((one["values"][0][0] for query in queries for one in query["series"]), default=0)
    rows = math.ceil(len(panels) / COLUMNS)
    figure, grid = plt.subplots(rows, COLUMNS, figsize=(16, 2.7 * rows + 0.5), squeeze=False)
    figure.patch.set_facecolor(PAPER)
    figure.suptitle(title, color=INK, fontsize=13, x=0.01, ha="left")
    cells = [axes for row in grid for axes in row]
    for axes, (name, of_panel) in zip(cells, panels.items()):
        draw_panel(axes, name, of_panel, start, of_chart[title, name])
    for axes in cells[len(panels):]:
        axes.set_visible(False)
    figure.tight_layout(rect=(0, 0, 1, 0.98))
    figure.savefig(file, dpi=75)
    plt.close(figure)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    answers = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for title, queries in itertools.groupby(answers, key=lambda query: query["dashboard"]):
        file = folder / (title.split("/")[-1].strip().lower() + ".png")
        draw(title, list(queries), file)
        print(file)


main()
