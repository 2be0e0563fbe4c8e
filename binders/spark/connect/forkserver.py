"""A process that has PySpark imported and forks one child for every job to start.

Importing PySpark takes more than a second and some 100 MB; a fork takes milliseconds and shares the memory.
The process is single-threaded and opens no gRPC channel, so that forking it is safe.  It is started by
:mod:`binders.spark.connect.launcher` as ``python -m binders.spark.connect.forkserver FD``, with one end of a
socket pair.

The protocol: a request is the child's time limit (a double, seconds) together with one end of a socket pair
over which the child reads the specification of a query and writes its answer.  When the other end of the
control socket is closed, as when the coordinator was killed, the process and all children end.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from dataclasses import dataclass

REQUEST = struct.Struct("d")

_POLL = 0.2  # s, between checks of the children
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(slots=True)
class Child:
    """A forked child: its deadline (monotonic, s), and the socket on which it answers."""

    deadline: float
    answer: socket.socket
    overdue: bool = False


def serve(control: socket.socket) -> None:
    """Fork children for requests until the control socket is closed; then kill the remaining ones."""
    children: dict[int, Child] = {}
    try:
        while True:
            readable, _, _ = select.select([control], [], [], _POLL if children else None)
            if readable and not _accept(control, children):
                return
            _supervise(children)
    finally:
        for pid in children:
            _kill(pid)


def _accept(control: socket.socket, children: dict[int, Child]) -> bool:
    message, descriptors, _, _ = socket.recv_fds(control, REQUEST.size, 1)
    if len(message) < REQUEST.size or not descriptors:
        return False
    (seconds,) = REQUEST.unpack(message)
    answer = socket.socket(fileno=descriptors[0])
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        control.close()
        for child in children.values():
            child.answer.close()
        _run_child(answer, parent)
    children[pid] = Child(time.monotonic() + seconds, answer)
    return True


def _run_child(answer: socket.socket, parent: int) -> None:
    # Never returns, and leaves by os._exit: PySpark's exit handlers would wait, and could end the session.
    status = 1
    try:
        os.setsid()  # processes that the job's code starts are killed with the child
        _die_with(parent)
        from binders.spark.connect.forked_child import answer_one

        answer_one(answer)
        status = 0
    finally:
        os._exit(status)


def _die_with(parent: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # other systems than Linux have no such call
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _supervise(children: dict[int, Child]) -> None:
    now = time.monotonic()
    for pid, child in list(children.items()):
        if child.deadline < now:
            child.overdue = True
            _kill(pid)
        # Without reaping it first: until then its process id, and its group's, are not reused.
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            _kill(pid)
            _, status = os.waitpid(pid, 0)
            _answer_for(child, status)
            del children[pid]


def _answer_for(child: Child, status: int) -> None:
    # A child that has answered has shut the socket down, so that this write fails.
    kind = "timeout" if child.overdue else "died"
    code = os.waitstatus_to_exitcode(status)
    with contextlib.suppress(OSError):
        child.answer.sendall(json.dumps({"kind": kind, "message": f"exit status {code}"}).encode())
    child.answer.close()


def _kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):  # the group exists once the child has created it
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def main() -> None:
    """Import the modules that every child needs, then serve."""
    control = socket.socket(fileno=int(sys.argv[1]))
    os.dup2(2, 1)  # output of a job's code goes to the log
    import binders.spark.connect.forked_child  # noqa: F401

    gc.collect()
    gc.freeze()  # a collection in a child would touch, and so copy, every page
    serve(control)


if __name__ == "__main__":
    main()
