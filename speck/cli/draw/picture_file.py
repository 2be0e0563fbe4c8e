"""The file of a picture: its suffix, and the errors of writing it as messages for users."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from speck.errors import Fault, InvalidInput, SpeckError

SUFFIXES = (".svg", ".png")


def check_suffix(path: Path) -> None:
    """Raise :class:`InvalidInput` for the name of a file that is no SVG and no PNG."""
    if path.suffix.lower() not in SUFFIXES:
        raise picture_error(path, f"has an unknown suffix (expected {' or '.join(SUFFIXES)})")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Import what draws pictures, and write one, inside.

    Raises :class:`InvalidInput` if the path cannot be written, and :class:`SpeckError` where the extra
    ``speck[graph]`` is not installed.
    """
    # The warning of a home directory without a place for its cache does not concern a single picture.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        yield
    except ModuleNotFoundError as error:
        needs = f"a picture needs the package {error.name}, which is not installed"
        raise SpeckError(f"{needs} (pip install 'speck[graph]')") from error
    except OSError as error:
        raise picture_error(path, f"cannot be written: {error.strerror}") from error


def picture_error(path: Path, predicate: str) -> InvalidInput:
    """The error of a picture at ``path``, of which the text ``predicate`` says what is wrong."""
    return InvalidInput([Fault(f"picture {str(path)!r} {predicate}", value=str(path))], "picture")
