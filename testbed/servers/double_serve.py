"""``speck`` with engines and brokers in memory: ``python -m testbed.servers.double_serve serve ...``.

Submitting a job whose name begins with ``slow`` takes until the file ``go`` lies in the working directory.
A server that ends waits for calls under way for ``CLOSING`` seconds, if the environment has that.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from speck import cli
from speck.core.job import Job
from speck.core.runtime import Attempt, Handle
from speck.server import process
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

_submit = InMemoryEngine.submit


def _submit_when_allowed(engine: InMemoryEngine, job: Job, attempt: Attempt) -> Handle:
    deadline = time.monotonic() + 300
    while job.job_name.startswith("slow") and not Path("go").exists():
        assert time.monotonic() < deadline, "the file go was not created within 300 s"
        time.sleep(0.02)
    return _submit(engine, job, attempt)


def main() -> None:
    """Run the command line."""
    InMemoryEngine.submit = _submit_when_allowed  # type: ignore[assignment, method-assign]
    kinds = double_kinds(World())
    process.installed = lambda: kinds  # type: ignore[attr-defined]
    process._CLOSING = float(os.environ.get("CLOSING", process._CLOSING))
    cli.main()


if __name__ == "__main__":
    main()
