"""A real server killed or stopped amid each kind of change on real engines; its standby takes over.

What the standby leaves is judged as after a restart (:mod:`testbed.faults.trial`): engines and brokers have
what was accepted and nothing else, and a message goes through once.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from speck.client import Client
from speck.errors import ServerError
from speck.standby.node import NAME as PAIR_FILE
from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.faults.compositions import FIRST
from testbed.faults.kills import ENGINES, figures, report
from testbed.faults.trial import Trial
from testbed.results import add_output_options, published
from testbed.servers.pair import ServedPair

_PATIENCE = 180.0  # s, on a busy machine
_ENDS = (signal.SIGKILL, signal.SIGSTOP)


@dataclass
class TakeOvers:
    """Rounds of a trial, in which the primary of a pair ends; ``seconds`` until the standby answers."""

    trial: Trial
    seconds: list[float] = field(default_factory=list)

    def round(self, target: str | None, end: signal.Signals, delay: float) -> None:
        """Change to ``target``, and end the primary after ``delay`` s."""
        self.trial.judged(target, 0, lambda: self._end(target, end, delay), lambda: f"{end.name} {delay:.2f}")

    def _end(self, target: str | None, end: signal.Signals, delay: float) -> tuple[bool, bool]:
        directory = self.trial.directory / f"pair-{len(self.seconds)}"
        directory.mkdir()
        if self.trial.store.exists():
            shutil.move(self.trial.store, directory / "store-a")
        sites = str(self.trial.directory / "sites.yaml")
        with ServedPair(directory, ["--sites", sites, "--root", str(ROOT)], "speck.cli") as pair:
            self._await(pair, lambda: pair.in_sync() == "a")
            accepted = self.trial._ask(Client(pair.url("a")), target)
            time.sleep(delay)
            pair.down.add("a")
            pair.send("a", end)
            ended = time.monotonic()
            self._await(pair, lambda: pair.health("b") is not None)
            self.seconds.append(time.monotonic() - ended)
            pair.send("a", signal.SIGCONT)  # it finds out that it was replaced
            client = Client(pair.url("b"))
            with suppress(ServerError):
                self.trial._await_idle(client, None)
        shutil.move(directory / "store-b", self.trial.store)
        (self.trial.store / PAIR_FILE).unlink()
        return True, accepted

    @staticmethod
    def _await(pair: ServedPair, found: Callable[[], bool]) -> None:
        def look() -> bool:
            pair.tend()
            return found()

        eventually(look, bool, _PATIENCE)


def main(arguments: Sequence[str]) -> int:
    """End the primary in this number of rounds; returns 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises takeovers", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, default="flink")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    add_output_options(parser)
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as name, ExitStack() as stack:
        directory = Path(name)
        places, programs = ENGINES[options.engine]
        with Trial(
            places(stack, directory), programs, directory / "trial", options.seed, report, patience=_PATIENCE
        ) as trial:
            rounds = TakeOvers(trial)
            for number in range(options.rounds):
                choices = [each for each in (*trial.versions, None) if each != trial.state]
                target = FIRST if trial.state is None else trial.random.choice(choices)
                rounds.round(target, _ENDS[number % 2], trial.random.uniform(0, 2.5))
            outcomes = trial.outcomes
    seconds = sorted(rounds.seconds)
    result = figures(outcomes) | {"seed": options.seed}
    if seconds:
        middle, p95 = seconds[len(seconds) // 2], seconds[int(0.95 * (len(seconds) - 1))]
        result |= {"takeover_seconds_p50": round(middle, 1), "takeover_seconds_p95": round(p95, 1)}
        result["takeover_seconds_max"] = round(seconds[-1], 1)
    if not published(options, "promises-takeovers", result):
        print(yaml.safe_dump(result, sort_keys=False))
    return 1 if result["wrong_after_restart"] else 0
