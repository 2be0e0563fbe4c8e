"""The job of the hop benchmark: what comes in goes out."""

from __future__ import annotations

from pyspark.sql import DataFrame


def pass_through(messages: DataFrame) -> DataFrame:
    """Every message as it is."""
    return messages.select("value")
