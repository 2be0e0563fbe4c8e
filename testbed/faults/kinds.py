"""The kinds of harm that are done to the mixed composition (:mod:`testbed.faults.mixed`) under load.

Each is done in the midst of a steady stream of messages, which goes on meanwhile; then all that was sent is
awaited, and counted.  :attr:`Kind.admitted` is the sentence of ``docs/faults.md`` that admits what a kind
loses or doubles; without one it must be nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any

from binders.mqtt import MqttBroker
from speck.core.inventory import Inventory
from speck.errors import SpeckError
from testbed.faults.mixed import A, B
from testbed.faults.rig import Account
from testbed.faults.servers import SMALL, Layout, LoadTrial, Testbed
from testbed.waiting import await_that

PADDING = 2000  # bytes of a message of those that fill a session

_WAITING = 500  # messages that are sent while a reader is away


@dataclass(frozen=True)
class Kind:
    """A kind of harm, done at a site of this size.

    Messages are longer by ``padding`` bytes.  ``most`` of them are sent but for those of the harm itself, at
    ``rate`` messages/s; ``None``: as many and as fast as for all kinds.
    """

    harm: Callable[[LoadTrial], None]
    layout: Layout = SMALL
    admitted: str = ""
    padding: int = 0
    most: int | None = None
    rate: float | None = None


@dataclass(frozen=True)
class Result:
    """The account of a trial; ``error`` is the request that failed in it, and should not have.

    ``reported`` is the number of lost messages that SpecK reports, where that is compared.
    """

    account: Account
    error: str = ""
    admitted: str = ""
    reported: int | None = None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Result:
        """The result that :meth:`to_dict` made this of."""
        account = Account(*(data[each.name] for each in fields(Account)))
        return cls(account, data.get("error", ""), data.get("admitted", ""), data.get("reported"))

    @property
    def broken(self) -> bool:
        """True if something was lost or doubled that no sentence admits, or a request failed."""
        wrong = self.account.lost or self.account.doubled
        return bool(self.error or (wrong and not self.admitted))

    def __add__(self, other: Result) -> Result:
        mine, others = self.account, other.account
        total = Account(
            *(a + b for a, b in zip(astuple(mine), astuple(others), strict=True)),
        )
        reported = None if self.reported is None else self.reported + (other.reported or 0)
        return Result(total, self.error or other.error, self.admitted or other.admitted, reported)

    def to_dict(self) -> dict[str, Any]:
        """As plain data; ``admitted`` where there is something to admit."""
        wrong = self.account.lost or self.account.doubled
        return (
            asdict(self.account)
            | ({"admitted": self.admitted} if wrong and self.admitted else {})
            | ({"error": self.error} if self.error else {})
            | ({} if self.reported is None else {"reported": self.reported})
        )


# --- updates that change the output


def update(trial: LoadTrial) -> None:
    """The expanding jobs get another form, and the first one again."""
    for form in (B, A):
        trial.apply(form=form)
        trial.await_outputs(100)


def update_rolled_back(trial: LoadTrial) -> None:
    """The expanding jobs get a form that fails after some fifty messages, and are put back; twice."""
    for _ in range(2):
        before = trial.mixed.form
        trial.apply("failed", form=replace(B, dies=trial.number + 50))
        # One of the two may have come up before that message: the update is its own, and is taken back.
        trial.apply(form=before)
        trial.await_outputs(100)


def update_after_death(trial: LoadTrial) -> None:
    """The JobManager is killed, its tasks continue for a while; then the jobs are applied in another form."""
    flink = trial.bed.flink
    flink.kill_job_manager_alone()
    time.sleep(15)
    flink.kill_job_manager()
    trial.apply(form=B)


# --- brokers and sites that are away


def broker_away(seconds: float) -> Callable[[LoadTrial], None]:
    """SIGKILL of the site's broker, which is down for this time, while messages wait there for a reader."""
    return lambda trial: kill_broker(trial, seconds)


def kill_broker(trial: LoadTrial, seconds: float = 0) -> None:
    """The same: a TaskManager is killed before, and another started afterwards."""
    bed = trial.bed
    with bed.flink.without_task_manager():
        trial.await_sent(_WAITING)
        bed.broker.kill()
        time.sleep(seconds)
        bed.broker.start()


def cut_power(bed: Testbed, seconds: float) -> None:
    """SIGKILL of broker, JobManager and TaskManagers of the site together, for this time."""
    bed.broker.kill()
    bed.flink.kill()
    time.sleep(seconds)
    bed.broker.start()
    bed.flink.start()


def power_twice(seconds: float, between: float) -> Callable[[LoadTrial], None]:
    """The site loses power, comes back, and loses it again after a while."""

    def harm(trial: LoadTrial) -> None:
        cut_power(trial.bed, seconds)
        time.sleep(between)
        cut_power(trial.bed, seconds)

    return harm


def power_and_rewire(seconds: float) -> Callable[[LoadTrial], None]:
    """The same, with an update after the first cut, and after the second one other topics at the site."""

    def harm(trial: LoadTrial) -> None:
        cut_power(trial.bed, seconds)
        trial.apply(form=B)
        cut_power(trial.bed, seconds)
        trial.apply(wire="-b")

    return harm


def two_faults(between: float) -> Callable[[LoadTrial], None]:
    """A TaskManager and then the site's broker are killed, and both again after a while."""

    def harm(trial: LoadTrial) -> None:
        for _ in range(2):
            kill_broker(trial)
            time.sleep(between)

    return harm


