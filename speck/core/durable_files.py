"""Files that outlive a loss of power once they are there."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file so that a loss of power leaves the old content or the new; readable by its owner."""
    descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            keep_owner(descriptor, path)
            file.write(content)
        put_in_place(Path(scratch), path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(scratch).unlink()


def keep_owner(descriptor: int, path: Path) -> None:
    """Give an open file, which will replace ``path``, the owner of that, or else of its directory.

    The server and the agents run as a user of their own, and could not read what ``sudo speck`` has written.
    By the descriptor, since that user may put a link in the place of the file's name.
    """
    if os.geteuid() == 0:
        before = (path if path.exists() else path.parent).stat()
        os.fchown(descriptor, before.st_uid, before.st_gid)


def put_in_place(scratch: Path, path: Path) -> None:
    """Give a complete file its name, in a directory of the same disk.

    Without its content on the disk first, the name may be there after a loss of power, of an empty file.
    """
    sync_file(scratch)
    scratch.replace(path)
    sync_directory(path.parent)


def put_in_new_place(scratch: Path, path: Path) -> None:
    """Give a complete file a name that no file has, as :func:`put_in_place`.

    Raises :class:`FileExistsError` if another process has given that name to a file meanwhile.
    """
    sync_file(scratch)
    try:
        os.link(scratch, path)  # unlike a rename, it replaces nothing
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links, such as FAT
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        scratch.replace(path)
    else:
        scratch.unlink()
    with contextlib.suppress(OSError):  # as of a directory of another machine
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
