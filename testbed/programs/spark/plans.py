"""Jobs whose plans have operators that the other jobs of tests have not."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812


def distinct(messages: DataFrame) -> DataFrame:
    """Each message once within a minute."""
    watched = messages.withWatermark("timestamp", "1 minute")
    once = watched.dropDuplicatesWithinWatermark(["value"])
    return once.select(F.col("value").cast("string").alias("value"))


def united(messages: DataFrame) -> DataFrame:
    """The messages, and the words of those that are long, repartitioned over the tasks."""
    text = messages.select(F.col("value").cast("string").alias("value"))
    words = text.where(F.length("value") > 3).select(F.explode(F.split("value", " ")).alias("value"))
    return text.union(words).repartition(2)
