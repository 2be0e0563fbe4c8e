"""Jobs that pass contents on, which need not be text; each takes messages and gives messages."""

from __future__ import annotations

from collections.abc import Iterator

import pandas
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812


def relay(messages: DataFrame) -> DataFrame:
    """Each message as it is."""
    return messages.select("value")


def cast(messages: DataFrame) -> DataFrame:
    """The same by a column of bytes."""
    return messages.select(F.col("value").cast("binary").alias("value"))


def marked(messages: DataFrame) -> DataFrame:
    """Each message, a text, with a mark."""
    return messages.select(F.concat("value", F.lit("!")).alias("value"))


def mapped(messages: DataFrame) -> DataFrame:
    """The bytes of each message in a Python function, which gives them back."""
    return messages.select("value").mapInPandas(_same, "value binary")


mapped.value_type = "binary"  # type: ignore[attr-defined]


def with_metadata(messages: DataFrame) -> DataFrame:
    """Key, offset and value of each message."""
    key = F.coalesce("key", F.lit("none"))
    return messages.select(F.concat_ws(" ", key, "offset", messages["value"].cast("string")).alias("value"))


with_metadata.message_metadata = True  # type: ignore[attr-defined]


def with_key(messages: DataFrame) -> DataFrame:
    """Each text as its own key."""
    return messages.select(messages["value"].alias("key"), "value")


def unknown(messages: DataFrame) -> DataFrame:
    """Requests a type that there is not."""
    return messages.select("value")


unknown.value_type = "bytes"  # type: ignore[attr-defined]


def _same(frames: Iterator[pandas.DataFrame]) -> Iterator[pandas.DataFrame]:
    for frame in frames:
        assert all(isinstance(each, bytes) for each in frame["value"])
        yield frame
