"""Messages lost and doubled between jobs when engines, brokers and links fail under load.

::

    python -m benchmarks.promises faults --rounds 3 --messages 10000 --json

A round hurts a rig (:mod:`testbed.faults.rig`) in each of the ways of :data:`FAULTS`, and a test bed
(:mod:`testbed.faults.servers`) in each of those of :data:`~testbed.faults.kinds.KINDS`.  Figures of
each: ``messages``, ``lost``, ``doubled``, summed over the rounds; the aim is 0 for both, but at the edge
(``edge_broker_killed``), where nobody but the device itself can send a message again.  The member ``faults``
has them by kind, with the sentence of ``docs/faults.md`` that admits one which is not 0.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import add
from pathlib import Path

import requests

from binders.mqtt import MqttBroker
from speck.core.inventory import Inventory
from testbed.benches.job_text import FLINK_CODE, SPARK_CODE, job
from testbed.faults import logs
from testbed.faults.edge import kill_edge_broker
from testbed.faults.kinds import KINDS, Result, noted
from testbed.faults.kinds import measure as measure_kind
from testbed.faults.middle import MIDDLES
from testbed.faults.reported import give_up
from testbed.faults.rig import Account, CuttableRelay, Rig, paho_client
from testbed.faults.round_log import RoundLog
from testbed.results import add_output_options, published
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.waiting import await_that

WAITING = 500  # messages that are sent while a reader is away


def kill_spark(rig: Rig) -> None:
    """SIGKILL of the Spark Connect server; its jobs are gone, and started again from their checkpoints."""
    rig.spark.kill()
    rig.spark.start()
    rig.apply()


def kill_task_manager(rig: Rig) -> None:
    """SIGKILL of the Flink TaskManager; Flink itself continues when there is another."""
    rig.flink.kill_task_manager()


def kill_job_manager(rig: Rig) -> None:
    """SIGKILL of the Flink JobManager; its jobs are gone, and started again from their newest checkpoints."""
    rig.flink.kill_job_manager()
    rig.apply()


def kill_engines(rig: Rig) -> None:
    """SIGKILL of both engines, whose jobs start only when the rig applies again after some silence."""
    rig.spark.kill()
    rig.flink.kill_job_manager()
    rig.spark.start()


def restart_broker(rig: Rig) -> None:
    """The broker between the jobs is stopped in good order, and started again."""
    rig.middle.stop()
    rig.middle.start()


def kill_broker(rig: Rig) -> None:
    """SIGKILL of the broker between the jobs: what waited there and was not saved is lost there."""
    with _waiting_messages(rig):
        rig.middle.kill()
        rig.middle.start()


def empty_broker(rig: Rig) -> None:
    """SIGKILL of the broker between the jobs, which comes back knowing nothing: no session, no fence."""
    with _waiting_messages(rig):
        rig.middle.kill()
        rig.middle.forget()
        rig.middle.start()


@contextmanager
def _waiting_messages(rig: Rig) -> Iterator[None]:
    """Kill the reader of ``mid/1``, so that messages wait at the broker alone; it comes back afterwards."""
    with rig.flink.without_task_manager():
        rig.sending.await_more(WAITING)
        yield


def cut_link(seconds: float) -> Callable[[Rig], None]:
    """The way to the broker between the jobs is cut silently for a while."""

    def cut(rig: Rig) -> None:
        rig.link.cut(seconds)

    return cut


FAULTS: Mapping[str, Callable[[Rig], object]] = {
    "spark_killed": kill_spark,
    "task_manager_killed": kill_task_manager,
    "job_manager_killed": kill_job_manager,
    "engines_killed": kill_engines,
    "broker_restarted": restart_broker,
    "broker_killed": kill_broker,
    "broker_emptied": empty_broker,
    "link_cut": cut_link(60),
}


def leave_site(rig: Rig, messages: int, rate: float = 500.0) -> Account:
    """A job moves off a site that is cut off, and runs there until the site comes back.

    The processes of the site are paused, and respond neither to SpecK nor to brokers.
    Then another job does the same, with the broker from which it reads (:func:`leave_with_broker`).
    """
    checkpoints = {"execution.checkpointing.dir": rig.flink.cluster.checkpoints.as_uri()}
    far = FlinkServer(rig.directory / f"far-{time.monotonic_ns()}", conf=checkpoints, small=True)
    way = CuttableRelay(far.ports[0])
    with far, way:
        there = f"http://127.0.0.1:{way.port}/"

        def chain(engine: str) -> str:
            edge, middle = rig.edge.address, (rig.link.address, rig.middle.topic(3))
            count = (FLINK_CODE, "io.speck.flink.jobs.CountByKey")
            first = job("forward-3", rig.spark.address, (edge, "in/3"), middle, (SPARK_CODE, "upper"))
            return f"jobs:\n{first}" + job("count-3", engine, middle, (edge, "out/3"), count)

        rig.apply(chain(there), "far")
        before = len(rig.counts)
        with rig.load(messages, rate, ["in/3"]) as load:
            with load.held_at(0.4):
                await_that(lambda: len(rig.counts), lambda count: count > before)
            far.freeze()
            way.shut()
            before_move = len(rig.counts)
            rig.apply(chain(rig.flink.address), "far", [there])
            (abandoned,) = rig.coordinator.store.abandoned_attempts()
            await_that(lambda: len(rig.counts), lambda count: count > before_move)
            far.thaw()
            way.open()
            await_that(lambda: far_states(far), lambda states: states == {"FAILED"})
            load.finish()
            rig.await_arrivals(load)
            account = rig.counts.account(load.texts)
        rig.apply(chain(rig.flink.address), "far")
        if copies := rig.coordinator.store.abandoned_attempts():
            raise RuntimeError(f"still abandoned: {copies}")
        if states := _states_of(rig, far, abandoned.attempt.id):
            raise RuntimeError(f"unused states remain: {states}")
        rig.delete("far")
        leave_with_broker(rig, far, way)
        return account


def leave_with_broker(rig: Rig, far: FlinkServer, way: CuttableRelay) -> None:
    """A job leaves a site that is gone with the broker from which it reads; the broker comes back first.

    What waits there is given up, so nothing is counted.  Raises :class:`RuntimeError` when something is left.
    """
    there = f"http://127.0.0.1:{way.port}/"
    directory = rig.directory / f"corner-{time.monotonic_ns()}"
    with MosquittoServer(directory) as corner, CuttableRelay(corner.port) as wire:

        def alone(engine: str, source: str) -> str:
            count = (FLINK_CODE, "io.speck.flink.jobs.CountByKey")
            return "jobs:\n" + job("count-5", engine, (source, "in/5"), (rig.edge.address, "out/5"), count)

        rig.apply(alone(there, wire.address), "alone")
        _await_counted(rig, corner, "before")
        far.freeze()
        way.shut()
        wire.shut()
        rig.apply(alone(rig.flink.address, rig.edge.address), "alone", [there, wire.address])
        _await_counted(rig, rig.edge, "meanwhile")
        (session,) = rig.coordinator.store.abandoned_sessions()
        far.thaw()
        wire.open()
        reaper = rig.coordinator.reaper
        reaper.reap()
        await_that(lambda: far_states(far), lambda states: states == {"FAILED"})
        reaper.reap()
        if MqttBroker(corner.address, Inventory()).session_exists(session.name):
            raise RuntimeError(f"session {session.name} still exists")
        way.open()
        await_that(lambda: _abandoned_after(reaper.reap, rig), lambda abandoned: abandoned == [])
        rig.delete("alone")


def _await_counted(rig: Rig, broker: MosquittoServer, text: str) -> None:
    """Send a text, and wait until it was counted."""
    before, client = len(rig.counts), paho_client(broker)
    client.publish("in/5", f"{text}-{time.monotonic_ns()}", 1).wait_for_publish(60)
    await_that(lambda: len(rig.counts), lambda count: count > before)
    client.disconnect()
    client.loop_stop()


def _abandoned_after(reap: Callable[[], object], rig: Rig) -> list[object]:
    reap()
    return [*rig.coordinator.store.abandoned_attempts(), *rig.coordinator.store.abandoned_sessions()]


def _states_of(rig: Rig, far: FlinkServer, attempt: str) -> list[str]:
    """The checkpoints and savepoints of an attempt at the far site, without the start of its successor."""
    checkpoints = (rig.flink.cluster.checkpoints / attempt).glob("chk-*/_metadata")
    savepoints = far.cluster.savepoints.glob(f"*/{attempt}/*/_metadata")
    found = {f"file:{each.parent}" for each in (*checkpoints, *savepoints)}
    (now,) = rig.coordinator.store.attempts("count-3")
    return sorted(found - {now.attempt.state.location if now.attempt.state else ""})


def kill_worker(rig: Rig, messages: int, rate: float = 500.0) -> Account:
    """SIGKILL of the Spark worker that has a job's driver and executor; another worker is there."""
    cluster = rig.standalone
    edge, middle = rig.edge.address, rig.link.address
    count = (FLINK_CODE, "io.speck.flink.jobs.CountByKey")
    chain = (
        "jobs:\n"
        + job("forward-4", cluster.address, (edge, "in/4"), (middle, "mid/4"), (SPARK_CODE, "upper"))
        + job("count-4", rig.flink.address, (middle, "mid/4"), (edge, "out/4"), count)
    )
    with cluster:
        rig.apply(chain, "worker")
        before = len(rig.counts)
        with rig.load(messages, rate, ["in/4"]) as load:
            with load.held_at(0.4):
                await_that(lambda: len(rig.counts), lambda count: count > before)
            cluster.add_worker("second")
            await_that(lambda: cluster.workers(), lambda workers: workers == 2)
            cluster.kill_first_worker()
            load.finish()
            rig.await_arrivals(load)
            account = rig.counts.account(load.texts)
        rig.delete("worker")
        return account


