"""The class archive of Spark on this machine: for a server, a driver, and an executor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from binders.common import class_archive
from binders.spark.local.commands import ARCHIVE, connect_server_command, connect_server_environment


def make(port: int, directory: Path, ready: Callable[[], bool]) -> None:
    """Start a Connect server on this port, run a query there, and archive the loaded classes.

    Raises :class:`~speck.errors.LocalError`.
    """
    class_archive.archive_path(ARCHIVE).unlink(missing_ok=True)
    command = connect_server_command(port, directory=directory)

    def exercise() -> None:
        class_archive.await_ready("Spark", ready)
        _query(port, directory / "checkpoint")

    class_archive.make({ARCHIVE: command}, connect_server_environment(), directory, exercise)


def _query(port: int, checkpoint: Path) -> None:
    from pyspark.sql import SparkSession, functions

    session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
    try:
        rows = session.readStream.format("rate").option("rowsPerSecond", "20").load()
        words = rows.select("timestamp", functions.col("value").cast("string").alias("word"))
        counts = words.groupBy(functions.window("timestamp", "1 second"), "word").count()
        query = (
            counts.select(functions.to_json(functions.struct("*")).alias("value"))
            .writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", str(checkpoint))
            .start()
        )
        class_archive.await_ready("a query of Spark", lambda: bool(query.lastProgress))
        query.stop()
    finally:
        session.stop()
