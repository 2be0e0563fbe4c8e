"""The journal of an agent on disk: the starts that it has made, and those that it has given up."""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from speck.core.durable_files import replace_file
from speck.core.runtime import Attempt
from speck.link.codec import decode, encode
from speck.link.journal import MOST, JournalEntry, mark_of

FORMAT = 1

_log = logging.getLogger(__name__)


class Journal:
    """Safe to use from several threads.  ``clock`` gives Unix time, s."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = path, clock
        self._lock = threading.Lock()
        self._id, self._entries = self._read()
        # A full disk may not have taken the last entries of a process that was killed, which the coordinator
        # has read: it skips the entries with numbers that it has read.
        self._next = self._entries[-1].number + 1 + MOST if self._entries else 1

    @property
    def mark(self) -> str:
        """The mark of the last entry."""
        with self._lock:
            return mark_of(self._id, self._entries[-1].number if self._entries else 0)

    def after(self, number: int) -> list[JournalEntry]:
        """The entries after this one, as far as they are kept."""
        with self._lock:
            return [each for each in self._entries if each.number > number]

    def add(self, attempt: Attempt, text: str, *, started: bool) -> None:
        """Add an entry; on a full disk it is kept in memory."""
        with self._lock:
            entry = JournalEntry(
                number=self._next,
                at=self._clock(),
                job=attempt.job_name,
                attempt=attempt.number,
                started=started,
                text=text,
            )
            self._next += 1
            self._entries = [*self._entries, entry][-MOST:]
            data = {"format": FORMAT, "id": self._id, "entries": [encode(each) for each in self._entries]}
            try:
                replace_file(self._path, json.dumps(data).encode())
            except OSError as error:
                _log.error("%s cannot be written: %s", self._path, error.strerror)

    def _read(self) -> tuple[str, list[JournalEntry]]:
        try:
            data = json.loads(self._path.read_bytes())
            if data["format"] == FORMAT:
                return str(data["id"]), decode(list[JournalEntry], data["entries"], "entries")
            _log.error("%s is replaced: its format is %r (expected %d)", self._path, data["format"], FORMAT)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.error("%s is replaced: %s", self._path, error)
        return uuid.uuid4().hex[:8], []
