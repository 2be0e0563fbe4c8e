"""The log: one line for each event, with its context, as text for people or JSON for machines.

The context of a line (operation, composition, job, attempt, site) is bound once, where the work begins
(:func:`about`), and passed on to the threads that the work uses (:func:`carried`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, TextIO, TypeVar

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

_T = TypeVar("_T")

# Further fields of a line (``extra=`` of the logging module).
FIELDS = (
    *("operation", "composition", "job", "attempt", "site"),
    *("event_kind", "author", "binder", "address", "call", "seconds", "error"),
)


def about(**fields: str | None) -> AbstractContextManager[None]:
    """Bind these fields to all lines that are logged inside; empty fields are omitted."""
    return structlog.contextvars.bound_contextvars(**{key: value for key, value in fields.items() if value})


@contextmanager
def errors_logged(log: logging.Logger, message: str, *arguments: object) -> Iterator[None]:
    """Log an error of the block, which must not keep what follows from being done."""
    try:
        yield
    except Exception:
        log.exception(message, *arguments)


def carried(work: Callable[[], _T]) -> Callable[[], _T]:
    """The same work for another thread, with the present context of the log."""
    return partial(copy_context().run, work)


def configure(form: str, level: str) -> None:
    """Configure this process to log as ``text`` or ``json``, from this level on, to standard error.

    Libraries log at INFO and above whatever the level: their details might contain secrets.
    """
    threshold = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=max(threshold, logging.INFO), handlers=[handler(form, sys.stderr)], force=True)
    for own in ("speck", "binders"):
        logging.getLogger(own).setLevel(threshold)


def handler(form: str, stream: TextIO) -> logging.Handler:
    """A handler that writes lines as ``text`` or ``json``."""
    stream_handler = logging.StreamHandler(stream)
    stream_handler.setFormatter(_formatter(form))
    return stream_handler


def _formatter(form: str) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.ExtraAdder(FIELDS),
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper("iso", utc=True, key="time"),
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _without_empty,
            partial(_printable, _ESCAPED if form == "text" else _ESCAPED_BESIDE_JSON),
            *(_json() if form == "json" else _text()),
        ],
    )


def _without_empty(logger: WrappedLogger, method: str, line: EventDict) -> EventDict:
    return {key: value for key, value in line.items() if value not in ("", None)}


# Characters that end a line or move a terminal's cursor: foreign text, such as a requested path or an
# engine's error, must not look like a line of its own.  JSON escapes the first 32 itself.
_BESIDE_JSON = (*range(0x7F, 0xA0), 0x2028, 0x2029)
_ESCAPED_BESIDE_JSON = {each: chr(each).encode("unicode_escape").decode() for each in _BESIDE_JSON}
_ESCAPED = {each: chr(each).encode("unicode_escape").decode() for each in (*range(32), *_BESIDE_JSON)}


def _printable(escaped: dict[int, str], logger: WrappedLogger, method: str, line: EventDict) -> EventDict:
    return {key: value.translate(escaped) if isinstance(value, str) else value for key, value in line.items()}


def _json() -> list[Processor]:
    return [
        structlog.processors.format_exc_info,
        structlog.processors.EventRenamer("message"),
        structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
    ]


def _text() -> list[Processor]:
    # Not structlog's own traceback, which shows the values of local variables: these may be secrets.
    traceback: Any = structlog.dev.plain_traceback
    return [
        structlog.dev.ConsoleRenderer(
            colors=False, pad_event_to=0, pad_level=False, timestamp_key="time", exception_formatter=traceback
        )
    ]
