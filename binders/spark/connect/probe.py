"""Requests to a Connect server that concern no single job: version, connector, Python, running queries."""

from __future__ import annotations

import re
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import TypeVar

from binders.spark.connect.grpc_client import ConnectClient, Query, ServerRefused
from binders.spark.connect.protocol import pb2
from binders.spark.query.options import CONNECTOR_FORMAT
from speck.core.job import Job
from speck.errors import Rejected

_COLUMNS = frozenset({"topic", "value", "timestamp"})
_QUERY_THREAD = re.compile(
    r"stream execution thread for (?P<name>\S+) \[id = (?P<id>[0-9a-f-]+), runId = (?P<run>[0-9a-f-]+)\]"
)
_LOCAL_MASTER = re.compile(r"local\[(\d+)")
_SPLITS = re.compile(r"splits=(?:Some\()?(\d+)")
_SIZE = re.compile(r"(\d+)([kmgt]?)b?")
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

# Functions are sent as byte code, which is specific to a minor version of Python: PySpark requires the same.
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_PYTHON_SETTING = "spark.speck.python"
_PACKAGES_SETTING = "spark.speck.packages"
_OTHER_PYTHON = re.compile(r"PYTHON_VERSION_MISMATCH\].*?different version: (\d+\.\d+)")

_T = TypeVar("_T")


