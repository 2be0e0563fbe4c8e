"""The binders for Spark.  Importing them does not import PySpark, which takes a second; connecting does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from binders.common.aggregation import aggregation_faults
from binders.common.python_reach import reached_code
from binders.common.signature import parameters_of
from binders.spark.local.connect_server import CONNECT_SERVER
from binders.spark.local.standalone_cluster import STANDALONE_CLUSTER
from binders.spark.query.code_check import ARCHIVES, source_of, split_entry
from binders.spark.query.script_check import check_job
from speck.binder import EngineBinder, EngineKind, Parameter, QueryRunner
from speck.core.code import ReachedCode
from speck.core.inventory import Inventory
from speck.core.job import Scalar
from speck.core.split.advice import SplitSample
from speck.errors import BinderError


def connect_engine(address: str, inventory: Inventory) -> EngineBinder:
    """The binder of the Spark Connect server at ``sc://HOST:PORT``; opens no connection yet."""
    with _client_of_spark(address):
        from binders.spark.connect.engine import ConnectEngine

    return ConnectEngine(address, inventory)


def connect_standalone(address: str, inventory: Inventory) -> EngineBinder:
    """The binder of the Spark master at ``spark://HOST:PORT``; opens no connection yet."""
    with _client_of_spark(address):
        from binders.spark.standalone.engine import StandaloneEngine

    return StandaloneEngine(address, inventory)


@contextmanager
def _client_of_spark(address: str) -> Iterator[None]:
    """Translate the error of a missing package, which is of the extra ``speck[spark]``."""
    try:
        yield
    except ModuleNotFoundError as error:
        message = f"a site with Spark needs the package {error.name!r} (pip install 'speck[spark]')"
        raise BinderError(message, address=address) from error


def parameters(path: Path, entry_class: str) -> tuple[Parameter, ...] | None:
    """The arguments that a job's function takes; see :attr:`speck.binder.EngineKind.parameters`."""
    return parameters_of(source_of(path, entry_class), split_entry(entry_class)[1])


def aggregation(path: Path, entry_class: str) -> tuple[str, ...]:
    """The faults of a class as an aggregation; see :attr:`speck.binder.EngineKind.aggregation`."""
    return aggregation_faults(source_of(path, entry_class), split_entry(entry_class)[1])


def sample_split(
    path: Path, entry_class: str, arguments: Mapping[str, Scalar], lines: Sequence[str], slide_us: int | None
) -> SplitSample:
    """Measure the work of a class on messages; see :attr:`speck.binder.EngineKind.sample_split`."""
    from binders.spark.query.split.sample import sample_split as sampled

    return sampled(path, entry_class, arguments, lines, slide_us)


def policy_fault(data: bytes) -> str | None:
    """The fault of a policy's file; see :attr:`speck.binder.EngineKind.policy_fault`."""
    from jars_and_apps.key_split.baselines.policy import Policy

    try:
        Policy.of_bytes(data)
    except ValueError as error:
        return str(error)
    return None


def reached(path: Path, entry_class: str) -> ReachedCode | None:
    """The statements that a job reaches; see :attr:`speck.binder.EngineKind.reached_code`."""
    if path.suffix in ARCHIVES:
        return None
    return reached_code(source_of(path, entry_class), entry_class, path.name)


STARTUP_SECONDS = 2.0  # s; the first batch of a query has begun by then

ON_ERROR = ("fail", "skip", "park")  # of the connector's sources

QUERIES = QueryRunner(Path(__file__).parents[2] / "jars_and_apps" / "sql" / "spark_query.py", "run")

CONNECT = EngineKind(
    "spark-connect",
    "spark",
    ("sc",),
    check_job,
    connect_engine,
    startup_seconds=STARTUP_SECONDS,
    local=CONNECT_SERVER,
    parameters=parameters,
    on_error=ON_ERROR,
    retains=True,
    aggregation=aggregation,
    sample_split=sample_split,
    policy_fault=policy_fault,
    output_modes=True,
    real_time=True,
    reached_code=reached,
    queries=QUERIES,
)
STANDALONE = EngineKind(
    "spark-standalone",
    "spark",
    ("spark",),
    check_job,
    connect_standalone,
    startup_seconds=STARTUP_SECONDS,
    local=STANDALONE_CLUSTER,
    parameters=parameters,
    on_error=ON_ERROR,
    retains=True,
    aggregation=aggregation,
    sample_split=sample_split,
    policy_fault=policy_fault,
    output_modes=True,
    reached_code=reached,
    lacks_brokers=("kafka",),
    queries=QUERIES,
)
