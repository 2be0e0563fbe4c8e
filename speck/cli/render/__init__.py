"""What a person sees of plain data: lines and tables.  Nothing is asked or done in here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from speck.cli.render.checks import checkup_lines, checkup_table
from speck.cli.render.live import (
    SORTS,
    change_line,
    job_changes,
    operation_changes,
    rates_table,
    running_lines,
    scene_table,
    sorted_rates,
    troubled_first,
)
from speck.cli.render.plans import (
    action_line,
    change_lines,
    counted,
    difference_lines,
    has_changes,
    operation_summary,
    plan_lines,
)
from speck.cli.render.tables import table
from speck.cli.render.words import Data, clock, shown

__all__ = [
    "SORTS",
    "action_line",
    "change_line",
    "change_lines",
    "checkup_lines",
    "checkup_table",
    "clock",
    "compositions_table",
    "counted",
    "difference_lines",
    "events_table",
    "facts",
    "finding_lines",
    "has_changes",
    "job_changes",
    "jobs_table",
    "leftovers_table",
    "operation_changes",
    "operation_summary",
    "operations_table",
    "plan_lines",
    "rates_table",
    "revisions_table",
    "running_lines",
    "scene_table",
    "servers_table",
    "shown",
    "sites_table",
    "sorted_rates",
    "troubled_first",
]


def jobs_table(jobs: Iterable[Data]) -> Table:
    """Every job: wanted and real."""
    columns = ("JOB", "COMPOSITION", "ENGINE", "WANTED", "STATE", "OBSERVED", "DRIFT", "NEXT TRY", "SAYS")
    return table(
        columns,
        (
            (
                each["job_name"],
                each["composition"],
                (each["job"] or {}).get("site") or (each["job"] or {}).get("spe_address"),
                each["wanted"],
                each["state"],
                clock(each["observed_at"]),
                each["drift"],
                each["next_try"] and clock(each["next_try"]),
                _says(each),
            )
            for each in jobs
        ),
    )


def _says(job: Data) -> str:
    """What there is to say of a job, each thing once."""
    said = (job["waits"], job["drift_message"], job["error"], job["message"])
    told: list[str] = []
    for text in said:
        if text and not any(text in other for other in told):
            told.append(text)
    return "; ".join(told)


_MOMENTS = ("observed_at", "counted_at", "at", "started", "ended", "drift_since", "next_try")
_FIRST = ("job_name", "composition", "wanted", "state", "message", "error", "drift", "drift_message")


def facts(data: Data) -> Iterable[Text]:
    """One thing in full: a line for each of its members, what matters most first, nested ones indented."""
    yield from _facts({name: data[name] for name in _FIRST if name in data} | dict(data), "")


def _facts(data: Data, indent: str) -> Iterable[Text]:
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            yield Text(f"{indent}{key}:")
            yield from _facts(value, indent + "  ")
        else:
            yield Text(f"{indent}{key}: {_fact(key, value)}")


def _fact(key: str, value: Any) -> str:
    if key in _MOMENTS and isinstance(value, float):
        return clock(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact(name, inner)}" for name, inner in value.items()) or "-"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(_fact("", each) for each in value) or "-"
    return "-" if value in (None, "") else str(value)


def compositions_table(compositions: Iterable[Data]) -> Table:
    """All compositions."""
    rows = (
        (
            each["name"],
            each["revision"],
            each["jobs"],
            each["operation"] or ("deleting" if each["deleting"] else ""),
        )
        for each in compositions
    )
    return table(("COMPOSITION", "REVISION", "JOBS", "AT WORK"), rows)


def revisions_table(revisions: Iterable[Data]) -> Table:
    """A composition's history: one line a revision."""
    rows = (
        (
            each["number"],
            clock(each["at"]),
            each["author"],
            each["jobs"],
            counted(each["changes"]),
            _first_line(each["message"]),
        )
        for each in revisions
    )
    return table(("REVISION", "AT", "BY", "JOBS", "CHANGES", "MESSAGE"), rows)


def operations_table(operations: Iterable[Data]) -> Table:
    """Operations without their actions: one line each."""
    rows = (
        (
            each["id"],
            clock(each["started"]),
            each["kind"],
            each["composition"],
            each["revision"],
            each["state"],
            ", ".join(f"{number} {state}" for state, number in sorted(each["counts"].items())),
            each["author"],
            _first_line(each["message"]),
        )
        for each in operations
    )
    columns = ("OPERATION", "BEGUN", "KIND", "COMPOSITION", "REVISION", "STATE", "JOBS", "BY", "MESSAGE")
    return table(columns, rows)


def _first_line(text: str) -> str:
    first, *more = text.splitlines() or [""]
    return f"{first} ..." if more else first


def finding_lines(findings: Iterable[Data]) -> Iterable[Text]:
    """What is wrong with a store, and what was done about it."""
    found = list(findings)
    for each in found:
        remedy = f" -> {each['remedy']}" if each.get("remedy") else ""
        yield Text(f"{each['what']}: {each['message']}{remedy}", style="yellow" if remedy else "red")
    yield Text(f"{len(found)} found" if found else "all well", style="bold")


def sites_table(sites: Iterable[Data]) -> Table:
    """The inventory with what can be reached: a row for each engine and each broker."""
    rows = (row for site in sites for row in _site_rows(site))
    return table(("SITE", "SERVER", "ADDRESS", "REACHED", "SAYS"), rows)


def _site_rows(site: Data) -> Iterator[Sequence[Any]]:
    for role, server in [*(("engine", each) for each in site["engines"]), ("broker", site["broker"])]:
        says = "; ".join(filter(None, [server["error"], *server.get("warnings", [])]))
        yield site["name"], role, server["address"], "yes" if server["reached"] else "no", says


def leftovers_table(leftovers: Iterable[Data]) -> Table:
    """What was left behind: a row for each copy and each session."""
    rows = (
        (
            each["job_name"],
            each["composition"],
            each["kind"] if each["attempt"] is None else f"copy, attempt {each['attempt']}",
            each["site"],
            each["address"],
            each["session"],
            "yes" if each["fenced"] else "no",
        )
        for each in leftovers
    )
    return table(("JOB", "COMPOSITION", "LEFT", "SITE", "ADDRESS", "SESSION", "FENCED"), rows)


def servers_table(servers: Iterable[Data]) -> Table:
    """Engines and brokers of this machine."""
    rows = ((each["site"], each["kind"], each["address"], each["state"], each["pid"]) for each in servers)
    return table(("SITE", "ROLE", "ADDRESS", "STATE", "PID"), rows)


def events_table(events: Iterable[Data]) -> Table:
    """The audit log."""
    rows = (
        (clock(each["at"]), each["kind"], each["message"], each["author"], _first_line(each["cause"]))
        for each in events
    )
    return table(("AT", "EVENT", "MESSAGE", "BY", "WHY"), rows)
