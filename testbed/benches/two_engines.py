"""The engines of a site that has a Spark Connect server and a Flink cluster."""

from __future__ import annotations

from pathlib import Path

from speck.core.inventory import Engine
from testbed.servers.flink import FlinkServer
from testbed.servers.spark import SparkServer


def two_engines(spark: SparkServer, flink: FlinkServer, directory: Path) -> tuple[Engine, Engine]:
    """Both, with places for states; those of Spark are below ``directory``."""
    return (
        Engine(spe_address=spark.address, checkpoint_dir=str(directory / "checkpoints")),
        Engine(
            spe_address=flink.address,
            checkpoint_dir=flink.cluster.checkpoints.as_uri(),
            savepoint_dir=flink.cluster.savepoints.as_uri(),
        ),
    )
