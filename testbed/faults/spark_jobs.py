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


def forward(messages: DataFrame) -> DataFrame:
    """Every message as it is."""
    return messages.select("value")


def expand(messages: DataFrame, form: str = "a", twice: int = 3, dies: int = 1 << 62) -> DataFrame:
    """Filter and multiply numbered messages by the rule of :mod:`testbed.faults.mixed`.

    ``dies`` is the number from which on it fails.
    """
    text = F.col("value").cast("string")
    number = F.regexp_extract(text, r"-(\d+)$", 1).cast("long")
    outputs = F.when(number % 5 == 4, 0).when(number % int(twice) == 0, 2).otherwise(1)
    several = messages.select(text.alias("text"), number.alias("number"), outputs.alias("outputs"))
    one = several.where("outputs > 0").select(
        "text", "number", F.explode(F.sequence(F.lit(0), F.col("outputs") - 1)).alias("index")
    )
    value = F.concat_ws(".", "text", F.col("index").cast("string"), F.lit(form))
    failing = F.raise_error(F.lit(f"form {form} ends at {dies}")).cast("string")
    return one.select(F.when(F.col("number") >= int(dies), failing).otherwise(value).alias("value"))
