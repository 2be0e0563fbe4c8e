"""LevelDB's files in a directory, and the seal by which a lost or truncated file is found at the next open.

LevelDB checks what a file holds, not whether files are there: without ``CURRENT`` it begins an empty
database over the old one, and a shortened list of files loses what is no longer listed.  A store that is
closed writes its files and their sizes (bytes) into a seal, which the next opening compares.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from speck.core.durable_files import sync_directory, sync_file
from speck.store.artifacts import SCRATCH

_SEAL = "SEAL"
_NEW = "rewritten"  # a folder with all files of a database that is to take the place of the present one
_OWN = re.compile(r"CURRENT\Z|MANIFEST-\d+\Z|\d+\.(?:ldb|sst|log)\Z")


def database_files(directory: Path) -> dict[str, int]:
    """LevelDB's files that hold data, with their sizes in bytes."""
    found = (path for path in directory.iterdir() if _OWN.match(path.name)) if directory.is_dir() else ()
    return {path.name: path.stat().st_size for path in sorted(found)}


@contextmanager
def locked(directory: Path) -> Iterator[bool]:
    """Keep others from opening the database, which must not be open here; true if that succeeded."""
    with (directory / "LOCK").open("a") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the very lock that LevelDB takes
        except OSError:
            yield False
        else:
            yield True


def seal(directory: Path) -> None:
    """Note what is there, of a database that was closed."""
    (directory / _SEAL).write_text(json.dumps(database_files(directory)), encoding="ascii")


def replace(new: Path, old: Path) -> None:
    """Put the files of a database that was closed in the place of another's, which nobody has open.

    The new files are complete in a folder of their own before the first old one is deleted: no process opens
    the database meanwhile, and :func:`end_replacement` ends what a crash has interrupted.
    """
    _copy_files(new, old / _NEW, [*database_files(new), _SEAL])
    end_replacement(old)


def is_half_replaced(directory: Path) -> bool:
    """True if a crash has interrupted :func:`replace`."""
    return (directory / _NEW).is_dir()


def end_replacement(directory: Path) -> None:
    """Replace the files of a database by those of :func:`replace`, if there are any; may be repeated."""
    if not is_half_replaced(directory):
        return
    new = directory / _NEW
    unseal(directory)
    for name in database_files(directory):
        (directory / name).unlink()
    for path in sorted(new.iterdir()):
        shutil.copyfile(path, directory / path.name)
        sync_file(directory / path.name)
    sync_directory(directory)
    with tempfile.TemporaryDirectory(dir=directory, prefix=SCRATCH) as scratch:
        new.rename(Path(scratch) / _NEW)  # in one step: half of its files must not replace anything
        sync_directory(directory)  # nor all of them what is written from now on


def set_aside(directory: Path, copy: Path) -> None:
    """Copy the database's files to a new folder in the same directory."""
    _copy_files(directory, copy, database_files(directory))


def _copy_files(source: Path, target: Path, names: Iterable[str]) -> None:
    """Copy files to a new folder, which has its name once all of them are on the disk."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=SCRATCH) as scratch:
        whole = Path(scratch) / "copy"
        whole.mkdir()
        for name in names:
            shutil.copy2(source / name, whole / name)
            sync_file(whole / name)
        sync_directory(whole)
        whole.rename(target)
    sync_directory(target.parent)


def unseal(directory: Path) -> None:
    """Remove the note; the files are about to change."""
    (directory / _SEAL).unlink(missing_ok=True)


def missing_or_cut(directory: Path) -> str:
    """The fault of the files, in words; empty without one."""
    if is_half_replaced(directory):
        return "its repair was interrupted"
    there = database_files(directory)
    sealed = _sealed(directory)
    if there and "CURRENT" not in there:
        return "its file CURRENT is missing"
    if there and not sealed and not any(name.endswith(".log") for name in there):
        return "its log is missing"
    if gone := sorted(sealed.keys() - there.keys()):
        return f"{', '.join(gone)} missing"
    cut = [
        f"{name} has {there[name]} of {size} bytes" for name, size in sealed.items() if there[name] != size
    ]
    return "; ".join(cut)


def _sealed(directory: Path) -> dict[str, int]:
    try:
        data = json.loads((directory / _SEAL).read_bytes())
    except (OSError, ValueError):
        return {}  # it was not closed, as after a crash: LevelDB's own checks are all there is
    return {str(name): int(size) for name, size in data.items()} if isinstance(data, dict) else {}
