"""Jobs that depend on a local time zone; each takes messages and gives messages."""

from __future__ import annotations

import time
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812


def days(messages: DataFrame) -> DataFrame:
    """The count of each day of local times, as text: ``day n``."""
    day = F.date_trunc("day", F.to_timestamp("value")).alias("day")
    counted = messages.groupBy(day).count()
    return counted.select(F.concat_ws(" ", F.date_format("day", "yyyy-MM-dd"), "count").alias("value"))


def since(messages: DataFrame) -> DataFrame:
    """The local times since a time of the code, which has no zone."""
    return messages.where(F.to_timestamp("value") >= datetime(2026, 3, 29, 12)).select("value")


def instants(messages: DataFrame) -> DataFrame:
    """Each local time with its instant, s since 1970."""
    seconds = F.to_timestamp("value").cast("long")
    return messages.select(F.concat_ws(" ", "value", seconds).alias("value"))


def described(messages: DataFrame) -> DataFrame:
    """A local time as seen by a Python function at the site, and the zone of its process."""
    local = F.to_timestamp("value")
    return messages.select(F.udf(_described, "string")(local).alias("value"))


def _described(local: datetime) -> str:
    return f"{local:%F %T} {time.tzname[0]}"
