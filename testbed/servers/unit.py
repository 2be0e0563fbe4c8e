"""A service under the rules of its systemd unit, where no systemd runs: how it is started, and started again.

The keys that concern the life of the process are followed (systemd.service(5), systemd.kill(5)); those of its
surroundings, as its user and what it may write, are not.  A unit with other keys is refused.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import psutil

FOLLOWED = frozenset({"ExecStart", "Restart", "RestartSec", "SuccessExitStatus", "StartLimitIntervalSec"})
_SURROUNDINGS = frozenset(
    (
        *("User", "Group", "EnvironmentFile", "StateDirectory", "StateDirectoryMode", "MemoryHigh"),
        *("ReadWritePaths", "NoNewPrivileges", "PrivateTmp", "ProtectSystem", "ProtectHome"),
    )
)
_LOOK = 0.02  # s between two looks at the processes of the service
_STOPPING = 90.0  # s, by default, from SIGTERM to SIGKILL


def keys_of(*texts: str) -> dict[str, str]:
    """The keys of a unit and of its drop-ins; an empty ``ExecStart=`` forgets the former one."""
    found: dict[str, str] = {}
    for text in texts:
        section = ""
        for line in text.splitlines():
            if line.startswith("["):
                section = line.strip("[]")
            elif section in ("Service", "Unit") and (given := re.match(r"([A-Za-z]+)=(.*)", line)):
                found[given[1]] = given[2]
    of_service = found.keys() - {"Description", "Wants", "After"}
    assert of_service <= FOLLOWED | _SURROUNDINGS, of_service
    return found


class UnitService:
    """The service of a unit, given by its keys; ``starts`` counts those of its main process.

    All processes of the service are ended with the main one, as those of its control group are.
    """

    def __init__(self, keys: Mapping[str, str], log: Path, variables: Mapping[str, str]) -> None:
        self._command = shlex.split(keys["ExecStart"])
        self._restart = keys.get("Restart", "no")
        self._pause = float(keys.get("RestartSec", "0.1"))
        self._clean = {0, *map(int, keys.get("SuccessExitStatus", "").split())}
        # Only a unit without a limit is started again as often as it ends.
        assert self._restart == "no" or keys.get("StartLimitIntervalSec") == "0"
        self._log, self._variables = log, dict(variables)
        self.starts = 0
        self.codes: list[int] = []  # exit codes of the main process so far
        self._process: subprocess.Popen[bytes] | None = None
        self._others: dict[int, psutil.Process] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="unit")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(2 * _STOPPING)

    @property
    def pid(self) -> int:
        """The id of the main process; 0 while there is none."""
        process = self._process
        return 0 if process is None or process.poll() is not None else process.pid

    @property
    def log(self) -> str:
        """The output of the service."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def kill(self) -> None:
        """End the main process, as the system does that is out of memory."""
        self._note_others(self.pid)
        os.kill(self.pid, signal.SIGKILL)

    def _supervise(self) -> None:
        while not self._stopped.is_set():
            code = self._run_once()
            self.codes.append(code)
            again = self._restart == "always" or (self._restart == "on-failure" and code not in self._clean)
            if not again or self._stopped.wait(self._pause):
                return

    def _run_once(self) -> int:
        """Run the main process until it ends, or the service is stopped; returns its exit code."""
        self.starts += 1
        with self._log.open("ab") as log:
            try:
                process = subprocess.Popen(
                    self._command, cwd="/", stdout=log, stderr=log, env=self._variables
                )
            except OSError as error:
                log.write(f"Failed at step EXEC spawning {self._command[0]}: {error.strerror}\n".encode())
                return 203  # EXIT_EXEC, systemd.exec(5)
            self._process = process
            until = float("inf")
            while process.poll() is None:
                self._note_others(process.pid)
                if self._stopped.is_set() and until == float("inf"):
                    until = time.monotonic() + _STOPPING
                    process.terminate()
                if time.monotonic() > until:
                    process.kill()
                time.sleep(_LOOK)
            self._end_others()
            return process.returncode

    def _note_others(self, pid: int) -> None:
        with contextlib.suppress(psutil.Error):
            self._others |= {each.pid: each for each in psutil.Process(pid).children(recursive=True)}

    def _end_others(self) -> None:
        for each in self._others.values():
            with contextlib.suppress(psutil.Error):  # also for another process that has got its id since
                each.kill()
        self._others.clear()
