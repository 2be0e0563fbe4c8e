"""The aggregation of a split: the user's class, and the columns that it takes from the messages."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from binders.spark.query.spec import QuerySpec
from binders.spark.query.user_code import JobFault
from jars_and_apps.key_split.frames import columns_of

_NO_COLUMNS = ("key", "_hash", "_arrival", "times")

METHODS = ("rows", "add", "merge", "finish")

_CONTROL = "_control"
# A node of the analysed plan: the generator, the columns that it no longer needs, and if it is an outer one.
_GENERATOR = re.compile(r"~Generate (\w+)\(.*\), (?:\[[\d, ]*\], )?false\b")

_TIMES = (TimestampType, TimestampNTZType)
_NUMBERS = (IntegralType, FloatType, DoubleType, BooleanType)
_GIVEN = (*_NUMBERS, StringType, BinaryType, *_TIMES)


def instance_of(entry: Callable[..., Any], spec: QuerySpec) -> Any:
    """An object of the user's class.  Raises :class:`JobFault` for one that is no aggregation."""
    if not inspect.isclass(entry):
        raise JobFault(f"{spec.entry} is a function (key_split expects a class with {_listed(METHODS)})")
    instance: Any = entry(**spec.arguments)
    missing = [name for name in METHODS if not callable(getattr(instance, name, None))]
    if missing:
        raise JobFault(f"class {spec.entry} has no {_listed(missing)} (key_split expects {_listed(METHODS)})")
    if hasattr(instance, "encode") != hasattr(instance, "decode"):
        raise JobFault(f"class {spec.entry} has only one of encode and decode (expected both, or none)")
    return instance


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of the messages, and the names of the user's columns that are timestamps.

    The columns are ``key`` (string), ``time`` (bigint, microseconds since 1970), ``_hash``
    (``xxhash64(key)``), ``_arrival`` (the message's time, as ``time``), ``times`` if the class has it, and
    the user's own; timestamps among these are bigint like ``time``.
    """

    frame: DataFrame
    timestamps: frozenset[str]

    def columns(self) -> tuple[str, ...]:
        """The columns of the rows in frames: the time, and the user's own."""
        fields = [
            pa.field(each.name, pa.timestamp("us")) if each.name in self.timestamps else each
            for each in to_arrow_schema(self.frame.schema)
        ]
        return columns_of(each for each in fields if each.name not in _NO_COLUMNS)


def rows_of(instance: Any, messages: DataFrame, control_topic: str | None = None) -> Rows:
    """The rows that the user's class makes of the messages.

    With a ``control_topic`` there is a further column ``_control`` (binary), the messages there: the user's
    class has them without a value, and all other columns of them are null.

    Raises :class:`JobFault`, and Spark's own errors for columns that do not exist.
    """
    name = type(instance).__name__
    if control_topic is not None:
        messages = _with_control(messages, control_topic)
    columns = _columns(instance.rows(messages), name)
    counting = columns.pop("where", None)
    if counting is not None and control_topic is not None:
        counting = counting | F.col(_CONTROL).isNotNull()
    chosen = messages if counting is None else messages.where(counting)
    arrival = F.unix_micros("timestamp").alias("_arrival")
    further = [arrival] if control_topic is None else [arrival, F.col(_CONTROL)]
    raw = chosen.select(*further, *(value.alias(each) for each, value in columns.items()))
    if control_topic is not None:
        _check_generators(raw, name)
    types = {each.name: each.dataType for each in raw.schema.fields if each.name in columns}
    _check_types(types, name)
    timestamps = frozenset(each for each, kind in types.items() if isinstance(kind, _TIMES))
    own = (_micros(each) if each in timestamps else each for each in columns if each not in ("key", "time"))
    key = F.col("key").cast("string").alias("key")
    known = [each for each in raw.columns if each.startswith("_")]
    frame = raw.select(key, _micros("time"), F.xxhash64(key).alias("_hash"), *known, *own)
    return Rows(frame, timestamps - {"time"})


def _with_control(messages: DataFrame, topic: str) -> DataFrame:
    """The messages, with those on a topic in a column of their own and without a value."""
    control = F.col("topic") == topic
    value = F.when(~control, F.col("value")).alias("value")
    own = F.when(control, F.col("value").cast("binary")).alias(_CONTROL)
    return messages.select("topic", value, "timestamp", own)


def _check_generators(rows: DataFrame, name: str) -> None:
    """Refuse functions such as explode, which make no row of a control message."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        rows.explain(extended=True)
    if (found := _GENERATOR.search(printed.getvalue())) is not None:
        function = found[1]
        raise JobFault(
            f"rows() of {name}: {function} leaves out messages without a value, and so the measured work "
            f"(expected {function}_outer, and a 'where' that leaves their rows out)"
        )


def _columns(result: object, name: str) -> dict[str, Column]:
    if not isinstance(result, dict):
        raise JobFault(f"rows() of {name} returned a {type(result).__name__} (expected a dict of columns)")
    for column, value in result.items():
        if not isinstance(column, str) or not column.isidentifier() or column.startswith("_"):
            raise JobFault(
                f"rows() of {name}: {column!r} is not a column name "
                "(expected letters, digits and underscores, with a letter first)"
            )
        if not isinstance(value, Column):
            kind = type(value).__name__
            raise JobFault(f"rows() of {name}: {column!r} is a {kind} (expected a column of the messages)")
    missing = [each for each in ("key", "time") if each not in result]
    if missing:
        has = _listed(result) or "none"
        raise JobFault(f"rows() of {name} returned no {_listed(missing)} (it has {has})")
    return dict(result)


def _check_types(types: dict[str, DataType], name: str) -> None:
    expected = {"key": (StringType, IntegralType, BooleanType), "time": _TIMES, "times": (IntegralType,)}
    words = {
        "key": "text or a whole number",
        "time": "a timestamp; F.timestamp_seconds and F.to_timestamp make one",
        "times": "a whole number",
    }
    for column, kind in types.items():
        if not isinstance(kind, expected.get(column, _GIVEN)):
            right = words.get(column, "a number, true/false, text, binary or a timestamp")
            found = kind.simpleString()
            raise JobFault(f"rows() of {name}: {column!r} is of type {found} (expected {right})")


def _micros(column: str) -> Column:
    return F.unix_micros(F.col(column).cast("timestamp")).alias(column)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
