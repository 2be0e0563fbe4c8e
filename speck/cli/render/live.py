"""What moves: the actions at work, jobs with their rates, and what changed between two looks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from speck.cli.render.plans import MARKS
from speck.cli.render.tables import table
from speck.cli.render.words import STATES, Data, clock

MOST_RUNNING = 8  # lines of actions at work; more are counted

SORTS: Mapping[str, str] = {
    "waiting": "waiting",
    "input": "input_rate",
    "output": "output_rate",
    "work": "work_seconds",
    "name": "job_name",
}


def running_lines(actions: Iterable[Data], since: Mapping[str, float], now: float) -> Iterator[Text]:
    """The actions at work, each with its time; ``since`` is by job, in the time of ``now`` (s)."""
    running = [each for each in actions if each["state"] == "running"]
    for each in running[:MOST_RUNNING]:
        _, style = MARKS[each["kind"]]
        seconds = now - since.get(each["job"], now)
        line = f"  {each['kind']:<6}  {each['job']} … {seconds:.0f} s"
        yield Text(line, style=style, no_wrap=True, overflow="ellipsis")  # it is drawn over the one before
    if len(running) > MOST_RUNNING:
        yield Text(f"  and {len(running) - MOST_RUNNING} more at work", style="dim")


def sorted_rates(jobs: Iterable[Data], sort: str) -> list[Data]:
    """The jobs by a column of :data:`SORTS`, the largest first (names from A); what is not told last."""
    field = SORTS[sort]
    if field == "job_name":
        return sorted(jobs, key=lambda job: str(job[field]))
    return sorted(
        jobs,
        key=lambda job: (job[field] is None, -(job[field] or 0), -(job["input_rate"] or 0), job["job_name"]),
    )


def rates_table(jobs: Iterable[Data]) -> Table:
    """A row for each job: what goes in and out (messages/s), what waits (messages), the last batch (s)."""
    columns = ("JOB", "COMPOSITION", "SITE", "IN/S", "OUT/S", "WAITING", "WORK S", "READS", "WRITES", "SAYS")
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


def troubled_first(jobs: Iterable[Data]) -> list[Data]:
    """The jobs, those first that are not as they should be, and otherwise as they came."""
    return sorted(jobs, key=lambda job: job["state"] == job["wanted"] and not job["drift"])


def scene_table(jobs: Iterable[Data]) -> Table:
    """The jobs in few columns, for a screen that is looked at all the time."""
    rows = (
        (each["job_name"], each["composition"], each["wanted"], each["state"], each["drift"], _short(each))
        for each in jobs
    )
    made = table(("JOB", "COMPOSITION", "WANTED", "STATE", "DRIFT", "SAYS"), rows)
    made.columns[-1].no_wrap, made.columns[-1].overflow = True, "ellipsis"
    return made


def _short(job: Data) -> str:
    return str(job["waits"] or job["error"] or job["message"] or "")


def change_line(change: Data) -> Text:
    """One change as a line: when, of what, from what, to what."""
    who = f"{change['what']} {change['name']}"
    text = Text(f"{clock(change['at'])}  {change['composition']}  {who}: ")
    if change["before"] is not None:
        text.append(f"{change['before']} -> ", style="dim")
    text.append(str(change["after"]), style=STATES.get(str(change["after"]), ""))
    return text.append(f"  {change['says']}" if change["says"] else "")


def job_changes(before: Mapping[str, Data], after: Mapping[str, Data], at: float) -> Iterator[dict[str, Any]]:
    """What changed of jobs (by name) between two looks: each one's state, and what is wrong with it."""
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
    """What changed of an operation between two looks: its actions, and itself."""
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
