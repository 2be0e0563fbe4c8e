"""Suggestions for misspelt names, as parts of error messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_COMPARED = 100  # characters of a name


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar; ``None`` if none is similar."""
    near = get_close_matches(name[:_COMPARED], list(known), n=1)
    return near[0] if near else None


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """A question with the known name that is most similar; ``otherwise`` if none is similar."""
    near = closest(name, known)
    return f"did you mean {near!r}?" if near is not None else otherwise


def similar_names(name: str, known: Iterable[str]) -> str:
    """The known names that are similar, in parentheses at the end of a sentence; empty without one."""
    near = get_close_matches(name, list(known), n=3)
    return f" (did you mean {' or '.join(repr(each) for each in near)}?)" if near else ""
