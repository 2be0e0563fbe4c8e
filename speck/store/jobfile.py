"""A job's file: where it lies under the roots, what type it has, and the hash that names its content."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path

SUFFIXES: Mapping[str, tuple[str, ...]] = {"spark": (".py", ".zip", ".whl"), "flink": (".jar", ".py")}

LARGEST = 512 << 20  # bytes
_CLOSED = os.O_CLOEXEC | os.O_NOFOLLOW
# To enter a directory it need not be readable.
_ENTER = _CLOSED | os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
_READ = _CLOSED | os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY


class BadFile(ValueError):
    """What is wrong with a job's file, as the end of a sentence."""


def locate(job_path: str, roots: Sequence[Path]) -> Path:
    """The real path of a job's file, relative to the first root that has it.

    Raises :class:`BadFile` when it is missing, no ordinary file, or not under a root once ``..`` and
    symbolic links are followed; nothing is told of what lies outside of the roots.  What is hidden below a
    root (its name, or that of a directory on the way, begins with a dot) is nobody's job: there lie SpecK's
    own store, repositories, keys.
    """
    inside = [path for root in roots if (path := _within(job_path, root.resolve())) is not None]
    if not inside:
        raise BadFile("lies outside of the directories that job files are taken from")
    for path in inside:
        try:
            if path.is_file():
                return path
            if path.exists():
                raise BadFile("is not an ordinary file")
        except OSError as error:  # a name too long for the file system, a directory that may not be entered
            raise BadFile(f"cannot be looked for ({error.strerror})") from error
    raise BadFile(f"does not exist (looked for it under {', '.join(str(root) for root in roots)})")


def _within(job_path: str, root: Path) -> Path | None:
    written = Path(os.path.normpath(root / job_path))
    if not written.is_relative_to(root):
        return None  # before the file system is asked, so that an answer tells nothing of it
    try:
        real = written.resolve()
    except (OSError, RuntimeError) as error:  # a link that leads to itself
        raise BadFile("cannot be followed to a file") from error
    if not real.is_relative_to(root):
        return None
    if any(part.startswith(".") for part in real.relative_to(root).parts):
        raise BadFile("is hidden (job files and their directories have names that do not begin with a dot)")
    return real


def type_fault(job_path: str, engine: str) -> str | None:
    """What is wrong with the type of a job's file for an engine, as the end of a sentence."""
    suffixes = SUFFIXES.get(engine)
    if suffixes is None or Path(job_path).suffix.lower() in suffixes:
        return None
    return f"is no file type for {engine} (expected {' or '.join(suffixes)})"


def content_hash(path: Path, roots: Sequence[Path]) -> str:
    """The SHA-256 of a file that was located, in hexadecimal.  Raises :class:`BadFile`."""
    with open_located(path, roots) as file:
        try:
            return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise BadFile(f"cannot be read ({error.strerror})") from error


def open_located(path: Path, roots: Sequence[Path]) -> BufferedReader:
    """Open a file that was located, for reading.  Raises :class:`BadFile` when it cannot be read.

    No link is followed any more on the way down from its root, so that what was put in the place of the file,
    or of a directory, after it was located is not read unless it lies under the root itself.
    """
    root = next((real for root in roots if path.is_relative_to(real := root.resolve())), None)
    if root is None:
        raise BadFile("lies outside of the directories that job files are taken from")
    try:
        file = os.fdopen(_descend(root, path.relative_to(root).parts), "rb")
    except OSError as error:
        raise BadFile(f"cannot be read ({error.strerror})") from error
    try:
        _refuse_odd(os.fstat(file.fileno()))
    except BadFile:
        file.close()
        raise
    return file


def _descend(root: Path, parts: Sequence[str]) -> int:
    """The descriptor of a file, of which each directory on the way is opened by itself."""
    *directories, name = parts
    with ExitStack() as stack:
        descriptor = os.open(root, _ENTER)
        stack.callback(os.close, descriptor)
        for directory in directories:
            descriptor = os.open(directory, _ENTER, dir_fd=descriptor)
            stack.callback(os.close, descriptor)
        return os.open(name, _READ, dir_fd=descriptor)


def _refuse_odd(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise BadFile("is not an ordinary file")
    if status.st_size > LARGEST:
        raise BadFile(f"has {status.st_size:,} bytes (at most {LARGEST:,} are taken)")
