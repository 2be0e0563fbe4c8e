"""YAML and JSON text as plain data with line numbers; safe against hostile text.

Values are built directly from parser events, not from a tree of nodes: a composition of 100,000 jobs is
read in a fraction of the memory, and aliases are counted before they are expanded.  Scalars are resolved
as by PyYAML's ``SafeLoader`` (YAML 1.1).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from sys import intern
from typing import Any, NoReturn

import yaml
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.resolver import Resolver

from speck.errors import Fault, UnreadableInput
from speck.schema.fault_report import Faults, quoted
from speck.schema.yaml.lines import LinedDict, LinedList
from speck.schema.yaml.plain import in_quotes, reads_otherwise

MAX_BYTES = 5 * 1024 * 1024  # of a file: it is read whole, before anything is checked
MAX_DEPTH = 20  # of nested values; the reader is recursive
_RESOLVED_TEXTS = 1024  # whose tags are remembered
MAX_NUMBER = 100  # characters; PyYAML reads a number in quadratic time
# Aliases may multiply the written nodes by this factor (a block of defaults in every job does so);
# exponential growth soon exceeds any factor.
MAX_GROWTH = 20
FREE_GROWTH = 10_000  # nodes by which anchors may make any file grow

_TAG = "tag:yaml.org,2002:"
_SCALAR_TAGS = frozenset(
    _TAG + name for name in ("null", "bool", "int", "float", "timestamp", "str", "binary")
)
_NUMBER_TAGS = frozenset((_TAG + "int", _TAG + "float"))
_TEXT_TAGS = frozenset(("!", _TAG + "str", _TAG + "merge", _TAG + "value"))
_RESOLVED = frozenset(Resolver.yaml_implicit_resolvers)  # first characters of values that may be no text
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass
class Document:
    """The value of a text, and the faults that did not prevent its parsing (repeated keys).

    No text in the value contains ``${`` unless ``may_refer``.
    """

    value: Any
    faults: Faults = field(default_factory=Faults)
    may_refer: bool = True


def parse(text: str | bytes, *, format: str = "yaml", max_bytes: int = MAX_BYTES) -> Document:
    """Parse a YAML or JSON document (``format``).

    Raises :class:`~speck.errors.UnreadableInput` for text that is not such a document.
    """
    decoded = decode(text, max_bytes)
    if not decoded.strip():
        _reject("the document is empty (expected a mapping)")
    document = _parse_json(decoded) if format == "json" else _parse_yaml(decoded)
    # Only an escape puts characters into a value that do not stand side by side in the text.
    document.may_refer = "${" in decoded or "\\" in decoded
    return document


def _reject(message: str, line: int | None = None) -> NoReturn:
    raise UnreadableInput([Fault(message, line=line)], "document")


def decode(text: str | bytes, max_bytes: int) -> str:
    """Decode a document from UTF-8.

    Raises :class:`~speck.errors.UnreadableInput` for other bytes, or more than ``max_bytes``.
    """
    try:
        encoded = text.encode() if isinstance(text, str) else text
        if len(encoded) > max_bytes:
            _reject(f"the document has {len(encoded):,} bytes (at most {max_bytes:,} are accepted)")
        return encoded.decode("utf-8-sig")
    except UnicodeError as error:
        message = f"the document is not UTF-8 text ({getattr(error, 'reason', error)})"
        raise UnreadableInput([Fault(message)], "document") from error


# --- JSON -----------------------------------------------------------------------------------------


def _parse_json(text: str) -> Document:
    document = Document(None)

    def pairs(items: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(items)
        if len(mapping) < len(items):
            document.faults += [Fault(f"key {quoted(key)} is given twice") for key in _repeated(items)]
        return mapping

    try:
        document.value = json.loads(text, object_pairs_hook=pairs)
        _check_depth(document.value)
    except json.JSONDecodeError as error:
        message = f"not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise UnreadableInput([Fault(message, line=error.lineno)], "document") from error
    except RecursionError as error:
        raise UnreadableInput([Fault(_TOO_DEEP)], "document") from error
    except ValueError as error:  # an integer of thousands of digits
        raise UnreadableInput([Fault(f"not valid JSON: {error}")], "document") from error
    return document


def _repeated(items: Sequence[tuple[str, Any]]) -> Iterator[str]:
    seen: set[str] = set()
    for key, _ in items:
        if key in seen:
            yield key
        seen.add(key)


_TOO_DEEP = f"the document is nested too deeply (at most {MAX_DEPTH} levels are accepted)"


def _check_depth(value: object) -> None:
    level: list[object] = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    _reject(_TOO_DEEP)


def _inside(value: object) -> Sequence[object]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else ()


# --- YAML -----------------------------------------------------------------------------------------


def _parse_yaml(text: str) -> Document:
    try:
        return _Builder(text).document()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UnreadableInput([Fault(f"not valid YAML: {error.reason}", line=line)], "document") from error
    except yaml.MarkedYAMLError as error:
        raise UnreadableInput([_syntax_fault(error)], "document") from error
    except yaml.YAMLError as error:
        raise UnreadableInput([Fault(f"not valid YAML: {error}")], "document") from error


@dataclass(frozen=True, slots=True)
class _Anchored:
    """The value of an anchor, its number of nodes (aliases in it expanded) and of levels.

    ``written`` is the text of a plain scalar that reads otherwise than it looks.
    """

    value: Any
    nodes: int
    levels: int
    written: str = ""


class _Builder:
    """Builds values from parser events; a method reads one node, and recurses as deep as the document.

    A long document is mostly plain text in mappings: those two are read in as few steps as possible.
    """

    def __init__(self, text: str) -> None:
        self._next_event: Callable[[], Any] = _LOADER(text).get_event
        # Words such as `true`, and numbers, are repeated in each item of a long list.
        self._tag_of = lru_cache(maxsize=_RESOLVED_TEXTS)(partial(Resolver().resolve, yaml.ScalarNode))
        self._constructor = SafeConstructor()
        self._anchors: dict[str, _Anchored] = {}
        self._written = 0
        self._repeated = 0
        self._deepest = 0
        self._written_text = ""  # of the last scalar, if it reads otherwise than it looks
        self._faults = Faults()

    def document(self) -> Document:
        self._next_event()  # start of the stream
        if not isinstance(self._next_event(), yaml.DocumentStartEvent):
            _reject("the document is empty (expected a mapping)")
        value = self._node(self._next_event(), 1)
        self._next_event()  # end of the document
        following = self._next_event()
        if not isinstance(following, yaml.StreamEndEvent):
            line = following.start_mark.line + 1
            _reject("a second document begins here (expected one document in a file)", line)
        return Document(value, self._faults)

    def _node(self, event: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            _reject(_TOO_DEEP, event.start_mark.line + 1)
        if event.__class__ is yaml.AliasEvent:
            return self._alias(event, depth)
        self._written += 1
        if depth > self._deepest:
            self._deepest = depth
        return self._built(event, depth) if event.anchor is None else self._anchor(event, depth)

    def _built(self, event: Any, depth: int) -> Any:
        if event.__class__ is yaml.ScalarEvent:
            return self._scalar(event)
        line = event.start_mark.line + 1
        expected = _TAG + ("map" if isinstance(event, yaml.MappingStartEvent) else "seq")
        if event.tag not in (None, "!", expected):
            _reject(f"the tag {quoted(event.tag)} is not accepted (expected plain YAML)", line)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(line, depth)
        return self._sequence(line, depth)

    def _anchor(self, event: Any, depth: int) -> Any:
        nodes, deepest = self._written + self._repeated, self._deepest
        self._deepest = depth
        value = self._built(event, depth)
        size = self._written + self._repeated - nodes + 1
        levels = self._deepest - depth + 1
        self._anchors[event.anchor] = _Anchored(value, size, levels, self._written_text)
        self._deepest = max(deepest, self._deepest)
        return value

    def _alias(self, event: Any, depth: int) -> Any:
        name, line = str(event.anchor), event.start_mark.line + 1
        anchored = self._anchors.get(name)
        if anchored is None:
            alias, anchor = quoted("*" + name), quoted("&" + name)
            _reject(f"the alias {alias} has no anchor {anchor} before it, or is inside of it", line)
        self._repeated += anchored.nodes
        self._deepest = max(self._deepest, depth + anchored.levels - 1)
        if self._repeated > FREE_GROWTH + MAX_GROWTH * self._written:
            _reject(f"the aliases expand the document too far (to {self._repeated:,} nodes up to here)", line)
        if self._deepest > MAX_DEPTH:
            _reject(_TOO_DEEP, line)
        self._written_text = anchored.written
        return anchored.value

    def _sequence(self, line: int, depth: int) -> LinedList:
        items = LinedList(line)
        while (event := self._next_event()).__class__ is not yaml.SequenceEndEvent:
            items.lines.append(event.start_mark.line + 1)
            items.append(self._node(event, depth + 1))
        self._written_text = ""
        return items

    def _mapping(self, line: int, depth: int) -> LinedDict:
        mapping, lines = LinedDict(line), dict[str, int]()
        merged: list[LinedDict] = []
        written = dict[str, str]()
        next_event, inner = self._next_event, depth + 1
        while (event := next_event()).__class__ is not yaml.MappingEndEvent:
            at = event.start_mark.line + 1
            if event.__class__ is yaml.ScalarEvent and event.value == "<<" and event.implicit[0]:
                merged += self._mergeable(self._node(next_event(), inner), at)
                continue
            key = self._node(event, inner)
            key_text, self._written_text = self._written_text, ""
            value = self._node(next_event(), inner)
            text, self._written_text = self._written_text, ""
            if key.__class__ is str and key not in mapping:
                key = intern(key)  # one text for the field of all jobs
                mapping[key] = value
                lines[key] = at
                if text:
                    written[key] = text
            else:
                self._refuse(key, key_text, at, lines)
        for other in merged:  # keys of the mapping itself override merged ones, earlier override later
            for key in other.keys() - mapping.keys():
                mapping[key], lines[key] = other[key], other.lines[key]
                if key in other.written:
                    written[key] = other.written[key]
        mapping.lines = lines
        if written:
            mapping.written = written
        return mapping

    def _refuse(self, key: object, written: str, line: int, lines: Mapping[str, int]) -> None:
        """Add the fault of a key that is not text, or that was given in another line."""
        if isinstance(key, str):
            message = f"key {quoted(key)} is given twice (first in line {lines[key]})"
        else:
            kind = "YAML reads yes, no, on and off as true or false; " if isinstance(key, bool) else ""
            text = f": {in_quotes(written)}" if written else ""
            message = f"a key is not text ({kind}put it in quotes{text})"
        self._faults.append(Fault(message, line=line))

    def _mergeable(self, value: object, line: int) -> list[LinedDict]:
        found = value if isinstance(value, LinedList) else [value]
        if not all(isinstance(each, LinedDict) for each in found):
            _reject("'<<' does not name a mapping (expected '<<: *ANCHOR' of a mapping)", line)
        return list(found)

    def _scalar(self, event: Any) -> Any:
        value = event.value
        # Only text that begins in certain ways can be anything else, unless it has a tag.
        if event.tag is None and (value[:1] not in _RESOLVED or not event.implicit[0]):
            return value
        tag = event.tag or self._tag_of(value, event.implicit)
        if tag in _TEXT_TAGS:
            if event.tag is None and event.implicit[0] and reads_otherwise(value, value):
                self._written_text = value
            return value
        line = event.start_mark.line + 1
        if tag not in _SCALAR_TAGS:
            _reject(f"the tag {quoted(tag)} is not accepted (expected plain YAML)", line)
        if tag in _NUMBER_TAGS and len(value) > MAX_NUMBER:
            message = f"a number has {len(value):,} characters"
            _reject(f"{message} (at most {MAX_NUMBER} are accepted; put text in quotes)", line)
        read = self._constructed(yaml.ScalarNode(tag, value, event.start_mark, event.end_mark), line)
        if event.tag is None and reads_otherwise(value, read):
            self._written_text = value
        return read

    def _constructed(self, node: yaml.ScalarNode, line: int) -> Any:
        construct = self._constructor.yaml_constructors[node.tag]
        try:
            return construct(self._constructor, node)
        except (ValueError, KeyError, IndexError, OverflowError, AttributeError, ConstructorError) as error:
            # The message does not repeat the value, which may be a secret in plain text.
            kind = node.tag.removeprefix(_TAG)
            message = f"a value looks like a YAML {kind} but is not a valid one (put it in quotes)"
            raise UnreadableInput([Fault(message, line=line)], "document") from error


# --- syntax errors --------------------------------------------------------------------------------

# Explanations by the words of libyaml's and PyYAML's parsers; the first match applies.
_EXPLANATIONS = (
    ("tab character", "indent with spaces, not with tabs"),
    (r"'\t'", "indent with spaces, not with tabs"),
    ("cannot start any token", "indent with spaces, and put text that begins with this character in quotes"),
    ("could not find expected ':'", "expected KEY: VALUE, with a space after the colon"),
    (
        "mapping values are not allowed",
        "indent each key like the first key of its mapping, and put text that contains ': ' in quotes",
    ),
    ("expected key", "indent each key like the first key of its mapping"),
    ("expected <block end>", "indent each key like the first key of its mapping"),
    ("expected '-' indicator", "indent each '-' like the first one of its list"),
    ("end of stream", "close the quote or bracket that opens in this line"),
    ("expected ',' or", "separate values with commas, and close the bracket"),
)


def _syntax_fault(error: yaml.MarkedYAMLError) -> Fault:
    """The fault of an error of the parser: its line, its words, and an explanation where one is known."""
    problem = error.problem or ""
    explanation = next((right for words, right in _EXPLANATIONS if words in problem), None)
    # The parser notices an unterminated construct only later; its start is more useful.
    unterminated = "end of stream" in problem or "expected ':'" in problem
    mark = (error.context_mark if unterminated else None) or error.problem_mark or error.context_mark
    message = f"not valid YAML: {' '.join(filter(None, (error.context, error.problem)))}"
    if explanation is not None:
        message += f" ({explanation})"
    return Fault(message, line=mark.line + 1 if mark is not None else None)
