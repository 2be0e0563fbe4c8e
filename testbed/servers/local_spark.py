"""Sessions of Spark inside a test: with a Java process of their own, on one core, or at a Connect server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from binders.common import class_archive
from binders.spark.local.commands import ARCHIVE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The first halves the processor time of a start, at the cost of long runs, which tests do not have.
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


@contextmanager
def local_spark(heap: str = "600m", conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session for batches and streams; ``conf`` holds further settings."""
    # Other tests import no Spark.
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": heap,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join((*JVM_OPTIONS, *class_archive.options(ARCHIVE))),
        "spark.sql.shuffle.partitions": "1",
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in (settings | dict(conf or {})).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def connect_session(address: str) -> Iterator[SparkSession]:
    """A session at a Connect server, after which this process can make one of :func:`local_spark` again."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(address).create()
    try:
        yield session
    finally:
        session.stop()
        # PySpark sets it, and with it makes no other sessions for as long as the process lives.
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
