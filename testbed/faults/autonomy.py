"""A site that loses power: its engine, its broker and its agent are killed, whatever else happens meanwhile.

::

    python -m benchmarks.promises autonomy --cells 'stopped/*/flink/*' --rounds 20 --messages 6000 --json

The jobs are those of :mod:`testbed.faults.lone_site`.  In the midst of the load, at a moment that differs
from round to round, all of the site ends by SIGKILL, and is back after some seconds.  A cell is named
``COORDINATOR/UPLINK/ENGINE/MEANWHILE``:

- the coordinator stays in ``reach``, or is ``stopped`` before the power is back, until all messages arrived;
- the uplink is ``up``, or ``down`` from the cut until some seconds after the engine is back;
- the engine is ``flink`` or ``connect``, in one cell ``flink-small``;
- while the site is dark, ``nothing`` happens, or ``count-2`` is ``moved`` away (``--leave-behind`` of the
  engine), ``count-3`` is ``deleted``, ``count-2`` is ``edited``, or the site is ``left`` with its broker; or
  ``forward-1`` is moved, the ``writer`` to the site's own broker, while its reader stays.

In ``reach/up/flink/nothing/engine`` the engine alone is killed.

Figures: ``messages``, ``lost`` and ``doubled`` by chain (``inside``: over the site's broker, ``outside``:
from elsewhere to elsewhere); ``reported`` is the number of messages that SpecK reports as lost by
``--leave-behind``, which is an upper bound, and ``lost_beyond_reported`` that of lost ones beyond it;
``first`` is the time (s) from the moment at which power and uplink are back to the first output of each
chain, the start of the engine included, median and maximum; ``ended`` that until the agent has ended the old
copies of moved and deleted jobs, counted from the moment at which engine and uplink work, or from the start
of the coordinator for a site that was left; ``attempts`` is the highest number of new attempts of a job in a
round, which is 0 where the agent alone has started the jobs again.

Of a round that is broken (messages lost beyond those reported, or doubled), the positions of the missing
messages in their chain are printed, once more when all jobs run in their first form again (what arrived by
then was late, and not lost), and the files of all servers are kept in a directory that is named.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from itertools import product
from pathlib import Path
from typing import Any

from testbed.faults.evidence import answers, missing, preserve
from testbed.faults.lone_site import BASE, ENGINES, ChainsForm, LoneSite, lone_site
from testbed.faults.rig import Account, Counts, Load
from testbed.faults.round_log import RoundLog
from testbed.results import add_output_options, published
from testbed.waiting import await_that

CHAINS = ("inside", "outside")
CHANGES = ("nothing", "moved", "deleted", "edited", "left")
DARK = (1.0, 6.0)  # s without power
CUT_OFF = (5.0, 15.0)  # s without the uplink, after the engine is back
PATIENCE = 120.0  # s without an arrival
RATE = 400.0  # messages/s, over both chains
ASKING = 10.0  # s, for an operation on a site that does not answer

_ALL = ("forward-1", "count-1", "count-2", "count-3")
_FORMS: Mapping[str, ChainsForm] = {
    "nothing": BASE,
    "moved": ChainsForm(at_b=("count-2",)),
    "writer": ChainsForm(at_b=("forward-1",)),
    "deleted": ChainsForm(without=("count-3",)),
    "edited": ChainsForm(edited=("count-2",)),
    "left": ChainsForm(at_b=_ALL),
}
_OLD: Mapping[str, Sequence[str]] = {
    "moved": ("count-2",),
    "writer": ("forward-1",),
    "deleted": ("count-3",),
    "left": _ALL,
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of circumstances.  ``whole``: all of the site is killed, and not the engine alone."""

    coordinator: str
    uplink: str
    engine: str
    change: str
    whole: bool = True

    @property
    def name(self) -> str:
        """The name on the command line."""
        parts = (self.coordinator, self.uplink, self.engine, self.change)
        return "/".join(parts if self.whole else (*parts, "engine"))


