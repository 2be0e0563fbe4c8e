"""The errors of SpecK in one small tree.

::

    SpeckError
    ├── InvalidInput               bad file, job, inventory or request; carries every fault found
    │   └── UnreadableInput        not YAML or JSON, too large, nested too deeply
    ├── NotFound                   no such job, composition, revision or operation
    ├── Expired                    a proposed placement that is too old to be accepted
    ├── Conflict                   the request does not fit the current state
    │   ├── StaleRevision          planned from a revision that is no longer the latest
    │   ├── StalePlan              planned from facts that have changed since
    │   ├── Busy                   another operation runs on the same composition
    │   │   └── ShuttingDown       the server accepts nothing before it has restarted
    │   ├── JobsOfAnother          another store runs jobs of these names
    │   └── NotAdoptable           a job of another store cannot become this one's
    ├── Overloaded                 too many operations are running to accept another
    ├── StoreError                 the store cannot be read or written
    │   ├── StoreLocked            another process has the store open
    │   ├── StoreFull              no space left to write; the data can be read
    │   └── StoreDamaged           the files differ from those that were written
    ├── BinderError                an engine or a broker failed a request
    │   ├── Unreachable            no connection
    │   │   └── SecretUnavailable  a secret is not set or cannot be read
    │   ├── OutcomeUnknown         connected, no answer in time
    │   ├── Rejected               answered with a refusal (the job's own code may be why)
    │   │   ├── SessionOfAnother   a session at a broker belongs to another SpecK
    │   │   └── StateLost          the state of a job is not where the job left it
    │   ├── NoCapacity             no capacity for the job
    │   └── DrainTimeout           a job did not drain its input before the deadline
    ├── LocalError                 an engine or broker of this machine could not be started or stopped
    └── ServerError                the command line got no answer from the server

A message names the thing, the value, and the right form.  Errors of third-party libraries are translated
where they enter (binder, store, client), with the cause chained.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass


class SpeckError(Exception):
    """The base of all errors that SpecK raises deliberately."""


def one_line(error: BaseException) -> str:
    """The message of an error in one line."""
    return " ".join(str(error).split())


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault or warning about a user's input.

    ``job`` and ``field`` locate it (either may be ``None``), ``value`` is the faulty value, ``line`` the
    1-based line of the YAML text if known, ``message`` the fault and the right form.  ``cause`` is the fault
    without the names of its job and place: those of one query with the same cause are reported as one.
    ``None`` if it has no like.
    """

    message: str
    job: str | None = None
    field: str | None = None
    value: object = None
    line: int | None = None
    cause: Hashable = dataclasses.field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else ""
        subject = f"job {self.job!r}: " if self.job is not None else ""
        return f"{where}{subject}{self.message}"


class InvalidInput(SpeckError):
    """A user's input is rejected; ``faults`` are all of its faults, not only the first."""

    def __init__(self, faults: Iterable[Fault], subject: str = "input") -> None:
        self.faults = tuple(faults)
        self.subject = subject
        super().__init__("\n".join(str(fault) for fault in self.faults))


class UnreadableInput(InvalidInput):
    """A user's input is not a YAML or JSON document."""


class NotFound(SpeckError):
    """There is no such job, composition, revision or operation."""


class Expired(SpeckError):
    """A proposed placement is too old to be accepted."""


class Conflict(SpeckError):
    """The request does not fit the current state."""


class StaleRevision(Conflict):
    """The request was planned from a revision that is no longer the latest."""

    def __init__(self, composition: str, base: int, current: int) -> None:
        self.composition, self.base, self.current = composition, base, current
        super().__init__(
            f"composition {composition!r}: base_revision {base} is stale, "
            f"the last revision is {current} (plan again from it)"
        )


class StalePlan(Conflict):
    """The facts from which a plan was made have changed since it was shown; nothing was changed."""

    def __init__(self, composition: str, changes: Sequence[str]) -> None:
        shown = "; ".join(changes[:3]) + (f"; and {len(changes) - 3} more" if len(changes) > 3 else "")
        super().__init__(f"composition {composition!r}: the plan is stale: {shown} (plan again)")


class Busy(Conflict):
    """Another operation is running on the same composition."""


class ShuttingDown(Busy):
    """The server is shutting down, and accepts nothing more."""


class JobsOfAnother(Conflict):
    """Another store runs jobs of these names, or has sessions for them."""


class NotAdoptable(Conflict):
    """A job of another store cannot be adopted, or there is none to adopt."""


class Overloaded(SpeckError):
    """Too many operations are running to accept another."""


class StoreError(SpeckError):
    """The store cannot be read or written."""


class StoreLocked(StoreError):
    """Another process has the store open (LevelDB allows one process at a time)."""


class StoreFull(StoreError):
    """There is no space left to write; the data can be read."""


class StoreDamaged(StoreError):
    """The files in the store's directory differ from those that were written."""


class BinderError(SpeckError):
    """An engine or a broker failed a request.

    ``address`` is that of the engine or broker; the message has its own words in one readable line.
    """

    def __init__(self, message: str, *, address: str = "") -> None:
        self.address = address
        super().__init__(message)


class Unreachable(BinderError):
    """There is no connection to the engine or broker; no request was sent."""


class SecretUnavailable(Unreachable):
    """A secret for an engine or a broker is not set, or cannot be read."""


class OutcomeUnknown(BinderError):
    """The engine or broker gave no answer in time, or the connection broke: the outcome is unknown."""


class Rejected(BinderError):
    """The engine or broker refused the request; the job's own code may be why."""


class SessionOfAnother(Rejected):
    """A session at a broker belongs to another SpecK; nothing was changed there."""


class StateLost(Rejected):
    """The state that a job has left is not there, or cannot be seen; a start without it would lose it."""


class NoCapacity(BinderError):
    """The engine has no capacity for the job."""


class DrainTimeout(BinderError):
    """A job that stops, or is to read elsewhere, did not drain its input before the deadline."""


class LocalError(SpeckError):
    """An engine or broker of this machine could not be started or stopped."""


class ServerError(SpeckError):
    """The command line got no answer from the server."""
