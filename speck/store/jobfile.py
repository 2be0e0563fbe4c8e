"""A job's file: its path under the roots, its type, and the hash of its content."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path

SUFFIXES: Mapping[str, tuple[str, ...]] = {"spark": (".py", ".zip", ".whl"), "flink": (".jar", ".py")}

LARGEST = 512 << 20  # bytes
_OUTSIDE = "is outside of the directories of job files"
_CLOSED = os.O_CLOEXEC | os.O_NOFOLLOW
# A directory on the way need not be readable.
_ENTER = _CLOSED | os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
_READ = _CLOSED | os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY


class BadFile(ValueError):
    """The fault of a job's file, as a predicate."""


def locate(job_path: str, roots: Sequence[Path]) -> Path:
    """The real path of a job's file, relative to the first root that has it.

    Raises :class:`BadFile` for a file that does not exist, is not a regular file, or is not under a root once
    ``..`` and symbolic links are followed; its message discloses nothing about files outside of the roots.
    Hidden files below a root (a part of the path begins with a dot) are rejected: these are SpecK's own
    store, repositories, keys.
    """
    inside = [path for root in roots if (path := _within(job_path, root.resolve())) is not None]
    if not inside:
        raise BadFile(_OUTSIDE)
    for path in inside:
        try:
            if path.is_file():
                return path
            if path.exists():
                raise BadFile("is not a regular file")
        except OSError as error:  # a name too long for the file system, a directory that may not be entered
            raise BadFile(f"cannot be accessed ({error.strerror})") from error
    searched = ", ".join(str(root.absolute()) for root in roots)
    raise BadFile(f"does not exist (searched in {searched} on {socket.gethostname()})")


def _within(job_path: str, root: Path) -> Path | None:
    written = Path(os.path.normpath(root / job_path))
    if not written.is_relative_to(root):
        return None  # before any access, so that the result discloses nothing about the file system
    try:
        real = written.resolve()
    except (OSError, RuntimeError) as error:  # a loop of links
        raise BadFile("cannot be resolved (a loop of symbolic links, or a path that is too long)") from error
    except UnicodeEncodeError as error:  # Python in a locale of another encoding, without its UTF-8 mode
        right = "expected a locale in UTF-8, such as LC_ALL=C.UTF-8, or PYTHONUTF8=1"
        raise BadFile(f"cannot be a name of a file in {error.encoding} ({right})") from error
    if not real.is_relative_to(root):
        return None
    if any(part.startswith(".") for part in real.relative_to(root).parts):
        raise BadFile("is hidden (expected no name in the path to begin with a dot)")
    return real


def type_fault(job_path: str, engine: str) -> str | None:
    """The fault of the type of a job's file for an engine, as a predicate; ``None`` if it is valid."""
    suffixes = SUFFIXES.get(engine)
    if suffixes is None or Path(job_path).suffix.lower() in suffixes:
        return None
    *others, last = suffixes
    return f"has the wrong type for {engine} (expected {', '.join(others)} or {last})"


def sha256_of(file: BufferedReader) -> str:
    """The SHA-256 of an open file's content, in hexadecimal.  Raises ``OSError``."""
    return hashlib.file_digest(file, "sha256").hexdigest()


def content_hash(path: Path, roots: Sequence[Path]) -> str:
    """The SHA-256 of a located file, in hexadecimal.  Raises :class:`BadFile`."""
    with open_located(path, roots) as file:
        try:
            return sha256_of(file)
        except OSError as error:
            raise BadFile(f"cannot be read ({error.strerror})") from error


def open_located(path: Path, roots: Sequence[Path]) -> BufferedReader:
    """Open a located file for reading.  Raises :class:`BadFile` if it cannot be read.

    Symbolic links on the way down from the root are not followed: a file or directory that was replaced by a
    link after it was located must not lead out of the root.
    """
    root = next((real for root in roots if path.is_relative_to(real := root.resolve())), None)
    if root is None:
        raise BadFile(_OUTSIDE)
    try:
        file = os.fdopen(_descend(root, path.relative_to(root).parts), "rb")
    except OSError as error:
        raise BadFile(f"cannot be read ({error.strerror})") from error
    try:
        _check_regular(os.fstat(file.fileno()))
    except BadFile:
        file.close()
        raise
    return file


def _descend(root: Path, parts: Sequence[str]) -> int:
    """The descriptor of a file, opened directory by directory."""
    *directories, name = parts
    with ExitStack() as stack:
        descriptor = os.open(root, _ENTER)
        stack.callback(os.close, descriptor)
        for directory in directories:
            descriptor = os.open(directory, _ENTER, dir_fd=descriptor)
            stack.callback(os.close, descriptor)
        return os.open(name, _READ, dir_fd=descriptor)


def _check_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise BadFile("is not a regular file")
    if status.st_size > LARGEST:
        raise BadFile(f"has {status.st_size:,} bytes (at most {LARGEST:,} are accepted)")