MATRIX: Mapping[str, Cell] = {
    each.name: each
    for each in (
        *(
            Cell(*parts)
            for parts in product(("stopped", "reach"), ("up", "down"), ("flink", "connect"), CHANGES)
        ),
        # The new copy of the writer waits for the site's broker, and is started by the coordinator then.
        *(Cell("reach", "up", engine, "writer") for engine in ("flink", "connect")),
        Cell("reach", "up", "flink", "nothing", whole=False),
        Cell("stopped", "up", "flink-small", "nothing"),
    )
}
ALONE = MATRIX["stopped/up/flink/nothing"]
SMALL = MATRIX["stopped/up/flink-small/nothing"]


@dataclass(frozen=True)
class Cut:
    """The outcome of one loss of power: accounts by chain, and times, s.

    ``first``: to the first output of each chain that lacked some; ``ended``: until the old copies ended, if
    there are any.  ``reported`` is the number of messages that SpecK reports as lost.  ``attempts``: the most
    new ones of a job.
    """

    accounts: dict[str, Account]
    first: dict[str, float]
    ended: float | None = None
    reported: int = 0
    attempts: int = 0

    @property
    def broken(self) -> bool:
        """True as of :func:`is_broken`."""
        return any(map(is_broken, figures("", [self])))

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Cut:
        """The inverse of :func:`dataclasses.asdict`."""
        accounts = {chain: Account(**each) for chain, each in data["accounts"].items()}
        return cls(**{**data, "accounts": accounts})


def chosen(patterns: Iterable[str]) -> list[Cell]:
    """The cells whose names fit one of these patterns, all for none.  Raises :class:`ValueError`."""
    given = list(patterns)
    for each in given:
        if not any(fnmatch(name, each) for name in MATRIX):
            raise ValueError(f"cell {each!r} fits none (expected one as {ALONE.name!r}, * for any part)")
    return [cell for name, cell in MATRIX.items() if not given or any(fnmatch(name, each) for each in given)]


