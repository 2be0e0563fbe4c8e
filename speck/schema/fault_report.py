"""Faults of a user's text: how they are worded and collected.

A message is the name of a field, its value as written, and a predicate that states the fault and the right
form: ``source_topic 'a/#/b' has a misplaced '#' (expected it alone at the end, as in 'a/#')``.
"""

from __future__ import annotations

import datetime
import json
import math
import string
from collections.abc import Hashable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from speck.core.suggestions import closest
from speck.errors import Fault, InvalidInput
from speck.schema.secret_detection import holds_secret
from speck.schema.yaml.lines import line_of, written_in

MAX_FAULTS = 1000  # a file of another kind has a fault in each line: the rest is counted
SHOWN_LENGTH = 100  # characters of a name or value in a message
MAX_SHOWN = 1000  # characters of a wrong value in the data of a fault
# The most comparisons of names for suggestions in one document.
SUGGESTION_BUDGET = 20_000
_NO_DIGITS = str.maketrans("", "", string.digits)
MISSING = "is missing"  # the first words about a field that is not there
NO_SITES = "no site is known: give --sites FILE to speck serve or speck validate"


class Faults(list[Fault]):
    """The faults of one text; raises :class:`InvalidInput` when there are :data:`MAX_FAULTS` of them."""

    def append(self, fault: Fault) -> None:
        super().append(fault)
        if len(self) >= MAX_FAULTS:
            raise InvalidInput([*self, Fault(f"stopped after {MAX_FAULTS:,} faults")], "document")

    def __iadd__(self, faults: Iterable[Fault]) -> Faults:  # type: ignore[override,misc]
        for fault in faults:
            self.append(fault)
        return self


class FaultReport:
    """Collects the faults of one mapping: of a job (``job``), or of another thing named by ``subject``."""

    def __init__(
        self, faults: list[Fault], data: Mapping[str, Any], *, job: str | None = None, subject: str = ""
    ) -> None:
        self.faults = faults
        self.data = data
        self.job = job
        self.subject = subject
        self._before = len(faults)
        self._meant = set[tuple[str | int, ...]]()  # the fields that unknown ones probably are, misspelt

    @property
    def sound(self) -> bool:
        """True if no fault was added since the report was made."""
        return len(self.faults) == self._before

    def of_part(self) -> FaultReport:
        """A report with faults of its own, of a job that is made from a part of the same mapping."""
        part = FaultReport([], self.data, job=self.job, subject=self.subject)
        part._meant = self._meant
        return part

    def extend(self, faults: Iterable[Fault]) -> None:
        """Add faults, each once."""
        for each in faults:
            self._append(each)

    def value(self, path: Sequence[str | int]) -> Any:
        """The value at a path as it is written; ``None`` if there is none."""
        return _walk(self.data, path)[0]

    def misspelt(self, *path: str | int) -> bool:
        """True if an unknown field beside it is probably the one at ``path``, misspelt."""
        return path in self._meant

    def add(
        self,
        path: str | Sequence[str | int],
        predicate: str,
        *,
        shown: str | None = None,
        cause: Hashable = None,
    ) -> None:
        """Add a fault of the value at ``path``: a field, or a field and the keys inside of it.

        The message contains the value, or ``shown`` in its place (empty for no value); a secret is not shown.
        ``cause`` is that of a predicate with the name of a place: see :class:`~speck.errors.Fault`.
        A field that is missing since its name is misspelt is reported once, as an unknown field.
        """
        steps: Sequence[str | int] = (path,) if isinstance(path, str) else path
        if predicate.startswith(MISSING) and self.misspelt(*steps):
            return
        value, present, line = _walk(self.data, steps)
        if shown is None and (predicate.startswith(MISSING) or holds_secret(str(steps[-1]), value)):
            shown = ""
        text = shown if shown is not None else self._shown(steps, value) if present else ""
        words = [".".join(map(named, steps)), text, predicate]
        message = self.subject + " ".join(word for word in words if word)
        reported = value if shown is None else (shown or None)
        self._append(Fault(message, self.job, str(steps[0]), reported, line, cause))

    def _shown(self, steps: Sequence[str | int], value: object) -> str:
        """A value as it is written in the file."""
        *outer, last = steps
        text = written_in(self.value(outer)).get(str(last))
        endless = isinstance(value, float) and not math.isfinite(value)
        return show(value) if text is None or isinstance(value, str) or endless else text

    def add_sentence(self, field: str, sentence: str, *inner: str) -> None:
        """Add a fault of a field that is already a whole sentence; its line is that of the keys inside."""
        value, _, line = _walk(self.data, (field, *inner))
        self._append(Fault(f"{self.subject}{sentence}", self.job, field, value, line))

    def _append(self, fault: Fault) -> None:
        """Add a fault once: the parts of a split or a query have the fields of one job."""
        if all(fault.message != each.message for each in self.faults[self._before :]):
            self.faults.append(fault)

    def add_unknown(self, path: Sequence[str | int], known: Iterable[str]) -> None:
        """Add the fault of a field that does not exist; its value may be a secret and is not repeated."""
        *outer, name = path
        names = sorted(known)
        near = closest(str(name), names)
        right = f"did you mean {near!r}?" if near else f"the fields are {', '.join(names)}"
        if near is not None:
            self._meant.add((*outer, near))
        _, _, line = _walk(self.data, path)
        message = f"{self.subject}unknown field {quoted('.'.join(map(str, path)))} ({right})"
        self.faults.append(Fault(message, job=self.job, field=str(path[0]), line=line))


