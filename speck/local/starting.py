"""Waits for servers that were started, and says why one of them did not come up."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from speck.binder import LocalServer
from speck.errors import LocalError
from speck.local import processes
from speck.local.ports import is_free

_POLL = 0.1  # s
_TAIL_LINES = 15  # of the log of a server that did not start
_TAIL_BYTES = 1 << 20  # of the log that are read: after months it may be larger than the memory
_CAUSES = 5  # lines before those that name a cause

_STACK_FRAME = re.compile(r"\s+(at [\w.$/<>@-]+\(|\.\.\. \d+ (more|common frames))")
_CAUSE = re.compile(r"^Caused by: |^Exception in thread |Address (already )?in use|OutOfMemoryError")
_SHELL_SIGNAL = 128  # what shells add to the number of the signal that ended a program


@dataclass(frozen=True, slots=True)
class StartedServer:
    """A server that this process, or one before it, has started.

    ``title`` names it; ``ports`` are those that it binds on loopback, ``address_ports`` those of its address;
    its log begins at byte ``begin`` of the file.
    """

    title: str
    kind: LocalServer
    pid: int
    address_ports: Sequence[int]
    ports: Sequence[int]
    log: Path
    begin: int


def await_ready(servers: Sequence[StartedServer], timeout: float, progress: Callable[[str], None]) -> None:
    """Wait until all of these servers answer, for at most ``timeout`` s.

    Raises :class:`~speck.errors.LocalError` with the reason and the end of the log of one that does not.
    """
    deadline = time.monotonic() + timeout
    waiting = list(servers)
    while waiting:
        for server in [each for each in waiting if each.kind.ready(each.address_ports)]:
            _refuse_ended(server)  # another server may answer at its port
            waiting.remove(server)
            progress(f"{server.title} is up")
        for server in waiting:
            _refuse_ended(server)
        if waiting and time.monotonic() > deadline:
            raise _failure(waiting[0], f"did not answer within {timeout:g} s")
        if waiting:
            time.sleep(_POLL)


def _refuse_ended(server: StartedServer) -> None:
    try:
        ended, status = os.waitpid(server.pid, os.WNOHANG)
        code = exit_text(os.waitstatus_to_exitcode(status))
    except ChildProcessError:  # another thread has waited for it, or another process has started it
        ended, code = 0 if _is_alive(server.pid) else server.pid, "exit code unknown"
    if ended:
        used = [port for port in server.ports if not is_free(port)]
        more = "".join(f"; port {port} is in use by another process" for port in used)
        raise _failure(server, f"ended while it was starting ({code}){more}")


def _is_alive(pid: int) -> bool:
    try:
        return processes.alive(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False


def _failure(server: StartedServer, problem: str) -> LocalError:
    """The error of a server that has not started, with the end of its log."""
    lines = log_excerpt(_end_of(server.log, server.begin).decode("utf-8", errors="replace").splitlines())
    tail = "\n".join(f"    {line}" for line in lines) or "    (empty)"
    return LocalError(f"{server.title} {problem}; the end of its log {server.log}:\n{tail}")


def _end_of(log: Path, begin: int) -> bytes:
    """The last bytes of a log from byte ``begin`` on; empty if it cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(max(begin, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read(_TAIL_BYTES)
    except OSError:  # the reason why the server has not started matters more
        return b""


def exit_text(code: int) -> str:
    """The words for an exit code, negative for the signal that ended the process."""
    number = -code if code < 0 else code - _SHELL_SIGNAL
    if number not in list(signal.Signals):
        return f"exit code {code}"
    name = signal.Signals(number).name
    hint = ", which the system sends when memory runs out" if number == signal.SIGKILL else ""
    return f"signal {name}{hint}" if code < 0 else f"exit code {code}: signal {name}{hint}"


def log_excerpt(lines: Sequence[str]) -> list[str]:
    """The last lines of a log without stack frames, after the last earlier lines that name a cause."""
    said = [line for line in lines if not _STACK_FRAME.match(line)]
    earlier, tail = said[:-_TAIL_LINES], said[-_TAIL_LINES:]
    causes = [line for line in earlier if _CAUSE.search(line)][-_CAUSES:]
    return [*causes, "...", *tail] if causes else tail