class CutRound:
    """One loss of power at a site whose jobs run."""

    def __init__(self, site: LoneSite, cell: Cell, moment: random.Random) -> None:
        self.site, self.cell, self.moment = site, cell, moment
        self.form = _FORMS[cell.change]
        self.before = self._attempts()
        self.old = {name: site.records()[name].attempt.number for name in _OLD.get(cell.change, ())}
        self.texts: Sequence[str] = ()  # of the messages that were sent
        self.sent_at_cut = 0

    def run(self, prefix: str, messages: int) -> Cut:
        """Send messages, cut the power in the midst of them, and count what arrives."""
        before = len(self.site.counts)
        load = Load(self.site.edge, prefix, messages, RATE, ("in/1", "in/2"))
        self.texts = load.texts
        try:
            with load.held_at(0.2):
                await_that(lambda: len(self.site.counts), lambda count: count > before + messages // 10)
            load.await_sent(self.moment.uniform(0.3, 0.6))
            self.sent_at_cut = load.sent
            left = self.cell.change == "left"
            with ThreadPoolExecutor(1) as watch:
                back, arriving = self._harm(watch, load)
                ended = self._ended(back) if self.old and not left else None
                first = arriving.result()
            load.finish()
            if left:  # the old copies run on until contact, and may have messages that no other copy gets
                contact = time.monotonic()
                self.site.start_coordinator()
                ended = self._ended(contact)
            _await_arrivals(self.site.counts, load)
            self.site.start_coordinator()
            accounts = _accounts(self.site.counts, load)
            new = max(number - self.before.get(name, number) for name, number in self._attempts().items())
            return Cut(accounts, first, ended, self._reported() if left else 0, new)
        finally:
            load.close()

    def missing(self) -> dict[str, str]:
        """The positions of the messages that have not arrived, by chain."""
        counts, count = self.site.counts, len(CHAINS)
        return {chain: missing(counts.of(self.texts[at::count])) for at, chain in enumerate(CHAINS)}

    def preserve(self, cut: Cut) -> Path:
        """Keep the files of all servers and the coordinator's view; returns their directory."""
        facts = {
            "cell": self.cell.name,
            "cut": asdict(cut),
            "sent_at_cut": self.sent_at_cut,
            "missing": self.missing(),
            **answers(self.site.client),
        }
        return preserve(self.site.directory, facts)

    def _harm(self, watch: Executor, load: Load) -> tuple[float, Future[dict[str, float]]]:
        """Cut power and uplink, and bring both back.

        Returns the moment at which all of the site runs, and the times of the first arrivals.
        """
        site, cell = self.site, self.cell
        site.lose_power(coordinator=cell.coordinator == "reach" or cell.change != "nothing", whole=cell.whole)
        if cell.uplink == "down":
            site.uplink.cut()
        dark = time.monotonic() + self.moment.uniform(*DARK)
        self._change()
        if cell.coordinator == "stopped":
            site.stop_coordinator()
        time.sleep(max(0.0, dark - time.monotonic()))
        if cell.uplink == "down":
            site.restore_power(whole=cell.whole)
            time.sleep(self.moment.uniform(*CUT_OFF))
            site.uplink.restore()
            return time.monotonic(), watch.submit(first_arrivals, site.counts, load)
        arriving = watch.submit(first_arrivals, site.counts, load)
        site.restore_power(whole=cell.whole)
        return time.monotonic(), arriving

    def _change(self) -> None:
        site, change = self.site, self.cell.change
        if change in ("moved", "writer", "left") and not site.other.pids:
            site.other.start()
            # Its connection is tried again within a second; until then its last failure is the answer.
            await_that(lambda: site.is_reached("B"), bool)
        behind = {"left": "A"}.get(change, site.server.address)
        if change in ("edited", "writer"):  # waits for the site
            site.begin(self.form, behind if change == "writer" else "", ASKING)
        elif change != "nothing":
            site.apply(self.form, leave_behind=behind)

    def _ended(self, since: float) -> float:
        """The time (s) until the agent has ended the old copies, at most PATIENCE."""

        def over() -> bool:
            found = self.site.records()
            return all(
                name not in found or found[name].attempt.number > number or found[name].phase.over
                for name, number in self.old.items()
            )

        while not over() and time.monotonic() - since < PATIENCE:
            time.sleep(0.05)
        return time.monotonic() - since

    def _reported(self) -> int:
        """The messages of the chains that SpecK reports as lost with the site's broker."""
        losses = self.site.client.job("count-1")["losses"]
        return sum(each["count"] for each in losses if each["kind"] == "lost")

    def _attempts(self) -> dict[str, int]:
        return {each["job_name"]: int(each["attempt"]) for each in self.site.client.jobs()}


def first_arrivals(counts: Counts, load: Load) -> dict[str, float]:
    """The time (s) from now to the first further arrival of each chain, at most PATIENCE.

    Without a chain of which all have arrived already.
    """
    begun, before = time.monotonic(), _accounts(counts, load)
    waiting, found = {chain for chain in CHAINS if before[chain].lost}, dict[str, float]()
    while waiting - found.keys() and time.monotonic() < begun + PATIENCE:
        time.sleep(0.05)
        for chain, account in _accounts(counts, load).items():
            if account.lost < before[chain].lost:
                found.setdefault(chain, time.monotonic() - begun)
    return {chain: round(found.get(chain, PATIENCE), 1) for chain in waiting}


def _accounts(counts: Counts, load: Load) -> dict[str, Account]:
    return {chain: counts.account(load.texts[number :: len(CHAINS)]) for number, chain in enumerate(CHAINS)}


def _await_arrivals(counts: Counts, load: Load) -> None:
    missing, since = len(load.texts), time.monotonic()
    while missing and time.monotonic() - since < PATIENCE:
        time.sleep(0.2)
        now = counts.account(load.texts).lost
        if now != missing:
            missing, since = now, time.monotonic()
    time.sleep(1)  # what comes once too often comes at once


def measure(cells: Sequence[Cell], log: CutLog, rounds: int, messages: int, seed: int) -> None:
    """Make the rounds of some cells that the log lacks, all cells of an engine on one site."""
    for engine in ENGINES:
        missing = [(cell, n) for cell in cells if cell.engine == engine for n in log.missing(cell, rounds)]
        if not missing:
            continue
        with lone_site(engine) as site:
            for cell, number in missing:
                moment = random.Random(f"{seed} {cell.name} {number}")
                trial = CutRound(site, cell, moment)
                found = trial.run(f"{cell.name}-{number}", messages)
                log.add(cell, found)
                if found.broken:
                    _tell(f"{cell.name}: missing {trial.missing()}; kept in {trial.preserve(found)}")
                await_that(site.is_reached, bool)
                site.apply(BASE)
                site.await_running()
                if found.broken:
                    _tell(f"{cell.name}: missing when all jobs run again {trial.missing()}")
                site.other.kill()


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class CutLog:
    """The rounds that were made, by cell; in a file they outlive an interruption."""

    def __init__(self, path: Path | None = None) -> None:
        self._log = RoundLog(path)
        self.cuts: dict[str, list[Cut]] = {}
        for each in self._log.rounds:
            self.cuts.setdefault(each["cell"], []).append(Cut.of(each["cut"]))

    def missing(self, cell: Cell, rounds: int) -> range:
        """The numbers of the rounds of a cell that are to be made."""
        return range(len(self.cuts.get(cell.name, ())), rounds)

    def add(self, cell: Cell, found: Cut) -> None:
        """Note a round."""
        self.cuts.setdefault(cell.name, []).append(found)
        line = {"cell": cell.name, "cut": asdict(found)}
        print(json.dumps(line), file=sys.stderr, flush=True)
        self._log.add(line)


def figures(name: str, cuts: Sequence[Cut]) -> Iterator[dict[str, object]]:
    """The sums of the rounds of one cell, by chain."""
    ended = [each.ended for each in cuts if each.ended is not None]
    for chain in CHAINS:
        found = [each.accounts[chain] for each in cuts]
        times = [each.first[chain] for each in cuts if chain in each.first]
        lost = sum(each.lost for each in found)
        yield {
            "cell": name,
            "chain": chain,
            "rounds": len(cuts),
            "messages": sum(each.messages for each in found),
            "lost": lost,
            "doubled": sum(each.doubled for each in found),
            "reported": sum(each.reported for each in cuts) if chain == "inside" else 0,
            "lost_beyond_reported": sum(map(_beyond, cuts)) if chain == "inside" else lost,
            "first_median": round(statistics.median(times), 1) if times else None,
            "first_max": round(max(times), 1) if times else None,
            "ended_max": round(max(ended), 1) if ended else None,
            "attempts": max(each.attempts for each in cuts),
        }


def _beyond(cut: Cut) -> int:
    """The lost messages of a round, inside the site, that SpecK has not reported."""
    return max(0, cut.accounts["inside"].lost - cut.reported)


def is_broken(figure: Mapping[str, Any]) -> bool:
    """True if messages were doubled, or lost beyond those that SpecK reports."""
    return bool(figure["doubled"] or figure["lost_beyond_reported"])


def main(arguments: list[str] | None = None) -> int:
    """Run the trials and print their figures; exits 1 if any were doubled, or lost beyond those reported."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises autonomy", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="of each cell")
    parser.add_argument("--messages", type=int, default=6_000, help="of each round, over both chains")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the cuts")
    parser.add_argument(
        "--cells", action="append", default=[], metavar="PATTERN", help=f"such as {ALONE.name} (repeatable)"
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="keep the rounds here, and resume from it")
    add_output_options(parser)
    options = parser.parse_args(arguments)
    try:
        cells = chosen(options.cells)
    except ValueError as error:
        parser.error(str(error))
    log = CutLog(options.log)
    measure(cells, log, options.rounds, options.messages, options.seed)
    found = [each for cell in cells for each in figures(cell.name, log.cuts[cell.name])]
    if not published(options, "promises-autonomy", {"cells": found}):
        for each in found:
            print(*(f"{value!s:>9}" for value in each.values()))
    return 1 if any(map(is_broken, found)) else 0