def far_states(server: FlinkServer) -> set[str]:
    """The states of the jobs that a cluster knows."""
    answer = requests.get(f"{server.address}jobs/overview", timeout=30)
    return {each["state"] for each in answer.json()["jobs"]}


class Trials:
    """The trials of some faults that a log lacks, until the time is over.

    ``rounds`` and ``messages`` are those of each fault; ``share``: see :func:`.kinds.kinds`.
    """

    def __init__(self, rounds: int, messages: int, share: float = 1.0, broker: str = "mqtt") -> None:
        self._rounds, self._messages, self._share, self._broker = rounds, messages, share, broker
        self.log = RoundLog()
        self.end = math.inf  # s of the monotonic clock, after which no trial begins

    def measure(self, names: Sequence[str]) -> dict[str, Result]:
        """The results of some faults, each summed over its rounds."""
        of_rig = [each for each in self._missing(names) if each[1] not in KINDS]
        if of_rig:
            with (
                tempfile.TemporaryDirectory(prefix="speck-faults-") as directory,
                Rig(Path(directory), middle=self._broker) as rig,
            ):
                for number, name in of_rig:
                    self._try(number, name, lambda name=name: _trial(rig, name, self._messages))  # type: ignore[misc]
        for number, name in self._missing(name for name in names if name in KINDS):
            self._try(number, name, lambda name=name: measure_kind(name, self._messages, self._share))  # type: ignore[misc]
        return {name: total for name in names if (total := self._total(name)) is not None}

    def _missing(self, names: Iterable[str]) -> list[tuple[int, str]]:
        """The trials to be made, each the number of its round and its fault."""
        made = {name: len(self._made(name)) for name in names}
        return [(number, name) for number in range(self._rounds) for name in made if number >= made[name]]

    def _made(self, name: str) -> list[Result]:
        own = {"broker": self._broker, "fault": name}
        return [Result.of(each) for each in self.log.rounds if own.items() <= each.items()]

    def _total(self, name: str) -> Result | None:
        return reduce(add, made) if (made := self._made(name)) else None

    def _try(self, number: int, name: str, trial: Callable[[], Result]) -> None:
        if time.monotonic() > self.end:
            return
        found = _tried(trial).to_dict()
        print(f"round {number + 1}: {name}: {found}", file=sys.stderr, flush=True)
        self.log.add({"broker": self._broker, "fault": name} | found)


