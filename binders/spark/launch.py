"""What a launched process does: connect, build the job's DataFrame, start its query, answer, end.

Runs in a fork of :mod:`binders.spark.forkserver`.  It ends without releasing its session: the query belongs
to the session and goes on in the server.
"""

from __future__ import annotations

import json
import os
import re
import socket
from typing import Any

import grpc  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql.connect.client import ChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.connect.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType, StringType

from binders.spark.orders import CHECKPOINT_SETTING, QUERY_SETTING, RUN_SETTING, Orders
from binders.spark.userjob import JobFault, call, explain, load, output_mode
from binders.spark.wire import USER, Endpoint, first_line, open_channel

Answer = dict[str, str]

_RETRIES = 3  # of a call to the server, some 3 s in all
_LOST_CALLS = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})

# What Spark says to a second launch of one attempt; the first of them may not have come to its end yet.
_STARTED_ELSEWHERE = ("Cannot start query with name", "Multiple streaming queries are concurrently using")

# Spark's analysed plan has one node a line behind marks of its depth, and a tilde before a streaming one.
_STREAMING_NODE = re.compile(r"^[\s:+\-|]*~(\w+)", re.MULTILINE)
_ANALYSED = re.compile(r"== Analyzed Logical Plan ==(.*?)== Optimized Logical Plan ==", re.DOTALL)

# In the physical plan a node may have the number of its code stage before it: "*(2) Project [...]".
_PYTHON_NODE = re.compile(r"^[\s:+\-|*()\d]*(\w*(?:Python|InPandas|InArrow|PySpark)\w*)", re.MULTILINE)

# What leaves the rows in the order of the messages.  Any other node may shuffle them.
_IN_ORDER = frozenset(
    (
        *("Project", "Filter", "Generate", "SubqueryAlias", "EventTimeWatermark", "StreamingRelationV2"),
        *("MapPartitions", "MapInPandas", "MapInArrow", "PythonMapInPandas", "PythonMapInArrow"),
        *("DeserializeToObject", "SerializeFromObject", "View", "CollectMetrics", "UnresolvedHint"),
    )
)

# It would write each failed analysis with some 100 lines of stack to the log; the answer tells it in one.
PySparkLogger.getLogger("DataFrameQueryContextLogger").disabled = True


def answer_one(connection: socket.socket) -> None:
    """Read orders from a connection, carry them out, and write the answer (both JSON).

    The answer's ``kind`` is ``started`` (with ``query`` and ``run``, their ids), ``exists`` (a query of that
    name runs in the session), ``refused`` or ``no_answer`` (with ``message``); of a rehearsal ``rehearsed``,
    with ``python``: the plan's nodes that run Python functions.
    """
    received = b"".join(iter(lambda: connection.recv(65536), b""))
    answer = carry_out(Orders.from_json(received))
    connection.sendall(json.dumps(answer).encode())
    connection.shutdown(socket.SHUT_RDWR)


def carry_out(orders: Orders) -> Answer:
    """Start the query that is ordered; see :func:`answer_one` for the answer."""
    try:
        return _start(orders)
    except JobFault as fault:
        return {"kind": "refused", "message": str(fault)}
    except PySparkException as error:
        return _answer_to(error, orders)
    except (KeyboardInterrupt, Exception, SystemExit) as error:  # a job's code may raise anything
        return {"kind": "refused", "message": explain(error, orders.path)}


def _start(orders: Orders) -> Answer:
    session = _session(orders)
    entry = load(orders)
    messages = _messages(session, orders)
    result = _checked(call(entry, messages, orders))
    plans = result._explain_string(extended=True)
    if orders.rehearsal:
        return {"kind": "rehearsed", "python": " ".join(sorted(_python_nodes(plans)))}
    nodes = _streaming_nodes(plans)
    mode = output_mode(entry) or ("update" if "Aggregate" in nodes else "append")
    # A replayed batch must give each message the same stamp: rows that may come in another order the next
    # time are sorted by the sink.
    order = "input" if nodes and nodes <= _IN_ORDER else "value"
    query = _write(result, mode, order, orders)
    session.conf.set(QUERY_SETTING, query.id)
    session.conf.set(RUN_SETTING, query.runId)
    return {"kind": "started", "query": query.id, "run": query.runId}


def _session(orders: Orders) -> SparkSession:
    # Any ChannelBuilder will do; PySpark's annotation names the default one.
    session = SparkSession(_Channel(orders))  # type: ignore[arg-type]
    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])
    # What a job's code asks for as the active session, or has built, is to be this one.
    SparkSession._set_default_and_active_session(session)
    os.environ["SPARK_REMOTE"] = f"sc://{orders.host}:{orders.port}"
    for name, value in {**orders.settings, CHECKPOINT_SETTING: orders.checkpoint}.items():
        session.conf.set(name, value)
    return session


class _Channel(ChannelBuilder):
    def __init__(self, orders: Orders) -> None:
        super().__init__(params={"user_id": USER, "session_id": orders.session})
        self._endpoint = Endpoint(orders.host, orders.port, orders.token, orders.ca_file)

    def toChannel(self) -> grpc.Channel:  # noqa: N802 - PySpark's name
        return open_channel(self._endpoint)

    @property
    def host(self) -> str:
        return self._endpoint.host


def _messages(session: SparkSession, orders: Orders) -> Any:
    return session.readStream.format(orders.source_format).options(**orders.source_options).load()


def _checked(result: object) -> DataFrame:
    if not isinstance(result, DataFrame):
        raise JobFault(f"the job returned a {type(result).__name__} (expected a DataFrame)")
    if not result.isStreaming:
        raise JobFault("the job returned a DataFrame that does not come from its messages (not streaming)")
    types = {column.name: column.dataType for column in result.schema.fields}
    if "value" not in types:
        raise JobFault(f"the job's DataFrame has no column 'value' (it has {', '.join(types) or 'none'})")
    if not isinstance(types["value"], StringType | BinaryType):
        kind = types["value"].simpleString()
        raise JobFault(f"the job's column 'value' is of type {kind} (expected string or binary)")
    return result.select(*(name for name in ("key", "value") if name in types))  # type: ignore[return-value]


def _streaming_nodes(plans: str) -> set[str]:
    plan = _ANALYSED.search(plans)
    return set() if plan is None else set(_STREAMING_NODE.findall(plan[1]))


def _python_nodes(plans: str) -> set[str]:
    _, _, physical = plans.partition("== Physical Plan ==")
    return set(_PYTHON_NODE.findall(physical))


def _write(result: DataFrame, mode: str, order: str, orders: Orders) -> StreamingQuery:
    writer = result.writeStream.format(orders.sink_format).options(**orders.sink_options)
    writer = writer.option("order", order)
    writer = writer.queryName(orders.job_name).outputMode(mode)
    writer = writer.option("checkpointLocation", orders.checkpoint)
    if orders.trigger is not None:
        writer = writer.trigger(processingTime=orders.trigger)
    query: Any = writer.start()
    return query  # type: ignore[no-any-return]


def _answer_to(error: PySparkException, orders: Orders) -> Answer:
    status = getattr(error, "getGrpcStatusCode", lambda: None)()
    message = first_line(str(error))
    if status in _LOST_CALLS or type(error).__name__ == "RetriesExceeded":
        return {"kind": "no_answer", "message": message}
    if any(words in message for words in _STARTED_ELSEWHERE):
        return {"kind": "exists", "message": message}
    return {"kind": "refused", "message": explain(error, orders.path)}
