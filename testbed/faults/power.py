"""Messages lost and doubled when a site loses power: its engine and its broker are killed together.

::

    python -m benchmarks.promises power --rounds 20 --messages 6000 --json

Two chains of jobs end at the site.  The first job of the one runs there as well and writes to the broker of
its own site (``inside``); that of the other runs elsewhere (``outside``)::

    in/1 -> forward (site)      -> mid/1 (broker of the site) -> count (site) -> out/1
    in/2 -> forward (elsewhere) -> mid/2 (broker of the site) -> count (site) -> out/2

In the midst of the load, at a moment that differs from round to round, engine and broker end by SIGKILL;
they are back after some seconds, and the reconciler starts the jobs again.  Once with each engine at
the site, and with each way in which Mosquitto saves: as shipped (every 5 s) and as by its default (every
30 minutes, so that it comes back with nothing).  Figures of each: ``messages``, ``lost``, ``doubled``,
summed over the rounds; the aim is 0 for both.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from testbed.benches.job_text import FLINK_CODE, SPARK_CODE, job
from testbed.faults.rig import Account, Load, Rig
from testbed.results import add_output_options, published
from testbed.servers.base import RealServer
from testbed.waiting import await_that

ENGINES = ("spark", "flink")
SAVING: Mapping[str, str] = {"shipped": "autosave_interval 5", "default": "autosave_interval 1800"}
SIDES = ("inside", "outside")
DARK = (1.0, 6.0)  # s without power
# The reader commits less often than its writer: until then, messages are at the broker alone.  On Flink all
# jobs commit every 3 s.
LAG = "2 seconds"
PATIENCE = 240.0  # s without an arrival: the back-off of the reconciler grows to a minute
RATE = 500.0  # messages/s, over both chains

_ENTRIES = {
    "spark": (SPARK_CODE, "upper", "count"),
    "flink": (FLINK_CODE, "io.speck.flink.jobs.Forward", "io.speck.flink.jobs.CountByKey"),
}


class SiteRig(Rig):
    """A rig whose middle broker and ``engine`` are one site."""

    # An engine that starts on a busy machine may not answer an apply, which then leaves its jobs as they are.
    period = 2

    def __init__(self, directory: Path, engine: str, settings: str) -> None:
        """Prepare the servers; ``settings`` are lines of the configuration of the site's broker."""
        super().__init__(directory, settings)
        self._engine = engine

    def composition(self) -> str:
        """The two chains."""
        elsewhere = next(each for each in ENGINES if each != self._engine)
        return "jobs:\n" + self._chain(1, self._engine) + self._chain(2, elsewhere)

    def _chain(self, number: int, first: str) -> str:
        addresses = {"spark": self.spark.address, "flink": self.flink.address}
        edge, site = self.edge.address, self.link.address
        code, forward, _ = _ENTRIES[first]
        last_code, _, count = _ENTRIES[self._engine]
        begin, middle, end = f"in/{number}", f"mid/{number}", f"out/{number}"
        writer = job(f"forward-{number}", addresses[first], (edge, begin), (site, middle), (code, forward))
        reader = job(
            f"count-{number}", addresses[self._engine], (site, middle), (edge, end), (last_code, count)
        )
        return writer + (
            reader.replace("}\n", f", trigger: {LAG}}}\n") if self._engine == "spark" else reader
        )

    def lose_power(self, seconds: float) -> None:
        """Kill engine and broker of the site at once; they restart after this number of seconds.

        The apply ends the back-off of jobs that a former round has killed; the reconciler does the rest.
        """
        site: list[RealServer] = [self.spark if self._engine == "spark" else self.flink, self.middle]
        _at_once(server.kill for server in site)
        time.sleep(seconds)
        _at_once(server.start for server in site)
        with suppress(RuntimeError):  # an action may have to wait
            self.apply()


def _at_once(calls: Iterator[object] | Sequence[object]) -> None:
    threads = [threading.Thread(target=call) for call in calls]  # type: ignore[arg-type]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def accounts(rig: Rig, load: Load) -> dict[str, Account]:
    """The outcome by the side on which the first job ran."""
    return {side: rig.counts.account(load.texts[number :: len(SIDES)]) for number, side in enumerate(SIDES)}


def cut(rig: SiteRig, messages: int, moment: random.Random) -> dict[str, Account]:
    """Send messages, cut the power in the midst of them, and count what arrives."""
    before = len(rig.counts)
    with rig.load(messages, RATE) as load:
        with load.held_at(0.2):
            await_that(lambda: len(rig.counts), lambda count: count > before + messages // 10)
        load.await_sent(moment.uniform(0.3, 0.6))
        rig.lose_power(moment.uniform(*DARK))
        load.finish()
        rig.await_arrivals(load)
        return accounts(rig, load)


@contextmanager
def site_rig(engine: str, settings: str) -> Iterator[SiteRig]:
    """A rig in a directory of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="speck-power-") as directory,
        SiteRig(Path(directory), engine, settings) as rig,
    ):
        yield rig


def measure(engine: str, saving: str, rounds: int, messages: int, seed: int) -> dict[str, Account]:
    """The sums over some rounds by side."""
    totals = {side: Account(0, 0, 0) for side in SIDES}
    moment = random.Random(seed)
    with site_rig(engine, SAVING[saving]) as rig:
        for number in range(rounds):
            found = cut(rig, messages, moment)
            print(f"{engine}, {saving}, round {number + 1}: {found}", file=sys.stderr, flush=True)
            for side, account in found.items():
                total = totals[side]
                totals[side] = Account(
                    total.messages + account.messages,
                    total.lost + account.lost,
                    total.doubled + account.doubled,
                )
    return totals


def main(arguments: list[str] | None = None) -> int:
    """Run the trials and print their figures; exits 1 when anything was lost or doubled."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises power", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--messages", type=int, default=6_000, help="of each round, over both chains")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="at the site (may be repeated)")
    parser.add_argument("--saving", action="append", choices=sorted(SAVING), help="(may be repeated)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the cuts")
    add_output_options(parser)
    options = parser.parse_args(arguments)
    cells = [
        {"engine": engine, "saving": saving, "writer": side, **asdict(account)}
        for engine in options.engine or ENGINES
        for saving in options.saving or SAVING
        for side, account in measure(engine, saving, options.rounds, options.messages, options.seed).items()
    ]
    if not published(options, "promises-power", {"cells": cells}):
        for cell in cells:
            print(*(f"{value:>9}" for value in cell.values()))
    return 1 if any(cell["lost"] or cell["doubled"] for cell in cells) else 0
