"""Loss and repetitions of any pipeline that passes messages from one topic on to another.

A pipeline is a :class:`~testbed.servers.base.RealServer` that was given the hops of a
:class:`~testbed.rivals.trials.Trial`: it starts, is killed and starts again.  Each message that it passes on
must contain the text that it was sent.  The consumer of its results is connected throughout, so what is
missing there was lost between::

    with Killed(directory) as trial, Program(directory, trial.hops, "my-relay {source_broker} ...") as relay:
        tried(trial, relay, messages=1000, moment=random.Random(1))["lost"]
"""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from testbed.faults.flow import Sender
from testbed.faults.rig import Account
from testbed.rivals.hops import SINK, SOURCE
from testbed.rivals.trials import Trial
from testbed.servers.base import RealServer
from testbed.waiting import PATIENCE, await_that

RATE = 200.0  # messages/s
_PROBES = 0.2  # s between two messages that are sent until one has passed
_STAMP = ("speck-job", "speck-seq")


@dataclass
class Arrivals:
    """The texts that come out of a pipeline, with their number; ``stamped`` counts each stamp once.

    Consumers may drop repetitions of SpecK's by their stamps (docs/faults.md, The edges).
    """

    raw: Counter[str] = field(default_factory=Counter)
    stamped: Counter[str] = field(default_factory=Counter)
    first: dict[str, float] = field(default_factory=dict)  # by text: its first arrival, monotonic clock, s
    _stamps: set[tuple[str, ...]] = field(default_factory=set)

    def take(self, text: str, properties: Sequence[tuple[str, str]]) -> None:
        """Count a message; ``properties`` are its user properties, or its headers."""
        self.first.setdefault(text, time.monotonic())
        self.raw[text] += 1
        stamp = tuple(value for name, value in sorted(properties) if name in _STAMP)
        if not stamp or stamp not in self._stamps:
            self.stamped[text] += 1
        if stamp:
            self._stamps.add(stamp)

    def account(self, sent: list[str]) -> dict[str, int]:
        """The counts of what was sent: ``lost``, ``doubled`` and ``doubled_by_stamp``."""
        raw, stamped = (_account(counts, sent) for counts in (self.raw, self.stamped))
        return {
            "messages": raw.messages,
            "lost": raw.lost,
            "doubled": raw.doubled,
            "doubled_by_stamp": stamped.doubled,
        }

    def longest(self, sent: Mapping[str, float]) -> float:
        """The longest time (s) from sending, at the time in ``sent``, to arrival; 0 without arrivals."""
        return max((at - sent[text] for text, at in dict(self.first).items() if text in sent), default=0.0)


def _account(counts: Counter[str], sent: list[str]) -> Account:
    found = Counter({text: counts[text] for text in sent})
    return Account(len(sent), sum(not each for each in found.values()), (found - Counter(sent)).total())


def tried(
    trial: Trial,
    pipeline: RealServer,
    *,
    messages: int,
    moment: random.Random | None = None,
    rate: float = RATE,
) -> dict[str, float]:
    """Send at least ``messages``, and for as long as the fault lasts; count those that arrive.

    Without ``moment`` there is no fault.  The count begins once a message has passed, and ends when all have
    arrived, or none has for the trial's time.  The pipeline is then started again if messages are
    missing: those that arrive now were ``stuck``, the others are ``lost``.  ``longest_s`` is the longest time
    that a message took, of those that were not stuck.
    """
    arrivals, run = Arrivals(), uuid.uuid4().hex[:8]
    sent_at: dict[str, float] = {}

    def text(number: int) -> str:
        made = f"{run}/{number}"
        sent_at[made] = time.monotonic()
        return made

    with trial.brokers.receiving(trial.last.address, SINK, arrivals.take):
        _await_passage(trial, pipeline, arrivals, f"{run}/probe")
        sender = Sender(trial.first.address, SOURCE, rate, text, connect=trial.brokers.sending).start()
        try:
            await_that(lambda: len(sender.sent), lambda count: count >= messages // 10)
            if moment is not None:
                trial.harm(pipeline, moment)
            await_that(lambda: len(sender.sent), lambda count: count >= messages)
        finally:
            sent = sender.stop()
        counts = _await_arrivals(trial, arrivals, sent)
        longest = arrivals.longest(sent_at)
        lost = counts["lost"]
        if lost:
            _restart(trial, pipeline, arrivals, f"{run}/probe-again")
            lost = _await_arrivals(trial, arrivals, sent)["lost"]
    return counts | {"lost": lost, "stuck": counts["lost"] - lost, "longest_s": round(longest, 1)}


def _await_arrivals(trial: Trial, arrivals: Arrivals, sent: list[str]) -> dict[str, float]:
    """Wait until all have arrived, or none has for the trial's time; returns their account."""
    _await_quiet(lambda: sum(text in arrivals.raw for text in sent), len(sent), trial.quiet)
    return {**arrivals.account(sent)}


def _restart(trial: Trial, pipeline: RealServer, arrivals: Arrivals, probe: str) -> None:
    """Restart the pipeline, which may have messages that it passes on only then."""
    pipeline.kill()
    pipeline.start()
    with suppress(TimeoutError, RuntimeError):  # it passes nothing any more: the missing messages are lost
        _await_passage(trial, pipeline, arrivals, probe)


def _await_passage(trial: Trial, pipeline: RealServer, arrivals: Arrivals, text: str) -> None:
    deadline = time.monotonic() + PATIENCE
    with trial.brokers.sending(trial.first.address) as sender:
        while text not in arrivals.raw:
            if not all(map(_runs, pipeline.pids)):
                raise RuntimeError(f"{pipeline} has ended:\n{pipeline.log[-2000:]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"no message sent to {SOURCE!r} came to {SINK!r} in {PATIENCE:g} s")
            sender.publish(SOURCE, text, 1)
            time.sleep(_PROBES)


def _runs(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def _await_quiet(ask: Callable[[], int], enough: int, quiet: float) -> None:
    last, since = ask(), time.monotonic()
    while time.monotonic() - since < (quiet if last < enough else 2.0):
        time.sleep(0.1)
        if (now := ask()) != last:
            last, since = now, time.monotonic()
