"""A step of the loop over real engines while the server is killed at random moments: the account of messages.

The loop moves two jobs (:mod:`benchmarks.adapt.rig`).  From the step on, the server (a process, ``speck
serve``) is killed by SIGKILL and started again, time after time; the last one judges the step.
"""

from __future__ import annotations

import random
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.adapt.rig import STEP_PATIENCE, Rig, has_happened, seconds_to, sites, there
from testbed.faults.flow import await_true

JUDGED = 180.0  # s in which the last server judges it: a minute without a step, and three windows


@dataclass(frozen=True)
class Options:
    """``messages`` are sent at ``rate`` (1/s); the server is killed ``kills`` times."""

    kills: int = 50
    messages: int = 100_000
    rate: float = 300.0
    seed: int = 1


def measure(options: Options) -> dict[str, Any]:
    """Run it; the figures by key."""
    with TemporaryDirectory() as name, ExitStack() as stack:
        rig = Rig(Path(name), stack, options.rate)
        begun = time.monotonic()
        try:
            stepped = _step_and_kill(rig, options)
            where = _judge(rig, options)
        finally:
            sent = rig.sender.stop()
        remembered = rig.remembered()
        account = rig.account(sent)
        seconds = round(time.monotonic() - begun, 1)
    times = {"seconds_to_step": stepped, "seconds": seconds}
    return {"kills": options.kills, **account, **times, **remembered, "sites": where}


def _step_and_kill(rig: Rig, options: Options) -> float:
    """Have the loop make a step, and kill the server and its successors; the time (s) until the step."""
    chance = random.Random(options.seed)
    with rig.server() as server:
        served = there(server)
        rig.begin(served)
        stepped = seconds_to("a step", lambda: has_happened(served, "step"), STEP_PATIENCE)
        time.sleep(chance.uniform(0.0, 3.0))
    for number in range(1, options.kills):
        with rig.server() as server:
            if chance.random() < 0.7:  # or while it starts
                there(server)
            time.sleep(chance.uniform(0.0, 4.0))
        print(f"killed {number + 1} times, {len(rig.sender.sent)} messages", file=sys.stderr, flush=True)
    return stepped


def _judge(rig: Rig, options: Options) -> dict[str, str]:
    """Let the last server judge the step, and the messages be sent; the site of each job."""
    with rig.server() as server:
        served = there(server)
        time.sleep(JUDGED)
        await_true("enough messages", lambda: len(rig.sender.sent) >= options.messages, 600.0)
        return sites(served)
