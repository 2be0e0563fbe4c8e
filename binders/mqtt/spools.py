"""The spools of the processes that write at a site: messages on disk, of which its broker may have lost some.

The connectors write them (``Spool`` and ``SpoolFolder`` of mqtt-core): files ``BROKER/ID/NUMBER.log`` below
the folder ``~spool`` beside the checkpoints of an engine, with an ``ID`` for each process.  ``NUMBER`` is
that of the first message in a file; a record is a length and a check sum (4 bytes each), and the packet of a
message.  The broker retains a mark of each process, with the number of a message: that one, and all before
it, it had when it saved its memory.

Nothing is locked or changed here.  A process that takes a spool over meanwhile sends what the broker lacks.
"""

from __future__ import annotations

import fcntl
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from binders.mqtt.address import BrokerAddress
from binders.mqtt.connection import Connection
from binders.mqtt.retained import VERSION_TOPIC, echo_topic, retained_all

Stamp = tuple[str, str]  # the name of the job that wrote a message, and its sequence; empty for none

_FOLDER = "~spool"
_ID, _FILE = re.compile("[0-9a-f]{32}"), re.compile(r"([0-9]{19})\.log")
_HEAD = struct.Struct(">i4x")
_PUBLISH, _RETAIN = 0x32, 0x01  # MQTT 5, 3.3.1: a PUBLISH packet with QoS 1
_JOB, _SEQUENCE = "speck-job", "speck-seq"
_BRIDGES = "$SYS/broker/connection/"
_MOST_MARKS = 100  # that are read at once
_LEFT = 600.0  # s, in which a process that was restarted has taken over what it had left
_LOCK = struct.Struct("hhqqi")  # struct flock of Linux: kind, whence, begin, length, process


