"""The query of a SQL job on Spark: decoding, expressions and encoding by the connector, windows by Spark.

The functions of the connector are Java's, the same as on Flink: no row enters Python.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import functions as F  # noqa: N812

_DECODE, _ENCODE = "speck_sql_decode", "speck_sql_encode"
_PACKAGE = "io.speck.spark.mqtt.sql"
_TIME = "time"
_TYPES = {"int": "bigint", "timestamp": "bigint"}  # the connector's values are whole numbers of 64 bits
_WINDOW = ("window_start", "window_end")


def run(messages: Any, program: str) -> Any:
    """The results of a query in canonical form (``program``), as texts in the column ``value``."""
    session = messages.sparkSession
    windows = json.loads(program)["windows"]
    if windows is None:
        session.udf.registerJavaFunction(_DECODE, f"{_PACKAGE}.DecodeToText", "array<string>")
        return messages.select(F.explode(_decoded(program)).alias("value"))
    rows = _rows(windows)
    struct = ", ".join(f"{name}: {type}" for name, type in rows)
    session.udf.registerJavaFunction(_DECODE, f"{_PACKAGE}.DecodeToRow", f"array<struct<{struct}>>")
    session.udf.registerJavaFunction(_ENCODE, f"{_PACKAGE}.EncodeRow", "array<string>")
    decoded = messages.select(F.inline(_decoded(program)))
    timed = decoded.withColumn(_TIME, F.timestamp_millis(_TIME))
    lag = json.loads(program)["input"]["watermark_ms"]
    result = _aggregated(timed.withWatermark(_TIME, f"{lag} milliseconds"), windows)
    columns = F.struct(*(F.col(name) for name in result.columns))
    return result.select(F.explode(F.call_function(_ENCODE, columns, F.lit(program))).alias("value"))


run.value_type = "binary"  # type: ignore[attr-defined]  # the connector checks the encoding
run.output_mode = "append"  # type: ignore[attr-defined]  # a window is written once, when it is closed


def _decoded(program: str) -> Any:
    return F.call_function(_DECODE, F.col("topic"), F.col("value"), F.lit(program))


def _rows(windows: dict[str, Any]) -> list[tuple[str, str]]:
    """The columns before the windows: the time, the keys, and the argument of each merge."""
    keys = [(f"key{at}", _TYPES.get(type, type)) for at, type in enumerate(windows["keys"])]
    merges = [
        (f"value{at}", _TYPES.get(each["type"], each["type"])) for at, each in enumerate(windows["merges"])
    ]
    return [(_TIME, "bigint"), *keys, *merges]


def _aggregated(rows: Any, windows: dict[str, Any]) -> Any:
    """Start and end of the windows in ms, the keys, and the totals."""
    window = F.window(_TIME, f"{windows['size_ms']} milliseconds", f"{windows['slide_ms']} milliseconds")
    keys = [f"key{at}" for at in range(len(windows["keys"]))]
    merges = {"count": F.count, "sum": F.sum, "min": F.min, "max": F.max}
    totals = [
        merges[each["kind"]](f"value{at}").alias(f"total{at}") for at, each in enumerate(windows["merges"])
    ]
    grouped = rows.groupBy(window.alias("bounds"), *keys)
    result = grouped.agg(*totals) if totals else grouped.agg(F.count(F.lit(1)).alias("any"))
    bounds = (
        F.unix_millis(f"bounds.{end}").alias(name)
        for end, name in zip(("start", "end"), _WINDOW, strict=True)
    )
    return result.select(*bounds, *keys, *(f"total{at}" for at in range(len(totals))))
