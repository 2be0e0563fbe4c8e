"""Programs of SpecK in processes of their own, forked from one that has imported SpecK.

To start Python and import SpecK takes a second of processor time, to fork a hundredth.  The process is a real
one: its id, signals, descriptors, directory, environment and exit status are its own.  Variables that Python
reads when it starts (``PYTHON...``) have no effect on it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import PIPE
from typing import IO, Self

import psutil

from testbed import ROOT

# The modules of which each program needs some; those of ``speck.cli`` are imported in its process.
_COMMANDS = ("speck.client", "requests", "rich.live", "rich.progress", "rich.table", "yaml")
_IMPORTS = {
    "speck.cli": _COMMANDS,
    "testbed.servers.debug_serve": _COMMANDS,
    "testbed.servers.double_serve": ("speck.server.process", "testbed.doubles.kinds"),
}
_ONE_AT_A_TIME = threading.Lock()
_servers: list[tuple[subprocess.Popen[bytes], int]] = []  # the fork server and its parent's id, once started


class ForkError(Exception):
    """A process was not started, or its exit status is not known, since the fork server failed."""


class Forked:
    """A process; the methods and attributes are those of :class:`subprocess.Popen` with ``text=True``.

    ``module`` is the program, which has a function ``main``; ``imports`` are modules that it needs.
    ``stdin``, ``stdout`` and ``stderr`` are descriptors, ``PIPE`` (not for ``stdin``), or those of this
    process (``None``).
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        imports: Sequence[str] = (),
    ) -> None:
        self.returncode: int | None = None
        self.stdout, out = _output(stdout, 1)
        self.stderr, err = _output(stderr, 2)
        report, reported = os.pipe()
        self._report = os.fdopen(report, "rb", 0)
        request = {
            "module": module,
            "imports": [*_IMPORTS.get(module, ()), *imports],
            "arguments": arguments,
            "directory": str(cwd or Path.cwd()),
            "environment": dict(env),
        }
        with _ONE_AT_A_TIME:
            given = [0 if stdin is None else stdin, out, err, reported]
            socket.send_fds(fork_server(), [json.dumps(request).encode()], given)
        for target, descriptor in ((stdout, out), (stderr, err), (PIPE, reported)):
            if target == PIPE:
                os.close(descriptor)
        self._module = module
        answer = self._report.readline().decode().strip()
        if not answer.isdigit():
            self._report.close()
            raise ForkError(f"{module} was not started: {answer or _server_state()}")
        self.pid = int(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdout, self.stderr):
            if stream:
                stream.close()
        self.wait()

    def poll(self) -> int | None:
        """The exit code (negative: the signal that ended it), or ``None`` while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; raises :class:`subprocess.TimeoutExpired` after ``timeout`` s."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("speck", timeout or 0)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str | None, str | None]:
        """Read the pipes to their ends, and wait; ``None`` is the output that has no pipe."""
        streams = (self.stdout, self.stderr)
        texts: dict[IO[str] | None, str] = {}
        readers = [
            threading.Thread(target=lambda stream=stream: texts.update({stream: stream.read()}), daemon=True)
            for stream in filter(None, streams)
        ]
        for each in readers:
            each.start()
        for each in readers:
            each.join(timeout)
            if each.is_alive():
                raise subprocess.TimeoutExpired("speck", timeout or 0)
        self.wait(timeout)
        for stream in filter(None, streams):
            stream.close()
        return texts.get(self.stdout), texts.get(self.stderr)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and _readable(self._report.fileno(), timeout):
            status = self._report.read()
            self._report.close()
            if not status:
                self.returncode = -signal.SIGKILL  # nothing more can be known of it
                what = f"process {self.pid} ({self._module}), which {_state(self.pid)}, has no report"
                raise ForkError(f"{what}: {_server_state()}")
            self.returncode = int(status)
        return self.returncode


def shell_command(module: str) -> tuple[list[str], int]:
    """The beginning of a command line that runs a program in a forked process, and a descriptor for it.

    For a shell whose commands need the program: whoever starts the shell passes the descriptor on.
    """
    client, server = Path(__file__).with_name("fork_client.py"), fork_server().fileno()
    command = [sys.executable, "-I", "-S", str(client), str(server), module, *_IMPORTS.get(module, ()), "--"]
    return command, server


def _output(target: int | None, own: int) -> tuple[IO[str] | None, int]:
    """The reading end for the tests, if there is one, and the descriptor for the process."""
    if target != PIPE:
        return None, own if target is None else target
    reader, writer = os.pipe()
    return os.fdopen(reader), writer


def _state(pid: int) -> str:
    """The state of a process, whoever its parent is."""
    try:
        status = psutil.Process(pid).status()
    except psutil.NoSuchProcess:
        return "has ended"
    return "has ended" if status == psutil.STATUS_ZOMBIE else f"is {status}"


def _server_state() -> str:
    """The state of the fork server, with its exit status if this process has started it."""
    for server, parent in _servers:
        code = server.poll() if parent == os.getpid() else None
        if code is None:
            return f"the fork server (process {server.pid}) {_state(server.pid)}"
        ended = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"
        return f"the fork server (process {server.pid}) was ended {ended}"
    return "there is no fork server"


def _readable(descriptor: int, timeout: float | None) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout is None else timeout * 1000))


@functools.cache
def fork_server() -> socket.socket:
    """The socket of the fork server, which starts at the first call and ends with this process.

    Processes that are forked from this one afterwards share the server: a request is one message.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "testbed.servers.fork_server", str(theirs.fileno())]
    server = subprocess.Popen(
        # The parent may ignore these signals, as nohup does, and children inherit that.
        ["env", "--default-signal=HUP,INT,PIPE,TERM", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        cwd=ROOT,
    )
    theirs.close()
    _servers.append((server, os.getpid()))

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours
