"""The bare calls of a Spark Connect client: reads orders, a line of JSON each, and answers a line each."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession


def start(orders: Mapping[str, Any]) -> None:
    """Start the query of a pass-through job in a session of its own."""
    spark = SparkSession.builder.remote(orders["remote"]).create()
    messages = spark.readStream.format("mqtt").options(**orders["source"]).load()
    writer = messages.select("value").writeStream.format("mqtt").options(**orders["sink"])
    writer.option("checkpointLocation", orders["checkpoint"]).queryName(orders["name"]).start()
    spark.client.close()  # the session, and with it the query, stays


def stop(orders: Mapping[str, Any]) -> None:
    """Stop the query of a session, and end the session."""
    spark = SparkSession.builder.remote(orders["remote"]).create()
    for query in spark.streams.active:
        query.stop()
    spark.stop()


if __name__ == "__main__":
    for line in sys.stdin:
        order = json.loads(line)
        try:
            {"start": start, "stop": stop}[order["do"]](order)
            print("done", flush=True)
        except Exception as error:
            print(f"{type(error).__name__}: {error}".replace("\n", " ")[:500], flush=True)
