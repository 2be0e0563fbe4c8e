"""The health checks of sites: a row for each engine and each broker, then the faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from speck.cli.render.tables import table
from speck.cli.render.values import Data

_EXACT = 2.0  # s; a less exact offset is shown as a range


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
            str(len(faults_of(each))) if faults_of(each) else "none",
        )
        for each in found
    )
    return table(("SITE", "SERVER", "ADDRESS", "REACHABLE", "VERSION", "CLOCK", "LIMITS", "FAULTS"), rows)


def checkup_lines(found: Iterable[Data]) -> Iterator[Text]:
    """Each fault and each remark, with its remedy; last the number of faults."""
    count = 0
    for each in found:
        count += len(faults_of(each))
        for wrong in each["wrong"]:
            at = f"{each['site']}, {each['role']} {each['address']}: "
            remark = wrong.get("remark", False)
            yield Text(f"{at}{'remark: ' * remark}{wrong['message']}", style="" if remark else "red")
            if wrong["remedy"]:
                yield Text(f"    remedy: {wrong['remedy']}", style="yellow")
    yield Text(fault_count(count), style="bold")


def faults_of(server: Data) -> list[Data]:
    """The faults of an engine or a broker, without what is only a remark."""
    return [each for each in server["wrong"] if not each.get("remark", False)]


def doctor_report(found: Sequence[Data]) -> Iterator[Table | Text]:
    """A row for each finding, and their number."""
    if found:
        rows = ((each["finding"], each["where"], each["message"], each["remedy"]) for each in found)
        yield table(("FINDING", "WHERE", "MESSAGE", "REMEDY"), rows)
    yield Text(f"{len(found)} finding{'s' * (len(found) != 1)}" if found else "no findings", style="bold")


def fault_count(count: int) -> str:
    """A number of faults as text."""
    return "no faults" if not count else "1 fault" if count == 1 else f"{count} faults"


def clock_ahead(clock: Sequence[float] | None) -> str:
    """The lead of a clock, in s, as a value or a range."""
    if clock is None:
        return ""
    earliest, latest = clock
    if latest - earliest <= _EXACT:
        return f"{(earliest + latest) / 2:+.1f} s"
    return f"{earliest:+.0f} to {latest:+.0f} s"


def limit(name: str, value: Any) -> str:
    """A limit as text: memory in MiB, no underscores."""
    shown = f"{value >> 20} MiB" if name.startswith("memory") and isinstance(value, int) else value
    return f"{name.replace('_', ' ')} {shown}"
