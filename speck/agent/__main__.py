"""The agent's process: ``python -m speck.agent DIRECTORY``, as ``speck agent run`` starts it.

A process of its own without the command line, whose modules would take more memory than the agent.  With
``--check`` before the directory it prints the installed version instead, if an agent would start from there.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from pathlib import Path

import speck
from speck.agent.agent import Agent, kind_of
from speck.agent.site_file import read_site_file
from speck.binder import installed
from speck.errors import SpeckError


def main(directory: Path) -> int:
    """Run the agent of a directory until SIGINT or SIGTERM; returns the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("websockets").setLevel(logging.WARNING)  # the agent reports its contact itself
    try:
        agent, stopped = Agent(read_site_file(directory), directory, installed()), threading.Event()

        def stop(*_: object) -> None:
            stopped.set()
            agent.close()

        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, stop)
        agent.run()
        # A stop that comes just then is final: a new process would not know of it.
        if agent.upgrader.is_installed and not stopped.is_set():  # the connection is closed; the jobs run on
            agent.close()
            agent.release()
            os.execv(sys.executable, [sys.executable, "-m", "speck.agent", str(directory)])  # noqa: S606
    except SpeckError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.filename is None:
            raise
        print(
            f"error: {error.filename}: {error.strerror} (expected a directory that the agent can write to)",
            file=sys.stderr,
        )
        return 1
    return 0


def check(directory: Path) -> int:
    """Print the installed version if it can read the description, and has its binders.

    It touches no file of the agent, which may be running.
    """
    try:
        site, registry = read_site_file(directory).site, installed()
        for engine in site.engines:
            kind_of(registry, engine.spe_address)
    except SpeckError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(speck.__version__)
    return 0


if __name__ == "__main__":
    sys.exit(check(Path(sys.argv[2])) if sys.argv[1] == "--check" else main(Path(sys.argv[1])))
