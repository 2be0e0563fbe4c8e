"""The network between a primary, its standby and the witness cut in every way; real processes, real sockets.

While it is cut, a client with both addresses and one for each server change what is deployed.  Whatever a
server has accepted must be there at the end, no two servers may be the primary at one time, and the primary
must be the one that docs/standby.md says.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from speck.client import Client
from speck.errors import ServerError
from speck.testing.waiting import eventually
from testbed.results import add_output_options, published
from testbed.servers.cable import Ends
from testbed.servers.pair import ServedPair
from testbed.servers.rest import write_work, yaml_of

PATIENCE = 180.0  # s, on a busy machine
WAIT = 5.0  # s, of a client for the server that it asks
PAUSE = 0.2  # s between two changes of one client
EFFECT = 12.0  # s, for a cut: a standby takes over after silence of 5
LONGEST = 60.0  # s, for it on a busy machine

_SERVERS, _AT_A, _AT_B = frozenset("ab"), frozenset(("a", "witness")), frozenset(("b", "witness"))
# By the cables that are cut, with a as the primary and b in step: who is the primary then.
CUTS: dict[str, tuple[tuple[Ends, ...], str | None]] = {
    "servers": ((_SERVERS,), "a"),
    "primary and witness": ((_AT_A,), "a"),
    "standby and witness": ((_AT_B,), "a"),
    "primary alone": ((_SERVERS, _AT_A), "b"),
    "standby alone": ((_SERVERS, _AT_B), "a"),
    "witness alone": ((_AT_A, _AT_B), "a"),
    "all": ((_SERVERS, _AT_A, _AT_B), None),
}


@dataclass(frozen=True)
class Case:
    """Cuts one after the other, by their names; the second begins when the first has had its effect."""

    cuts: tuple[str, ...]
    expected: str | None  # the primary at the end; None: there is none

    @property
    def name(self) -> str:
        """The cuts in words."""
        return ", then ".join(self.cuts)


def cases() -> list[Case]:
    """Each cut alone, and each one that another one follows which contains it."""
    single = [Case((name,), expected) for name, (_, expected) in CUTS.items()]
    return [*single, *(Case(pair, _after(*pair)) for pair in combinations(CUTS, 2) if _contains(*pair))]


def _contains(first: str, second: str) -> bool:
    return set(CUTS[first][0]) < set(CUTS[second][0])


def _after(first: str, second: str) -> str | None:
    """The primary after two cuts.

    A standby that the primary has lost first is not in step, as the witness knows: it takes over no more.
    """
    expected = CUTS[second][1]
    return None if expected == "b" and _SERVERS in CUTS[first][0] else expected


@dataclass(frozen=True)
class Accepted:
    """A change that a server has accepted, and the times of its request, s."""

    name: str
    begun: float
    ended: float


@dataclass
class Writer:
    """Applies compositions, each with one job, until :meth:`end`, and notes which were accepted."""

    name: str
    urls: tuple[str, ...]
    accepted: list[Accepted] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Begin no further one, and wait."""
        self._ended.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        number = 0
        while not self._ended.wait(PAUSE):
            number += 1
            name, begun = f"{self.name}{number}", time.monotonic()
            client = Client(",".join(self.urls))
            client.read_timeout = WAIT
            with suppress(ServerError):
                client.apply(yaml_of(f"job-{name} in-{name} out-{name}").encode(), name)
                self.accepted.append(Accepted(name, begun, time.monotonic()))


def one_case(directory: Path, case: Case, effect: float = EFFECT) -> list[str]:
    """Cut as in a case, each time for ``effect`` s, mend, and return what is wrong."""
    write_work(directory)
    with ServedPair(directory, module="testbed.servers.double_serve") as pair:
        first = tended(pair, pair.in_sync)
        if first != "a":
            return [f"the primary is {first} at the beginning"]
        both = pair.url("a"), pair.url("b")
        writers = [Writer(name, urls) for name, urls in (("x", both), ("y", both[:1]), ("z", both[1:]))]
        for cut in case.cuts:
            pair.cables.cut(*CUTS[cut][0])
            hold(pair, effect)
        primary = _settled(pair, case.expected)
        mended = time.monotonic()
        pair.cables.mend()
        last = tended(pair, pair.in_sync)
        for each in writers:
            each.end()
        found = Client(pair.url(last)).compositions()
        return list(_faults(case, primary, writers, mended, {each["name"] for each in found}))


def _faults(
    case: Case, primary: str | None, writers: Sequence[Writer], mended: float, there: Set[str]
) -> Iterator[str]:
    """``there`` are the compositions at the end, ``mended`` is the time when the cables were whole again."""
    if primary != case.expected:
        yield f"the primary is {primary}, not {case.expected}"
    accepted = {each.name for writer in writers for each in writer.accepted}
    if lost := accepted - there:
        yield f"{len(lost)} of {len(accepted)} accepted changes are forgotten, as {min(lost)}"
    both, at_a, at_b = writers
    # During the cuts, the role goes from a to b only.
    taken_over = min((each.ended for each in at_b.accepted), default=mended)
    if late := [each.name for each in at_a.accepted if taken_over < each.begun and each.ended < mended]:
        yield f"a has accepted {late[0]} after b was the primary"
    if not both.accepted:
        yield "the client with both addresses has changed nothing"


def hold(pair: ServedPair, seconds: float) -> None:
    """Wait, while servers that end are started again."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pair.tend()
        time.sleep(0.1)


def _settled(pair: ServedPair, expected: str | None) -> str | None:
    """The primary, once it is the expected one; or after a time another one."""
    until = time.monotonic() + LONGEST
    while (found := pair.primary()) != expected and time.monotonic() < until:
        hold(pair, 1.0)
    return found


def tended(pair: ServedPair, found: Callable[[], str | None]) -> str:
    """The first answer that is not empty, while servers that end are started again."""

    def look() -> str | None:
        pair.tend()
        return found()

    name = eventually(look, bool, PATIENCE)
    assert name
    return name


def main(arguments: Sequence[str]) -> int:
    """Try all cases, or those whose names contain a text; the result is 1 when something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises partitions", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose names contain this")
    parser.add_argument("--effect", type=float, default=EFFECT, metavar="S", help="wait so long after a cut")
    add_output_options(parser)
    options = parser.parse_args(arguments)
    found = dict[str, str]()
    for case in cases():
        if options.only not in case.name:
            continue
        with TemporaryDirectory() as name:
            faults = one_case(Path(name), case, options.effect)
        found[case.name] = "; ".join(faults) or "right"
        print(f"{case.name}: {found[case.name]}", file=sys.stderr, flush=True)
    result = {"cases": len(found), "wrong": sum(each != "right" for each in found.values()), "found": found}
    if not published(options, "promises-partitions", result):
        print(yaml.safe_dump(result, sort_keys=False))
    return 1 if result["wrong"] else 0
