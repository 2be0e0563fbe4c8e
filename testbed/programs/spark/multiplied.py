"""Jobs whose update changes the number of their outputs; each takes messages and gives messages."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

TEXT = F.col("value").cast("string")


def _shuffled(messages: DataFrame) -> DataFrame:
    return messages.select(TEXT.alias("value")).repartition(2, "value")


def _doubled(messages: DataFrame) -> DataFrame:
    """Two outputs for each message, and an error at the first one named ``poison``."""
    return messages.select(F.explode(F.array(_named("a"), _named("b"))).alias("value"))


def _named(output: str) -> Column:
    poison = F.raise_error(F.concat(F.lit("no such street: "), TEXT))
    return F.when(TEXT.startswith("poison"), poison).otherwise(F.concat(TEXT, F.lit(f"-{output}")))


def passed(messages: DataFrame) -> DataFrame:
    """Each message as it is."""
    return messages.select(TEXT.alias("value"))


def doubled(messages: DataFrame) -> DataFrame:
    """Each message twice, and an error at a poisonous one."""
    return _doubled(messages)


def slow(messages: DataFrame) -> DataFrame:
    """Each message as it is, 4 ms later."""
    return passed(_slowly(messages))


def slow_and_doubled(messages: DataFrame) -> DataFrame:
    """Each message twice, 4 ms later, and an error at a poisonous one."""
    return _doubled(_slowly(messages))


def _slowly(messages: DataFrame) -> DataFrame:
    # A filter, since an unused column is not computed; the method returns nothing.
    sleep = F.java_method(F.lit("java.lang.Thread"), F.lit("sleep"), F.lit(4).cast("long"))
    return messages.where(F.coalesce(sleep, F.lit("")) != "never")


def shuffled(messages: DataFrame) -> DataFrame:
    """Each message as it is, after a shuffle."""
    return passed(_shuffled(messages))


def shuffled_and_doubled(messages: DataFrame) -> DataFrame:
    """Each message twice, after a shuffle, and an error at a poisonous one."""
    return _doubled(_shuffled(messages))
