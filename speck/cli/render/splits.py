"""Splits by keys: their jobs as a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from speck.cli.render.values import Data

_ROLES = ("partitioner", "combiner", "reducer")
_MOST_SITES = 6


def split_groups(actions: Iterable[Data]) -> Iterator[tuple[str, list[Data]]]:
    """The actions, those of the jobs of a split together: its name (else empty) and its actions in order."""
    found: dict[tuple[str, str], list[Data]] = {}
    for action in actions:
        part = action.get("split") or {}
        inside = part.get("role") in _ROLES
        found.setdefault((part["of"], "") if inside else ("", action["job"]), []).append(action)
    for (split, _), members in found.items():
        yield split, sorted(members, key=_rank) if split else members


def _rank(action: Data) -> tuple[int, int]:
    return _ROLES.index(action["split"]["role"]), action["split"].get("number", 0)


def split_heading(name: str, actions: Sequence[Data]) -> str:
    """The parts of a split in one line: ``NAME: split by balanced into partitioner (D), ...``."""
    by_role = {role: [each for each in actions if each["split"]["role"] == role] for role in _ROLES}
    routed = [each["split"]["partitioner"] for each in by_role["partitioner"]]
    parts = [_counted(role, members) for role, members in by_role.items() if members]
    return f"{name}: split{f' by {routed[0]}' if routed else ''} into {', '.join(parts)}"


def _counted(role: str, members: Sequence[Data]) -> str:
    sites = list(dict.fromkeys(each["site"] or "an engine of no site" for each in members))
    more = len(sites) - _MOST_SITES
    where = ", ".join(sites[:_MOST_SITES]) + (f" and {more} more" if more > 0 else "")
    combiners = f"{len(members)} combiner{'' if len(members) == 1 else 's'}"
    return f"{combiners if role == 'combiner' else role} ({where})"
