"""The picture: the share of its processor time that each engine takes over a run, by rule and arrivals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

from benchmarks.irm.account import ARRIVALS, RULES, Series

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
