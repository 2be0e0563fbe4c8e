"""The binder for Flink, and clusters on this machine; the engine's modules are imported by a connection."""

from __future__ import annotations

from pathlib import Path

from binders.flink.local.server import FLINK_CLUSTER, FLINK_SMALL
from binders.flink.submission.code_check import check_code, parameters, reached
from speck.binder import EngineBinder, EngineKind, QueryRunner
from speck.core.inventory import Inventory

# A hundred jobs were submitted in 2.2 s with 8 concurrent requests, in 6.7 s with one, in 1.9 s with 16.
BOUND = 8

STARTUP_SECONDS = 2.0  # s; a job whose tasks fail at once is being restarted by then

ON_ERROR = ("fail", "skip", "park")  # of the connector's sources


QUERIES = QueryRunner(
    Path(__file__).parents[2] / "jars_and_apps" / "sql" / "speck-sql.jar",
    "io.speck.sql.flink.SqlJob",
    panes=True,
)


def connect_engine(address: str, inventory: Inventory) -> EngineBinder:
    """The engine at an address; see :func:`binders.flink.engine.connect_engine`."""
    from binders.flink import engine

    return engine.connect_engine(address, inventory)


FLINK = EngineKind(
    "flink",
    "flink",
    ("http", "https"),
    check_code,
    connect_engine,
    bound=BOUND,
    startup_seconds=STARTUP_SECONDS,
    local=FLINK_CLUSTER,
    parameters=parameters,
    on_error=ON_ERROR,
    retains=True,
    reached_code=reached,
    queries=QUERIES,
    forms={"flink-small": FLINK_SMALL},
)
