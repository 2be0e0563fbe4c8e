"""What a person sees of plain data: lines and tables.  Nothing is asked or done in here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

_MARKS = {
    "start": ("+", "green"),
    "stop": ("-", "red"),
    "update": ("~", "yellow"),
    "move": (">", "cyan"),
    "keep": (" ", "dim"),
}
_STATES = {
    "running": "green",
    "succeeded": "green",
    "done": "green",
    "failed": "red",
    "lost": "red",
    "skipped": "yellow",
    "unknown": "yellow",
    "waiting": "yellow",
}

Data = Mapping[str, Any]


def plan_lines(plan: Data) -> Iterable[Text]:
    """Counts first, then every job with its verdict and its reason, and each changed field."""
    counts = plan["counts"]
    said = ", ".join(f"{counts[kind]} to {kind}" for kind in _MARKS)
    yield Text(f"{plan['composition']} (from revision {plan['base_revision']}): {said}", style="bold")
    width = max((len(each["job"]) for each in plan["actions"]), default=0)
    for action in plan["actions"]:
        mark, style = _MARKS[action["kind"]]
        yield Text(f"  {mark} {action['kind']:<6}  {action['job']:<{width}}  {action['reason']}", style=style)
        for change in action["changes"]:
            before, after = shown(change["before"]), shown(change["after"])
            yield Text(f"      {change['field']}: {before} -> {after}", style="dim")


def has_changes(plan: Data) -> bool:
    """Whether a plan would change anything."""
    return any(each["kind"] != "keep" or each["changes"] for each in plan["actions"])


def shown(value: Any) -> str:
    """A field's value, short: a content hash by its beginning."""
    if value is None:
        return "(none)"
    text = str(value)
    is_hash = len(text) == 64 and all(letter in "0123456789abcdef" for letter in text)
    return text[:12] if is_hash else text


def action_line(action: Data) -> Text:
    """One ended action of an operation."""
    text = f"  {action['kind']:<6}  {action['job']}: {action['state']}"
    if action["ended"] is not None and action["started"] is not None:
        text += f" ({action['ended'] - action['started']:.1f} s)"
    for said in filter(None, [action["error"], action.get("note")]):
        text += f"\n          {said}"
    return Text(text, style=_STATES.get(action["state"], ""))


def operation_summary(operation: Data) -> Text:
    """How an operation stands or ended, in one line."""
    states = [each["state"] for each in operation["actions"]]
    parts = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
    if operation["ended"] is not None:
        parts.append(f"{operation['ended'] - operation['started']:.1f} s")
    said = f"{operation['kind']} of {operation['composition']} {operation['state']}: {', '.join(parts)}"
    return Text(said + (f" ({operation['error']})" if operation["error"] else ""), style="bold")


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(_cell(each) for each in row))
    return table


def _cell(value: Any) -> str:
    text = "-" if value is None or value == "" else str(value)
    style = _STATES.get(text)
    return f"[{style}]{text}[/]" if style else escape(text)


def clock(at: float) -> str:
    """A Unix time (s) as a date and a time of day, UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def jobs_table(jobs: Iterable[Data]) -> Table:
    """Every job: wanted and real."""
    columns = ("JOB", "COMPOSITION", "ENGINE", "WANTED", "STATE", "OBSERVED", "DRIFT", "NEXT TRY", "SAYS")
    return _table(
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


def facts(data: Data) -> Iterable[Text]:
    """One thing in full: a line for each of its members, nested ones indented."""
    yield from _facts(data, "")


def _facts(data: Data, indent: str) -> Iterable[Text]:
    for key, value in data.items():
        if isinstance(value, Mapping) and value:
            yield Text(f"{indent}{key}:")
            yield from _facts(value, indent + "  ")
        elif key in ("observed_at", "at", "started", "ended", "drift_since", "next_try") and isinstance(
            value, float
        ):
            yield Text(f"{indent}{key}: {clock(value)}")
        else:
            yield Text(f"{indent}{key}: {'-' if value in (None, '', {}) else value}")


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
    return _table(("COMPOSITION", "REVISION", "JOBS", "AT WORK"), rows)


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
    return _table(("REVISION", "AT", "BY", "JOBS", "CHANGES", "MESSAGE"), rows)


def counted(counts: Data) -> str:
    """How many jobs were added, removed and changed: ``+1 -2 ~3``."""
    marks = (("+", "added"), ("-", "removed"), ("~", "changed"))
    return " ".join(f"{mark}{counts[kind]}" for mark, kind in marks if counts[kind]) or "none"


def _first_line(text: str) -> str:
    first, *more = text.splitlines() or [""]
    return f"{first} ..." if more else first


def difference_lines(difference: Data) -> Iterable[Text]:
    """What differs between two revisions: each job, each field, before and after."""
    before, after = difference["before"], difference["after"]
    said = counted(difference["counts"])
    yield Text(f"{difference['composition']}, revision {before} to {after}: {said}", style="bold")
    for job in difference["jobs"]:
        mark, style = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}[
            job["kind"]
        ]
        yield Text(f"  {mark} {job['job']}", style=style)
        for change in job["changes"]:
            if job["kind"] != "added" and change["before"] is not None:
                yield Text(f"      - {change['field']}: {shown(change['before'])}", style="red")
            if job["kind"] != "removed" and change["after"] is not None:
                yield Text(f"      + {change['field']}: {shown(change['after'])}", style="green")


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
    return _table(("SITE", "SERVER", "ADDRESS", "REACHED", "SAYS"), rows)


def _site_rows(site: Data) -> Iterator[Sequence[Any]]:
    for role, server in [*(("engine", each) for each in site["engines"]), ("broker", site["broker"])]:
        says = "; ".join(filter(None, [server["error"], *server.get("warnings", [])]))
        yield site["name"], role, server["address"], "yes" if server["reached"] else "no", says


def servers_table(servers: Iterable[Data]) -> Table:
    """Engines and brokers of this machine."""
    rows = ((each["site"], each["kind"], each["address"], each["state"], each["pid"]) for each in servers)
    return _table(("SITE", "ROLE", "ADDRESS", "STATE", "PID"), rows)


def events_table(events: Iterable[Data]) -> Table:
    """The audit log."""
    rows = (
        (clock(each["at"]), each["kind"], each["message"], each["author"], _first_line(each["cause"]))
        for each in events
    )
    return _table(("AT", "EVENT", "MESSAGE", "BY", "WHY"), rows)
