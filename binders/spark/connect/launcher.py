"""Runs the code of jobs outside of the coordinator, in forks of a process that has PySpark ready."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading

from binders.spark.connect.forkserver import REQUEST

_EXIT_PATIENCE = 0.5  # s, until a killed process is seen to have ended
_START_ALLOWANCE = 60.0  # s, for the fork server's own start on a busy machine

# A job's code must not see the coordinator's environment, which may contain secrets.
_PASSED_ON = frozenset({"HOME", "JAVA_HOME", "LANG", "PATH", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"})
_PASSED_ON_PREFIXES = ("LC_", "PYTHON", "SSL_CERT_")

_FAMILY = (socket.AF_UNIX, socket.SOCK_STREAM)


class Launcher:
    """The fork server of this process, started on first use and shared by all engines.  Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """The fork server's process id, while there is one."""
        return self._process.pid if self._process is not None else None

    def warm_up(self) -> None:
        """Start the fork server if needed, without waiting; if that fails, :meth:`launch` reports it."""
        with self._lock, contextlib.suppress(OSError):
            self._ensure()

    def launch(self, spec: str, timeout: float) -> dict[str, str]:
        """Start a query (a specification in JSON) in a new fork, which is killed after ``timeout`` seconds.

        Returns the answer of :func:`~binders.spark.connect.forked_child.answer_one`, or
        ``{"kind": "timeout"}``, or ``{"kind": "died"}`` if the process ended without a complete answer.
        ``refused`` if no process could be started.
        """
        self.warm_up()
        requested = self._process
        answer = self._launch(spec, timeout)
        # If the fork server died, its forks died with it.  Trying again is safe: a query that
        # one of them had started is found by its name.
        if answer["kind"] == "died" and requested is not None and _has_ended(requested):
            return self._launch(spec, timeout)
        return answer

    def _launch(self, spec: str, timeout: float) -> dict[str, str]:
        ours, theirs = socket.socketpair(*_FAMILY)
        with ours:
            with theirs:
                try:
                    self._send(theirs, timeout)
                except OSError as error:
                    reason = error.strerror or str(error)
                    return {"kind": "refused", "message": f"no process can be started for its code: {reason}"}
            ours.settimeout(timeout + _START_ALLOWANCE)
            try:
                ours.sendall(spec.encode())
                ours.shutdown(socket.SHUT_WR)
                answer = _read_all(ours)
            except TimeoutError:
                return {"kind": "timeout", "message": "the fork server did not answer"}
            except OSError as error:
                return {"kind": "died", "message": str(error)}
        return _read(answer)

    def close(self) -> None:
        """End the fork server and what it runs."""
        with self._lock:
            process, self._process = self._process, None
            control, self._control = self._control, None
        if control is not None:
            control.close()
        if process is not None:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _send(self, theirs: socket.socket, timeout: float) -> None:
        with self._lock:
            for _ in range(2):  # a fork server that was killed is replaced once
                control = self._ensure()
                with contextlib.suppress(OSError):
                    socket.send_fds(control, [REQUEST.pack(timeout)], [theirs.fileno()])
                    return
                self._drop()
            raise OSError("the fork server cannot be started")

    def _ensure(self) -> socket.socket:
        if self._process is not None and self._process.poll() is not None:
            self._drop()
        if self._control is None:
            self._control, theirs = socket.socketpair(*_FAMILY)
            with theirs:
                self._process = _start(theirs.fileno())
        return self._control

    def _drop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._control = self._process = None


def _start(control: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "binders.spark.connect.forkserver", str(control)],
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[control],
        start_new_session=True,  # a Ctrl-C is the coordinator's
    )


def _environment() -> dict[str, str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }
    return inherited | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "OMP_NUM_THREADS": "1",  # a library's threads would not survive the fork
        "OPENBLAS_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
        "SPARK_CONNECT_MODE_ENABLED": "1",  # pyspark.sql.functions builds for Connect, without a JVM
    }


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_EXIT_PATIENCE)
        return True
    return False


def _read(answer: bytes) -> dict[str, str]:
    try:
        answered: dict[str, str] = json.loads(answer)
    except ValueError:  # it ended before the answer was complete
        return {"kind": "died", "message": "an incomplete answer" if answer else "no answer"}
    return answered


def _read_all(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


class SharedLauncher:
    """One :class:`Launcher` for all engines of a process; it ends when the last of them releases it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._launcher = Launcher()

    def acquire(self) -> Launcher:
        """Register a user; starts nothing yet."""
        with self._lock:
            self._users += 1
            return self._launcher

    def release(self) -> None:
        """Unregister a user; the last one ends the fork server."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._launcher.close()

    def close(self) -> None:
        """End the fork server, even while it is used."""
        self._launcher.close()


SHARED = SharedLauncher()
atexit.register(SHARED.close)  # for engines that were not closed
