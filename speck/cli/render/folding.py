"""Jobs that one ``for_each`` made, shown as one: ``clean-* at 312 sites: 3 to start``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from speck.cli.render.values import Data

_NAMED = 5  # jobs that are named before the others are counted
_SOUND = ("running", "pending")


def named_jobs(names: Sequence[str]) -> str:
    """The first names, and the number of the others."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def places(sites: Iterable[str | None], many: int) -> str:
    """The number of sites of ``many`` jobs, or that of the jobs where a site is not known."""
    found = list(sites)
    known = set(found)
    if None in known or "" in known:
        return f"{many} jobs"
    return f"at {len(known)} site{'s' if len(known) > 1 else ''}"


# --- plans


def folds(actions: Iterable[Data], unfold: bool = False) -> Iterator[tuple[str, list[Data]]]:
    """The actions in their order, those of one template together; the template is empty for a single job."""
    found: dict[tuple[str, str], list[Data]] = {}
    for action in actions:
        template = "" if unfold else action.get("template") or ""
        found.setdefault((template, "" if template else action["job"]), []).append(action)
    for (template, _), members in found.items():
        yield template if len(members) > 1 else "", members


def fold_heading(template: str, actions: Sequence[Data]) -> str:
    """The number of sites, and of the actions of each kind."""
    counts = Counter(each["kind"] for each in actions)
    kinds = ", ".join(f"{number} to {kind}" for kind, number in sorted(counts.items(), key=_keep_last))
    return f"{template} {places((each.get('site') for each in actions), len(actions))}: {kinds}"


def _keep_last(item: tuple[str, int]) -> tuple[bool, str]:
    return item[0] == "keep", item[0]


def alike(actions: Iterable[Data]) -> Iterator[list[Data]]:
    """The actions that change a job; those of one kind, reason, consequence and set of fields together."""
    found: dict[Any, list[Data]] = {}
    for action in actions:
        if action["kind"] != "keep" or action["changes"]:
            fields = tuple(each["field"] for each in action["changes"])
            key = action["kind"], action["reason"], action.get("consequence"), fields
            found.setdefault(key, []).append(action)
    yield from found.values()


def common_changes(actions: Sequence[Data]) -> tuple[list[Data], list[str]]:
    """The changes that all of these actions have, and the fields whose values differ from job to job."""
    first, *others = ({each["field"]: each for each in action["changes"]} for action in actions)
    same = [name for name, change in first.items() if all(other[name] == change for other in others)]
    return [first[name] for name in same], [name for name in first if name not in same]


def folded_lines(entries: Iterable[Data], templates: dict[str, str]) -> Iterator[tuple[str, Data]]:
    """Entries with a ``job`` and the name to show: those of one template that else are equal are one."""
    found: dict[Any, list[Data]] = {}
    for each in entries:
        template = templates.get(each["job"], "")
        rest = sorted((key, str(value)) for key, value in each.items() if key != "job")
        found.setdefault((template or each["job"], *rest), []).append(each)
    for (name, *_), members in found.items():
        jobs = [each["job"] for each in members]
        yield (f"{name} ({named_jobs(jobs)})" if len(jobs) > 1 else jobs[0]), members[0]


# --- jobs


def folded_jobs(jobs: Sequence[Data]) -> list[Data]:
    """The jobs, those of one template and composition as one row; those in trouble have their own as well."""
    groups: dict[tuple[str, str], list[Data]] = {}
    for job in jobs:
        template = (job["job"] or {}).get("template") or ""
        groups.setdefault((job["composition"], template or job["job_name"]), []).append(job)
    return [row for (_, name), members in groups.items() for row in _rows(name, members)]


def _rows(name: str, members: Sequence[Data]) -> Iterator[Data]:
    if len(members) == 1:
        yield members[0]
        return
    troubled = [each for each in members if is_troubled(each)]
    yield _row(name, members, troubled)
    yield from troubled[:_NAMED]


def is_troubled(job: Data) -> bool:
    """True if a job needs attention."""
    losses = any(each["alarm"] for each in job.get("losses", ()))
    if job.get("reading") is False:
        return True
    return bool(job["state"] not in _SOUND or job["drift"] or job["error"] or job["waits"] or losses)


def _row(name: str, members: Sequence[Data], troubled: Sequence[Data]) -> Data:
    """A row with the fields of a job for many: what they have in common, and the number of each state."""
    more = len(troubled) - _NAMED
    sites = ((each["job"] or {}).get("site") for each in members)
    empty = dict.fromkeys(("drift", "next_try", "waits", "drift_message", "error"))
    return {
        **members[0],
        **empty,
        "job_name": name,
        "job": {"site": places(sites, len(members)).removeprefix("at ")},
        "wanted": _counted(each["wanted"] for each in members),
        "state": _counted(each["state"] for each in members),
        "behind": _total(each.get("behind") for each in members),
        "behind_seconds": max(_known(each.get("behind_seconds") for each in members), default=None),
        "observed_at": min(each["observed_at"] for each in members),
        "losses": [],
        "message": f"{more} more need attention: --unfold" if more > 0 else "",
    }


def _known(numbers: Iterable[float | None]) -> list[float]:
    return [each for each in numbers if each is not None]


def _total(numbers: Iterable[float | None]) -> float | None:
    """The sum of the numbers that are known; ``None`` if none is."""
    found = _known(numbers)
    return sum(found) if found else None


def _counted(states: Iterable[str]) -> str:
    counts = Counter(states)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{number} {state}" for state, number in counts.most_common())
