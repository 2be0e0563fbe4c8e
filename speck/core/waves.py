"""Waves: a change is made at some sites first, and at the others once the jobs of the first run.

A wave is written as the names of its sites, ``edge-a,edge-b``, or as a number or a share of the sites with
changes, ``1`` or ``10%``, in the order of their names.  ``site/1`` is the site with the name ``1``.  All
sites that no wave names are the last wave.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from speck.core.plan import Keep, Plan
from speck.core.rewiring import Rewiring
from speck.errors import Fault, InvalidInput

_COUNT = re.compile(r"(\d{1,6})(%?)")
_SITE = "site/"  # may precede a name, as in kubectl: one of digits alone would be a number of sites


@dataclass(frozen=True, slots=True)
class Wave:
    """Sites with their jobs, those that stay as they are included; empty for jobs outside the inventory."""

    sites: tuple[str, ...]
    jobs: tuple[str, ...]


def waves_of(
    texts: Sequence[str],
    plan: Plan,
    site_of: Mapping[str, str],
    known: Collection[str],
    *,
    resumed: bool = False,
) -> tuple[Wave, ...]:
    """The waves of a plan, the last one included; none without ``texts``.

    One without jobs is left out, unless the operation is ``resumed``: the others keep their numbers, and
    ``texts`` are those of :func:`texts_of`, in which ``12`` is the name of a site.
    ``site_of`` are the sites of the plan's jobs, empty for none, ``known`` those of the inventory.  Raises
    :class:`~speck.errors.InvalidInput`.
    """
    if not texts:
        return ()
    changed = {site_of[each.job.job_name] for each in plan.actions if not isinstance(each, Keep)} - {""}
    groups = groups_of(texts, changed, known, counts=not resumed)
    named = {site for group in groups for site in group}
    rest = tuple(sorted({site for site in site_of.values() if site} - named))
    jobs = sorted(each.job.job_name for each in plan.actions)
    found = [Wave(group, tuple(job for job in jobs if site_of[job] in group)) for group in groups]
    last = Wave(rest, tuple(job for job in jobs if site_of[job] not in named))
    return tuple(each for each in (*found, last) if each.jobs or resumed)


def groups_of(
    texts: Sequence[str], changed: Collection[str], known: Collection[str], *, counts: bool = True
) -> list[tuple[str, ...]]:
    """The sites of each wave that ``texts`` name or count among the ``changed`` ones, without the last wave.

    Without ``counts``, all of them are names.  Raises :class:`~speck.errors.InvalidInput`.
    """
    groups, left = list[tuple[str, ...]](), sorted(changed)
    for text in texts:
        counted = _COUNT.fullmatch(text.strip()) if counts else None
        group = _named(text, known) if counted is None else _counted(counted, left, len(changed))
        if repeated := set(group) & {site for former in groups for site in former}:
            raise _wrong(f"wave {text!r} names site {min(repeated)!r}, which an earlier wave has", text)
        groups.append(group)
        left = [each for each in left if each not in group]
    return groups


def site_waves(
    texts: Sequence[str], changed: Collection[str], known: Collection[str]
) -> list[tuple[str, ...]]:
    """The waves of a change of sites themselves, the last one included, without those that change none.

    Without ``texts``, the first site is a wave of its own.  Raises :class:`~speck.errors.InvalidInput`.
    """
    groups = groups_of(texts or ("1",), changed, known)
    named = {site for group in groups for site in group}
    waves = [tuple(each for each in group if each in changed) for group in groups]
    return [each for each in (*waves, tuple(sorted(set(changed) - named))) if each]


def texts_of(waves: Sequence[Wave]) -> tuple[str, ...]:
    """The waves by the names of their sites, without the last one, as :func:`waves_of` reads them."""
    return tuple(",".join(each.sites) for each in waves[:-1])


def _counted(count: re.Match[str], left: Sequence[str], total: int) -> tuple[str, ...]:
    number, is_share = int(count[1]), bool(count[2])
    if not number or (is_share and number > 100):
        text = count.string
        raise _wrong(f"wave {text!r} has no sites (expected 1 or more, or 1% to 100%)", text)
    return tuple(left[: math.ceil(total * number / 100) if is_share else number])


def _named(text: str, known: Collection[str]) -> tuple[str, ...]:
    names = tuple(each.strip().removeprefix(_SITE) for each in text.split(","))
    if unknown := [each for each in names if each not in known]:
        raise _wrong(
            f"wave {text!r} names {unknown[0]!r}, which is not a site of the inventory (expected SITE,SITE, "
            "a number, or a share such as 10%)",
            text,
        )
    return names


def _wrong(message: str, text: str) -> InvalidInput:
    return InvalidInput([Fault(message, field="wave", value=text)], "waves")


def refuse_crossed(
    waves: Sequence[Wave], rewired: Mapping[str, Rewiring], replaced: Mapping[str, Collection[str]]
) -> None:
    """Raise :class:`~speck.errors.InvalidInput` for a job that would have to wait for one of a later wave.

    A job that leaves a topic drains it, after its writers have left it too; one that replaces others
    starts after those have stopped.
    """
    number = {job: count for count, wave in enumerate(waves, 1) for job in wave.jobs}
    faults = [*_crossed(number, rewired), *_replaced_later(number, replaced)]
    if faults:
        raise InvalidInput(faults, "waves")


def _crossed(number: Mapping[str, int], rewired: Mapping[str, Rewiring]) -> Iterator[Fault]:
    for name, rewiring in rewired.items():
        for writer in sorted(rewiring.writers):
            if number[writer] > number[name]:
                yield Fault(
                    f"leaves its source in wave {number[name]}, and its writer {writer!r} in wave "
                    f"{number[writer]} (expected the writer in the same wave or an earlier one)",
                    job=name,
                )


def _replaced_later(number: Mapping[str, int], replaced: Mapping[str, Collection[str]]) -> Iterator[Fault]:
    for name, others in replaced.items():
        for other in sorted(others):
            if number[other] > number[name]:
                yield Fault(
                    f"starts in wave {number[name]} and replaces job {other!r}, which stops in wave "
                    f"{number[other]} (expected its stop in the same wave or an earlier one)",
                    job=name,
                )


def waves_data(waves: Sequence[Wave]) -> list[dict[str, Any]]:
    """Waves as plain data, numbered from 1."""
    return [
        {"number": number, "sites": list(each.sites), "jobs": list(each.jobs)}
        for number, each in enumerate(waves, 1)
    ]
