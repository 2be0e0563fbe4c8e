"""The agent's process: ``python -m speck.agent DIRECTORY``, as ``speck agent run`` starts it.

A process of its own without the command line, whose modules would take more memory than the agent.
"""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path

from speck.agent.agent import Agent
from speck.agent.site_file import read_site_file
from speck.binder import installed
from speck.errors import SpeckError


def main(directory: Path) -> int:
    """Run the agent of a directory until SIGINT or SIGTERM; returns the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("websockets").setLevel(logging.WARNING)  # the agent reports its contact itself
    try:
        agent = Agent(read_site_file(directory), directory, installed())
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, lambda *_: agent.close())
        agent.run()
    except SpeckError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