def _tried(trial: Callable[[], Result]) -> Result:
    """The result of a trial; one that ends with an error leaves the others their figures."""
    errors: list[str] = []
    found: Result | None = None
    with noted(errors):
        found = trial()
    return found or Result(Account(0, 0, 0), "; ".join(errors))


def _trial(rig: Rig, name: str, messages: int) -> Result:
    if name == LEFT:
        found, reported = give_up(rig)
        error = "" if reported == found.lost else f"{reported} are reported as lost"
        return Result(found, error, LEFT_ADMITTED, reported)
    if name == EDGE:
        return Result(kill_edge_broker(messages))
    if name in logs.FAULTS:
        return logs.measure(rig, name, messages)
    whole = {"site_left": leave_site, "worker_killed": kill_worker}.get(name)
    return Result(whole(rig, messages) if whole else rig.trial(FAULTS[name], messages))


def figures(totals: Mapping[str, Result]) -> dict[str, int]:
    """The figures by name."""
    return {
        f"{name}_{figure}": getattr(result.account, figure)
        for name, result in totals.items()
        for figure in ("messages", "lost", "doubled")
    }


EDGE = "edge_broker_killed"
LEFT = "session_left"
LEFT_ADMITTED = "what `--give-up` or `--leave-behind` discards, with its number or place"
ALL = (*FAULTS, "site_left", "worker_killed", LEFT, EDGE, *KINDS)
# Writers do not send again what a Kafka without replicas has lost; other faults have brokers of their own.
OF_KAFKA = (*(name for name in FAULTS if name != "broker_emptied"), *logs.FAULTS)


