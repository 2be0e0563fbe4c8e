"""The agent of a site whose engines and broker are in memory: ``python double_site.py DIRECTORY``.

Run by its path, with the tree of any version on ``PYTHONPATH``: it uses what the doubles of each have.
``python double_site.py speck ...`` is the command ``speck`` with such engines, as for joining.

What runs is in the file :data:`REPORT` of the working directory, replaced at each change.  Submitting a job
whose name begins with ``slow`` takes until the file ``go`` is there.  An engine whose address is in the file
``lose`` loses its jobs.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import speck.agent.__main__ as process
from speck import cli
from speck.cli import joining
from speck.core.job import Job
from speck.core.runtime import Attempt, Handle
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

REPORT, GO, LOSE = "world.json", "go", "lose"
_LOOK = 0.02  # s

_submit = InMemoryEngine.submit
_waiting: list[str] = []  # the jobs whose submission waits


def _submit_when_allowed(engine: InMemoryEngine, job: Job, attempt: Attempt) -> Handle:
    if job.job_name.startswith("slow"):
        _waiting.append(job.job_name)
        while not Path(GO).exists():
            time.sleep(_LOOK)
        _waiting.remove(job.job_name)
    return _submit(engine, job, attempt)


def _state(world: World) -> dict[str, Any]:
    with world.lock:
        running = [
            [each.job.job_name, address, each.attempt.number, each.attempt.id]
            for address, engine in world.engines.items()
            for each in engine.live()
        ]
        sessions = [name for broker in world.brokers.values() for name in broker.sessions]
        found = {"running": sorted(running), "sessions": sorted(sessions), "waiting": sorted(_waiting)}
        return found | {"violations": list(world.violations)}


def _report(world: World) -> None:
    """Write the state at each change, and let engines lose their jobs."""
    known: dict[str, Any] = {}
    while True:
        lose, report = Path(LOSE), Path(REPORT)
        if lose.exists():
            world.restart(lose.read_text())
            lose.unlink()
        if (now := _state(world)) != known:
            known, new = now, report.with_suffix(".new")
            new.write_text(json.dumps(now))
            new.replace(report)
        time.sleep(_LOOK)


def main() -> None:
    """Run the agent, or the command line."""
    world = World()
    kinds = double_kinds(world)
    InMemoryEngine.submit = _submit_when_allowed  # type: ignore[assignment, method-assign]
    process.installed = joining.installed = lambda: kinds  # type: ignore[attr-defined]
    if sys.argv[1] == "speck":
        del sys.argv[0]
        cli.main()
    threading.Thread(target=_report, args=(world,), daemon=True).start()
    sys.exit(process.main(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
