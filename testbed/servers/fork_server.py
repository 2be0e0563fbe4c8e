"""A process that has imported SpecK, and forks one process for each program that a test asks for.

``python -m testbed.servers.fork_server FD``: on the socket of this number come requests, each with the
descriptors of standard input, output and error, and of a pipe to which the process id is written, and then
the exit status; or an error instead of both.  A request that fails costs no other one its report.  It ends
with the socket.  Commands are imported after the fork, since they look at the environment when imported.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from typing import Any

REQUEST = 1 << 20  # bytes at most; a request has a whole environment


def main() -> None:
    """Serve until the socket is closed at the other end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: it is meant for the tests
    server = socket.socket(fileno=int(sys.argv[1]))
    poll = select.poll()
    poll.register(server, select.POLLIN)
    reports: dict[int, tuple[int, int]] = {}  # of each process, by its descriptor: its id, and the pipe
    while True:
        for ready, _ in poll.poll():
            if ready in reports:
                poll.unregister(ready)
                _report(ready, *reports.pop(ready))
                continue
            message, descriptors, _, _ = socket.recv_fds(server, REQUEST, 4)
            if not message:
                return
            try:
                request = json.loads(message)
                process = _fork(request, descriptors)
            except Exception as error:
                _refuse(descriptors, error)
                continue
            if not process:
                pipes = [pipe for _, pipe in reports.values()]
                _become(request, descriptors, [server.detach(), *reports, *pipes])
                return
            for each in descriptors[:3]:
                os.close(each)
            with contextlib.suppress(BrokenPipeError):  # who asked has ended
                os.write(descriptors[3], f"{process}\n".encode())
            watched = os.pidfd_open(process)
            reports[watched] = (process, descriptors[3])
            poll.register(watched, select.POLLIN)


def _fork(request: dict[str, Any], descriptors: list[int]) -> int:
    if len(descriptors) < 4:
        raise OSError(f"{len(descriptors)} of 4 descriptors arrived")
    for name in request["imports"]:
        importlib.import_module(name)
    gc.freeze()
    return os.fork()


def _refuse(descriptors: list[int], error: Exception) -> None:
    """Answer with an error instead of a process id."""
    with contextlib.suppress(IndexError, BrokenPipeError):
        os.write(descriptors[3], f"{type(error).__name__}: {error}\n".encode())
    for each in descriptors:
        os.close(each)


def _report(watched: int, process: int, pipe: int) -> None:
    _, status = os.waitpid(process, 0)
    with contextlib.suppress(BrokenPipeError):  # no one has waited
        os.write(pipe, b"%d" % os.waitstatus_to_exitcode(status))
    os.close(watched)
    os.close(pipe)


def _become(request: dict[str, Any], descriptors: list[int], others: list[int]) -> None:
    """Be the program that was asked for; the interpreter ends with it."""
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
    os.closerange(3, max(*descriptors, *others) + 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    sys.argv = [request["module"], *request["arguments"]]
    sys.stdin = open(0)  # noqa: SIM115 - until the end
    sys.stdout = open(1, "w")  # noqa: SIM115
    sys.stderr = open(2, "w", 1, errors="backslashreplace")  # noqa: SIM115
    importlib.import_module(request["module"]).main()


if __name__ == "__main__":
    main()
