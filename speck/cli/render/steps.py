"""The steps of a plan: the order in which it is carried out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rich.table import Table

from speck.cli.render.tables import table
from speck.cli.render.values import Data

_NAMES = {
    "broker": "check broker",
    "prepare": "prepare",
    "drain": "drain source",
    "await_running": "await running",
    "settle": "settle",
    "changed": "all jobs changed",
    "prune": "clean up",
}


def steps_table(plan: Data) -> Table:
    """A row for each step of a plan, with the numbers of the steps that it waits for."""
    kinds = {each["job"]: each["kind"] for each in plan["actions"]}
    rows = (
        (
            step["number"],
            _NAMES.get(step["kind"]) or kinds[step["subject"]],
            f"wave {step['subject']}" if step["kind"] == "settle" else step["subject"],
            ", ".join(_ranges(step["needs"])),
        )
        for step in plan["steps"]
    )
    return table(("STEP", "ACTION", "TARGET", "WAITS FOR"), rows)


def _ranges(numbers: Sequence[int]) -> Iterator[str]:
    """Ascending numbers as text, three or more in a row as a range."""
    ends = [index for index, (one, two) in enumerate(pairwise(numbers), 1) if two != one + 1]
    for begin, end in pairwise([0, *ends, len(numbers)]):
        run = numbers[begin:end]
        if len(run) > 2:
            yield f"{run[0]}-{run[-1]}"
        else:
            yield from map(str, run)
