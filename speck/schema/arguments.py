"""Whether a job's arguments are those that its code takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from speck.binder import Parameter
from speck.core.job import Scalar

_WORDS: Mapping[type, str] = {bool: "true or false", float: "a number", int: "a whole number", str: "text"}


def argument_faults(
    entry_class: str, taken: Sequence[Parameter], given: Mapping[str, Scalar]
) -> Iterator[str]:
    """In a sentence each: what is not taken, what is needed, and what is of another type."""
    known = {each.name: each for each in taken}
    for name in given.keys() - known.keys():
        near = get_close_matches(name, known, n=1)
        right = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known) or 'none'}"
        yield f"{entry_class!r} takes no argument {name!r} ({right})"
    for name, parameter in known.items():
        if name not in given and parameter.needed:
            yield f"{entry_class!r} needs an argument {name!r} (expected arguments: {{{name}: ...}})"
        elif name in given and not _fits(given[name], parameter.types):
            words = _WORDS[parameter.types[-1]]
            yield f"argument {name!r} is {given[name]!r}, and {entry_class!r} takes {words}"


def _fits(value: Scalar, types: Sequence[type]) -> bool:
    # Python takes True for a 1; who writes `true` for a number has made a slip.
    return not types or (isinstance(value, tuple(types)) and (bool in types or not isinstance(value, bool)))
