"""Isolation of the blocks of transactions: none reads a record whose change is on its way to disk.

Blocks run one after the other, and their changes go to disk together, after the blocks.  So a record that
one block has changed may not be on disk yet when the next block reads it.  That read waits for the change of
this one record, and a change made from it undoes no other.  Changes of other records do not wait.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Isolation:
    """The blocks of one store.  A block may contain another one of the same thread.

    A read outside of a block waits for nothing: it is of what is on disk.
    """

    _blocks: threading.RLock = field(default_factory=threading.RLock)
    _owner: int | None = None  # the thread of the block that is open
    _pending: Counter[bytes] = field(default_factory=Counter)  # keys, by the number of their changes
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
            self._pending.update(keys)

    def complete(self, keys: Sequence[bytes]) -> None:
        """Note that the changes of these keys are on disk, or have failed."""
        with self._written:
            self._pending.subtract(keys)
            for key in keys:
                if not self._pending[key]:
                    del self._pending[key]
            self._written.notify_all()

    def await_key(self, key: bytes) -> None:
        """Inside a block, wait until no change of this key is on its way to disk."""
        if self._is_inside():
            self._await(lambda: key not in self._pending)

    def await_prefix(self, prefix: bytes) -> None:
        """Inside a block, wait until no change of a key that begins with this is on its way to disk."""
        if self._is_inside():
            self._await(lambda: not any(key.startswith(prefix) for key in self._pending))

    def _is_inside(self) -> bool:
        return self._owner == threading.get_ident()

    def _await(self, is_written: Callable[[], bool]) -> None:
        with self._written:
            self._written.wait_for(is_written)
