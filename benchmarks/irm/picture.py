"""The pictures: the share of its processor time that each engine or worker takes over a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

from benchmarks.irm.account import ARRIVALS, RULES, Series
from benchmarks.irm.microscopy import BOUNDS, Course

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

plt.rcParams["svg.hashsalt"] = "irm"  # the same picture for the same runs
_COLOURS = ("#1f5f8b", "#5b8c3a", "#c9a227", "#b3541e", "#8a4f9e")


def draw(runs: Sequence[Series], path: Path) -> None:
    """Draw a panel for each rule and kind of arrivals, as SVG; of several runs the last."""
    found = {(each.rule, each.arrivals): each for each in runs}
    rules = [each for each in RULES if any(rule == each for rule, _ in found)]
    kinds = [each for each in ARRIVALS if any(kind == each for _, kind in found)]
    figure, panels = plt.subplots(
        len(kinds),
        len(rules),
        figsize=(4.2 * len(rules), 3.2 * len(kinds)),
        layout="constrained",
        sharey=True,
        squeeze=False,
    )
    for row, kind in zip(panels, kinds, strict=True):
        for axes, rule in zip(row, rules, strict=True):
            if (rule, kind) in found:
                _panel(axes, found[rule, kind])
    panels[0][0].legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _panel(axes: Axes, series: Series) -> None:
    for engine in range(len(series.baseline)):
        colour = _COLOURS[engine % len(_COLOURS)]
        at, shares = zip(*series.shares(engine), strict=True)
        axes.plot(at, shares, color=colour, label=f"engine {engine + 1}")
        reserved = [(each.at, each.instances[engine] * series.share) for each in series.samples]
        axes.step(*zip(*reserved, strict=True), color=colour, where="post", linestyle=":", linewidth=1)
    axes.axhline(1.0, color="#7a7a7a", linewidth=0.8)
    axes.set(title=f"{series.rule}, {series.arrivals}", xlabel="s", ylabel="share of the engine's cores")
    axes.grid(alpha=0.3)


def draw_courses(runs: Sequence[Course], path: Path) -> None:
    """Draw a panel for each rule of the microscopes, as SVG; of several runs the last."""
    found = {each.rule: each for each in runs}
    rules = [each for each in BOUNDS if each in found]
    figure, panels = plt.subplots(
        len(rules), 1, figsize=(8, 2.6 * len(rules)), layout="constrained", sharex=True, squeeze=False
    )
    for (axes,), rule in zip(panels, rules, strict=True):
        course = found[rule]
        names = sorted({name for each in course.samples for name in each.processor})
        for number, name in enumerate(names):
            colour = _COLOURS[number % len(_COLOURS)]
            axes.plot(*_with_gaps(course.shares(name)), color=colour, label=f"worker {number + 1}")
        there = [(each.at, len(each.processor)) for each in course.samples]
        axes.step(*zip(*there, strict=True), color="#7a7a7a", where="post", linestyle=":", label="workers")
        axes.axvline(max(course.analysed), color="#7a7a7a", linewidth=0.8)
        axes.set(title=f"{rule}: processor time by worker, and the number of workers", ylabel="cores")
        axes.grid(alpha=0.3)
    panels[-1][0].set(xlabel="s")
    labelled = max((axes.get_legend_handles_labels() for (axes,) in panels), key=lambda each: len(each[1]))
    figure.legend(*labelled, loc="outside lower center", frameon=False, fontsize=8, ncols=len(labelled[1]))
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _with_gaps(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Times and shares, with a gap where a worker was not there."""
    times, shares = list[float](), list[float]()
    for at, share in points:
        if times and at - times[-1] > 5:
            times.append(at)
            shares.append(float("nan"))
        times.append(at)
        shares.append(share)
    return times, shares
