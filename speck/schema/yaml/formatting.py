"""The usual format of a YAML document: indentation and spaces, with all comments.

The round trip is ruamel.yaml's, which keeps comments, quotes, anchors, merge keys and the order of keys.
"""

from __future__ import annotations

import io
import json
import re
import warnings
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from speck.errors import Fault, UnreadableInput
from speck.schema.yaml.parser import MAX_BYTES, decode, parse

_WIDTH = 4096  # characters; lines are not broken
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
_BLANK = re.compile(r"\n{3,}")


def formatted(content: bytes) -> bytes:
    """The document in the usual format: two spaces a level, at most one blank line between two others.

    Raises :class:`~speck.errors.UnreadableInput` for text that is no YAML document, for JSON, and for a
    document that would be read in another way.
    """
    text = decode(content, MAX_BYTES)
    before = parse(content)
    if text.lstrip().startswith("{"):
        raise _refused("is JSON, or begins as JSON (expected YAML)")
    result = _round_trip(text)
    if _plain(parse(result).value) != _plain(before.value) or _comments(result) != _comments(text):
        raise _refused("cannot be formatted without a change of its meaning or its comments")
    return result.encode()


def _round_trip(text: str) -> str:
    trip: Any = YAML()
    trip.indent(mapping=2, sequence=2, offset=0)
    trip.preserve_quotes = True
    trip.width = _WIDTH
    out = io.StringIO()
    try:
        with warnings.catch_warnings(action="ignore"):  # of floats in another form; the value is compared
            trip.dump(trip.load(text), out)
    except YAMLError as error:
        raise _refused(f"cannot be read ({' '.join(str(error).split())})") from error
    lines = (line.rstrip() for line in out.getvalue().splitlines())
    return _BLANK.sub("\n\n", "\n".join(lines)).strip("\n") + "\n"


def _refused(predicate: str) -> UnreadableInput:
    return UnreadableInput([Fault(f"the document {predicate}")], "document")


def _plain(value: Any) -> str:
    """The value as text that differs when the value or the order of its keys does."""
    return json.dumps(value, default=repr)


def _comments(text: str) -> list[str]:
    """The comments in their order, without the spaces before them."""
    # PyYAML has no tokens of comments: they lie between those of the scalars.
    scalars = (each for each in yaml.scan(text) if isinstance(each, yaml.ScalarToken))
    found, end = list[str](), 0
    places = [(each.start_mark.index, each.end_mark.index) for each in scalars]
    for start, after in [*places, (len(text), len(text))]:
        found += _COMMENT.findall(text[end:start])
        end = after
    return [each.rstrip() for each in found]
