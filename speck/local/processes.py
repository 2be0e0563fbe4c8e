"""Servers as processes that outlive their starter, and are found and stopped again by what they are.

A process id alone proves nothing: the system uses it again.  So each process carries a *mark*, a random word
in its environment, minted and stored by the caller before the start: a process with the mark is ours,
whoever started it and whatever became of the starter, and so is each child that inherited it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path

import psutil

from speck.errors import LocalError

MARK = "SPECK_LOCAL_MARK"

# Seconds to end in good order after SIGTERM, and to be gone after SIGKILL.
_GRACE = 20.0
_KILL = 10.0
_POLL = 0.02


def start(
    command: Sequence[str], environment: Mapping[str, str], directory: Path, log: Path, mark: str
) -> psutil.Process:
    """Start a server in ``directory``, in a session of its own, its output appended to ``log``.

    It holds nothing of ours (no pipe, no terminal) and goes on when we end.  Raises
    :class:`~speck.errors.LocalError` when it cannot be started at all.
    """
    # The shell only changes the folder and becomes the server, with the same process id.
    script = f"cd {shlex.quote(str(directory))} && exec {shlex.join(command)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        pid = os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", script],
            {**environment, MARK: mark},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE],
        )
        return psutil.Process(pid)
    except (OSError, psutil.Error) as error:
        raise LocalError(f"{command[0]!r} cannot be started: {error}") from error


def find(pid: int, created: float, mark: str) -> psutil.Process | None:
    """The living process with this id, creation time (Unix time, s) and mark; ``None`` when it is another."""
    try:
        process = psutil.Process(pid)
        # The creation time is reckoned from the time of the boot, which moves when the clock is set.
        if abs(process.create_time() - created) < 2 and alive(process) and _mark(process) == mark:
            return process
    except psutil.Error:
        pass
    return None


def marked(marks: Set[str]) -> Iterator[psutil.Process]:
    """All living processes with one of these marks, children of what was started included."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if _mark(process) in marks and alive(process):
                yield process


def alive(process: psutil.Process) -> bool:
    """Whether it runs.  A process that ended and was not waited for (a zombie) does not."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)  # ours to wait for when we started it
            return False
        return process.is_running()
    except psutil.Error:
        return False


def stop(processes: Iterable[psutil.Process], *, kill: bool = False) -> None:
    """End these processes with their process groups: SIGTERM, and SIGKILL after a grace, or at once.

    Raises :class:`~speck.errors.LocalError` when one is still there after that.
    """
    left = [each for each in processes if alive(each)]
    if not kill:
        left = _end(left, signal.SIGTERM, _GRACE)
    left = _end(left, signal.SIGKILL, _KILL)
    if left:
        ids = ", ".join(str(each.pid) for each in left)
        raise LocalError(f"processes {ids} do not end, not even by SIGKILL (expected them to be gone)")


def _end(processes: list[psutil.Process], number: signal.Signals, timeout: float) -> list[psutil.Process]:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(process.pid) == process.pid:
                _signal_group(process, number)
            else:
                process.send_signal(number)
    deadline = time.monotonic() + timeout
    # psutil's own wait takes a zombie of another parent for alive.
    while (left := [each for each in processes if alive(each)]) and time.monotonic() < deadline:
        time.sleep(_POLL)
    return left


def _signal_group(leader: psutil.Process, number: signal.Signals) -> None:
    if leader.is_running():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader.pid, number)


def _mark(process: psutil.Process) -> str | None:
    return process.environ().get(MARK)
