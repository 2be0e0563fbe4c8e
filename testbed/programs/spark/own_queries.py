"""Jobs that start queries of their own, in a way that no analysis of their text sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

WRITER = "write" + "Stream"


def awaited(messages: DataFrame) -> DataFrame:
    """Starts a query of the messages, and waits for its end."""
    _started(messages, "awaited").awaitTermination()
    return mended(messages)


def beside(messages: DataFrame) -> DataFrame:
    """Starts a query of the messages, and returns another one."""
    _started(messages, "beside")
    return mended(messages)


def fails(messages: DataFrame) -> DataFrame:
    """Starts a query of the messages and one of another source, and fails."""
    _started(messages, "fails")
    _started(messages.sparkSession.readStream.format("rate").load(), "rate-of-fails")
    raise ValueError("no such street")


def mended(messages: DataFrame) -> DataFrame:
    """The messages in capitals."""
    return messages.select(F.upper(F.col("value").cast("string")).alias("value"))


def _started(rows: DataFrame, name: str) -> Any:
    return getattr(rows, WRITER).format("noop").queryName(name).start()


def twice(messages: DataFrame) -> DataFrame:
    """An aggregation of an aggregation: the number of words that came in each second."""
    seen = messages.withWatermark("timestamp", "1 second").withColumn("word", F.col("value").cast("string"))
    words = seen.groupBy(F.window("timestamp", "1 second"), "word").count()
    counts = words.groupBy(F.window(F.window_time("window"), "1 second")).count()
    return counts.select(F.col("count").cast("string").alias("value"))


def ordered(messages: DataFrame) -> DataFrame:
    """The messages by their time, which Spark does in no output mode."""
    return messages.orderBy("timestamp").select("value")


def fails_when_started(messages: DataFrame, mark: str) -> DataFrame:
    """Counts words as :func:`words`; fails when it is run for the second time, after it was built."""
    if Path(mark).exists():
        raise ValueError("no such street")
    Path(mark).touch()
    return words(messages)


def words(messages: DataFrame) -> DataFrame:
    """The count of each word, as text: ``word n``."""
    counted = messages.groupBy(F.col("value").cast("string").alias("word")).count()
    return counted.select(F.concat_ws(" ", "word", F.col("count").cast("string")).alias("value"))


def distinct(messages: DataFrame) -> DataFrame:
    """An aggregation of messages without repetitions."""
    seen = messages.withWatermark("timestamp", "1 second").withColumn("word", F.col("value").cast("string"))
    once = seen.dropDuplicates(["word", "timestamp"])
    counts = once.groupBy(F.window("timestamp", "1 second")).count()
    return counts.select(F.col("count").cast("string").alias("value"))
