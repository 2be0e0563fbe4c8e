"""The journal of an agent: the starts that it has made on its own, for the events of its coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

MOST = 200  # entries that an agent keeps
_LONGEST = 500  # characters of a text that are shown


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """An entry, numbered from 1.  ``at`` is Unix time by the clock of the site, s.

    ``started``: the job was started again; otherwise it ended, and ``text`` has the reason.
    """

    number: int
    at: float
    job: str
    attempt: int
    started: bool
    text: str


def site_time(entry: JournalEntry) -> str:
    """The time of an entry in UTC; any number may be there."""
    try:
        return datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return "at no time"


def mark_of(journal: str, number: int) -> str:
    """The mark of a journal and its last entry; another journal, as of a lost directory, has another id."""
    return f"{journal}:{number}"


def number_in(mark: str, other: str) -> int:
    """The number of the last entry that was read by ``mark``, in the journal of the mark ``other``."""
    journal, _, number = mark.partition(":")
    same = journal == other.partition(":")[0]
    return int(number) if same and number.isascii() and number.isdecimal() else 0


def at_least(mark: str, number: int) -> str:
    """The mark, or that of a later entry of the same journal."""
    return mark_of(mark.partition(":")[0], max(number, number_in(mark, mark)))


def checked(entries: Sequence[JournalEntry], after: int) -> list[JournalEntry]:
    """The entries after a number as far as they can be shown, whatever the agent sent."""
    found = [
        replace(each, text=each.text[:_LONGEST], job=each.job[:_LONGEST])
        for each in entries[:MOST]
        if each.number > after and each.text.isprintable() and each.job.isprintable()
    ]
    return sorted(found, key=lambda each: each.number)
