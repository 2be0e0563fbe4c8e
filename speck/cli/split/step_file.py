"""The file of recorded steps, whose lines are whole: a program that learns from it reads each of them."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any, Self

from speck.errors import Fault, InvalidInput


class StepFile:
    """A file to which steps are appended, a line of JSON each; used as a context manager."""

    def __init__(self, path: Path) -> None:
        """Open a file, or create it.

        Raises :class:`OSError`, and :class:`~speck.errors.InvalidInput` for one that ends within a step.
        """
        self._path = path
        self._file = FileIO(path, "ab")
        try:
            self._regular = stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)
            if self._regular:
                self._end_last_line()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, step: Mapping[str, Any]) -> None:
        """Append a step; if that fails, as on a full disk, nothing of it stays.  Raises :class:`OSError`."""
        self._write(json.dumps(step).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        end = os.fstat(self._file.fileno()).st_size
        try:
            while line:
                line = line[self._file.write(line) or 0 :]
        except BaseException as error:  # an interrupt between two parts of a line, too
            if self._regular:
                with contextlib.suppress(OSError):
                    self._file.truncate(end)
            if isinstance(error, OSError):
                error.filename = str(self._path)
            raise

    def _end_last_line(self) -> None:
        """End the last line if its newline is missing; refuse one that a loss of power has cut."""
        with self._path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0 or os.pread(file.fileno(), 1, file.tell() - 1) == b"\n":
                return
        content = self._path.read_bytes()
        try:
            json.loads(content.rpartition(b"\n")[2])
        except ValueError as error:
            right = "expected a step as JSON: remove this line, or choose another file"
            line = content.count(b"\n") + 1
            message = f"--output: {str(self._path)!r} ends within line {line} ({right})"
            raise InvalidInput([Fault(message)], "output") from error
        self._write(b"\n")
