"""Live views: running actions, jobs with their rates, and changes between two observations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from speck.cli.render.plans import MARKS
from speck.cli.render.tables import table
from speck.cli.render.values import STATES, Data, clock

MAX_RUNNING = 8  # lines of running actions; others are counted

SORTS: Mapping[str, str] = {
    "waiting": "waiting",
    "input": "input_rate",
    "output": "output_rate",
    "work": "work_seconds",
    "name": "job_name",
}


def running_lines(actions: Iterable[Data], since: Mapping[str, float], now: float) -> Iterator[Text]:
    """The running actions with their duration; ``since`` has the start of each job's (s, as ``now``)."""
    running = [each for each in actions if each["state"] == "running"]
    for each in running[:MAX_RUNNING]:
        _, style = MARKS[each["kind"]]
        seconds = now - since.get(each["job"], now)
        line = f"  {each['kind']:<6}  {each['job']} … {seconds:.0f} s"
        yield Text(line, style=style, no_wrap=True, overflow="ellipsis")  # redrawn in place
    if len(running) > MAX_RUNNING:
        yield Text(f"  and {len(running) - MAX_RUNNING} more running", style="dim")


def sorted_rates(jobs: Iterable[Data], sort: str) -> list[Data]:
    """The jobs by a column of :data:`SORTS`, the largest first (names from A), unknown values last."""
    field = SORTS[sort]
    if field == "job_name":
        return sorted(jobs, key=lambda job: str(job[field]))
    return sorted(
        jobs,
        key=lambda job: (job[field] is None, -(job[field] or 0), -(job["input_rate"] or 0), job["job_name"]),
    )


def rates_table(jobs: Iterable[Data]) -> Table:
    """A row for each job: input and output (messages/s), backlog, duration of the last batch (s)."""
    columns = (
        "JOB",
        "COMPOSITION",
        "SITE",
        "IN/S",
        "OUT/S",
        "BACKLOG",
        "WORK S",
        "READS",
        "WRITES",
        "MESSAGE",
    )
    made = table(columns, (_rate_cells(each) for each in jobs))
    for column in made.columns[3:7]:
        column.justify = "right"
    return made


def _rate_cells(job: Data) -> Sequence[Any]:
    return (
        job["job_name"],
        job["composition"],
        job["site"],
        _number(job["input_rate"], 1),
        _number(job["output_rate"], 1),
        _number(job["waiting"], 0),
        _number(job["work_seconds"], 3),
        job["source_topic"],
        job["sink_topic"],
        job["error"],
    )


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def problems_first(jobs: Iterable[Data]) -> list[Data]:
    """The jobs, those with a problem first, otherwise in the given order."""
    return sorted(jobs, key=lambda job: job["state"] == job["wanted"] and not job["drift"])


def watch_table(jobs: Iterable[Data]) -> Table:
    """The jobs in few columns, for the live view."""
    rows = (
        (each["job_name"], each["composition"], each["wanted"], each["state"], each["drift"], _short(each))
        for each in jobs
    )
    made = table(("JOB", "COMPOSITION", "DESIRED", "STATE", "DRIFT", "MESSAGE"), rows)
    made.columns[-1].no_wrap, made.columns[-1].overflow = True, "ellipsis"
    return made


def _short(job: Data) -> str:
    return str(job["waits"] or job["error"] or job["message"] or "")


def change_line(change: Data) -> Text:
    """One change as a line: its time, its subject, the state before and after."""
    subject = f"{change['what']} {change['name']}"
    text = Text(f"{clock(change['at'])}  {change['composition']}  {subject}: ")
    if change["before"] is not None:
        text.append(f"{change['before']} -> ", style="dim")
    text.append(str(change["after"]), style=STATES.get(str(change["after"]), ""))
    return text.append(f"  {change['says']}" if change["says"] else "")


def job_changes(before: Mapping[str, Data], after: Mapping[str, Data], at: float) -> Iterator[dict[str, Any]]:
    """The changes of jobs (by name) between two observations: in the state, or the drift."""
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        was, now = _condition(old), _condition(new)
        if was != now:
            known = new or old or {}
            yield _change(
                at, "job", name, known["composition"], was, now or "gone", _short(new) if new else ""
            )


def _condition(job: Data | None) -> str | None:
    if job is None:
        return None
    return f"{job['state']} ({job['drift']})" if job["drift"] else str(job["state"])


def operation_changes(before: Data | None, after: Data, at: float) -> Iterator[dict[str, Any]]:
    """The changes of an operation between two observations: of its actions, and of itself."""
    old = {each["job"]: each["state"] for each in before["actions"]} if before else {}
    name = after["composition"]
    if before is None:
        yield _change(at, after["kind"], after["id"], name, None, "running", after["message"])
    for action in after["actions"]:
        was, now = old.get(action["job"], "pending"), action["state"]
        if was != now and now != "kept":
            yield _change(at, action["kind"], action["job"], name, was, now, action["error"])
    if after["state"] != "running":
        yield _change(at, after["kind"], after["id"], name, "running", after["state"], after["error"])


def _change(
    at: float, what: str, name: str, composition: str, before: str | None, after: str, says: str
) -> dict[str, Any]:
    return {
        "at": at,
        "what": what,
        "name": name,
        "composition": composition,
        "before": before,
        "after": after,
        "says": says,
    }
