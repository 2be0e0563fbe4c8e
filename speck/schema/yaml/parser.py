"""YAML and JSON text as plain data that remembers its lines, safe against hostile text.

Values are built straight from parser events, not from a tree of nodes: a composition of 100,000 jobs is
then read in a fraction of the memory, and an alias is counted before anything is expanded.  Scalars mean
what they mean to PyYAML's ``SafeLoader`` (YAML 1.1).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.resolver import Resolver

from speck.errors import Fault, UnreadableInput
from speck.schema.faults import Faults, quoted
from speck.schema.yaml.faults import syntax_fault

MAX_BYTES = 5 * 1024 * 1024
MAX_DEPTH = 20
MAX_NUMBER = 100  # characters; what PyYAML takes to read a number grows with the square of them
# Aliases may repeat what is written this many times over (a block of defaults in every job does so);
# text that grows exponentially passes any such factor at once.
MAX_GROWTH = 20
FREE_GROWTH = 10_000

_TAG = "tag:yaml.org,2002:"
_SCALAR_TAGS = frozenset(
    _TAG + name for name in ("null", "bool", "int", "float", "timestamp", "str", "binary")
)
_NUMBER_TAGS = frozenset((_TAG + "int", _TAG + "float"))
_TEXT_TAGS = frozenset(("!", _TAG + "str", _TAG + "merge", _TAG + "value"))
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class LinedDict(dict[str, Any]):
    """A mapping that knows the 1-based ``line`` where it starts, and that of each key in ``lines``."""

    __slots__ = ("line", "lines")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


class LinedList(list[Any]):
    """A sequence that knows the 1-based ``line`` where it starts, and those of its items in ``lines``."""

    __slots__ = ("line", "lines")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: list[int] = []


def line_of(container: object, key: str | int | None = None) -> int | None:
    """The line of a key (or of the container itself), where the text's format gives it."""
    if isinstance(container, LinedDict):
        return container.lines.get(key, container.line) if isinstance(key, str) else container.line
    if isinstance(container, LinedList):
        return container.lines[key] if isinstance(key, int) else container.line
    return None


@dataclass
class Document:
    """What a text holds, and the faults that did not keep it from being read (keys given twice)."""

    value: Any
    faults: Faults = field(default_factory=Faults)


def parse(text: str | bytes, *, format: str = "yaml", max_bytes: int = MAX_BYTES) -> Document:
    """Read a YAML or JSON document.

    Raises :class:`~speck.errors.UnreadableInput` when it cannot be read at all.
    """
    decoded = decode(text, max_bytes)
    if not decoded.strip():
        _refuse("the document is empty (expected a mapping)")
    return _parse_json(decoded) if format == "json" else _parse_yaml(decoded)


def _refuse(message: str, line: int | None = None) -> NoReturn:
    raise UnreadableInput([Fault(message, line=line)], "document")


def decode(text: str | bytes, max_bytes: int) -> str:
    """The text of a document.  Raises :class:`~speck.errors.UnreadableInput` when it is none, or too long."""
    try:
        encoded = text.encode() if isinstance(text, str) else text
        if len(encoded) > max_bytes:
            _refuse(f"the document has {len(encoded):,} bytes (at most {max_bytes:,} are accepted)")
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
    _refuse(_TOO_DEEP)


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
        raise UnreadableInput([syntax_fault(error)], "document") from error
    except yaml.YAMLError as error:
        raise UnreadableInput([Fault(f"not valid YAML: {error}")], "document") from error


@dataclass(frozen=True, slots=True)
class _Anchored:
    """What an anchor names, with its nodes (aliases in it expanded) and its levels."""

    value: Any
    nodes: int
    levels: int


