"""A job's file: where it lies under the roots, what type it has, and the hash that names its content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

SUFFIXES: Mapping[str, tuple[str, ...]] = {"spark": (".py", ".zip", ".whl"), "flink": (".jar", ".py")}


class BadFile(ValueError):
    """What is wrong with a job's file, as the end of a sentence."""


def locate(job_path: str, roots: Sequence[Path]) -> Path:
    """The real path of a job's file, relative to the first root that has it.

    Raises :class:`BadFile` when it is missing, no ordinary file, or not under a root once ``..`` and
    symbolic links are followed; nothing is told of what lies outside of the roots.
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
    return real if real.is_relative_to(root) else None


def type_fault(job_path: str, engine: str) -> str | None:
    """What is wrong with the type of a job's file for an engine, as the end of a sentence."""
    suffixes = SUFFIXES.get(engine)
    if suffixes is None or Path(job_path).suffix.lower() in suffixes:
        return None
    return f"is no file type for {engine} (expected {' or '.join(suffixes)})"


def content_hash(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal.  Raises :class:`BadFile` when it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadFile(f"cannot be read ({error.strerror})") from error
