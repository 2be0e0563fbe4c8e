"""The errors of SpecK, one small tree.

::

    SpeckError
    ├── InvalidInput            bad file, job, inventory or request; carries every fault found
    │   └── UnreadableInput     not even a document: no YAML or JSON, too large, nested too deeply
    ├── NotFound                no such job, composition, revision or operation
    ├── Conflict                the request does not fit what is there now
    │   ├── StaleRevision       planned from a revision that is no longer the last one
    │   └── Busy                another operation is at work on the same composition
    ├── Overloaded              so much is at work that nothing is taken on now
    ├── StoreError              the store cannot be read or written
    │   ├── StoreLocked         another process holds the store
    │   ├── StoreFull           there is no room to write; what is there can be read
    │   └── StoreDamaged        what lies there is not what was written
    ├── BinderError             an engine or a broker did not do what it was asked
    │   ├── Unreachable         no connection
    │   │   └── NoSecret        what opens it is not to be had: a reference leads nowhere
    │   ├── NoAnswer            connected, no answer in time: the outcome is unknown
    │   ├── Refused             it answered, and said no (the job's own code may be why)
    │   ├── NoCapacity          it has no room for the job
    │   └── Unfinished          a job has not worked off in time what waits for it
    ├── LocalError              an engine or broker of this machine could not be started or stopped
    └── ServerError             the command line could not get an answer out of the server

A message names the thing, the value, and what would be right.  An error of a third party is
translated at the edge where it enters (a binder, the store, the client), its cause chained.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


class SpeckError(Exception):
    """Base of every error that SpecK raises on purpose."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, or worth a warning, in what a user wrote.

    ``job`` and ``field`` say where (either may be absent), ``value`` what stands there, ``line`` the
    1-based line of the YAML text where it is known, ``message`` what is wrong and what would be right.
    """

    message: str
    job: str | None = None
    field: str | None = None
    value: object = None
    line: int | None = None

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else ""
        who = f"job {self.job!r}: " if self.job is not None else ""
        return f"{where}{who}{self.message}"


class InvalidInput(SpeckError):
    """What a user wrote cannot be accepted; ``faults`` holds everything that is wrong, not only the first."""

    def __init__(self, faults: Iterable[Fault], subject: str = "input") -> None:
        self.faults = tuple(faults)
        self.subject = subject
        super().__init__("\n".join(str(fault) for fault in self.faults))


class UnreadableInput(InvalidInput):
    """What a user wrote is not even a document."""


class NotFound(SpeckError):
    """No such job, composition, revision or operation."""


class Conflict(SpeckError):
    """The request does not fit what is there now."""


class StaleRevision(Conflict):
    """The request was made from a revision that is no longer the last one."""

    def __init__(self, composition: str, base: int, current: int) -> None:
        self.composition, self.base, self.current = composition, base, current
        super().__init__(
            f"composition {composition!r}: base_revision {base} is stale, "
            f"the last revision is {current} (plan again from it)"
        )


class Busy(Conflict):
    """Another operation is at work on the same composition."""


class Overloaded(SpeckError):
    """So much is at work that nothing is taken on now."""


class StoreError(SpeckError):
    """The store cannot be read or written."""


class StoreLocked(StoreError):
    """Another process holds the store (LevelDB belongs to one process at a time)."""


class StoreFull(StoreError):
    """There is no room to write; what is there can be read."""


class StoreDamaged(StoreError):
    """What lies in the store's directory is not what was written there."""


class BinderError(SpeckError):
    """An engine or a broker did not do what it was asked.

    ``address`` is the engine or broker; the message holds its own words in one readable line.
    """

    def __init__(self, message: str, *, address: str = "") -> None:
        self.address = address
        super().__init__(message)


class Unreachable(BinderError):
    """The engine or broker cannot be connected to; nothing was asked of it."""


class NoSecret(Unreachable):
    """What would open an engine or a broker cannot be had: a reference to a secret leads nowhere."""


class NoAnswer(BinderError):
    """It did not answer in time, or the connection broke in between: the outcome is unknown."""


class Refused(BinderError):
    """It answered, and said no; the job's own code may be why."""


class NoCapacity(BinderError):
    """It has no room for the job."""


class Unfinished(BinderError):
    """A job that is to go, or to read elsewhere, has not worked off in time what waits for it."""


class LocalError(SpeckError):
    """An engine or broker of this machine could not be started or stopped."""


class ServerError(SpeckError):
    """The command line could not get an answer out of the server."""
