"""The errors of SpecK, one small tree.

::

    SpeckError
    ├── InvalidInput               bad file, job, inventory or request; carries every fault found
    │   └── UnreadableInput        no YAML or JSON, too large, nested too deeply
    ├── NotFound                   no such job, composition, revision or operation
    ├── Conflict                   the request does not fit the current state
    │   ├── StaleRevision          planned from a revision that is no longer the last one
    │   └── Busy                   another operation runs on the same composition
    ├── Overloaded                 too many operations run to accept another
    ├── StoreError                 the store cannot be read or written
    │   ├── StoreLocked            another process holds the store
    │   ├── StoreFull              no room to write; the data can be read
    │   └── StoreDamaged           the files differ from those that were written
    ├── BinderError                an engine or a broker failed a request
    │   ├── Unreachable            no connection
    │   │   └── SecretUnavailable  a reference to a secret leads nowhere
    │   ├── OutcomeUnknown         connected, no answer in time
    │   ├── Rejected               answered with a refusal (the job's own code may be why)
    │   ├── NoCapacity             no room for the job
    │   └── DrainTimeout           a job did not drain its input before the deadline
    ├── LocalError                 an engine or broker of this machine could not be started or stopped
    └── ServerError                the command line got no answer from the server

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


class SecretUnavailable(Unreachable):
    """A secret for an engine or a broker is missing: its reference leads nowhere."""


class OutcomeUnknown(BinderError):
    """The engine or broker gave no answer in time, or the connection broke: the outcome is unknown."""


class Rejected(BinderError):
    """The engine or broker refused the request; the job's own code may be why."""


class NoCapacity(BinderError):
    """The engine has no room for the job."""


class DrainTimeout(BinderError):
    """A job that stops, or is to read elsewhere, did not drain its input before the deadline."""


class LocalError(SpeckError):
    """An engine or broker of this machine could not be started or stopped."""


class ServerError(SpeckError):
    """The command line could not get an answer out of the server."""


# Binders of other packages raise errors by the names of version 0.1.
NoAnswer, Refused, NoSecret = OutcomeUnknown, Rejected, SecretUnavailable
