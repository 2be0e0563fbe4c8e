"""Answers of engines and brokers lost, late, cut off, garbled, and requests that arrive twice.

A round applies a change while the wires between the coordinator and all engines and brokers misbehave, and
applies it again when they do no more; then it is looked at what is there.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from speck.testing.wire_trouble import Mischief, MischiefRelay
from testbed.faults.kills import ENGINES, report
from testbed.faults.sites import Place
from testbed.faults.trial import Trial
from testbed.results import add_output_options, published

# What can happen to a stream of bytes under which lies TCP: it arrives in order, or not at all.
_OF_STREAMS = (Mischief.LOSE_REQUEST, Mischief.LOSE_ANSWER, Mischief.CUT_ANSWER, Mischief.DELAY)


class Wires:
    """The relays before all engines and brokers; what they do is drawn by chance while there is trouble."""

    def __init__(self, seed: int, chance: float) -> None:
        self._random = random.Random(seed)
        self._chance = chance
        self._guard = threading.Lock()
        self._relays: list[MischiefRelay] = []
        self.trouble = False

    def before(self, stack: ExitStack, places: Mapping[str, Place]) -> dict[str, Place]:
        """The places as they are reached through relays."""
        return {site: self._relayed(stack, place) for site, place in places.items()}

    def done(self) -> dict[str, int]:
        """Counts of the actions."""
        counted: Counter[Mischief] = sum((relay.done for relay in self._relays), Counter())
        return {kind.value: counted[kind] for kind in Mischief}

    def _relayed(self, stack: ExitStack, place: Place) -> Place:
        addresses = {
            "spe_address": self._relay(stack, place.engine.address),
            "broker_address": self._relay(stack, place.broker.address),
        }
        return replace(place, known={**place.known, **addresses})

    def _relay(self, stack: ExitStack, address: str) -> str:
        """A relay before a server; answers the address under which it stands for that."""
        scheme, _, port = address.rstrip("/").replace("://", ":").split(":")
        kinds = tuple(Mischief) if scheme == "http" else _OF_STREAMS

        def choose(piece: bytes) -> Mischief | None:
            with self._guard:
                if not self.trouble or self._random.random() >= self._chance:
                    return None
                return self._random.choice(kinds)

        relay = stack.enter_context(MischiefRelay(int(port), choose))
        self._relays.append(relay)
        return f"{scheme}://127.0.0.1:{relay.port}"

    @contextmanager
    def troubled(self) -> Iterator[None]:
        """While the block runs, there is trouble."""
        self.trouble = True
        try:
            yield
        finally:
            self.trouble = False


def rounds(trial: Trial, wires: Wires, count: int) -> None:
    """So many changes under trouble."""
    for _ in range(count):
        choices = [name for name in (*trial.versions, None) if name != trial.state]
        trial.troubled_round(trial.random.choice(choices), wires.troubled())


def main(arguments: Sequence[str]) -> int:
    """Make trouble; the result is 1 when something was wrong in the end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises lost", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, default="flink")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--chance", type=float, default=0.1, help="of trouble, a request (default 0.1)")
    parser.add_argument("--seed", type=int, default=1)
    add_output_options(parser)
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}", file=sys.stderr)
    wires = Wires(options.seed, options.chance)
    with TemporaryDirectory() as name, ExitStack() as stack:
        directory = Path(name)
        made, programs = ENGINES[options.engine]
        places = wires.before(stack, made(stack, directory))
        with Trial(places, programs, directory / "trial", options.seed, report) as trial:
            rounds(trial, wires, options.rounds)
        wrong = sum(bool(each.wrong) for each in trial.outcomes)
        result = {"rounds": len(trial.outcomes), "troubles": wires.done(), "wrong_after_trouble": wrong}
    if not published(options, "promises-lost", result):
        print(yaml.safe_dump(result, sort_keys=False))
    return 1 if wrong else 0
