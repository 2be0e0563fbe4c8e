"""Plots of Figures 8 and 10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

from benchmarks.fog.figure8 import INTERVALS, expected

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

plt.rcParams["svg.hashsalt"] = "fog"  # the same picture for the same rows

_CURVES = {
    "window": ("the paper's broker window of 20", "#b3541e"),
    "speck": ("SpecK, link unbounded", "#1f5f8b"),
    "narrow": ("SpecK, 2 Mbit/s", "#5b8c3a"),
}
_COLOURS = ("#b3541e", "#5b8c3a", "#1f5f8b")


def draw_figure8(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Readings counted and their age, remote against local, by the interval: a line for each curve."""
    figure, (counted, ages) = plt.subplots(1, 2, figsize=(10.4, 3.8), layout="constrained")
    for curve, (words, colour) in _CURVES.items():
        found = [row for row in rows if row["figure"] == 8 and row["curve"] == curve]
        _line(counted, found, "interval_ms", "ratio", words, colour)
        _line(ages, found, "interval_ms", "age_ratio", words, colour)
    counted.plot(
        INTERVALS,
        [expected(each) for each in INTERVALS],
        "--",
        color="#7a7a7a",
        label="20 / (round trip x rate)",
    )
    for axes, title in (
        (counted, "readings counted, remote / local"),
        (ages, "age of results, remote / local"),
    ):
        axes.set(title=title, xlabel="interval of each of two streams (ms)")
        axes.grid(alpha=0.3)
        _log_x(axes, INTERVALS)
    counted.set_ylim(0, None)
    counted.legend(frameon=False)
    ages.set_yscale("log")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def draw_figure10(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """D of the local and of the global statistics by the rate: a line for each profile of links."""
    found = [row for row in rows if row["figure"] == 10]
    figure, panels = plt.subplots(1, 2, figsize=(10.4, 3.8), sharey=True, layout="constrained")
    for axes, name, job in zip(panels, ("d3", "d4"), ("local", "global"), strict=True):
        for profile, colour in zip(dict.fromkeys(row["profile"] for row in found), _COLOURS, strict=False):
            _line(axes, [row for row in found if row["profile"] == profile], "rate", name, profile, colour)
        axes.set(title=f"{job} statistics", xlabel="messages/s a site")
        axes.grid(alpha=0.3)
        _log_x(axes, sorted({row["rate"] for row in found}))
    panels[0].set_ylabel("D = 100 (fog - cloud) / fog")
    panels[0].legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _log_x(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic axis with a tick at each measured value."""
    axes.set_xscale("log")
    axes.set_xticks(values, labels=[f"{each:g}" for each in values])
    axes.set_xticks([], minor=True)


def _line(
    axes: Axes, rows: Sequence[Mapping[str, Any]], across: str, name: str, words: str, colour: str
) -> None:
    """Medians, with least and greatest."""
    medians = [row[name] for row in rows]
    spread = (
        [row[name] - row[f"{name}_min"] for row in rows],
        [row[f"{name}_max"] - row[name] for row in rows],
    )
    axes.errorbar(
        [row[across] for row in rows], medians, yerr=spread, label=words, color=colour, marker="o", capsize=3
    )
