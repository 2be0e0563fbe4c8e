"""Records of some kinds in memory, as they are on disk.

An operation on many jobs reads a few records of each dozens of times, in many threads.  Each read of LevelDB
releases the GIL, for which those threads then compete: on two cores, that took half of the processor time of
an apply.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from speck.store.transaction import Record, Write


@dataclass(slots=True, eq=False)
class ResidentRecord:
    """A value, and the record that was decoded from it (``None`` until the first use)."""

    value: bytes
    decoded: Any = None


_Group = dict[bytes, ResidentRecord]  # by key: the records whose keys differ in their last part alone


class ResidentRecords:
    """The records whose keys begin with one of ``prefixes``, each of which is the name of a kind and a slash.

    Reads are safe in several threads while one thread makes changes, and see all changes of a write or none.
    """

    def __init__(self, prefixes: Iterable[bytes] = ()) -> None:
        # By prefix, the groups by what their keys begin with.
        self._groups: dict[bytes, dict[bytes, _Group]] = {each: {} for each in prefixes}
        self._lock = threading.Lock()  # of changes, and of reads of several records

    @property
    def prefixes(self) -> Iterable[bytes]:
        """The prefixes."""
        return tuple(self._groups)

    def get(self, key: bytes) -> ResidentRecord | None:
        """The record with a key."""
        groups = self._groups[_prefix_of(key)]
        group = groups.get(_group_of(key))
        return None if group is None else group.get(key)

    def beginning_with(self, prefix: bytes) -> list[tuple[bytes, ResidentRecord]]:
        """The records whose keys begin with a prefix that ends with a slash, with their keys, in order."""
        groups = self._groups[_prefix_of(prefix)]
        with self._lock:
            found = list(groups.get(prefix, {}).items())
            if prefix in self._groups:
                found = [item for group in groups.values() for item in group.items()]
        return sorted(found, key=itemgetter(0))

    def load(self, records: Iterable[Record]) -> None:
        """Replace all records."""
        groups: dict[bytes, dict[bytes, _Group]] = {each: {} for each in self._groups}
        for key, value in records:
            groups[_prefix_of(key)].setdefault(_group_of(key), {})[key] = ResidentRecord(value)
        with self._lock:
            self._groups = groups

    def apply(self, changes: Iterable[Write]) -> None:
        """Make the changes of a write that is on disk."""
        with self._lock:
            for key, value in changes:
                groups = self._groups.get(_prefix_of(key))
                if groups is not None:
                    _change(groups, key, value)


def _change(groups: dict[bytes, _Group], key: bytes, value: bytes | None) -> None:
    name = _group_of(key)
    if value is not None:
        groups.setdefault(name, {})[key] = ResidentRecord(value)
        return
    group = groups.get(name, {})
    group.pop(key, None)
    if not group:
        groups.pop(name, None)


def _prefix_of(key: bytes) -> bytes:
    return key[: key.find(b"/") + 1]


def _group_of(key: bytes) -> bytes:
    return key[: key.rfind(b"/") + 1]