def half_reachable(trial: LoadTrial) -> None:
    """The engine's REST interface refuses while jobs and broker run; jobs move off and back, three times."""
    here, far = trial.mixed.ends, trial.bed.far_site()
    for _ in range(3):
        with trial.bed.rest.refused():
            trial.apply(leave_behind=[here.flink], ends=replace(here, flink=far))
            trial.await_outputs(100)
        trial.await_outputs(300)
        trial.apply(ends=here)
        trial.await_outputs(100)


def fill_session(trial: LoadTrial) -> None:
    """A reader is away until its session has reached the writers' bound, and longer.

    So much more is sent that it would exceed the session's own bound.  Raises :class:`RuntimeError` if the
    broker dropped messages: the writers did not stop.
    """
    bed = trial.bed
    bound, limit = bed.layout.session_bytes, bed.layout.writers_bytes
    site = MqttBroker(bed.broker.address, Inventory())
    try:
        with bed.flink.without_task_manager():
            await_that(site.stored_bytes, lambda stored: stored is not None and stored >= limit)
            trial.await_sent(int(1.5 * (bound - limit)) // PADDING)
            dropped, stored = site.dropped(), site.stored_bytes()
    finally:
        site.close()
    figures = f"{dropped} messages dropped, {stored} bytes stored, {bound} the bound of a session"
    print(figures, file=sys.stderr, flush=True)
    if dropped or not stored or stored > bound:
        raise RuntimeError(figures)


# --- pauses


def paused(choose: Callable[[Testbed], Sequence[int]], *seconds: float) -> Callable[[LoadTrial], None]:
    """SIGSTOP of some processes, and SIGCONT after each of these numbers of seconds."""

    def harm(trial: LoadTrial) -> None:
        for each in seconds:
            with suspended(choose(trial.bed)):
                time.sleep(each)
            time.sleep(5)

    return harm


@contextmanager
def suspended(pids: Sequence[int]) -> Iterator[None]:
    """While the block runs, these processes are stopped."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def flink_processes(bed: Testbed) -> Sequence[int]:
    """The processes of the Flink cluster."""
    return [process.pid for process in bed.flink.processes()]


def task_managers(bed: Testbed) -> Sequence[int]:
    """Its TaskManagers."""
    return flink_processes(bed)[1:]


def spark(bed: Testbed) -> Sequence[int]:
    """The Spark Connect server."""
    return [bed.spark.pid]


def broker(bed: Testbed) -> Sequence[int]:
    """The site's broker."""
    return [bed.broker.pid]


def kinds(share: float = 1.0) -> Mapping[str, Kind]:
    """All kinds by name; ``share`` is that of the seconds for which something is away or paused."""
    blink, minute, cut, between = 5 * share, 60 * share, 50 * share, 20 * share
    return {
        "update": Kind(update),
        "update_rolled_back": Kind(update_rolled_back),
        "update_after_death": Kind(update_after_death),
        "two_workers": Kind(two_faults(between), Layout(workers=2, parallelism=2)),
        "two_executors": Kind(two_faults(between), Layout(executors=2)),
        "broker_away_45s": Kind(broker_away(45 * share)),
        "broker_away_180s": Kind(broker_away(180 * share)),
        "power_twice": Kind(power_twice(cut, between)),
        "power_and_rewire": Kind(power_and_rewire(cut)),
        "half_reachable": Kind(half_reachable),
        "session_filled": Kind(fill_session, Layout(stored=4), padding=PADDING, most=1500, rate=100.0),
        "flink_paused": Kind(paused(flink_processes, blink, minute)),
        "workers_paused": Kind(paused(task_managers, blink, minute)),
        "spark_paused": Kind(paused(spark, blink, minute)),
        "broker_paused": Kind(paused(broker, blink, minute)),
    }


KINDS = kinds()


def run(bed: Testbed, kind: Kind, messages: int, rate: float) -> Result:
    """Do one kind of harm under load: half of the messages are sent before, and as many afterwards."""
    found = Account(0, 0, 0)
    messages = min(messages, kind.most or messages)
    errors: list[str] = []
    with noted(errors), bed.trial() as trial:
        trial.send(kind.rate or rate, lambda name, number: f"{name}{'x' * kind.padding}-{number}")
        trial.await_outputs()
        trial.await_sent(messages // 2)
        with noted(errors):
            kind.harm(trial)
        trial.await_sent(messages // 2)
        found = trial.final_account()
        if found.lost:
            errors += _unhealthy(trial)
    return Result(found, "; ".join(errors), kind.admitted)


@contextmanager
def noted(errors: list[str]) -> Iterator[None]:
    """Note an error in the list, and continue after the block."""
    try:
        yield
    except (RuntimeError, TimeoutError, SpeckError, OSError) as error:
        errors.append(f"{type(error).__name__}: {error}")


def _unhealthy(trial: LoadTrial) -> Iterator[str]:
    """The jobs that do not run."""
    return (f"{job} is {state}" for job, state in trial.states().items() if state != "running")


def measure(name: str, messages: int, share: float = 1.0, rate: float = 200.0) -> Result:
    """Do one kind of harm to a test bed of its own."""
    kind = kinds(share)[name]
    with (
        tempfile.TemporaryDirectory(prefix="speck-kind-") as directory,
        Testbed(Path(directory), kind.layout) as bed,
    ):
        return run(bed, kind, messages, rate)
