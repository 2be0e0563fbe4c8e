"""Locations of a job's state: from Flink's statistics of its checkpoints, or found as files."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from speck.core.runtime import State

_METADATA = "_metadata"
# The head of that file: a magic number, its version, and the checkpoint's number (Flink's Checkpoints class
# and MetadataV2V3SerializerBase, big-endian).
_HEAD, _MAGIC = struct.Struct(">iiq"), 0x4960672D
_STOP = "SYNC_SAVEPOINT"  # the kind of savepoint that ends a job


def stop_savepoint(statistics: Mapping[str, Any]) -> str | None:
    """The location of the savepoint with which the job was stopped; ``None`` if it ended otherwise."""
    latest = _latest(statistics, "savepoint")
    return _location(latest) if str(latest.get("checkpoint_type", "")).startswith(_STOP) else None


def newest_state(statistics: Mapping[str, Any]) -> str | None:
    """The newest savepoint or checkpoint that still exists and from which a job can start."""
    found = [_latest(statistics, kind) for kind in ("completed", "savepoint")]
    existing = [each for each in found if _location(each)]
    newest = max(existing, key=lambda each: int(each["id"]), default=None)
    return _location(newest) if newest is not None else None


def last_checkpoint(statistics: Mapping[str, Any]) -> str | None:
    """The last periodic checkpoint, if it still exists."""
    return _location(_latest(statistics, "completed"))


def completed(statistics: Mapping[str, Any]) -> int:
    """The number of checkpoints and savepoints that a job has completed."""
    return int((statistics.get("counts") or {}).get("completed") or 0)


def restored(statistics: Mapping[str, Any]) -> str | None:
    """The state from which a job was started."""
    return (_latest(statistics, "restored").get("external_path")) or None


def remove_folders(location: str) -> None:
    """Remove the folders of a deleted savepoint's attempt and job, if they are empty."""
    path = local_path(location)
    if path is not None and path.name.startswith("savepoint-"):
        with suppress(OSError):
            path.parent.rmdir()
            path.parent.parent.rmdir()


def newest_on_disk(savepoints: str, checkpoints: str, job: str) -> str | None:
    """The newest state of a job among the files that this machine sees; for jobs that Flink has forgotten.

    Flink numbers a job's checkpoints and savepoints in one sequence, which continues in a job that starts
    from one of them.  The times of the files are no order: after a loss of power, the clock of a machine
    without a battery is behind.
    """
    places = [*_below(savepoints, "savepoint-*"), *_below(f"{checkpoints}/{job}", "chk-*")]
    newest = max(places, key=_number, default=None)
    return f"file:{newest}" if newest is not None else None


def visible(checkpoints: str, job: str) -> bool:
    """True if this machine sees a job's checkpoint folder, which Flink creates when the job starts."""
    folder = local_path(f"{checkpoints}/{job}")
    return folder is not None and folder.is_dir()


def missing(location: str) -> str | None:
    """The reason why no job can start from a state, as far as this machine sees; ``None`` if one may."""
    path = local_path(location)
    if path is None or not path.parent.parent.is_dir():
        return None  # on another machine, or on another file system
    if path.name == _METADATA:
        path = path.parent
    return None if (path / _METADATA).is_file() else f"there is no savepoint at {location!r}"


def unshared(state: State, own: Sequence[str], reader: str) -> str | None:
    """The reason why another cluster may not be able to read a state; ``None`` if it can.

    ``own`` are the directories of the cluster at ``reader``, which show the file systems that it uses.  Files
    of one machine are visible to all clusters there; other clusters see them if they use the same folder, as
    with a shared mount.
    """
    path, places = local_path(state.location), [each for each in own if each]
    if path is None:
        seen = _file_system(state.location) in map(_file_system, places)
    else:
        folders = [folder for folder in map(local_path, places) if folder is not None]
        seen = _host(state.address) == _host(reader) or any(map(path.is_relative_to, folders))
    if seen:
        return None
    return f"{reader} keeps its states at {', '.join(places) or 'no place'}, and may not see {state.location}"


def local_path(location: str) -> Path | None:
    """The path of a ``file:`` location (or of a bare path)."""
    parts = urlsplit(location)
    if parts.scheme in ("", "file") and not parts.netloc and parts.path.startswith("/"):
        return Path(unquote(parts.path) if parts.scheme else parts.path)
    return None


def _file_system(location: str) -> tuple[str, str]:
    parts = urlsplit(location)
    return parts.scheme, parts.netloc


def _host(address: str) -> str:
    host = urlsplit(address).hostname or ""
    return "127.0.0.1" if host == "localhost" else host


def _latest(statistics: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return (statistics.get("latest") or {}).get(kind) or {}


def _location(checkpoint: Mapping[str, Any]) -> str | None:
    path = str(checkpoint.get("external_path") or "")
    # Without a checkpoint directory, Flink keeps checkpoints in memory; their path is a text in "<>".
    return path if path and not path.startswith("<") and not checkpoint.get("discarded") else None


def _number(place: Path) -> float:
    """The number of a checkpoint or savepoint.

    A savepoint whose file is damaged counts as the newest, since it ended the job: a start from it fails,
    which a start from an older state would not, though it loses messages.
    """
    name = place.name.removeprefix("chk-")
    if name != place.name and name.isdecimal():
        return int(name)
    with (place / _METADATA).open("rb") as file:
        head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return float("inf")
    magic, _, number = _HEAD.unpack(head)
    return int(number) if magic == _MAGIC else float("inf")


def _below(location: str, pattern: str) -> Iterator[Path]:
    folder = local_path(location)
    if folder is not None and folder.is_dir():
        yield from (found for found in folder.glob(pattern) if (found / _METADATA).is_file())
