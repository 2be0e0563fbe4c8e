"""State that two engines must read: at a place that both see, or transferred by the coordinator.

The place of a state is checked before the old copy of a job is stopped, so that a move that cannot work is
rejected while all still runs.  A transferred state goes through the coordinator's memory, up to a limit, to a
place of its own, from which no attempt was ever started: its name has the number of the next attempt and the
hash of the content.  So a transfer that was broken off can be repeated, and no copy starts from half a state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from speck.binder import (
    Capability,
    EngineBinder,
    StateFiles,
)
from speck.binder.pool import BinderPool
from speck.core.job import Job
from speck.core.runtime import Handle, State
from speck.errors import BinderError, Rejected

_log = logging.getLogger(__name__)

_BUILT_FROM = ("code_hash", "entry_class", "arguments")  # the fields that determine what a job does


@dataclass(frozen=True)
class TransferPlan:
    """A state on its way: from where, to where, and its files (``None``: they are there already)."""

    source: State
    place: State
    snapshot: StateFiles | None


@dataclass(frozen=True)
class StateTransfer:
    """Checks and transfers states for one operation.

    ``limit`` is the size up to which a state is transferred, bytes; ``count`` counts a call to an engine.
    """

    pool: BinderPool
    limit: int
    count: Callable[[str], None]

    def check(self, job: Job, state: State | None, handle: Handle | None, former: Job | None) -> None:
        """Ask the job's engine as :meth:`speck.binder.EngineBinder.check` does, wherever the state is.

        ``handle`` is of the copy that runs, as ``former``; ``state`` is where the state is when none runs.
        """
        running = self._place_of(handle, former) if handle and former and job.upgrade == "stateful" else None
        place, fault = running or state, None
        if place is not None and _elsewhere(job, place):
            fault = self._fault(job, place)
            if fault is not None:
                self._check_transfer(job, place, fault)
            state = None if fault is not None or running is not None else state
        self.count("check")
        self.pool.engine(job).check(job, state)
        if running is not None and former is not None and fault is None:
            self._check_resumption(job, running, former)

    def fault(self, job: Job, handle: Handle, former: Job) -> str | None:
        """The reason why this form of a job cannot have the state of the running copy, or continue from it.

        ``None`` if it can, or if there is none to bring.  Starts and stops nothing.
        """
        place = self._place_of(handle, former) if job.upgrade == "stateful" else None
        if place is None:
            return None
        try:
            fault = self._fault(job, place) if _elsewhere(job, place) else None
            if fault is None:
                self._check_resumption(job, place, former)
            else:
                self._check_transfer(job, place, fault)
        except Rejected as error:
            return str(error).removeprefix(f"job {job.job_name!r}: ")
        return None

    def shares(self, job: Job, handle: Handle, former: Job) -> bool:
        """True if this form of a job can read the state of the running copy where it is, or needs none."""
        place = self._place_of(handle, former) if job.upgrade == "stateful" else None
        return place is None or not _elsewhere(job, place) or self._fault(job, place) is None

    def _check_resumption(self, job: Job, state: State, former: Job) -> None:
        """Raise :class:`Rejected` if new code cannot continue from the state that the running copy writes."""
        engine = self.pool.engine(job)
        if not changes_code(job, former) or Capability.RESUMPTION not in engine.capabilities:
            return
        self.count("resumption_fault")
        fault = engine.resumption_fault(job, state)
        if fault is not None:
            raise Rejected(f"job {job.job_name!r}: {fault}", address=job.spe_address)

    def pack(self, job: Job, state: State, number: int, garbage: Sequence[State]) -> TransferPlan | None:
        """The transfer after which the attempt of this number can start from the state; ``None``: none.

        ``garbage`` are earlier copies.  A job that returns has its own there, and starts from that when
        nothing was begun from the later one.
        """
        fault = self._fault(job, state) if _elsewhere(job, state) else None
        if fault is None:
            return None
        source, target = self._ends(job, state, fault)
        self.count("read_state")
        snapshot = source.read_state(state)
        for former in garbage:
            if former.address == job.spe_address and _holds(target, former, snapshot):
                return TransferPlan(state, former, None)
        place = target.state_place(job.job_name, f"{number}-{snapshot.digest[:16]}")
        return TransferPlan(state, place, snapshot)

    def deliver(self, job: Job, plan: TransferPlan) -> None:
        """Write the files of a transfer to its place."""
        target = self.pool.engine(job)
        if plan.snapshot is not None:
            self.count("write_state")
            target.write_state(plan.place, plan.snapshot)

    def discard(self, state: State) -> bool:
        """Delete a garbage state; returns true if it is gone."""
        try:
            holder = self.pool.engine_for(state.address)
            if Capability.TRANSFER in holder.capabilities:
                holder.delete_state(state)
            elif Capability.DISPOSE in holder.capabilities:
                holder.dispose_state(state)
        except BinderError as error:
            _log.warning("a job's state is left at %s: %s", state.location, error)
            return False
        return True

    def place_to_delete(self, handle: Handle, form: Job) -> State | None:
        """The place of a copy's state, at an engine that deletes states at request and not by each stop."""
        if Capability.TRANSFER not in self.pool.engine(form).capabilities:
            return None
        return self._place_of(handle, form)

    def _place_of(self, handle: Handle, former: Job) -> State | None:
        place = self.pool.engine(former).state_of(handle)
        return None if place is None else place.at(former.spe_address)

    def _fault(self, job: Job, state: State) -> str | None:
        return self.pool.engine(job).state_fault(state)

    def _ends(self, job: Job, state: State, fault: str) -> tuple[EngineBinder, EngineBinder]:
        """The binders at both ends of a transfer.  Raises :class:`~speck.errors.Rejected`."""
        source, target = self.pool.engine_at(job.engine, state.address), self.pool.engine(job)
        if all(Capability.TRANSFER in each.capabilities for each in (source, target)):
            return source, target
        raise Rejected(f"job {job.job_name!r}: {fault}", address=job.spe_address)

    def _check_transfer(self, job: Job, state: State, fault: str) -> None:
        source, target = self._ends(job, state, fault)
        size = source.state_size(state)
        for address, end in ((state.address, source), (job.spe_address, target)):
            if end.largest_state is not None and size > end.largest_state:
                raise Rejected(
                    f"job {job.job_name!r}: {fault}, and its state of {_mebibytes(size)} cannot be "
                    f"transferred from or to {address} (at most {_mebibytes(end.largest_state)}: use a place "
                    "for state that both sites can access, or write 'upgrade: stateless')",
                    address=job.spe_address,
                )
        if size > self.limit:
            raise Rejected(
                f"job {job.job_name!r}: {fault}, and its state of {_mebibytes(size)} exceeds the "
                f"transfer limit (at most {_mebibytes(self.limit)}: raise --state-limit, or use a place for "
                "state that both sites can access)",
                address=job.spe_address,
            )
        target.check_state_place(job.job_name)


def changes_code(job: Job, former: Job) -> bool:
    """True if a form of a job is built from something else than another one."""
    return any(getattr(job, each) != getattr(former, each) for each in _BUILT_FROM)


def _holds(engine: EngineBinder, place: State, snapshot: StateFiles) -> bool:
    try:
        return engine.read_state(place).digest == snapshot.digest
    except BinderError:
        return False


def _elsewhere(job: Job, state: State) -> bool:
    return bool(state.address) and state.address != job.spe_address


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