@dataclass(frozen=True, slots=True)
class Spool:
    """The messages that one process holds for a broker, or held when it ended."""

    folder: Path

    @property
    def mark(self) -> str:
        """The topic of its mark."""
        return f"speck/sink/{self.folder.name}"

    def is_stranded(self, now: float) -> bool:
        """True if no process holds it, or has written to it for some minutes; ``now`` is Unix time, s."""
        firsts = self._files()
        try:
            written = (self.folder / f"{firsts[-1]:019}.log").stat().st_mtime if firsts else now
            return now - written > _LEFT and not _is_locked(self.folder / "lock")
        except FileNotFoundError:  # taken over meanwhile
            return False

    def covers(self, number: int) -> bool:
        """True if no message behind the one of this number was dropped before the broker had saved it."""
        firsts = self._files()
        return not firsts or firsts[0] <= number + 1

    def after(self, number: int) -> Iterator[tuple[str, Stamp]]:
        """The topic and the stamp of each message behind the one of this number.

        Raises :class:`OSError` for a file that cannot be read, and :class:`ValueError` for a damaged one.
        """
        firsts = self._files()
        for first, following in zip(firsts, [*firsts[1:], None], strict=False):
            if following is not None and following <= number + 1:
                continue
            try:
                content = (self.folder / f"{first:019}.log").read_bytes()
            except FileNotFoundError:  # taken over meanwhile, or older than the broker's last save
                continue
            records = _records(content, is_last=following is None)
            yield from map(_message, islice(records, max(0, number + 1 - first), None))

    def _files(self) -> list[int]:
        """The numbers in the names of its files; none for a spool that was taken over meanwhile."""
        try:
            names = [each.name for each in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        return sorted(int(found[1]) for name in names if (found := _FILE.fullmatch(name)))


def spools(checkpoints: str | None, address: BrokerAddress) -> list[Spool] | None:
    """The spools for a broker beside the checkpoints of an engine, whatever user their processes write as.

    ``None`` for checkpoints that are in no folder of this machine.  Raises :class:`OSError`.
    """
    folder = _local_folder(checkpoints or "")
    if folder is None or not folder.is_dir():
        return None
    root = folder / _FOLDER
    if not root.exists():
        return []
    host = re.sub("[^A-Za-z0-9.-]", "_", address.host.removesuffix("."))
    name = re.compile(f"{re.escape(host)}-{address.port}-[0-9a-f]{{8}}")
    brokers = [each for each in root.iterdir() if name.fullmatch(each.name)]
    return [Spool(each) for broker in brokers for each in broker.iterdir() if _ID.fullmatch(each.name)]


def marked(control: Connection, found: Sequence[Spool]) -> list[int] | None:
    """The numbers in the marks of spools; 0 for one without a mark, of which the broker may have lost all.

    ``None`` at a broker with a bridge, which may have sent it back marks that it had not saved.
    """
    bridges = control.retained_at_once([f"{_BRIDGES}+/state"], VERSION_TOPIC, echo_topic())
    if any(topic.startswith(_BRIDGES) for topic in bridges):
        return None
    marks: list[bytes | None] = []
    for at in range(0, len(found), _MOST_MARKS):
        marks += retained_all(control, [each.mark for each in found[at : at + _MOST_MARKS]])
    return [int(each) if each is not None and each.isdigit() else 0 for each in marks]


def _is_locked(path: Path) -> bool:
    """True if a process has locked a file; to lock it here could keep one from taking the spool over."""
    with path.open("rb") as file:
        answer = fcntl.fcntl(file, fcntl.F_GETLK, _LOCK.pack(fcntl.F_WRLCK, 0, 0, 0, 0))
    return bool(_LOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def stamp_of(properties: Any) -> Stamp:
    """The stamp in the properties of a message; empty for one in binary form, too."""
    texts = dict(getattr(properties, "UserProperty", ()))
    return texts.get(_JOB, ""), texts.get(_SEQUENCE, "")


def _local_folder(location: str) -> Path | None:
    if location.startswith("/"):
        return Path(location)
    parts = urlsplit(location)
    is_local = parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path.startswith("/")
    return Path(unquote(parts.path)) if is_local else None


def _records(content: bytes, *, is_last: bool) -> Iterator[bytes]:
    """The packets in a file.  What a crash left of the last one has not been acknowledged to its writer."""
    at = 0
    while at + _HEAD.size <= len(content):
        (length,) = _HEAD.unpack_from(content, at)
        end = at + _HEAD.size + length
        if length <= 0 or end > len(content):
            break
        yield content[at + _HEAD.size : end]
        at = end
    if at < len(content) and not is_last:
        raise ValueError(f"damaged at byte {at}")


def _message(packet: bytes) -> tuple[str, Stamp]:
    """The topic and the stamp of a message, with its properties as MQTT 5, 3.3.2, has them."""
    remaining, at = _number(packet, 1)
    if packet[0] & ~_RETAIN != _PUBLISH or at + remaining != len(packet):
        raise ValueError("not the packet of a message")
    topic, at = _text(packet, at)
    length, at = _number(packet, at + 2)  # behind the packet's identifier
    end, texts = at + length, dict[str, str]()
    while at < end:
        name, at = _text(packet, at + 1)  # behind the kind of the property: all are texts of a user
        texts[name], at = _text(packet, at)
    return topic, (texts.get(_JOB, ""), texts.get(_SEQUENCE, ""))


def _number(packet: bytes, at: int) -> tuple[int, int]:
    """A number of variable length (MQTT 5, 1.5.5), and the place behind it."""
    found = 0
    for place, part in enumerate(packet[at : at + 4]):
        found |= (part & 0x7F) << 7 * place
        if part < 0x80:
            return found, at + place + 1
    raise ValueError("not the packet of a message")


def _text(packet: bytes, at: int) -> tuple[str, int]:
    """A text with its length (MQTT 5, 1.5.4), and the place behind it."""
    end = at + 2 + int.from_bytes(packet[at : at + 2])
    return packet[at + 2 : end].decode(errors="replace"), end
