"""Spark jobs of the trials: what comes in goes out, and how often each has come."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812


def forward(messages: DataFrame) -> DataFrame:
    """Every message as it is."""
    return messages.select("value")


def count(messages: DataFrame) -> DataFrame:
    """The count of each value, as text: ``value,n``."""
    counted = messages.groupBy(F.col("value").cast("string").alias("word")).count()
    return counted.select(F.concat_ws(",", "word", F.col("count").cast("string")).alias("value"))