class ServerProbe:
    """Sends requests to one server, in a session of its own without a query."""

    def __init__(self, address: str, client: ConnectClient) -> None:
        self.address = address
        self._client = client
        # Always the same one: however often a coordinator is killed, one session remains at a server.
        self._session = str(uuid.uuid5(uuid.NAMESPACE_URL, "speck:coordinator"))
        # The check starts a Python worker at the server: once, however many jobs start.
        self._python_lock = threading.Lock()

    def check_version(self) -> None:
        """Raise :class:`~speck.errors.Rejected` if the server's version differs from PySpark's here."""
        theirs, ours = self.ask(self._client.spark_version), version("pyspark")
        if theirs.split(".")[:2] != ours.split(".")[:2]:
            raise Rejected(
                f"Spark Connect server {self.address} has version {theirs} (expected {ours})",
                address=self.address,
            )

    def check_connector(self, job: Job) -> None:
        """Raise :class:`~speck.errors.Rejected` if the server has no MQTT source for the job."""
        self.check_source(job.source_broker, job.source_topic)

    def check_source(self, broker: str, topic: str) -> None:
        """Raise :class:`~speck.errors.Rejected` if the server has no MQTT source; connects to no broker."""
        options = {"brokerUrl": broker, "topic": topic, "clientId": "speck-check"}
        data_source = pb2.Read.DataSource(format=CONNECTOR_FORMAT, options=options)
        source = pb2.Read(data_source=data_source, is_streaming=True)
        try:
            columns = self.ask(lambda session: self._client.columns(session, source))
        except ServerRefused as error:
            if error.error_class != "DATA_SOURCE_NOT_FOUND":
                raise
            columns = []
        if not _COLUMNS.issubset(columns):
            raise Rejected(
                f"Spark Connect server {self.address} has no data source {CONNECTOR_FORMAT!r} "
                "(start it with spark-mqtt.jar on its class path: --jars, or spark.jars)",
                address=self.address,
            )

    def python_fault(self) -> str | None:
        """The reason why Python functions from here cannot run in the server's workers; ``None`` if they can.

        The server knows its Python by path only, so a function is run there.  Success is stored in a setting
        of the session, and so as long as the server runs.
        """
        with self._python_lock:
            if self.setting(_PYTHON_SETTING) == _PYTHON:
                return None
            try:
                # The smallest function: without arguments, it returns an empty string.
                self.ask(lambda session: self._client.text(session, _python_function(str)))
            except ServerRefused as error:
                theirs = _OTHER_PYTHON.search(str(error))
                return f"its workers run Python {theirs[1]} (expected {_PYTHON})" if theirs else str(error)
            self.ask(lambda session: self._client.set(session, _PYTHON_SETTING, _PYTHON))
            return None

    def missing_packages(self, names: Iterable[str]) -> list[str]:
        """Those of the packages that the Python of the server's workers does not find.

        Those that it finds are stored in a setting of the session, and so as long as the server runs.
        """
        with self._python_lock:
            known = set(self.setting(_PACKAGES_SETTING).split())
            if not (unknown := sorted(set(names) - known)):
                return []
            search = _python_function(_search_for(unknown))
            missing = self.ask(lambda session: self._client.text(session, search)).split()
            found = " ".join(sorted(known | (set(unknown) - set(missing))))
            self.ask(lambda session: self._client.set(session, _PACKAGES_SETTING, found))
            return missing

    def has_checkpoint(self, location: str) -> bool:
        """True if the server finds a query's checkpoint there; a plan is analyzed, and nothing runs."""
        source = pb2.Read(data_source=pb2.Read.DataSource(format="text", paths=[f"{location}/metadata"]))
        try:
            self.ask(lambda session: self._client.columns(session, source))
        except ServerRefused as error:
            if error.error_class != "PATH_NOT_FOUND":
                raise
            return False
        return True

    def running(self) -> list[Query] | None:
        """The running queries of all sessions, or ``None`` if the server cannot list them.

        A session sees its own queries only.  But each query has a thread with its name, and SQL can list the
        threads of the process that evaluates it: with a local master, that is the server.
        """
        if not self.setting("spark.master").startswith("local"):
            return None
        threads = pb2.Relation(
            sql=pb2.SQL(query="SELECT java_method('java.lang.Thread', 'getAllStackTraces')")
        )
        answer = self.ask(lambda session: self._client.text(session, threads))
        return [Query(each["id"], each["run"], each["name"]) for each in _QUERY_THREAD.finditer(answer)]

    def threads(self) -> int | None:
        """The number of tasks that the server's own process runs at once; ``None`` if others run them."""
        local = _LOCAL_MASTER.match(self.setting("spark.master"))
        return int(local[1]) if local is not None else None

    def cores(self) -> int | None:
        """The default parallelism: a setting, or the number of tasks that Spark runs at once."""
        given = self.setting("spark.default.parallelism")
        if given.isdigit():
            return int(given)
        local = _LOCAL_MASTER.match(self.setting("spark.master"))
        if local is not None:
            return int(local[1])
        # The plan of a range has its default number of partitions.
        relation = pb2.Relation(range=pb2.Range(start=0, end=1, step=1))
        splits = _SPLITS.search(self.ask(lambda session: self._client.explain(session, relation)))
        return int(splits[1]) if splits else None

    def heap(self) -> int | None:
        """The limit of the server's heap, bytes."""
        match = _SIZE.fullmatch(self.setting("spark.driver.memory", "1g").lower())
        return int(match[1]) * _UNITS.get(match[2], _UNITS["m"]) if match else None

    def evaluate(self, expression: str) -> str:
        """The value of an SQL expression as text; Spark's optimizer evaluates it, in the server's process."""
        # Over a relation of literals no task runs, and also a function without a constant result is computed.
        relation = pb2.Relation(sql=pb2.SQL(query=f"SELECT {expression} FROM VALUES (1)"))  # noqa: S608 - of constants
        return self.ask(lambda session: self._client.text(session, relation))

    def now(self) -> float:
        """The server's clock (Unix time, s)."""
        relation = pb2.Relation(sql=pb2.SQL(query="SELECT CAST(unix_micros(now()) AS STRING)"))
        return int(self.ask(lambda session: self._client.text(session, relation))) / 1e6

    def setting(self, name: str, default: str = "") -> str:
        """A setting of the server."""
        return self.ask(lambda session: self._client.settings(session, [name])).get(name, default)

    def ask(self, request: Callable[[str], _T]) -> _T:
        """Send a request in the session of this probe, or in a new one if that was closed."""
        try:
            return request(self._session)
        except ServerRefused as error:
            if not error.of_session:
                raise
        self._session = str(uuid.uuid4())  # the server has closed the other permanently
        return request(self._session)


def _search_for(names: Sequence[str]) -> Callable[[], str]:
    def missing() -> str:
        import importlib
        from importlib.util import find_spec

        importlib.invalidate_caches()  # a package may have been installed since the worker started
        return " ".join(name for name in names if find_spec(name) is None)

    return missing


def _python_function(called: Callable[[], str]) -> pb2.Relation:
    """One row with the result of a Python function."""
    from pyspark import cloudpickle
    from pyspark.sql.types import StringType
    from pyspark.util import PythonEvalType

    string = StringType()
    function = pb2.PythonUDF(
        output_type=pb2.DataType(string=pb2.DataType.String(collation=string.collation)),
        eval_type=PythonEvalType.SQL_BATCHED_UDF,
        command=cloudpickle.dumps((called, string)),  # type: ignore[no-untyped-call]
        python_ver=_PYTHON,
    )
    call = pb2.CommonInlineUserDefinedFunction(
        function_name="speck_probe", deterministic=True, python_udf=function
    )
    row = pb2.Relation(range=pb2.Range(start=0, end=1, step=1, num_partitions=1))
    expression = pb2.Expression(common_inline_user_defined_function=call)
    return pb2.Relation(project=pb2.Project(input=row, expressions=[expression]))
