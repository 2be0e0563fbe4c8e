"""A job that lies in a package; a test puts it into an archive as streets/cleaning.py."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from streets.names import shout  # type: ignore[import-not-found]


def clean(messages: DataFrame) -> DataFrame:
    """Uses a neighbour in the package, on the server."""
    return messages.select(F.udf(shout, "string")("value").alias("value"))
