"""Servers as processes that outlive their starter, and can be identified and stopped later.

A process id is no identity, since the system reuses it.  Each process has a *mark* instead, a random word in
its environment that the caller stores before the start.  A process with the mark is one of ours, also after a
crash of the starter, and so is each child that inherited it.
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

# Seconds to end after SIGTERM, and after SIGKILL.
_GRACE = 20.0
_KILL = 10.0  # s from SIGTERM to SIGKILL
_POLL = 0.02  # s
_NEW = 60.0  # s
_KTHREADD = 2  # the parent of the kernel's threads
_EXEC_TRIES = 250  # to read an environment, with a pause of _POLL between them: 5 s on a busy machine


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    directory: Path,
    log: Path,
    mark: str,
    *,
    inherited: Sequence[int] = (),
) -> psutil.Process:
    """Start a server in ``directory``, in a session of its own, its output appended to ``log``.

    It inherits no pipe, no terminal, and of this process's files those of the ``inherited`` descriptors; it
    keeps running when this process ends.  Raises :class:`~speck.errors.LocalError` if it cannot be started.
    """
    # The shell changes the directory and is replaced by the server, with the same process id.
    script = f"cd {shlex.quote(str(directory))} && exec {shlex.join(command)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        os.close(os.open(log, flags, 0o600))  # the error of a spawn would name the shell
        pid = os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", script],
            {**environment, MARK: mark},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                # A descriptor duplicated to itself is no longer closed in the new program.
                *((os.POSIX_SPAWN_DUP2, each, each) for each in inherited),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE],
        )
        return psutil.Process(pid)
    except (OSError, psutil.Error) as error:
        raise LocalError(f"{command[0]!r} cannot be started: {error}") from error


def find(pid: int, mark: str) -> psutil.Process | None:
    """The living server with this process id and mark; ``None`` if there is none.

    Not by the time of its start: that is computed from the clock, and so changes when the clock is set.  Of a
    process that reuses the id, the mark is another; and of those that inherit the mark, only the server leads
    its session, and its id is not used again while one of the others is in that session.
    """
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        if os.getsid(pid) == pid and alive(process) and _mark_after_exec(process) == mark:
            return process
    return None


def marked(marks: Set[str]) -> Iterator[psutil.Process]:
    """All living processes with one of these marks, including children of the started ones."""
    # Not psutil.process_iter(): it keeps the processes of earlier looks, and takes a new one whose id such a
    # process had for that one, which has ended.  Servers that run would be left out.
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            read = _mark_after_exec if _is_new(process) else _mark
            if read(process) in marks and alive(process):
                yield process


def _is_new(process: psutil.Process) -> bool:
    """True for a process that a server may still replace; a thread of the kernel never has an environment."""
    return time.time() - process.create_time() < _NEW and process.ppid() != _KTHREADD


def alive(process: psutil.Process) -> bool:
    """True if the process runs; a zombie (it ended, and its parent has not waited for it) does not."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)  # succeeds if it is a child of this process
            return False
        return process.is_running()
    except psutil.Error:
        return False


def stop(processes: Iterable[psutil.Process], *, kill: bool = False) -> None:
    """End these processes and their process groups by SIGTERM, and by SIGKILL after a grace or at once.

    Raises :class:`~speck.errors.LocalError` if one still runs after that.
    """
    running = [each for each in processes if alive(each)]
    if not kill:
        running = _end(running, signal.SIGTERM, _GRACE)
    running = _end(running, signal.SIGKILL, _KILL)
    if running:
        ids = ", ".join(str(each.pid) for each in running)
        raise LocalError(f"processes {ids} still run {_KILL:g} s after SIGKILL (expected them to end)")


def _end(processes: list[psutil.Process], number: signal.Signals, timeout: float) -> list[psutil.Process]:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(process.pid) == process.pid:
                _signal_group(process, number)
            else:
                process.send_signal(number)
    deadline = time.monotonic() + timeout
    # psutil's own wait treats a zombie of another parent as alive.
    while (running := [each for each in processes if alive(each)]) and time.monotonic() < deadline:
        time.sleep(_POLL)
    return running


def _signal_group(leader: psutil.Process, number: signal.Signals) -> None:
    if leader.is_running():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader.pid, number)


def _mark_after_exec(process: psutil.Process) -> str | None:
    """The mark of a process that may just replace its program: it shows neither words nor variables then."""
    for _ in range(_EXEC_TRIES):
        if process.environ() or process.cmdline():
            break
        time.sleep(_POLL)
    return _mark(process)


def _mark(process: psutil.Process) -> str | None:
    return process.environ().get(MARK)
