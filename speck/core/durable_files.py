"""Files that outlive a loss of power once they are there."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PRIVATE = stat.S_IRUSR | stat.S_IWUSR
# A directory, or the place where a container has a file, may take no other file than those that are there.
_TAKES_NO_FILE = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EROFS)
# Of names of open files, which a rename would take away.
_OF_SYSTEM = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file so that a loss of power leaves the old content or the new; readable by its owner.

    Raises :class:`OSError`.
    """
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


def rewrite_file(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a user's file so that a crash, or a full disk, leaves the old content or the new.

    The file keeps its permissions and, if that is allowed, its owner; a link still leads to it.  A new one
    has ``mode``, as the umask allows, and written by root the owner of its directory.  What is not a regular
    file, or is in a directory that takes no further file, is written in place.  Raises :class:`OSError`.
    """
    before = path.stat() if path.exists() else None
    regular = before is None or stat.S_ISREG(before.st_mode)
    if not regular or path.absolute().parent in _OF_SYSTEM:
        path.write_bytes(content)
        return
    target = Path(os.path.realpath(path))
    try:
        with scratch_beside(target, mode if before is None else _PRIVATE) as scratch:
            with scratch.open("wb") as file:
                if before is None:
                    keep_owner(file.fileno(), path)
                else:
                    _make_like(file.fileno(), before)
                file.write(content)
            sync_file(scratch)
            scratch.replace(target)
    except OSError as error:
        if before is None or error.errno not in _TAKES_NO_FILE:
            error.filename = str(path)  # not that of a file which the user does not know
            raise
        path.write_bytes(content)
    else:
        with contextlib.suppress(OSError):  # as of a directory of another machine
            sync_directory(target.parent)


def create_file(path: Path, content: bytes) -> None:
    """Write a user's new file as a whole.

    Raises :class:`OSError`, which is a :class:`FileExistsError` if there is one of that name.
    """
    try:
        with scratch_beside(path) as scratch:
            scratch.write_bytes(content)
            put_in_new_place(scratch, path)
    except OSError as error:
        error.filename = str(path)
        raise


@contextlib.contextmanager
def scratch_beside(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """An empty file in the directory of another one, under a name that no other process has.

    It is removed at the end, unless it has got its final name by then.
    """
    scratch = path.with_name(f".speck-{secrets.token_hex(8)}")
    os.close(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    try:
        yield scratch
    finally:
        scratch.unlink(missing_ok=True)


def _make_like(descriptor: int, other: os.stat_result) -> None:
    """Give an open file the owner of another one, if that is allowed, and its permissions."""
    with contextlib.suppress(OSError):
        os.fchown(descriptor, other.st_uid, other.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(other.st_mode))


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
    """Make the content of a file durable.  Raises :class:`OSError`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable.  Raises :class:`OSError`."""
    sync_file(directory)
