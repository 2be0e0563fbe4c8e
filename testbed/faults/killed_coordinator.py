"""A coordinator that is killed at a call to an engine or broker in memory, and what it leaves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from speck.errors import BinderError, StoreError, Unreachable
from speck.store.leveldb.database import Database
from speck.store.transaction import Write
from testbed.doubles.world import World


class Life:
    """The world as one coordinator sees it; once it is killed, nothing that it still does has an effect.

    ``kill_at`` is a method, and whether its work is done then; what the store holds at that moment is kept.
    So many such moments are ``spared`` before.
    ``error`` is what the dead one meets with each call.
    """

    def __init__(self, world: World, store: Path, error: BinderError | None = None) -> None:
        self.world, self.store = world, store
        self.error = error or Unreachable("killed", address="sc://dead:1")
        self.kill_at: tuple[str, bool] | None = None
        self.spared = 0
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)

    @contextmanager
    def call(self, method: str, address: str, name: str, *, broker: bool = False) -> Iterator[None]:
        self._reach(method, after=False)
        with self.world.call(method, address, name, broker=broker):
            yield
        self._reach(method, after=True)

    def _reach(self, method: str, *, after: bool) -> None:
        if not self.dead and self._ends(method, after):
            self.dead = True
            shutil.copytree(self.store, self.killed_store)
        if self.dead:
            raise self.error

    def _ends(self, method: str, after: bool) -> bool:
        if self.kill_at != (method, after):
            return False
        self.spared -= 1
        return self.spared < 0

    def writes(self, database: Database) -> None:
        """Count what is written down among the moments, as the method ``write``."""
        write = database.write

        def counted(changes: Sequence[Write]) -> None:
            try:
                self._reach("write", after=False)
                write(changes)
                self._reach("write", after=True)
            except BinderError as error:
                raise StoreError("killed") from error

        database.write = counted  # type: ignore[method-assign]

    @property
    def killed_store(self) -> Path:
        """The store as it was when the coordinator was killed."""
        return self.store.with_name(f"{self.store.name}-left")


class ShortLife(Life):
    """One that is killed at a moment counted from now: ``moments`` are those that it still has."""

    moments = 1 << 30

    def _ends(self, method: str, after: bool) -> bool:
        self.moments -= 1
        return self.moments < 0
