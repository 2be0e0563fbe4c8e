"""The bare calls of a Spark Connect client: reads requests, a line of JSON each, and answers a line each."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession


def start(request: Mapping[str, Any]) -> None:
    """Start the query of a pass-through job in a session of its own."""
    spark = SparkSession.builder.remote(request["remote"]).create()
    messages = spark.readStream.format("mqtt").options(**request["source"]).load()
    writer = messages.select("value").writeStream.format("mqtt").options(**request["sink"])
    writer.option("checkpointLocation", request["checkpoint"]).queryName(request["name"]).start()
    spark.client.close()  # the session, and with it the query, stays


def stop(request: Mapping[str, Any]) -> None:
    """Stop the query of a session, and end the session."""
    spark = SparkSession.builder.remote(request["remote"]).create()
    for query in spark.streams.active:
        query.stop()
    spark.stop()


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        try:
            {"start": start, "stop": stop}[request["do"]](request)
            print("done", flush=True)
        except Exception as error:
            print(f"{type(error).__name__}: {error}".replace("\n", " ")[:500], flush=True)