class _Builder:
    """Builds values out of events; a method reads one node, and its recursion is as deep as the text's."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        self._resolver: Any = Resolver()
        self._constructor = SafeConstructor()
        self._anchors: dict[str, _Anchored] = {}
        self._written = 0
        self._repeated = 0
        self._deepest = 0
        self._faults = Faults()

    def document(self) -> Document:
        next(self._events)  # the stream's start
        if not isinstance(next(self._events), yaml.DocumentStartEvent):
            _refuse("the document is empty (expected a mapping)")
        value = self._node(next(self._events), 1)
        next(self._events)  # the document's end
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            _refuse("a second document follows (expected one to a file)", after.start_mark.line + 1)
        return Document(value, self._faults)

    def _node(self, event: Any, depth: int) -> Any:
        line = event.start_mark.line + 1
        if depth > MAX_DEPTH:
            _refuse(_TOO_DEEP, line)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(str(event.anchor), line, depth)
        self._written += 1
        self._deepest = max(self._deepest, depth)
        return self._built(event, line, depth) if event.anchor is None else self._anchor(event, line, depth)

    def _built(self, event: Any, line: int, depth: int) -> Any:
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, line)
        expected = _TAG + ("map" if isinstance(event, yaml.MappingStartEvent) else "seq")
        if event.tag not in (None, "!", expected):
            _refuse(f"the tag {quoted(event.tag)} is not accepted (expected plain YAML)", line)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(line, depth)
        return self._sequence(line, depth)

    def _anchor(self, event: Any, line: int, depth: int) -> Any:
        nodes, deepest = self._written + self._repeated, self._deepest
        self._deepest = depth
        value = self._built(event, line, depth)
        size = self._written + self._repeated - nodes + 1
        self._anchors[event.anchor] = _Anchored(value, size, self._deepest - depth + 1)
        self._deepest = max(deepest, self._deepest)
        return value

    def _alias(self, name: str, line: int, depth: int) -> Any:
        anchored = self._anchors.get(name)
        if anchored is None:
            both = f"{quoted('*' + name)} has no anchor {quoted('&' + name)}"
            _refuse(f"the alias {both} before it, or lies inside of it", line)
        self._repeated += anchored.nodes
        self._deepest = max(self._deepest, depth + anchored.levels - 1)
        if self._repeated > FREE_GROWTH + MAX_GROWTH * self._written:
            _refuse(f"the aliases blow the document up (to {self._repeated:,} nodes by here)", line)
        if self._deepest > MAX_DEPTH:
            _refuse(_TOO_DEEP, line)
        return anchored.value

    def _sequence(self, line: int, depth: int) -> LinedList:
        items = LinedList(line)
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.lines.append(event.start_mark.line + 1)
            items.append(self._node(event, depth + 1))
        return items

    def _mapping(self, line: int, depth: int) -> LinedDict:
        mapping = LinedDict(line)
        merged: list[LinedDict] = []
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            at = event.start_mark.line + 1
            if self._is_merge(event):
                merged += self._mergeable(self._node(next(self._events), depth + 1), at)
                continue
            key = self._node(event, depth + 1)
            value = self._node(next(self._events), depth + 1)
            self._put(mapping, key, value, at)
        for other in merged:  # the first one that names a key has it, and the mapping itself before all
            for key in other.keys() - mapping.keys():
                mapping[key], mapping.lines[key] = other[key], other.lines[key]
        return mapping

    def _put(self, mapping: LinedDict, key: object, value: object, line: int) -> None:
        if not isinstance(key, str):
            kind = " (YAML reads yes, no, on and off as true or false)" if isinstance(key, bool) else ""
            self._faults.append(Fault(f"a key is not text{kind}: put it in quotes", line=line))
        elif key in mapping:
            first = mapping.lines[key]
            self._faults.append(Fault(f"key {quoted(key)} is given twice (first in line {first})", line=line))
        else:
            mapping[key] = value
            mapping.lines[key] = line

    def _is_merge(self, event: Any) -> bool:
        return isinstance(event, yaml.ScalarEvent) and event.value == "<<" and bool(event.implicit[0])

    def _mergeable(self, value: object, line: int) -> list[LinedDict]:
        found = value if isinstance(value, LinedList) else [value]
        if not all(isinstance(each, LinedDict) for each in found):
            _refuse("'<<' does not name a mapping (expected '<<: *ANCHOR' of a mapping)", line)
        return list(found)

    def _scalar(self, event: Any, line: int) -> Any:
        tag = event.tag or self._resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag in _TEXT_TAGS:
            return event.value
        if tag not in _SCALAR_TAGS:
            _refuse(f"the tag {quoted(tag)} is not accepted (expected plain YAML)", line)
        if tag in _NUMBER_TAGS and len(event.value) > MAX_NUMBER:
            _refuse(f"a number has {len(event.value):,} characters (at most {MAX_NUMBER}, or quotes)", line)
        return self._constructed(yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark), line)

    def _constructed(self, node: yaml.ScalarNode, line: int) -> Any:
        construct = self._constructor.yaml_constructors[node.tag]
        try:
            return construct(self._constructor, node)
        except (ValueError, KeyError, IndexError, OverflowError, AttributeError, ConstructorError) as error:
            # The value is not repeated: it may be a secret that was written out.
            message = f"a value looks like YAML's {node.tag.removeprefix(_TAG)} and is none: put it in quotes"
            raise UnreadableInput([Fault(message, line=line)], "document") from error
