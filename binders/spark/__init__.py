"""The binder of Spark.  Importing it does not import PySpark, which takes a second; connecting does."""

from __future__ import annotations

from binders.spark.code import check_code
from binders.spark.local import CONNECT_SERVER
from binders.spark.signature import parameters
from binders.spark.standalone_local import STANDALONE_CLUSTER
from speck.binder import EngineBinder, EngineKind
from speck.model import Inventory


def connect_engine(address: str, inventory: Inventory) -> EngineBinder:
    """The binder of the Spark Connect server at ``sc://HOST:PORT``; opens no connection yet."""
    from binders.spark.connect import ConnectEngine

    return ConnectEngine(address, inventory)


def connect_standalone(address: str, inventory: Inventory) -> EngineBinder:
    """The binder of the Spark master at ``spark://HOST:PORT``; opens no connection yet."""
    from binders.spark.standalone import StandaloneEngine

    return StandaloneEngine(address, inventory)


SETTLE = 2.0  # s; the first batch of a query has begun by then

CONNECT = EngineKind(
    "spark-connect",
    "spark",
    ("sc",),
    check_code,
    connect_engine,
    settle=SETTLE,
    local=CONNECT_SERVER,
    parameters=parameters,
)
STANDALONE = EngineKind(
    "spark-standalone",
    "spark",
    ("spark",),
    check_code,
    connect_standalone,
    settle=SETTLE,
    local=STANDALONE_CLUSTER,
    parameters=parameters,
)
