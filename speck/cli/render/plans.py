"""Plans, the actions of operations, and differences between revisions."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from speck.cli.render.code import code_lines, fields_of
from speck.cli.render.folding import alike, common_changes, fold_heading, folded_lines, folds, named_jobs
from speck.cli.render.splits import split_groups, split_heading
from speck.cli.render.values import STATES, Data, changed_values, shown, shown_pair
from speck.core.waiting import count_text

MARKS = {
    "start": ("+", "green"),
    "stop": ("-", "red"),
    "update": ("~", "yellow"),
    "move": (">", "cyan"),
    "keep": (" ", "dim"),
}
_KINDS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


def plan_lines(plan: Data, unfold: bool = False) -> Iterable[Text]:
    """The counts, then every job with its action and its reason, and each changed field.

    The jobs of one ``for_each`` are shown together, unless ``unfold``.
    """
    yield plan_heading(plan)
    groups = list(folds(plan["actions"], unfold))
    single = [action for template, actions in groups if not template for action in actions]
    width = max((len(each["job"]) for each in single), default=0)
    for split, actions in split_groups(single):
        if split:
            yield Text(f"    {split_heading(split, actions)}", style="bold")
        for action in actions:
            yield from _action_lines(action, width, "  " if split else "")
    for template, actions in groups:
        if template:
            yield from _fold_lines(template, actions)
    templates = {each["job"]: template for template, actions in groups if template for each in actions}
    for name, session in folded_lines(plan.get("leaves", []), templates):
        yield undrained_line({**session, "job": name})
    for each in plan.get("foreign", []):
        yield foreign_line(each)
    for place in plan.get("unreachable", []):
        yield unreachable_line(place)
    for wave in plan.get("waves", []):
        yield wave_line(wave, plan["actions"])
    states = [each for each in plan.get("destroys", []) if each["kind"] == "state"]
    for name, each in folded_lines(states, templates):  # stops and discarded messages are in the lines above
        yield Text(f"  {name} {each['text']}", style="bold red")


def wave_line(wave: Data, actions: Iterable[Data]) -> Text:
    """A wave with its sites, and the number of jobs that change there."""
    changed = {each["job"] for each in actions if each["kind"] != "keep"}.intersection(wave["jobs"])
    sites = ", ".join(wave["sites"]) or "outside the inventory"
    return Text(
        f"  wave {wave['number']}: {sites} ({len(changed)} job{'s' * (len(changed) != 1)})", style="cyan"
    )


def _fold_lines(template: str, actions: Sequence[Data]) -> Iterator[Text]:
    """The jobs of one ``for_each``: their number, and those that change, alike ones together."""
    kinds = {each["kind"] for each in actions}
    mark, style = next((pair for kind, pair in MARKS.items() if kind in kinds), MARKS["keep"])
    yield Text(f"  {mark} {fold_heading(template, actions)}", style=style)
    for members in alike(actions):
        first = members[0]
        names = named_jobs([each["job"] for each in members])
        yield Text(f"      {first['kind']} {names}: {first['reason']}", style=MARKS[first["kind"]][1])
        same, differing = common_changes(members)
        for change in fields_of(same):
            yield from change_lines(change)
        if differing:
            yield Text(
                f"      {', '.join(differing)}: differ between jobs (--unfold shows each)", style="dim"
            )
        yield from _common_code_lines(members)
        if first.get("consequence"):
            yield Text(f"      {first['consequence']}", style="dim")


def _common_code_lines(members: Sequence[Data]) -> Iterator[Text]:
    """The lines of the code's change, if it is the same for all; the first of a plan's actions has them."""
    codes = [each.get("code") or {} for each in members]
    if len({each.get("summary") for each in codes}) == 1:
        yield from code_lines(codes[0])


def _action_lines(action: Data, width: int, indent: str) -> Iterator[Text]:
    mark, style = MARKS[action["kind"]]
    text = f"  {mark} {action['kind']:<6}  {indent}{action['job']:<{width}}  {action['reason']}"
    yield Text(text, style=style)
    for change in fields_of(action["changes"]):
        yield from change_lines(change)
    yield from code_lines(action.get("code"))
    if action.get("consequence"):
        yield Text(f"      {action['consequence']}", style="dim")


def foreign_line(job: Data) -> Text:
    """A job that another store runs, or has a session for; the plan cannot be applied."""
    places = [f"runs at {job['address']}"] if job["address"] else []
    places += [f"has session {job['session']} at {job['broker']}"] if job["session"] else []
    owner = f"store {job['owner']}" if job["owner"] else "an unknown store"
    text = f"  {job['job']} {' and '.join(places)}, managed by {owner}: an apply would be rejected"
    return Text(text, style="bold red")


def unreachable_line(place: Data) -> Text:
    """An engine or a broker that is unreachable or cannot be used, and the jobs that wait for it."""
    jobs = named_jobs(place["jobs"])
    waits = "wait" if len(place["jobs"]) > 1 else "waits"
    fault = "cannot be used" if place.get("refuses") else "is unreachable"
    text = f"  {place['kind']} {place['address']} {fault}; {jobs} {waits} for it: {place['error']}"
    return Text(text, style="bold yellow")


def undrained_line(session: Data) -> Text:
    """Messages at a source that a job leaves."""
    many = count_text(session["waiting"])
    place = f"{session['topic']!r} of {session['broker']}"
    text = f"  {session['job']} leaves {many} at {place}: {session['fate']}"
    return Text(text, style="" if session["lossless"] else "bold red")


def plan_heading(plan: Data) -> Text:
    """The composition, its revision, and the number of actions of each kind."""
    line = Text(f"{plan['composition']} (from revision {plan['base_revision']}): ", style="bold")
    for place, (kind, (_, style)) in enumerate(MARKS.items()):
        count = plan["counts"][kind]
        line.append(", " if place else "")
        line.append(f"{count} to {kind}", style=style if count else "dim")
    return line


def change_lines(change: Data) -> Iterator[Text]:
    """One changed field, old and new; of a mapping each key that differs."""
    for name, before, after in changed_values(change):
        old, new = shown_pair(before, after)
        line = Text(f"      {name}: ")
        line.append(old, style="dim" if before is None else "red")
        line.append(" -> ", style="dim")
        line.append(new, style="dim" if after is None else "green")
        yield line


def has_changes(plan: Data) -> bool:
    """True if a plan changes anything."""
    return any(each["kind"] != "keep" or each["changes"] for each in plan["actions"])


def action_line(action: Data) -> Text:
    """One action of an operation, with its error or note."""
    text = f"  {action['kind']:<6}  {action['job']}: {action['state']}"
    if action["ended"] is not None and action["started"] is not None:
        text += f" ({action['ended'] - action['started']:.1f} s)"
    for detail in filter(None, [action.get("wave"), action["error"], action.get("note")]):
        text += f"\n          {detail}"
    return Text(text, style=STATES.get(action["state"], ""))


def operation_summary(operation: Data) -> Text:
    """The state of an operation in one line."""
    states = [each["state"] for each in operation["actions"]]
    parts = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
    if operation["ended"] is not None:
        parts.append(f"{operation['ended'] - operation['started']:.1f} s")
    line = Text(f"{operation['kind']} of {operation['composition']} ", style="bold")
    line.append(operation["state"], style=STATES.get(operation["state"], ""))
    line.append(f": {', '.join(parts)}" + (f" ({operation['error']})" if operation["error"] else ""))
    if operation.get("wave") and operation["state"] == "running":
        line.append(f"; {wave_text(operation)}")
    if operation.get("replaced_by"):
        line.append(f"; replaced by operation {operation['replaced_by']}")
    return line


def wave_text(operation: Data) -> str:
    """The wave that changes or settles, and what the next one waits for."""
    waits = f" settles: {operation['waits']}" if operation["waits"] else ""
    return f"wave {operation['wave']} of {len(operation['waves']) + 1}{waits}"


def counted(counts: Data) -> str:
    """The numbers of added, removed and changed jobs: ``+1 -2 ~3``."""
    marks = (("+", "added"), ("-", "removed"), ("~", "changed"))
    return " ".join(f"{mark}{counts[kind]}" for mark, kind in marks if counts[kind]) or "none"


def difference_lines(difference: Data) -> Iterable[Text]:
    """The differences between two revisions: each job, each field, before and after."""
    before, after = difference["before"], difference["after"]
    counts = counted(difference["counts"])
    yield Text(f"{difference['composition']}, revision {before} to {after}: {counts}", style="bold")
    options = difference.get("placement", ())
    if options:
        yield Text("  ~ placement", style="yellow")
    for change in options:
        yield from _difference("changed", change)
    for job in difference["jobs"]:
        mark, style = _KINDS[job["kind"]]
        code = job.get("code")
        yield Text(f"  {mark} {job['job']}" + (f"  {code['summary']}" if code else ""), style=style)
        for change in fields_of(job["changes"]):
            yield from _difference(job["kind"], change)
        yield from code_lines(code, most=sys.maxsize)


def _difference(kind: str, change: Data) -> Iterator[Text]:
    for name, before, after in changed_values(change):
        old, new = shown_pair(before, after) if kind == "changed" else (shown(before), shown(after))
        if kind != "added" and before is not None:
            yield Text(f"      - {name}: {old}", style="red")
        if kind != "removed" and after is not None:
            yield Text(f"      + {name}: {new}", style="green")
