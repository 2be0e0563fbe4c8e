"""A step of the loop over real engines to a site that is slower than it says, and the way back.

The loop moves two jobs from B to A (:mod:`benchmarks.adapt.rig`), which says that it has 2 cores.  Its engine
gets :data:`REAL_CORES`, so that the jobs fall behind there.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from benchmarks.adapt.rig import STEP_PATIENCE, Rig, has_happened, seconds_to, sites, there
from speck.local.wan.cgroup import CpuQuota

REAL_CORES = 0.1
RATE = 500.0  # messages/s
BURNT = 200  # µs of processor time for each, so that all of the cores are needed
BACK_PATIENCE = 600.0  # s from the step until the jobs are back


def measure() -> dict[str, Any]:
    """Run it; the figures by key."""
    with TemporaryDirectory() as name, ExitStack() as stack:
        rig = Rig(Path(name), stack, RATE, BURNT)
        quota = stack.enter_context(CpuQuota(f"speck-adapt-{os.getpid()}", REAL_CORES))
        quota.add(_listening(rig.places["A"].engine.address))
        begun = time.monotonic()
        try:
            with rig.server() as server:
                served = there(server)
                rig.begin(served)
                stepped = seconds_to("a step", lambda: has_happened(served, "step"), STEP_PATIENCE)
                back = seconds_to("the way back", lambda: has_happened(served, "back"), BACK_PATIENCE)
                at_source = seconds_to(
                    "jobs at B", lambda: set(sites(served).values()) == {"B"}, BACK_PATIENCE
                )
        finally:
            sent = rig.sender.stop()
        remembered = rig.remembered()
        account = rig.account(sent)
        seconds = round(time.monotonic() - begun, 1)
    times = {
        "seconds_to_step": stepped,
        "seconds_to_back": back,
        "seconds_back": at_source,
        "seconds": seconds,
    }
    return {"real_cores": REAL_CORES, **account, **times, **remembered}


def _listening(address: str) -> int:
    """The id of the process that listens at an address."""
    port = int(address.rstrip("/").rpartition(":")[2])
    connections = psutil.net_connections("tcp")
    listening = (each for each in connections if each.status == psutil.CONN_LISTEN)
    return next(each.pid for each in listening if each.pid is not None and tuple(each.laddr)[1:] == (port,))
