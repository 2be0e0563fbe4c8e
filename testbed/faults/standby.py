"""The primary of a pair killed, or cut off, at every point of every kind of change; its standby takes over.

Engines and brokers are in memory.  A primary that is cut off runs on and reaches all of them, as one behind a
broken link or one that was suspended does; it must not change anything once the standby has taken over.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from speck.coordinator import Coordinator, build
from speck.core.job import Composition
from speck.core.settings import Settings
from speck.errors import SpeckError
from speck.standby.messages import NoAnswer, Refused
from speck.store import Store
from testbed.benches import user
from testbed.benches.jobs_by_hand import chain, composition, write_code
from testbed.benches.pair import InMemoryPair
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from testbed.faults.killed_coordinator import ShortLife
from testbed.results import add_output_options, published

A, B = chain("a", "b")
NOTHING = composition(A)
CHANGES: dict[str, tuple[Composition, Composition]] = {
    "start": (composition(), composition(A, B)),
    "update": (composition(A, B), composition(A, replace(B, arguments={"size": "2"}))),
    "move": (composition(A, B), composition(A, replace(B, spe_address="sc://e2:1"))),
    "rewire": (
        composition(A, B),
        composition(replace(A, sink_topic="other"), replace(B, source_topic="other")),
    ),
    "delete": (composition(A, B), composition(A)),
}
ENDS = ("killed", "cut off")


@dataclass(frozen=True)
class TakeOverRound:
    """The end of a primary at a point of a change, and everything wrong after it."""

    change: str
    end: str
    moment: int
    reached: bool
    wrong: tuple[str, ...]


class Doomed(ShortLife):
    """A primary that is killed or cut off at a moment counted from now, wires to its pair included."""

    def __init__(self, world: World, pair: InMemoryPair, end: str) -> None:
        super().__init__(world, pair.directory / "primary")
        self.pair, self._end = pair, end
        self.is_cut = False
        self.late: list[str] = []  # the calls after it was cut off
        for wire in (pair.to_standby, pair.to_witness):
            wire.passed = self._passed

    @property
    def ended(self) -> bool:
        """True after that moment."""
        return self.dead or self.is_cut

    def _reach(self, method: str, *, after: bool) -> None:
        if self.is_cut and after == (method == "write"):  # a write counts once it is made
            self.late.append(method)
        if not self.ended and self._ends(method, after):
            self.dead, self.is_cut = self._end == "killed", self._end != "killed"
            if self.is_cut:
                self.pair.to_standby.broken = self.pair.to_witness.broken = True
                self.pair.clock.now += self.pair.timing.silence + 0.1
        if self.dead:
            raise self.error

    def _passed(self, operation: str) -> None:
        if self.is_cut:
            return
        try:
            self._reach(operation, after=False)
        except SpeckError as error:
            raise NoAnswer(str(error)) from error


def one_round(directory: Path, change: str, end: str, moment: int) -> TakeOverRound:
    """End the primary at the ``moment`` of a change, let the standby take over, and look."""
    before, after = CHANGES[change]
    world, pair = World(), InMemoryPair(directory)
    write_code(directory)
    life = Doomed(world, pair, end)
    with _served(life, pair.store, directory, pair) as old:
        _apply(old, before)
        revision = _revision(pair.store, after.name)
        pair.join()
        life.writes(pair.store.database)
        life.moments = moment
        with suppress(SpeckError):  # it ended before the operation had begun
            _apply(old, after)
        if not life.ended:
            return TakeOverRound(change, end, moment, reached=False, wrong=())
        wrong = list(_taken_over(life, directory, after, revision, old if life.is_cut else None))
    return TakeOverRound(change, end, moment, reached=True, wrong=tuple(wrong))


def _taken_over(
    life: Doomed, directory: Path, desired: Composition, revision: int, old: Coordinator | None
) -> Iterator[str]:
    """Faults after a take-over; ``revision`` is that before it, ``old`` the former primary if that runs."""
    pair, world = life.pair, life.world
    if old is None:
        pair.clock.now += pair.timing.silence + 0.1
    try:
        store = pair.take_over()
    except Refused as error:
        yield f"the standby does not take over: {error}"
        return
    with store, _served(world, store, directory, None) as new:
        if _revision(store, desired.name) == revision:  # it was not accepted
            _apply(new, desired)
        new.reconciler.round()
        if old is not None:
            life.late.clear()
            with suppress(SpeckError):
                old.reconciler.round()
            with suppress(SpeckError):
                _apply(old, NOTHING)
            if life.late:
                yield f"the former primary has called {life.late}"
        new.reconciler.round()
        running = sorted((each.job.job_name, each.job.spe_address) for each in world.running())
        expected = sorted((name, job.spe_address) for name, job in desired.jobs.items())
        if running != expected:
            yield f"{running} run, not {expected}"
        sessions = sorted(topic for each in world.brokers.values() for topic in each.sessions.values())
        if sessions != sorted(job.source_topic for job in desired.jobs.values()):
            yield f"the broker has sessions of {sessions}"
        yield from (str(each) for each in world.violations)


def _revision(store: Store, name: str) -> int:
    """The last revision of a composition; 0 without one."""
    head = store.head(name)
    return 0 if head is None else head.revision


@contextmanager
def _served(
    world: World | Doomed, store: Store, directory: Path, pair: InMemoryPair | None
) -> Iterator[Coordinator]:
    settings = Settings(roots=(directory,), period=0)
    primary = None if pair is None else pair.primary
    coordinator = build(store, double_kinds(world), settings=settings, primary=primary).coordinator  # type: ignore[arg-type]
    try:
        coordinator.start()
        for operation in coordinator.operations.recent():
            operation.wait(30)
        yield coordinator
    finally:
        with suppress(SpeckError):
            coordinator.close(5)
        if pair is not None:
            pair.close()


def _apply(coordinator: Coordinator, desired: Composition) -> None:
    operation, _ = user.apply(coordinator, desired)
    operation.wait(30)


def rounds(directory: Path, changes: Iterable[str], every: int, first: int = 0) -> Iterator[TakeOverRound]:
    """A round for each ``every``-th moment of each change and end, from the ``first`` on."""
    for change in changes:
        for end in ENDS:
            moment = first
            while True:
                place = directory / f"{change}-{end}-{moment}".replace(" ", "-")
                place.mkdir()
                found = one_round(place, change, end, moment)
                if not found.reached:
                    break
                yield found
                moment += every


def main(arguments: Sequence[str]) -> int:
    """End the primary at every point; the result is 1 when something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises standby", description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="only every Nth point (default 1)", metavar="N")
    parser.add_argument("--first", type=int, default=0, help="the first point (default 0)")
    add_output_options(parser)
    options = parser.parse_args(arguments)
    found: list[TakeOverRound] = []
    with TemporaryDirectory() as name:
        for each in rounds(Path(name), CHANGES, options.every, options.first):
            found.append(each)
            text = "; ".join(each.wrong) or "right"
            print(f"{each.change} {each.end} {each.moment}: {text}", file=sys.stderr, flush=True)
    result = {
        "points": len(found),
        "wrong": sum(bool(each.wrong) for each in found),
        "changes": {
            change: {end: sum(each.change == change and each.end == end for each in found) for end in ENDS}
            for change in CHANGES
        },
    }
    if not published(options, "promises-standby", result):
        print(yaml.safe_dump(result, sort_keys=False))
    return 1 if result["wrong"] else 0
