"""Reads and parses a job's Python source within bounds, so that no file can harm the server."""

from __future__ import annotations

import ast
import lzma
import struct
import threading
import zipfile
import zlib
from pathlib import Path

# Python 3.11 counts the nesting of parsers of all threads together, and two at once for an error.
_PARSER_LOCK = threading.Lock()

MAX_BYTES = 4 << 20  # a syntax tree takes some hundred times the memory of its source

# The errors that Python's own modules raise on a file that is no archive, or a malicious one.
UNREADABLE = (
    *(OSError, EOFError, ValueError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
)


class BadSource(ValueError):
    """A source that cannot be used; the message is a sentence that names it."""


def unreadable_reason(error: BaseException) -> str:
    """The message of one of the errors in ``UNREADABLE``, in one line."""
    return " ".join(str(error).split()) or "unexpected end of file"


def read_source(path: Path) -> bytes:
    """Read a Python file.  Raises :class:`BadSource` if it is too large, and :class:`OSError`."""
    with path.open("rb") as file:
        return _bounded(file.read(MAX_BYTES + 1), path.name)


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read a Python file in an archive; the limit is on its unpacked size.  Raises as :func:`read_source`."""
    with archive.open(name) as file:
        return _bounded(file.read(MAX_BYTES + 1), name)


def parsed(source: bytes, where: str) -> ast.Module:
    """The syntax tree of a source.  Raises :class:`BadSource`."""
    try:
        with _PARSER_LOCK:
            return ast.parse(source, where)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        message = f"{where!r} is not valid Python: {error.args[0]}" + (f" (line {line})" if line else "")
        raise BadSource(message) from error
    except (MemoryError, RecursionError) as error:  # the parser's errors for nesting that is too deep
        raise BadSource(f"{where!r} is nested too deeply for Python to read") from error


def _bounded(source: bytes, where: str) -> bytes:
    if len(source) > MAX_BYTES:
        raise BadSource(f"{where!r} is too large for a Python file (expected at most {MAX_BYTES:,} bytes)")
    return source
