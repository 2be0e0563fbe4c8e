"""Jobs that hand Python functions to Spark in ways other than ``udf``, and one that only talks of it."""

from __future__ import annotations

from collections.abc import Iterator

import pandas
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812


def without(messages: DataFrame) -> DataFrame:
    """Needs no Python at the site, although this file names mapInPandas."""
    return messages.select(F.upper(F.col("value").cast("string")).alias("value"))


def mapped(messages: DataFrame) -> DataFrame:
    """By frames of rows."""
    return messages.select("value").mapInPandas(_same, "value string")


def grouped(messages: DataFrame) -> DataFrame:
    """By groups."""
    return messages.select("value").groupBy("value").applyInPandas(_first, "value string")


def registered(messages: DataFrame) -> DataFrame:
    """By a function that SQL knows by its name."""
    messages.sparkSession.udf.register("backwards", lambda text: text[::-1])
    return messages.selectExpr("backwards(CAST(value AS STRING)) AS value")


def _same(frames: Iterator[pandas.DataFrame]) -> Iterator[pandas.DataFrame]:
    yield from frames


def _first(frame: pandas.DataFrame) -> pandas.DataFrame:
    return frame[:1]
