"""Where a job's state is: read out of what Flink says of its checkpoints, or found as files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from speck.core.runtime import State

_METADATA = "_metadata"
_STOP = "SYNC_SAVEPOINT"  # the kind of savepoint that ends a job


def stop_savepoint(statistics: Mapping[str, Any]) -> str | None:
    """Where the savepoint is with which the job was stopped; ``None`` of a job that ended otherwise."""
    latest = _latest(statistics, "savepoint")
    return _place(latest) if str(latest.get("checkpoint_type", "")).startswith(_STOP) else None


def newest_state(statistics: Mapping[str, Any]) -> str | None:
    """The newest savepoint or checkpoint that is still there and can be started from."""
    found = [_latest(statistics, kind) for kind in ("completed", "savepoint")]
    there = [each for each in found if _place(each)]
    newest = max(there, key=lambda each: int(each["id"]), default=None)
    return _place(newest) if newest is not None else None


def last_checkpoint(statistics: Mapping[str, Any]) -> str | None:
    """The last checkpoint that Flink made by itself, if it is still there."""
    return _place(_latest(statistics, "completed"))


def completed(statistics: Mapping[str, Any]) -> int:
    """How many checkpoints and savepoints a job has completed, wherever they are."""
    return int((statistics.get("counts") or {}).get("completed") or 0)


def restored(statistics: Mapping[str, Any]) -> str | None:
    """What a job was started from."""
    return (_latest(statistics, "restored").get("external_path")) or None


def remove_folders(location: str) -> None:
    """Of a savepoint that is no more: the folders of its attempt and its job, where they are empty."""
    path = local_path(location)
    if path is not None and path.name.startswith("savepoint-"):
        with suppress(OSError):
            path.parent.rmdir()
            path.parent.parent.rmdir()


def left_behind(savepoints: str, checkpoints: str, job: str) -> str | None:
    """The newest state that a job left as files that this machine sees, of a job that Flink has forgotten."""
    places = [*_below(savepoints, "savepoint-*"), *_below(f"{checkpoints}/{job}", "chk-*")]
    newest = max(places, key=lambda path: (path / _METADATA).stat().st_mtime_ns, default=None)
    return f"file:{newest}" if newest is not None else None


def visible(checkpoints: str, job: str) -> bool:
    """Whether this machine sees where a job puts its checkpoints: Flink makes the folder at the start."""
    folder = local_path(f"{checkpoints}/{job}")
    return folder is not None and folder.is_dir()


def missing(location: str) -> str | None:
    """Say why a state cannot be started from, as far as this machine can tell; ``None`` if it may."""
    path = local_path(location)
    if path is None or not path.parent.parent.is_dir():
        return None  # of another machine, or of another file system
    if path.name == _METADATA:
        path = path.parent
    return None if (path / _METADATA).is_file() else f"there is no savepoint at {location!r}"


def unshared(state: State, own: Sequence[str], reader: str) -> str | None:
    """Why a state cannot be taken to be readable by another cluster; ``None`` when it can.

    ``own`` are the places where the cluster at ``reader`` has its own states, which tell what file systems it
    uses.  Files of one machine are seen by all clusters there; other clusters see them when they name the
    same folder, as is done with a shared mount.
    """
    path, places = local_path(state.location), [each for each in own if each]
    if path is None:
        seen = _file_system(state.location) in map(_file_system, places)
    else:
        folders = [folder for folder in map(local_path, places) if folder is not None]
        seen = _host(state.address) == _host(reader) or any(map(path.is_relative_to, folders))
    if seen:
        return None
    return f"{reader} has its states at {', '.join(places) or 'no place'}, and may not see {state.location}"


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


def _place(checkpoint: Mapping[str, Any]) -> str | None:
    path = str(checkpoint.get("external_path") or "")
    # Without a directory for checkpoints, Flink keeps them in memory and says so in words.
    return path if path and not path.startswith("<") and not checkpoint.get("discarded") else None


def _below(location: str, pattern: str) -> Iterator[Path]:
    folder = local_path(location)
    if folder is not None and folder.is_dir():
        yield from (found for found in folder.glob(pattern) if (found / _METADATA).is_file())
