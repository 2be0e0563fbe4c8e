"""The picture: imbalance by workers, speed-up by the cost of a merge, and a drift over time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl

from benchmarks.common import Figure

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

plt.rcParams["svg.hashsalt"] = "key_split"  # the same picture for the same figures
_COLOURS = {
    "hash": "#7a7a7a",
    "shuffle": "#b3541e",
    "two-choices": "#c9a227",
    "dagreedy": "#5b8c3a",
    "dalton-original-cap-n": "#8a4f9e",
    "saspartitioner": "#3aa6a0",
    "balanced": "#1f5f8b",
}
_WORKERS = (4, 8, 32, 128, 1000)
Figures = Mapping[str, Figure]


def draw(figures: Figures, path: Path) -> None:
    """Draw the three panels as SVG."""
    figure, (first, second, third) = plt.subplots(1, 3, figsize=(13.5, 4.2), layout="constrained")
    _imbalances(first, figures)
    _speedups(second, figures)
    _drift(third, figures)
    second.legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _imbalances(axes: Axes, figures: Figures) -> None:
    for name, colour in _COLOURS.items():
        points = [
            (workers, figure.median)
            for workers in _WORKERS
            if (figure := figures.get(f"{name}.n{workers}.z1.5.slide_imbalance")) and name != "shuffle"
        ]
        axes.plot(*zip(*points, strict=True), marker="o", color=colour, label=name)
    title = "slide imbalance, z = 1.5 (shuffle: 0)"
    axes.set(title=title, xlabel="workers", xscale="log", yscale="log")
    axes.set_xticks(_WORKERS, labels=map(str, _WORKERS))
    axes.minorticks_off()
    axes.grid(alpha=0.3)


def _speedups(axes: Axes, figures: Figures) -> None:
    costs = (0.1, 1.0, 10.0, 100.0)
    for name, colour in _COLOURS.items():
        keys = [f"times_hash.{name}.z1.5.c{cost:g}" for cost in costs]
        if keys[0] in figures:
            axes.plot(costs, [figures[key].median for key in keys], marker="o", color=colour, label=name)
    title = "throughput in the model, times hash's, z = 1.5"
    axes.set(title=title, xlabel="cost of a merge over that of a row", xscale="log", yscale="log")
    axes.grid(alpha=0.3)


def _drift(axes: Axes, figures: Figures) -> None:
    for name, colour in _COLOURS.items():
        keys = [key for number in range(8) if (key := f"drift.{name}.slide{number}") in figures]
        if keys:
            axes.plot(range(len(keys)), [figures[key].median for key in keys], marker="o", color=colour)
    axes.set(title="share of the ideal after all hot keys changed", xlabel="slide", ylim=(0, 1.05))
    axes.grid(alpha=0.3)
