"""Runs several programs as one server: when one exits, the others are stopped and the server exits.

For engines of a developer's machine that consist of several processes (Flink's JobManager and TaskManager):
``python -m binders.common.process_group '[["java", ...], ["java", ...]]'``, in the foreground.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

_GRACE = 15.0  # s, between SIGTERM and SIGKILL
_SIGNALLED = 128  # plus the number of the signal that ended a program: its exit code, as in shells


def command(programs: Sequence[Sequence[str]]) -> list[str]:
    """The command line that runs these programs as one server."""
    return [sys.executable, "-m", __name__, json.dumps([list(each) for each in programs])]


def run(programs: Sequence[Sequence[str]]) -> int:
    """Run until one exits or SIGTERM arrives; return the exit code of the first that exited.

    Which one that was is written to standard error.
    """
    # While a child begins, it is not known yet, and an exit would leave it behind: SIGTERM waits that long.
    early: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: early.append(number))
    children: list[subprocess.Popen[bytes]] = []
    try:
        for program in programs:
            children.append(subprocess.Popen(program))
        # From here it ends the wait, and is passed on to the children below, also when the group received it.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        if early:
            return 0
        ended, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        for number, child in enumerate(children, 1):
            if child.pid == ended:
                child.returncode = code
                print(f"program {number} of {len(children)} ended: {code}", file=sys.stderr, flush=True)
        return code if code >= 0 else _SIGNALLED - code
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _stop(children)


def _stop(children: Sequence[subprocess.Popen[bytes]]) -> None:
    for child in children:
        child.terminate()
    for child in children:
        try:
            child.wait(_GRACE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


if __name__ == "__main__":
    sys.exit(run(json.loads(sys.argv[1])))
