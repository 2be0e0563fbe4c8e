"""Files that outlive a loss of power once they are there."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file so that a loss of power leaves the old content or the new; readable by its owner."""
    descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        put_in_place(Path(scratch), path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(scratch).unlink()


def put_in_place(scratch: Path, path: Path) -> None:
    """Give a complete file its name, in a directory of the same disk.

    Without its content on the disk first, the name may be there after a loss of power, of an empty file.
    """
    sync_file(scratch)
    scratch.replace(path)
    sync_directory(path.parent)


def sync_file(path: Path) -> None:
    """Make the content of a file durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    sync_file(directory)
