"""The hooks that start and stop workers, or engines: a command, a URL, or the local sites of this machine.

A hook runs in a thread of its own and within :data:`BOUND`.  It is given the desired number of workers (of an
engine that itself is started and stopped: 1 or 0), so that calling it twice changes nothing.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import IO

from speck.binder.bounded_http import FAILURE, LATE, NEVER_SENT, HttpClient
from speck.core.inventory import Hook
from speck.errors import SecretUnavailable

_log = logging.getLogger(__name__)

BOUND = 60.0  # s, for one call of a hook

_GRACE = 2.0  # s, between SIGTERM and SIGKILL
_POLL = 0.05  # s
_LONGEST_OUTPUT = 16 << 20  # bytes of a command
_TAIL = 4096  # bytes of an output or an answer that are read
_SHOWN = 200  # characters of its last line


@dataclass(frozen=True, slots=True)
class WorkerRequest:
    """The desired number of workers of an engine (its address), and the ids of those to be stopped."""

    site: str
    engine: str
    count: int
    stop: tuple[str, ...] = ()


@dataclass
class HookCall:
    """One call of a hook.  ``bound`` is the time that it may take, s; ``fault`` is empty if it succeeded."""

    hook: Hook
    request: WorkerRequest
    bound: float = BOUND
    fault: str = field(default="", init=False)
    _done: threading.Event = field(default_factory=threading.Event, init=False)
    _cancelled: threading.Event = field(default_factory=threading.Event, init=False)
    _begun: float = field(default_factory=time.monotonic, init=False)

    def start(self) -> None:
        """Begin the call."""
        threading.Thread(target=self._run, name="worker-hook", daemon=True).start()

    def is_done(self) -> bool:
        """True once it has ended, or its time is over: looking up a name may take longer."""
        if not self._done.is_set() and time.monotonic() - self._begun > self.bound + 2 * _GRACE:
            self._end(f"did not end within {self.bound:g} s")
        return self._done.is_set()

    def cancel(self) -> None:
        """End a command that runs, with its process group, and wait for that."""
        self._cancelled.set()
        if self.hook.url is None:
            self._done.wait(2 * _GRACE)

    def _run(self) -> None:
        try:
            fault = self._call_url(self.hook.url) if self.hook.url else self._call_command()
        except Exception as error:  # the group waits for the end of its hook, whatever that is
            _log.exception("a hook of workers failed")
            fault = f"internal error: {error!r}"
        self._end(fault)

    def _end(self, fault: str) -> None:
        if not self._done.is_set():
            self.fault = fault
            self._done.set()

    # --- a URL

    def _call_url(self, url: str) -> str:
        request, token = self.request, self.hook.token
        body = {
            "site": request.site,
            "engine": request.engine,
            "workers": request.count,
            "stop": list(request.stop),
        }
        client = HttpClient()
        try:
            headers = {"Content-Type": "application/json"}
            if token is not None:
                headers["Authorization"] = f"Bearer {token.reveal()}"
            content = json.dumps(body).encode()
            answer = client.request("PUT", url, seconds=self.bound, body=content, headers=headers)
        except SecretUnavailable as error:
            return str(error)
        except NEVER_SENT as error:
            return f"cannot be reached ({type(error).__name__})"
        except LATE:
            return f"did not answer within {self.bound:g} s"
        except (FAILURE, ValueError) as error:  # ValueError: a token that no header can carry
            return f"gave no answer ({type(error).__name__})"
        finally:
            client.close()
        if answer.status < HTTPStatus.MULTIPLE_CHOICES:
            return ""
        return f"answered {answer.status}{_last_line(answer.body[:_TAIL])}"

    # --- a command

    def _call_command(self) -> str:
        # A file, not a pipe: a worker that the command starts may keep its output open, and must not get a
        # SIGPIPE for it.
        with tempfile.TemporaryFile() as output:
            try:
                process = subprocess.Popen(
                    command_of(self.hook, self.request),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                return f"cannot be started ({getattr(error, 'strerror', None) or error})"
            fault = self._await(process, output)
            if fault:
                _end_group(process)
                return fault
            return "" if process.returncode == 0 else _exit_of(process.returncode, output)

    def _await(self, process: subprocess.Popen[bytes], output: IO[bytes]) -> str:
        """Wait for the end of a command; returns the reason why it is to be ended."""
        while process.poll() is None:
            if time.monotonic() - self._begun > self.bound:
                return f"did not end within {self.bound:g} s"
            if self._cancelled.is_set():
                return "was stopped, since the server shuts down"
            if os.fstat(output.fileno()).st_size > _LONGEST_OUTPUT:
                return f"wrote more than {_LONGEST_OUTPUT >> 20} MiB"
            time.sleep(_POLL)
        return ""


# A worker chooses its own id (taskmanager.resource-id of Flink), and scripts may pass it to a shell.
_NAMEABLE = re.compile(r"[A-Za-z0-9._:][A-Za-z0-9._:-]{0,254}\Z")


def is_nameable(worker: str) -> bool:
    """True if the id of a worker may be given to a hook: no option, no list, nothing that a shell expands."""
    return _NAMEABLE.match(worker) is not None


def command_of(hook: Hook, request: WorkerRequest) -> list[str]:
    """The command line of a hook, its placeholders filled in."""
    if hook.local is not None:
        stop = (part for each in request.stop for part in ("--stop", each))
        place = ("--directory", hook.local, "--engine", request.engine)
        local = (sys.executable, "-m", "speck.cli", "local", "workers", request.site, str(request.count))
        return [*local, *place, "--no-wait", *stop]
    values = {
        "{site}": request.site,
        "{engine}": request.engine,
        "{count}": str(request.count),
        "{stop}": ",".join(request.stop),
    }
    return [_filled(each, values) for each in hook.command]


def _filled(argument: str, values: Mapping[str, str]) -> str:
    for placeholder, value in values.items():
        argument = argument.replace(placeholder, value)
    return argument


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it has started, unless that has left its process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        # Its leader is not reaped before, so the group's id is still its own.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        if number is signal.SIGTERM:
            time.sleep(_GRACE / 4)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)


def _exit_of(code: int, output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _TAIL))
    ended = f"was ended by signal {-code}" if code < 0 else f"exited with {code}"
    return f"{ended}{_last_line(output.read(_TAIL))}"


def _last_line(content: bytes) -> str:
    lines = [line for line in content.decode("utf-8", "replace").splitlines() if line.strip()]
    if not lines:
        return ""
    shown = "".join(letter for letter in lines[-1].strip() if letter.isprintable())
    return f": {shown[:_SHOWN]}"
