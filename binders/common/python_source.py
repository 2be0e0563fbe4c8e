"""A job's source in Python, read and parsed within bounds: a file may be anything, and the server goes on."""

from __future__ import annotations

import ast
import lzma
import struct
import threading
import zipfile
import zlib
from pathlib import Path

# Python 3.11 counts the depth of a tree that it makes for all threads together, and takes two for a fault.
_PARSING = threading.Lock()

LARGEST = 4 << 20  # bytes; the tree of a source takes some hundred times its size

# What an archive that is none, or was made to do harm, has Python's own modules raise.
UNREADABLE = (
    *(OSError, EOFError, ValueError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
)


class BadSource(ValueError):
    """What is wrong with a source, as a sentence that names it."""


def why_unreadable(error: BaseException) -> str:
    """The words of one of the errors in ``UNREADABLE``, in one line."""
    return " ".join(str(error).split()) or "it ends too early"


def read_source(path: Path) -> bytes:
    """A file of Python.  Raises :class:`BadSource` for one that is too large, and :class:`OSError`."""
    with path.open("rb") as file:
        return _bounded(file.read(LARGEST + 1), path.name)


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """A file of Python in an archive, however small it was packed.  Raises as :func:`read_source` does."""
    with archive.open(name) as file:
        return _bounded(file.read(LARGEST + 1), name)


def parsed(source: bytes, where: str) -> ast.Module:
    """The tree of a source.  Raises :class:`BadSource`."""
    try:
        with _PARSING:
            return ast.parse(source, where)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        told = f"{where!r} is not valid Python: {error.args[0]}" + (f" (line {line})" if line else "")
        raise BadSource(told) from error
    except (MemoryError, RecursionError) as error:  # so the parser says that it is
        raise BadSource(f"{where!r} is nested too deeply for Python to read") from error


def _bounded(source: bytes, where: str) -> bytes:
    if len(source) > LARGEST:
        raise BadSource(f"{where!r} is too large for a file of Python (at most {LARGEST:,} bytes are read)")
    return source
