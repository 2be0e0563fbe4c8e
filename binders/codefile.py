"""Reading a job's file, whatever is wrong with it.

Python's readers of archives and of source raise errors of many kinds at a file that is damaged, locked with
a password, or made to be too much for them.
"""

from __future__ import annotations

import ast
import lzma
import struct
import zipfile
import zlib

UNREADABLE = (
    *(OSError, EOFError, ValueError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
)


def why_unreadable(error: BaseException) -> str:
    """The words of one of the errors in ``UNREADABLE``, in one line."""
    return " ".join(str(error).split()) or "it ends too early"


def parsed(source: bytes, where: str) -> ast.Module | str:
    """A Python source as its tree, or what is wrong with it, as a sentence that names it as ``where``."""
    try:
        return ast.parse(source, where)
    except (RecursionError, MemoryError):
        return f"{where!r} cannot be read: an expression in it is nested too deeply"
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        return f"{where!r} is not valid Python: {error.args[0]}" + (f" (line {line})" if line else "")
