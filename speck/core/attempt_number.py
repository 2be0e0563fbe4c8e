"""The numbers of the attempts at a job: the bounds of those that brokers and engines name.

A number that a broker's fence or an engine's mark names becomes the job's own, since the next attempt must be
above it.  It may be damaged, or of anybody who may publish at the broker: one that is far above all known
numbers is refused, and stored nowhere.
"""

from __future__ import annotations

from speck.errors import Rejected

FURTHEST = 10**9
"""The distance above the last known number within which a number is believed: more than attempts between a
backup and its restore, and so few that the numbers stay below :data:`HIGHEST` when it is used up each day.
The connectors have the same bound (``FenceText``)."""

HIGHEST = 10**15
"""The highest number of an attempt: exact in JSON, and within the 18 digits that connectors read."""


def is_believed(number: int, known: int) -> bool:
    """True if a number that another party names may become the job's; ``known`` is its last one."""
    return number <= min(known + FURTHEST, HIGHEST)


def known_number(job: str, known: int, ended: int, *, engine: str) -> int:
    """The number of the last attempt at a job: ``known``, or that of one that has ``ended`` at its engine.

    Raises :class:`~speck.errors.Rejected` for a number of the engine above the bounds: it would become the
    job's at all other engines too.
    """
    if not is_believed(ended, known):
        raise Rejected(
            f"job {job!r}: engine {engine} names attempt {ended} of it as ended (expected at most "
            f"{known + FURTHEST}): find who answers for the engine, or place the job elsewhere "
            "(docs/security.md, Trust)",
            address=engine,
        )
    return max(known, ended)


def next_number(job: str, known: int, fenced: int, *, topic: str, broker: str) -> int:
    """The number of the next attempt at a job, above all that have read through its session.

    ``known`` is the number of its last attempt in the store, ``fenced`` the one that the fence at this topic
    of the broker names.  Raises :class:`~speck.errors.Rejected` for a number above the bounds.
    """
    if known >= HIGHEST:
        raise Rejected(
            f"job {job!r}: the number of its last attempt is {known} (expected less than {HIGHEST}): stop "
            "the server and lower it by `speck store repair`",
            address=broker,
        )
    if not is_believed(fenced, known):
        raise Rejected(
            f"job {job!r}: the fence at topic {topic!r} of broker {broker} names attempt {fenced} (expected "
            f"at most {known + FURTHEST}): find who may publish there, remove the retained message, and "
            "apply again (docs/security.md, Topics of SpecK)",
            address=broker,
        )
    return known + 1 if fenced <= known + 1 else fenced + 1
