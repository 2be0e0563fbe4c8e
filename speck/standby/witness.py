"""The witness: it stores which server of a pair is the primary, and whether the other one has all of it.

Its record is on disk before an answer that depends on it.  It grants an epoch to the standby only if that is
in step, and the primary has been silent; to the primary again at any time, as after its restart.  A primary
writes and calls nothing before it has said that it serves: until then, the former one may replace it, which
has everything, too.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from speck.core.durable_files import replace_file
from speck.errors import Fault, InvalidInput
from speck.standby.lease import steady
from speck.standby.messages import Answer, BadRequest, Header, Refused, Timing, flag_in, number_in, text_in


@dataclass(frozen=True, slots=True)
class Vote:
    """The primary: its ``epoch`` (0: there was none), the id of the server, its URL.

    ``in_sync``: the standby has everything that was written.  ``former``: the id of the primary before, until
    this one serves.
    """

    epoch: int = 0
    holder: str = ""
    url: str = ""
    in_sync: bool = False
    former: str = ""


def vote_in(answer: Header) -> Vote:
    """The record in an answer; a witness of a later version may have more in it."""
    known = {each.name for each in fields(Vote)}
    return Vote(**{name: value for name, value in answer.items() if name in known})


class Witness:
    """``path`` is the file of the record; ``clock`` is steady, s.  Safe to use from several threads.

    Raises :class:`~speck.errors.InvalidInput` for a file that cannot be used.
    """

    def __init__(self, path: Path, timing: Timing | None = None, clock: Callable[[], float] = steady) -> None:
        self._path, self._timing, self._clock = path, timing or Timing(), clock
        self.vote = _read(path)
        self._write(self.vote)  # a directory that is not writable is reported now
        # A renewal may have come just before a restart.
        self._silent_from = clock() + self._timing.silence
        self._number = 0
        self._guard = threading.Lock()

    def handle(self, operation: str, header: Header, payload: bytes) -> Answer:
        """Answer a request.  Raises :class:`~speck.standby.messages.Refused` and ``BadRequest``."""
        with self._guard:
            if operation == "status":
                # Servers of earlier versions end at a field that they do not have.
                return {name: value for name, value in asdict(self.vote).items() if name != "former" or value}
            if operation == "renew":
                return self._renew(header)
            if operation == "claim":
                return self._claim(header)
        raise BadRequest(f"{operation!r} is no operation of a witness (expected status, renew or claim)")

    def _renew(self, header: Header) -> Answer:
        """Confirm the primary, and store whether its standby is in step."""
        epoch, number = number_in(header, "epoch"), number_in(header, "number")
        given = Vote(epoch, text_in(header, "holder"), text_in(header, "url"), flag_in(header, "in_sync"))
        if epoch < self.vote.epoch or (epoch == self.vote.epoch and given.holder != self.vote.holder):
            raise self._refused("another server is the primary")
        if epoch == self.vote.epoch and number <= self._number:
            raise Refused("a later request has come before", epoch, given.holder)
        if header.get("opening") is True and epoch == self.vote.epoch:
            given = replace(given, in_sync=self.vote.in_sync, former=self.vote.former)
        self._store(given)
        self._number = number
        self._silent_from = self._clock() + self._timing.silence
        return asdict(given)

    def _claim(self, header: Header) -> Answer:
        """Grant the next epoch."""
        known, holder = number_in(header, "epoch"), text_in(header, "holder")
        own = holder == self.vote.holder
        if not own and (why := self._reason_against(holder, flag_in(header, "first"))):
            raise self._refused(why)
        epoch = max(known, self.vote.epoch) + 1
        former = self.vote.former if own else self.vote.holder
        self._store(Vote(epoch, holder, text_in(header, "url"), own and self.vote.in_sync, former))
        self._number = 0
        self._silent_from = self._clock() + self._timing.silence
        return asdict(self.vote)

    def _reason_against(self, holder: str, first: bool) -> str:
        if not self.vote.epoch:
            return "" if first else "no server has been the primary yet"
        if not self.vote.in_sync and holder != self.vote.former:
            return "the standby has not all that the primary has written"
        if self._clock() < self._silent_from:
            return "the primary is in contact"
        return ""

    def _refused(self, why: str) -> Refused:
        return Refused(f"{why} (epoch {self.vote.epoch})", self.vote.epoch, self.vote.holder)

    def _store(self, vote: Vote) -> None:
        if vote != self.vote:
            self._write(vote)
            self.vote = vote

    def _write(self, vote: Vote) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self._path, (json.dumps({"format": 1, **asdict(vote)}) + "\n").encode())
        except OSError as error:
            raise _wrong(f"{self._path} cannot be written: {error.strerror or error}") from error


def _read(path: Path) -> Vote:
    try:
        data: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        return Vote()
    except (OSError, ValueError) as error:
        raise _wrong(f"{path} cannot be read as the record of a witness: {error}") from error
    try:
        if not isinstance(data, dict) or data.get("format") != 1:
            raise BadRequest("no format 1")
        epoch, in_sync = number_in(data, "epoch"), flag_in(data, "in_sync")
        former = text_in({"former": "", **data}, "former")
        return Vote(epoch, text_in(data, "holder"), text_in(data, "url"), in_sync, former)
    except BadRequest as error:
        raise _wrong(f"{path} is not the record of a witness (expected format 1)") from error


def _wrong(message: str) -> InvalidInput:
    return InvalidInput([Fault(message)], "witness")
