"""What was found at the sites: a row for each engine and each broker, then the complaints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from speck.cli.render.tables import table
from speck.cli.render.words import Data

_EXACT = 2.0  # s; what is known less exactly is shown as from and to


def checkup_table(found: Iterable[Data]) -> Table:
    """A row for each engine and each broker."""
    rows = (
        (
            each["site"],
            each["role"],
            each["address"],
            "yes" if each["reached"] else "no",
            each["version"],
            clock_ahead(each["clock_ahead"]),
            ", ".join(limit(name, value) for name, value in each["limits"].items()),
            str(len(each["wrong"])) if each["wrong"] else "nothing",
        )
        for each in found
    )
    return table(("SITE", "SERVER", "ADDRESS", "REACHED", "VERSION", "CLOCK", "LIMITS", "WRONG"), rows)


def checkup_lines(found: Iterable[Data]) -> Iterator[Text]:
    """What is wrong, and what mends it; last how much that is."""
    count = 0
    for each in found:
        for wrong in each["wrong"]:
            count += 1
            yield Text(f"{each['site']}, {each['role']} {each['address']}: {wrong['message']}", style="red")
            if wrong["remedy"]:
                yield Text(f"    to mend it: {wrong['remedy']}", style="yellow")
    yield Text(f"{count} wrong" if count else "all well", style="bold")


def clock_ahead(clock: Sequence[float] | None) -> str:
    """By how much a clock is ahead, in s."""
    if clock is None:
        return ""
    earliest, latest = clock
    if latest - earliest <= _EXACT:
        return f"{(earliest + latest) / 2:+.1f} s"
    return f"{earliest:+.0f} to {latest:+.0f} s"


def limit(name: str, value: Any) -> str:
    """A limit for people: memory in MiB, no underscores."""
    shown = f"{value >> 20} MiB" if name.startswith("memory") and isinstance(value, int) else value
    return f"{name.replace('_', ' ')} {shown}"
