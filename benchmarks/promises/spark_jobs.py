"""The jobs of the trials on Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812


def counted(messages: DataFrame) -> DataFrame:
    """The count of each message, as ``MESSAGE,COUNT``."""
    counts = messages.groupBy(F.col("value").cast("string").alias("key")).count()
    return counts.select(F.concat_ws(",", "key", F.col("count").cast("string")).alias("value"))


def marked(messages: DataFrame, site: str = "") -> DataFrame:
    """Each message with ``site`` as a last field, if there is any."""
    text = F.col("value").cast("string")
    return messages.select((F.concat_ws(",", text, F.lit(site)) if site else text).alias("value"))
