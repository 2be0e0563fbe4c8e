"""Reduces a Java stack trace to one readable line."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_LENGTH = 500  # characters of a line

_CAUSE = re.compile(r"\s*Caused by: (?P<text>.*)")
_FRAME = re.compile(r"\s*at (?P<method>[\w.$/<>@-]+)\((?P<file>[\w$]+\.\w+):(?P<line>\d+)\)")
_SKIPPED = re.compile(r"\s*(at |\.\.\. \d+ more|Suppressed: |\[CIRCULAR REFERENCE|<?End of exception|$)")
# Only at the beginning of a word: elsewhere matching takes quadratic time in a long word.
_EXCEPTION = re.compile(r"(?<![\w.$])(?P<package>(?:[a-z_][\w]*\.)+)(?P<name>[A-Z][\w$]*)(?=:|$|\s)")
_PLATFORM = re.compile(r"(java\.|javax\.|jdk\.|sun\.|scala\.|app//|org\.apache\.(flink|pekko|kafka)\.)")

_PYTHON_TRACE = "Traceback (most recent call last):"
_PYTHON_FRAME = re.compile(r'\s*File ".*/speck_program/(?P<file>[^/"]+)", line (?P<line>\d+)')

# Lines that wrap a cause without adding information.
_WRAPPERS = ("<Exception on server side:", "Internal server error.")


@dataclass(frozen=True)
class _Thrown:
    text: str
    place: str


def root_cause(trace: str) -> str:
    """The innermost exception of a stack trace with its message, and its line in the job's own code.

    One line of at most ``MAX_LENGTH`` characters and the place, such as ``IllegalStateException: no such
    street (Clean.java, line 12)``.  A text that is no stack trace is joined into one line.
    """
    if (python := python_cause(trace)) is not None:
        return _short(python)
    thrown = _thrown(trace)
    if not thrown:
        return _short(" ".join(trace.split()))
    cause = next((each for each in reversed(thrown) if _message(each.text)), thrown[-1])
    # An inner exception without a message still has the place.
    place = next((each.place for each in reversed(thrown) if each.place), "")
    return _short(_EXCEPTION.sub(r"\g<name>", cause.text)) + (f" ({place})" if place else "")


def python_cause(trace: str) -> str | None:
    """The error of the innermost Python stack trace within a trace, with its place in the program.

    ``None`` if there is none.  The place is the deepest line of the job's own file.
    """
    _, found, text = trace.rpartition(_PYTHON_TRACE)
    if not found:
        return None
    lines = [line for line in text.split("\n\tat ")[0].splitlines()[1:] if line.strip()]
    error = next((line for line in lines if not line.startswith(" ")), None)
    if error is None:
        return None
    places = [match for line in lines if (match := _PYTHON_FRAME.match(line)) is not None]
    place = f" ({places[-1]['file']}, line {places[-1]['line']})" if places else ""
    return " ".join(error.split()) + place


def _thrown(trace: str) -> list[_Thrown]:
    """The exceptions of a trace, outermost first."""
    texts: list[list[str]] = [[]]
    places: list[str] = [""]
    open_message = True
    for line in trace.splitlines():
        if line.strip() in _WRAPPERS:
            continue
        cause, frame = _CAUSE.match(line), _FRAME.match(line)
        if cause is not None:
            texts.append([cause["text"]])
            places.append("")
            open_message = True
        elif _SKIPPED.match(line):
            open_message = False
            if frame is not None and not places[-1] and not _PLATFORM.match(frame["method"]):
                places[-1] = f"{frame['file']}, line {frame['line']}" if _own(frame["method"]) else ""
        elif open_message:
            texts[-1].append(line)
    joined = (" ".join(" ".join(text).split()) for text in texts)
    return [_Thrown(text, place) for text, place in zip(joined, places, strict=True) if text]


def _own(method: str) -> bool:
    # Frames of a module of the JDK read java.base/java.util.Optional.get
    return "/" not in method or method.startswith("app//")


def _message(text: str) -> str:
    """The text after the exception's name; empty for a name alone."""
    _, colon, message = text.partition(": ")
    return message if colon else ""


def _short(text: str) -> str:
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 3]}..."
