"""Types of columns, and the contract of a topic: the form of its messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Type(StrEnum):
    """The types of values.  A ``timestamp`` is a number of milliseconds since 1970, UTC."""

    BOOLEAN = "boolean"
    INT = "int"
    BIGINT = "bigint"
    DOUBLE = "double"
    STRING = "string"
    TIMESTAMP = "timestamp"

    @property
    def whole(self) -> bool:
        """True for whole numbers."""
        return self in (Type.INT, Type.BIGINT)

    @property
    def numeric(self) -> bool:
        """True for numbers."""
        return self.whole or self is Type.DOUBLE


class Unit(StrEnum):
    """The written form of a timestamp: text as of ISO 8601, or a number since 1970 of this unit."""

    ISO = ""
    MILLISECONDS = "ms"
    SECONDS = "s"


FORMATS = ("json", "csv")
# The default step of the progress, ms of event time, where windows give none: in a query without windows and
# in a join by time.  Rows wait for others of their frame until the next step, and so does a result of such a
# join, for a step of each input.  A shorter one makes results earlier, and more frames.
STEP_MS = 300
# The cuts of queries: up to which operator input jobs work.
CUTS = COLUMNS, FILTER, ROWS, PARTIALS = ("columns", "filter", "rows", "partials")
NO_CUT = "none"
AUTO_CUT = "auto"  # SpecK chooses one
WINDOW_COLUMNS = ("window_start", "window_end")
TOPIC = "topic"  # the column of each table with the topic of its message

# Names that SQL and its users have for the types.
NAMES: Mapping[str, Type] = {
    **{each.value: each for each in Type},
    "bool": Type.BOOLEAN,
    "integer": Type.INT,
    "long": Type.BIGINT,
    "text": Type.STRING,
    "varchar": Type.STRING,
}

_TYPE = re.compile(r"\s*(\w+)\s*(?:\(\s*(ms|s)\s*\))?\s*(not\s+null)?\s*\Z", re.IGNORECASE)
_EXPECTED = f"expected {', '.join(Type)}, timestamp(ms) or timestamp(s), each perhaps with 'not null'"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: ``unit`` is the written form of a timestamp."""

    name: str
    type: Type
    nullable: bool = True
    unit: Unit = Unit.ISO

    @property
    def written_type(self) -> str:
        """The type as users write it."""
        unit = f"({self.unit})" if self.unit else ""
        return f"{self.type}{unit}{'' if self.nullable else ' not null'}"


@dataclass(frozen=True, slots=True)
class Contract:
    """The form of the messages of a topic (or of those that match a filter), as the table ``name``.

    ``event_time`` is the column by which rows are ordered in time, ``watermark_ms`` the time by which a row
    may lag the newest one, ``sites`` the names of those at whose brokers the messages are published.
    """

    topic: str
    name: str
    format: str
    columns: tuple[Column, ...]
    event_time: str | None = None
    watermark_ms: int | None = None
    sites: tuple[str, ...] = ()

    def column(self, name: str) -> Column | None:
        """The column of this name, without regard to case."""
        return next((each for each in self.columns if each.name.lower() == name.lower()), None)


def column_of(name: str, written: str) -> Column:
    """The column of a written type such as ``timestamp(ms) not null``.  Raises :class:`ValueError`."""
    found = _TYPE.match(written)
    type = NAMES.get(found[1].lower()) if found else None
    if found is None or type is None or (found[2] and type is not Type.TIMESTAMP):
        raise ValueError(f"is not a type ({_EXPECTED})")
    return Column(name, type, found[3] is None, Unit((found[2] or "").lower()))


def table_name(topic: str) -> str:
    """The name of a topic's table where none is given: the topic's last words, ``_`` between them."""
    levels = [each for each in topic.split("/") if each and each not in ("+", "#")]
    return re.sub(r"\W+", "_", levels[-1]).strip("_").lower() if levels else ""
