"""Isolation of the blocks of transactions: none reads a record whose change is on its way to disk.

Blocks run one after the other, and their changes go to disk together, after the blocks.  So a record that
one block has changed may not be on disk yet when the next block reads it.  That read waits for the change of
this one record, and a change made from it undoes no other.  Changes of other records do not wait.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Isolation:
    """The blocks of one store.  A block may contain another one of the same thread.

    A read outside of a block waits for nothing: it is of what is on disk.
    """

    _blocks: threading.RLock = field(default_factory=threading.RLock)
    _owner: int | None = None  # the thread of the block that is open
    # The number of changes on their way to disk: of each key, and of all keys under each of its parents.
    _pending: Counter[bytes] = field(default_factory=Counter)
    _written: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def block(self) -> Iterator[None]:
        """Exclude the blocks of other threads."""
        with self._blocks:
            outer, self._owner = self._owner, threading.get_ident()
            try:
                yield
            finally:
                self._owner = outer

    def announce(self, keys: Sequence[bytes]) -> None:
        """Note, inside a block, the keys that it has changed, until :meth:`complete`."""
        with self._written:
            self._pending.update(_with_parents(keys))

    def complete(self, keys: Sequence[bytes]) -> None:
        """Note that the changes of these keys are on disk, or have failed."""
        ended = Counter(_with_parents(keys))
        with self._written:
            self._pending.subtract(ended)
            for each in ended:
                if not self._pending[each]:
                    del self._pending[each]
            self._written.notify_all()

    def await_key(self, key: bytes) -> None:
        """Inside a block, wait until no change of this key is on its way to disk."""
        if self._is_inside():
            self._await(lambda: key not in self._pending)

    def await_prefix(self, prefix: bytes) -> None:
        """Inside a block, wait until no change of a key under this parent is on its way to disk.

        ``prefix`` ends with a slash.  The time that this takes does not depend on the number of changes on
        their way: an operation on many jobs has hundreds, and each of its writes asks.
        """
        assert prefix.endswith(b"/"), prefix  # noqa: S101 - only the parents of keys are counted
        if self._is_inside():
            self._await(lambda: prefix not in self._pending)

    def _is_inside(self) -> bool:
        return self._owner == threading.get_ident()

    def _await(self, is_written: Callable[[], bool]) -> None:
        with self._written:
            self._written.wait_for(is_written)


def _with_parents(keys: Iterable[bytes]) -> Iterator[bytes]:
    """Each key, and the parts of it that end with a slash, which are the prefixes of scans."""
    for key in keys:
        yield key
        end = key.find(b"/") + 1
        while end:
            yield key[:end]
            end = key.find(b"/", end) + 1
