"""Calls that are made again and again, as for metrics: sent whole once, then by a number.

The answer to a repeated call says what has changed since the answer before.  A call that may be repeated has
the mark ``k``, and an agent that keeps it answers with that mark; an older agent, or coordinator, does not
know the mark, and its calls stay whole.  What is kept belongs to one connection, and is lost with it.

Where the form of some values of an answer is another one than before, these are sent whole, by their keys.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from math import isfinite
from typing import Any, Generic, TypeVar

from speck.link.codec import Malformed
from speck.link.lasting import LASTS, METHODS, UsableAnswers, WatchedAnswers, is_same

REPEATED = frozenset(
    {"measure", "profile", "capacity", "workers", "statuses", "running", "readers", "behind", "stored"}
    | {"stored_bytes", "dropped"}
)
MOST_KEPT = 32  # calls of a connection, at either end
LARGEST_KEPT = 1 << 16  # characters of an answer
MARK = "k"  # of a call: it may be repeated, or its number; of an answer: it is kept, or is not
CHANGES = "d"
# Sent only to a coordinator that accepts answers that last: those of earlier versions know neither.
PARTS = "p"

_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|[^\[\]{},:"]+')
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

Message = Mapping[str, Any]


class Forgotten(Exception):
    """The agent does not keep the call: it has to be sent whole."""


class Kept(Generic[_Key, _Value]):
    """The newest values that were put.  Safe to use from several threads."""

    def __init__(self) -> None:
        self._values: dict[_Key, _Value] = {}
        self._lock = threading.Lock()

    def get(self, key: _Key) -> _Value | None:
        """The value of a key."""
        with self._lock:
            return self._values.get(key)

    def put(self, key: _Key, value: _Value, former: _Key) -> None:
        """Keep a value as the newest one, in the place of that of ``former``."""
        with self._lock:
            self._values.pop(former, None)
            self._values.pop(key, None)
            self._values[key] = value
            if len(self._values) > MOST_KEPT:
                del self._values[next(iter(self._values))]


# --- the coordinator's end


@dataclass(frozen=True, slots=True)
class _Answer:
    """The answer to the call ``number``, as :func:`_text`; ``limit`` is the time of its first call, s."""

    number: int
    text: str
    limit: float


@dataclass(frozen=True, slots=True)
class SentCall:
    """A call on its way; ``last`` is its last answer over this connection."""

    call: Message
    key: str = ""  # empty for a call that is not repeated
    last: _Answer | None = None

    def message(self, limit: float) -> dict[str, Any]:
        """The message, for an answer within ``limit`` (s)."""
        if self.last is not None:
            again = {MARK: self.last.number}
            return again if self.last.limit == limit else again | {"t": limit}
        return {**self.call, "t": limit} | ({MARK: True, LASTS: True} if self.key else {})


@dataclass(frozen=True, slots=True)
class SentCalls:
    """The calls of a connection that may be repeated, at the coordinator."""

    usable: UsableAnswers = field(default_factory=UsableAnswers)
    _kept: Kept[str, _Answer] = field(default_factory=Kept)

    def lasting(self, call: Message) -> tuple[Any, float] | None:
        """The answer to a call and its age, s, if it lasts; ``None`` if the call has to be made."""
        return self.usable.get(call, _text(call)) if call.get("m") in METHODS else None

    def prepared(self, call: Message, *, whole: bool = False) -> SentCall:
        """The call to send, in its shortest form or ``whole``."""
        if call.get("m") not in REPEATED:
            return SentCall(call)
        key = _text(call)
        return SentCall(call, key, None if whole else self._kept.get(key))

    def answer(self, sent: SentCall, message: Message, number: int, limit: float) -> Message:
        """The whole answer to the call ``number``.

        Raises :class:`Forgotten`, and :class:`~speck.link.codec.Malformed` for changes that do not fit.
        """
        last = sent.last
        if last is not None and message.get(MARK) is False:
            raise Forgotten
        if last is not None and CHANGES in message:
            text = _changed(_with_parts(last.text, message.get(PARTS, {})), message[CHANGES])
            self._kept.put(sent.key, _Answer(number, text, last.limit), sent.key)
            self._note(sent, number, text, lasts=message.get(LASTS) is True)
            return {"r": json.loads(text)}
        if sent.key and message.get(MARK) is True and "r" in message:
            text = _text(message["r"])
            if len(text) <= LARGEST_KEPT:  # the agent may be a hostile one
                first = limit if last is None else last.limit
                self._kept.put(sent.key, _Answer(number, text, first), sent.key)
        if sent.key:
            self._note(sent, number, "", lasts=False)
        return message

    def _note(self, sent: SentCall, number: int, text: str, *, lasts: bool) -> None:
        if sent.call.get("m") in METHODS:
            self.usable.note(sent.call, sent.key, number, text, lasts=lasts)


# --- the agent's end


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A call as it was sent first, and the text of its last answer."""

    call: dict[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class AnsweredCalls:
    """The calls of a connection that may be repeated, at the agent."""

    watched: WatchedAnswers = field(default_factory=WatchedAnswers)
    _kept: Kept[int, AnsweredCall] = field(default_factory=Kept)

    def last(self, message: Message) -> AnsweredCall | None:
        """The call that a message repeats; ``None`` for another message, or for one that is not kept."""
        number = message.get(MARK)
        return None if number is True or not isinstance(number, int) else self._kept.get(number)

    def answer(
        self, message: dict[str, Any], last: AnsweredCall | None, answer: dict[str, Any]
    ) -> dict[str, Any]:
        """The answer to send, which is kept if the call may be repeated."""
        number = message.get("c")
        if MARK not in message or not isinstance(number, int):
            return answer
        call, text = message if last is None else last.call, text_of(answer)
        if text is None or len(text) > LARGEST_KEPT:
            self._watch(call, number, "", lasts=False)
            return answer
        lasts = last is not None and _may_last(call) and is_same(last.text, text)
        self._watch(call, number, text, lasts=lasts)
        self._kept.put(number, AnsweredCall(call, text), number if last is None else int(message[MARK]))
        changes = None if last is None else _changes_of(last, text)
        if changes is None:
            return answer | {MARK: True}
        return changes | {LASTS: True} if lasts else changes

    def _watch(self, call: Message, number: int, text: str, *, lasts: bool) -> None:
        if _may_last(call):
            self.watched.note(call, number, text, lasts=lasts)


def _may_last(call: Message) -> bool:
    """True for a call of a coordinator that accepts answers that last."""
    return call.get("m") in METHODS and call.get(LASTS) is True


def whole_call(message: dict[str, Any], last: AnsweredCall | None) -> dict[str, Any] | None:
    """The call of a message; ``None`` for the repetition of one that is not kept."""
    if last is not None:
        return last.call | {key: message[key] for key in ("c", "t") if key in message}
    return message if message.get(MARK, True) is True else None


def text_of(answer: Message) -> str | None:
    """The text of an answer, as it is compared; ``None`` for an error."""
    return _text(answer["r"]) if "r" in answer else None


# --- the changes of an answer


def _text(value: Any) -> str:
    """JSON that is the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _changes_of(last: AnsweredCall, text: str) -> dict[str, Any] | None:
    """The parts of a message that tell the changes of an answer; ``None`` if it has to be whole."""
    changes, parts = _changes(last.text, text), dict[str, Any]()
    if changes is None and last.call.get(LASTS) is True:
        parts = _parts(json.loads(last.text), json.loads(text))
        changes = _changes(_with_parts(last.text, parts), text) if parts else None
    return None if changes is None else {CHANGES: changes} | ({PARTS: parts} if parts else {})


def _parts(former: Any, present: Any) -> dict[str, Any]:
    """The values of an object whose form is another one than before; none if it has other keys."""
    if not isinstance(former, dict) or not isinstance(present, dict) or former.keys() != present.keys():
        return {}
    return {key: value for key, value in present.items() if _form(_text(value)) != _form(_text(former[key]))}


def _with_parts(former: str, parts: Any) -> str:
    """The text with other values of some keys; raises :class:`Malformed` if it has no such keys."""
    if parts == {}:
        return former
    values = json.loads(former)
    if not isinstance(values, dict) or not isinstance(parts, dict) or not parts.keys() <= values.keys():
        raise Malformed("the parts of an answer do not fit it")
    text = _text(values | parts)
    if len(text) > LARGEST_KEPT:
        raise Malformed("the parts of an answer do not fit it (their length)")
    return text


def _form(text: str) -> str:
    return _SCALAR.sub("0", text)


def _changes(former: str, text: str) -> list[list[Any]] | None:
    """The scalars (values and keys) of a text that are others than before; ``None`` if its form is another.

    A change is a list: the scalar, and its places, each counted from the one before.  Where it is shorter,
    a list begins with the difference from the former number, itself in a list.
    """
    before, after = _SCALAR.findall(former), _SCALAR.findall(text)
    if len(before) != len(after) or _form(former) != _form(text):
        return None
    places: dict[str, list[int]] = {}
    for place, (old, new) in enumerate(zip(before, after, strict=True)):
        if old != new:
            places.setdefault(_step(old, new) or new, []).append(place)
    return [[json.loads(each), *_gaps(found)] for each, found in places.items()]


def _gaps(places: list[int]) -> list[int]:
    return [place - former for former, place in zip([0, *places], places, strict=False)]


def _changed(former: str, changes: Any) -> str:
    """The text after these changes, in the form of :func:`_text`; raises :class:`Malformed`."""
    scalars = _SCALAR.findall(former)
    try:
        for value, *gaps in changes:
            place = 0
            for gap in gaps:
                place += gap
                if type(gap) is not int or not 0 <= place < len(scalars):
                    raise ValueError(f"place {place}")
                scalars[place] = _stepped(scalars[place], value)
        # Before it is made: a long value may stand at many places.
        if sum(map(len, scalars)) > LARGEST_KEPT:
            raise ValueError("its length")
        rest = iter(scalars)
        return _text(json.loads(_SCALAR.sub(lambda _: next(rest), former)))
    except (TypeError, ValueError, RecursionError) as error:
        raise Malformed(f"the changes of an answer do not fit it ({error})") from error


def _step(old: str, new: str) -> str | None:
    """The difference of two numbers, in a list; ``None`` where it is no shorter, or not exact."""
    before, after = json.loads(old), json.loads(new)
    if {type(before), type(after)} == {int}:
        step = after - before
    elif {type(before), type(after)} == {float} and isfinite(before) and isfinite(after):
        step = float(Decimal(new) - Decimal(old))
    else:
        return None
    text = json.dumps([step])
    return text if len(text) <= len(new) and _stepped(old, [step]) == new else None


def _stepped(old: str, change: Any) -> str:
    """The scalar after a change: another one, or a difference in a list."""
    if not isinstance(change, list):
        return json.dumps(change)
    (step,), before = change, json.loads(old)
    if {type(before), type(step)} == {int}:
        return json.dumps(before + step)
    if {type(before), type(step)} == {float} and isfinite(before) and isfinite(step):
        return json.dumps(float(Decimal(old) + Decimal(json.dumps(step))))
    raise ValueError(f"a difference from {old[:20]}")
