"""The time to deploy by the number of jobs, as in the paper's Figure 6."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl

from benchmarks.common import Figure

mpl.use("Agg")

from matplotlib import pyplot as plt

_WORDS = {
    "paper": "one after the other, as in the paper",
    "complete": "the same, with the connector in the jar",
    "speck": "SpecK",
    "floor": "the calls alone",
}
_COLOURS = {"paper": "#b3541e", "complete": "#d99a6c", "speck": "#1f5f8b", "floor": "#7a7a7a"}


def draw(times: Mapping[float, Mapping[str, Mapping[int, Figure]]], path: Path, engine: str) -> None:
    """A panel for each link (by round trip, ms), a line for each way: medians, with least and greatest."""
    figure, axes = plt.subplots(
        1, len(times), figsize=(5.2 * len(times), 3.8), sharey=True, squeeze=False, layout="constrained"
    )
    slowest = max(each.max for ways in times.values() for sizes in ways.values() for each in sizes.values())
    for panel, (round_trip, ways) in zip(axes[0], times.items(), strict=True):
        for way, sizes in ways.items():
            medians = [each.median for each in sizes.values()]
            spread = (
                [each.median - each.min for each in sizes.values()],
                [each.max - each.median for each in sizes.values()],
            )
            panel.errorbar(
                list(sizes),
                medians,
                yerr=spread,
                label=_WORDS[way],
                color=_COLOURS[way],
                marker="o",
                capsize=3,
            )
        link = f"round trip {round_trip:g} ms" if round_trip else "loopback"
        panel.set(title=f"{engine}, {link}", xlabel="jobs", xlim=(0, None), ylim=(0, 1.05 * slowest))
        panel.grid(alpha=0.3)
    axes[0][0].set_ylabel("time to deploy (s)")
    axes[0][0].legend(frameon=False)
    figure.savefig(path)
    plt.close(figure)
