"""Selects the files of a checkpoint that a query needs to resume from it: a pure decision.

The layout is Spark's: ``metadata``, ``offsets/BATCH``, ``commits/BATCH``, ``sources/NUMBER/...`` and
``state/OPERATOR/PARTITION/[STORE/]VERSION.delta|snapshot``.  After batch N, the state is of version N + 1.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

_LOG = re.compile(r"(offsets|commits)/(\d+)\Z")
_STATE = re.compile(r"(state/\d+/.+)/(\d+)\.(delta|snapshot)\Z")
_LEASES = "speck-attempts/"  # of attempts that have ended; not Spark's

# The last committed batch and the one before it: Spark reads the offsets at which the last one began.
_BATCHES = 2


# The names come from one server, and are written by another: none leads out of the checkpoint's folder.
_TOP = ("offsets", "commits", "sources", "state")
_SEGMENT = re.compile(r"[A-Za-z0-9_=@+-][A-Za-z0-9._=@+-]{0,254}\Z")
_DEEPEST = 16  # folders
_LONGEST = 1024  # characters
KNOWN = f"metadata, or letters, digits, '.', '_' and '-' below {', '.join(_TOP)}"


def unknown(files: Iterable[str]) -> str | None:
    """The first name that no file of a checkpoint has, by path below it; ``None`` if there is none."""
    return next((each for each in sorted(files) if not _is_known(each)), None)


def _is_known(path: str) -> bool:
    if path == "metadata":
        return True
    folder, *rest = path.split("/")
    good = 0 < len(rest) <= _DEEPEST and len(path) <= _LONGEST
    return good and folder in _TOP and all(_SEGMENT.match(each) for each in rest)


def needed(files: Iterable[str]) -> list[str]:
    """The files, by path below the checkpoint, from which a query resumes; without hidden ones.

    All files of an unknown layout, such as another kind of state store's, are needed.
    """
    visible = [each for each in files if not _is_hidden(each) and not each.startswith(_LEASES)]
    committed = max(_batches(visible, "commits"), default=-1)
    bases = _bases(visible, committed + 1)
    return sorted(each for each in visible if _is_needed(each, committed, bases))


def _batches(files: list[str], log: str) -> list[int]:
    return [int(found[2]) for found in map(_LOG.match, files) if found and found[1] == log]


def _bases(files: list[str], version: int) -> dict[str, int]:
    """For each state folder, the version of its newest snapshot that is not newer than this version."""
    bases: dict[str, int] = defaultdict(int)
    for found in filter(None, map(_STATE.match, files)):
        folder, number, kind = found[1], int(found[2]), found[3]
        if kind == "snapshot" and number <= version:
            bases[folder] = max(bases[folder], number)
    return bases


def _is_needed(path: str, committed: int, bases: dict[str, int]) -> bool:
    if found := _LOG.match(path):
        return int(found[2]) > committed - _BATCHES
    if found := _STATE.match(path):
        base, number = bases[found[1]], int(found[2])
        return number > base or (number == base and found[3] == "snapshot") or base == 0
    return True


def _is_hidden(path: str) -> bool:
    # Checksums and partially written files.
    return path.rpartition("/")[2].startswith(".")