def main(arguments: list[str] | None = None) -> int:
    """Run the trials and print their figures; exits 1 when anything was lost or doubled."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=10_000, help="of each trial")
    parser.add_argument("--fault", action="append", help="only this one (may be repeated)")
    parser.add_argument("--broker", choices=tuple(MIDDLES), default="mqtt", help="the one between the jobs")
    parser.add_argument("--share", type=float, default=1.0, help="of the seconds of the longer kinds")
    parser.add_argument("--log", type=Path, metavar="FILE", help="keep the trials here, and resume from it")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no trial after that time")
    add_output_options(parser)
    options = parser.parse_args(arguments)
    known = OF_KAFKA if options.broker == "kafka" else ALL
    names = options.fault or known
    if unknown := [each for each in names if each not in known]:
        parser.error(
            f"--fault {unknown[0]!r} with --broker {options.broker} (expected one of {', '.join(known)})"
        )
    trials = Trials(options.rounds, options.messages, options.share, options.broker)
    trials.log, trials.end = RoundLog(options.log), time.monotonic() + 60 * options.minutes
    results = trials.measure(names)
    found = figures(results)
    by_fault = {name: each.to_dict() for name, each in results.items()}
    if not published(options, "promises-faults", found | {"faults": by_fault}):
        for name, value in found.items():
            print(f"{name:36} {value:>9}")
        for name, each in results.items():
            if each.admitted and (each.account.lost or each.account.doubled):
                print(f"{name}: {each.admitted}")
    return 1 if any(each.broken for name, each in results.items() if name != EDGE) else 0