def _walk(data: object, steps: Sequence[str | int]) -> tuple[Any, bool, int | None]:
    """The value at a path, True if there is one, and the nearest known line."""
    line = line_of(data)
    for step in steps:
        present = isinstance(data, Mapping) and step in data
        present |= isinstance(data, list) and isinstance(step, int) and step < len(data)
        if not present:
            return None, False, line
        line = line_of(data, step) or line
        data = data[step]  # type: ignore[index]  # checked above
    return data, True, line


def quoted(text: str) -> str:
    """Text in quotes, on one line, shortened to :data:`SHOWN_LENGTH`."""
    shown = repr(text[: 2 * SHOWN_LENGTH])
    return shown if len(shown) <= SHOWN_LENGTH else shown[: SHOWN_LENGTH - 3] + "..."


def named(name: str | int) -> str:
    """A name as it is; quoted and shortened if it is long or not printable."""
    text = str(name)
    return text if len(text) <= SHOWN_LENGTH and text.isprintable() else quoted(text)


def listed(names: Sequence[str], most: int = 3) -> str:
    """The first names, and the number of the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def show(value: object) -> str:
    """A value about as the user wrote it, shortened to :data:`SHOWN_LENGTH`."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return quoted(value)
    text = value.isoformat() if isinstance(value, datetime.date) else repr(value)
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 3] + "..."


_KINDS: Mapping[type, str] = {
    dict: "a mapping",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    datetime.date: "a date",
}


def kind_of_value(value: object) -> str:
    """The kind of a value in a user's words, such as ``a list``."""
    if value is None:
        return "empty"
    known = (_KINDS[kind] for kind in type(value).__mro__ if kind in _KINDS)
    return next(known, f"a {type(value).__name__}")


class Suggestions:
    """Similar names, as long as the budget of comparisons lasts.

    Names that differ only in their digits are not similar: they form a series, such as the topics of sensors.
    """

    def __init__(self, names: Iterable[str], budget: int = SUGGESTION_BUDGET) -> None:
        self._names = list(names)
        self._budget = budget
        self._found: dict[str, list[str]] = {}

    def near(self, name: str) -> list[str]:
        """At most three names similar to this one, the most similar first, without the name itself."""
        if name not in self._found:
            self._found[name] = self._search(name)
        return self._found[name]

    def _search(self, name: str) -> list[str]:
        self._budget -= len(self._names)
        if self._budget < 0:
            return []
        stem = name.translate(_NO_DIGITS)
        others = [each for each in self._names if each.translate(_NO_DIGITS) != stem]
        return get_close_matches(name, others, n=3, cutoff=0.75)


def fault_data(fault: Fault) -> dict[str, Any]:
    """A fault as plain data, without a value that is a secret or has one inside."""
    value = None if holds_secret(fault.field or "", fault.value) else fault.value
    plain = isinstance(value, str | int | bool | None) or (isinstance(value, float) and math.isfinite(value))
    shown = value if plain and len(str(value)) <= MAX_SHOWN else show(value)
    return {
        "job": fault.job,
        "field": fault.field,
        "value": shown,
        "line": fault.line,
        "message": fault.message,
    }
