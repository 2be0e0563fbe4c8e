"""Runs a program in a process of :mod:`testbed.servers.fork_server`, as a command of a shell.

``python -I -S fork_client.py FD MODULE [IMPORT ...] -- ARGUMENT ...``: FD is the socket of the fork
server, which this process has inherited.  The program has the streams, the environment and the directory of
this process, which ends with its exit code.  It is not imported, so that it starts in a few milliseconds.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys


def main() -> int:
    """Run the program; returns its exit code, for a signal that of a shell."""
    descriptor, module, *rest = sys.argv[1:]
    end = rest.index("--")
    report, reported = os.pipe()
    request = {
        "module": module,
        "imports": rest[:end],
        "arguments": rest[end + 1 :],
        "directory": os.getcwd(),  # noqa: PTH109 - pathlib is slow to import
        "environment": dict(os.environ),
    }
    server = socket.socket(fileno=int(descriptor))
    socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2, reported])
    server.detach()
    os.close(reported)
    with os.fdopen(report) as answers:
        answer = answers.readline().strip()
        if not answer.isdigit():
            sys.exit(f"{module} was not started: {answer or 'the fork server has ended'}")
        process = int(answer)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda received, _: os.kill(process, received))
        status = answers.read()
    if not status:
        sys.exit(f"process {process} ({module}) ended without a report: the fork server has ended")
    code = int(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
