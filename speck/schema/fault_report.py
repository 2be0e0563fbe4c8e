"""How faults are worded and gathered while a user's text is read."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from speck.errors import Fault
from speck.schema.faults import SHOWN_LENGTH, named, quoted
from speck.schema.yaml.parser import line_of

_UNREADABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# A suggestion is worth this many comparisons of names in one document, no more.
SUGGESTION_BUDGET = 20_000


class Report:
    """Gathers the faults of one mapping: of a job (``job``), or of something named by ``subject``."""

    def __init__(
        self, faults: list[Fault], data: Mapping[str, Any], *, job: str | None = None, subject: str = ""
    ) -> None:
        self.faults = faults
        self.data = data
        self.job = job
        self.subject = subject
        self._before = len(faults)

    @property
    def sound(self) -> bool:
        """Whether no fault was found since this report was begun."""
        return len(self.faults) == self._before

    def add(self, path: str | Sequence[str | int], predicate: str, *, shown: str | None = None) -> None:
        """Record that the value at ``path`` (a field, or a field and keys in it) is wrong, and how.

        The value is part of the message, unless ``shown`` replaces it (a secret: by nothing).
        """
        steps: Sequence[str | int] = (path,) if isinstance(path, str) else path
        value, present, line = _walk(self.data, steps)
        text = shown if shown is not None else show(value) if present else ""
        words = [".".join(map(named, steps)), text, predicate]
        message = self.subject + " ".join(word for word in words if word)
        kept = value if shown is None else (shown or None)
        self.faults.append(Fault(message, job=self.job, field=str(steps[0]), value=kept, line=line))

    def say(self, field: str, sentence: str) -> None:
        """Record a fault that is worded already, of a field."""
        value, _, line = _walk(self.data, (field,))
        self.faults.append(Fault(f"{self.subject}{sentence}", self.job, field, value, line))

    def unknown(self, path: Sequence[str | int], known: Iterable[str]) -> None:
        """Record a field that does not exist; its value is not repeated, for it may be a secret."""
        *_, name = path
        names = sorted(known)
        near = get_close_matches(str(name)[:SHOWN_LENGTH], names, n=1)
        right = f"did you mean {near[0]!r}?" if near else f"the fields are {', '.join(names)}"
        _, _, line = _walk(self.data, path)
        message = f"{self.subject}unknown field {quoted('.'.join(map(str, path)))} ({right})"
        self.faults.append(Fault(message, job=self.job, field=str(path[0]), line=line))


def _walk(data: object, steps: Sequence[str | int]) -> tuple[Any, bool, int | None]:
    """The value at a path, whether it is there, and the nearest line that is known."""
    line = line_of(data)
    for step in steps:
        there = isinstance(data, Mapping) and step in data
        there |= isinstance(data, list) and isinstance(step, int) and step < len(data)
        if not there:
            return None, False, line
        line = line_of(data, step) or line
        data = data[step]  # type: ignore[index]  # just seen to be there
    return data, True, line


def show(value: object) -> str:
    """A value as the user wrote it, or nearly, and never long."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return quoted(value)
    text = value.isoformat() if isinstance(value, datetime.date) else repr(value)
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 3] + "..."


def not_text(value: object) -> str | None:
    """Why a value is not text, as the end of a sentence; ``None`` when it is."""
    if isinstance(value, str):
        return None
    if isinstance(value, bool):
        return "is true or false, not text (YAML reads yes, no, on and off so: put it in quotes)"
    if isinstance(value, datetime.date):
        return "is a date, not text (put it in quotes)"
    if isinstance(value, int | float):
        return "is a number, not text (put it in quotes)"
    return f"is {kind_of_value(value)}, not text"


def not_scalar(value: object) -> str | None:
    """Why a value is not text, a finite number, true or false; ``None`` when it is."""
    if isinstance(value, float) and not math.isfinite(value):
        return "is not a finite number"
    if isinstance(value, str):
        return unreadable(value, "\n\r\t")
    if isinstance(value, bool | int | float):
        return None
    if isinstance(value, datetime.date):
        return "is a date (put it in quotes)"
    return f"is {kind_of_value(value)} (expected text, a number, true or false)"


def unreadable(text: str, allowed: str = "") -> str | None:
    """What keeps text from being stored and shown as UTF-8 (control characters, half a surrogate pair)."""
    if all(found in allowed for found in _UNREADABLE.findall(text)):
        return None
    return "holds a control character, or one that is not Unicode text"


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
    """What a value is, for people."""
    if value is None:
        return "empty"
    known = (_KINDS[kind] for kind in type(value).__mro__ if kind in _KINDS)
    return next(known, f"a {type(value).__name__}")


class Suggestions:
    """Near names, for as long as looking for them is cheap."""

    def __init__(self, names: Iterable[str], budget: int = SUGGESTION_BUDGET) -> None:
        self._names = list(names)
        self._budget = budget

    def near(self, name: str) -> list[str]:
        """At most three names that look like this one, this one excluded."""
        self._budget -= len(self._names)
        if self._budget < 0:
            return []
        return [each for each in get_close_matches(name, self._names, n=4, cutoff=0.75) if each != name][:3]
