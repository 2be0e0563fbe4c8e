"""A bound of the processor time of some processes, by a control group (version 1 or 2)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_ROOT = Path("/sys/fs/cgroup")
_PERIOD = 10_000  # µs; with 100 ms, processes would be paused for most of it
_PATIENCE = 10.0  # s, for processes to end


class CpuQuota:
    """A group whose processes use at most ``cores``; a context manager, at whose end they are killed."""

    def __init__(self, name: str, cores: float) -> None:
        first = (_ROOT / "cpu").is_dir()
        self._first = first
        self._directory = (_ROOT / "cpu" if first else _ROOT) / name
        self._cores = cores

    def __enter__(self) -> Self:
        self._directory.mkdir()
        self.set(self._cores)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        deadline = time.monotonic() + _PATIENCE
        while (pids := self.pids()) and time.monotonic() < deadline:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        self._directory.rmdir()

    def set(self, cores: float) -> None:
        """Change the bound."""
        quota = round(cores * _PERIOD)
        if self._first:
            (self._directory / "cpu.cfs_period_us").write_text(str(_PERIOD))
            (self._directory / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self._directory / "cpu.max").write_text(f"{quota} {_PERIOD}")

    def pids(self) -> list[int]:
        """The processes in the group."""
        return [int(each) for each in (self._directory / "cgroup.procs").read_text().split()]

    def add(self, pid: int) -> None:
        """Add a running process."""
        (self._directory / "cgroup.procs").write_text(str(pid))

    def command(self, arguments: Sequence[str]) -> list[str]:
        """The command that runs another one in the group."""
        enter = f'echo $$ > {self._directory}/cgroup.procs; exec "$@"'
        return ["sh", "-c", enter, "sh", *arguments]
