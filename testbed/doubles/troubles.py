"""Troubles that tests arrange for the calls of binder doubles: failures, and calls that wait."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from speck.errors import BinderError

Call = tuple[str, str, str]


@dataclass
class Trouble:
    """A failure to come: ``times`` calls that match raise ``error`` (``after``: when the work is done)."""

    method: str
    address: str | None
    name: str | None
    error: BinderError
    times: int | None
    after: bool

    def matches(self, call: Call, after: bool) -> bool:
        method, address, name = call
        return (
            self.after == after
            and self.times != 0
            and self.method == method
            and self.address in (None, address)
            and self.name in (None, name)
        )


@dataclass
class Hold:
    """Calls that match wait until ``release`` is called, except for the first ``spared`` ones.

    ``reached`` is set when one waits.
    """

    method: str
    name: str | None
    address: str | None = None
    spared: int = 0
    reached: threading.Event = field(default_factory=threading.Event)
    _gate: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        self._gate.set()

    def pass_through(self, call: Call) -> None:
        method, address, name = call
        if method == self.method and self.address in (None, address) and self.name in (None, name):
            self.spared -= 1
            if self.spared >= 0:
                return
            self.reached.set()
            if not self._gate.wait(60):
                raise AssertionError(f"nobody released the hold on {self.method}")
