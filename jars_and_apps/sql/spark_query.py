"""The query of a SQL job on Spark: decoding, expressions and encoding by the connector, windows by Spark.

The functions of the connector are Java's, the same as on Flink: no row enters Python.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

_DECODE, _ENCODE = "speck_sql_decode", "speck_sql_encode"
_PACKAGE = "io.speck.spark.mqtt.sql"
_TIME, _PROGRESS, _PRESENT = "time", "progress", "present"
_TYPES = {"int": "bigint", "timestamp": "bigint"}  # the connector's values are whole numbers of 64 bits
_BOUNDS, _WINDOW = "bounds", ("window_start", "window_end")
# The columns of rows before a join, as the connector gives them.
_JOINED = [(_TIME, "bigint"), ("side", "bigint"), ("key", "string"), ("row", "string")]
# The metadata by which Spark knows a column with a watermark (EventTimeWatermark.delayKey).
_DELAY = "spark.watermarkDelayMs"


def run(messages: Any, program: str) -> Any:
    """The results of a query in canonical form (``program``), as texts in the column ``value``."""
    session, query = messages.sparkSession, json.loads(program)
    windows = query["windows"]
    if (join := query.get("join")) is not None:
        return _joined(_timed(messages, program, _JOINED), program, join)
    if windows is None:
        session.udf.registerJavaFunction(_DECODE, f"{_PACKAGE}.DecodeToText", "array<string>")
        return messages.select(F.explode(_decoded(messages, program)).alias("value"))
    totals = "takes" in query
    rows = _timed(messages, program, _rows(windows, totals=totals))
    result = _aggregated(rows, windows, totals=totals)
    columns = F.struct(*(F.col(name) for name in result.columns if name != _BOUNDS))
    encoder = "RankRows" if query.get("rank") else "EncodeRow"
    session.udf.registerJavaFunction(_ENCODE, f"{_PACKAGE}.{encoder}", "array<string>")
    if query.get("rank"):  # a window has all its rows once a second aggregation closes it
        result = result.groupBy(_BOUNDS).agg(F.collect_list(columns).alias("rows"))
        columns = F.col("rows")
    return result.select(F.explode(F.call_function(_ENCODE, columns, _name(program))).alias("value"))


run.value_type = "binary"  # type: ignore[attr-defined]  # the connector checks the encoding
run.output_mode = "append"  # type: ignore[attr-defined]  # a window is written once, when it is closed


def _timed(messages: Any, program: str, rows: list[tuple[str, str]]) -> Any:
    """The rows of a query, of these columns, whose watermark follows the progress of its inputs.

    The watermark is on the progress, and the column of the time is marked as one with it, since windows need
    that.  A row that is not present carries the progress alone, and has to reach the watermark.  So the
    condition that drops it names the progress: Spark does not move it ahead of the watermark.  And such a row
    has a time: Spark moves the condition of windows there, a time that is not NULL.
    """
    columns = [(_PROGRESS, "bigint"), (_PRESENT, "boolean"), *rows]
    struct = _struct(columns)
    messages.sparkSession.udf.registerJavaFunction(_DECODE, f"{_PACKAGE}.DecodeFrame", f"array<{struct}>")
    # Each start counts the progress anew, since it reads messages again.
    decoded = messages.select(F.inline(_decoded(messages, program, F.lit(uuid.uuid4().hex))))
    progress = F.timestamp_millis(_PROGRESS)
    marked = decoded.withColumn(_PROGRESS, progress).withWatermark(_PROGRESS, "0 seconds")
    present = marked.where(F.col(_PRESENT) | F.col(_PROGRESS).isNull())
    time = F.timestamp_millis(_TIME).alias(_TIME, metadata={_DELAY: 0})
    return present.select(time, *(name for name, _ in rows[1:]))


def _joined(rows: Any, program: str, join: dict[str, Any]) -> Any:
    """The results of a join in windows: the rows of a key, collected until the window is closed."""
    rows.sparkSession.udf.registerJavaFunction(_ENCODE, f"{_PACKAGE}.JoinRows", "array<string>")
    window = _window(join["sides"][0]["windows"]).alias(_BOUNDS)
    grouped = rows.groupBy(window, "key").agg(F.collect_list(F.struct("side", "row")).alias("rows"))
    results = F.call_function(_ENCODE, *_ends(), F.col("rows"), _name(program))
    found = grouped.select(_BOUNDS, F.explode(results).alias("value"))
    if join["distinct"]:  # rows of several keys may have equal results
        found = found.groupBy(_BOUNDS, "value").agg(F.count(F.lit(1)).alias("any"))
    return found.select("value")


def _window(windows: dict[str, Any]) -> Any:
    if windows.get("session"):
        # Spark merges sessions that only touch.  A microsecond less of a gap of whole ms prevents it.
        return F.session_window(_TIME, f"{windows['size_ms'] * 1000 - 1} microseconds")
    return F.window(_TIME, f"{windows['size_ms']} milliseconds", f"{windows['slide_ms']} milliseconds")


def _ends() -> list[Any]:
    """Start and end of a window in whole ms.

    The end of a session is rounded up.  A start has no part of a ms, and may be before 1970, where DIV would
    round a sum up, too.
    """
    micros = f"unix_micros({_BOUNDS}.start)", f"(unix_micros({_BOUNDS}.end) + 999)"
    return [F.expr(f"{each} DIV 1000").alias(name) for each, name in zip(micros, _WINDOW, strict=True)]


def _decoded(messages: Any, program: str, *others: Any) -> Any:
    """The rows of each message.

    With ``on_error`` the source has decoded them, to find those that do not fit, and has a column ``row``.
    """
    if "row" in messages.columns:
        content = F.lit(None).cast("string"), F.col("row")
    else:
        content = F.col("topic"), F.col("value")
    return F.call_function(_DECODE, *content, _name(program), *others)


def _name(program: str) -> Any:
    """The program as an argument of a function: Spark gives BINARY unchanged, and would copy a text a row."""
    return F.lit(program.encode())


def _struct(columns: list[tuple[str, str]]) -> str:
    return f"struct<{', '.join(f'{name}: {type}' for name, type in columns)}>"


def _rows(windows: dict[str, Any], *, totals: bool) -> list[tuple[str, str]]:
    """The columns before the windows: the time, the keys, and the argument or the total of each merge."""
    keys = [(f"key{at}", _TYPES.get(type, type)) for at, type in enumerate(windows["keys"])]
    types = ["bigint" if totals and each["kind"] == "count" else each["type"] for each in windows["merges"]]
    values = [(f"value{at}", _TYPES.get(type, type)) for at, type in enumerate(types)]
    return [(_TIME, "bigint"), *keys, *values]


def _aggregated(rows: Any, windows: dict[str, Any], *, totals: bool) -> Any:
    """The windows, their start and end in ms, the keys, and the totals; of rows that have totals, if so."""
    keys = [f"key{at}" for at in range(len(windows["keys"]))]
    merges = {"count": F.sum if totals else F.count, "sum": F.sum, "min": F.min, "max": F.max}
    aggregates = [
        merges[each["kind"]](f"value{at}").alias(f"total{at}") for at, each in enumerate(windows["merges"])
    ]
    grouped = rows.groupBy(_window(windows).alias(_BOUNDS), *keys)
    result = grouped.agg(*(aggregates or [F.count(F.lit(1)).alias("any")]))
    return result.select(_BOUNDS, *_ends(), *keys, *(f"total{at}" for at in range(len(aggregates))))
