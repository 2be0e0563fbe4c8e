"""What a launched process does: connect, build the job's DataFrame, start its query, answer, end.

Runs in a fork of :mod:`binders.spark.connect.forkserver`.  It ends without releasing its session: the query
belongs to the session and goes on in the server.
"""

from __future__ import annotations

import json
import os
import socket

import grpc  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql.connect.client import ChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.connect.streaming.query import StreamingQuery

from binders.spark.connect.credentials import Keys
from binders.spark.connect.grpc_client import USER, open_channel
from binders.spark.query.builder import python_nodes, start_query
from binders.spark.query.spec import CHECKPOINT_SETTING, QUERY_SETTING, RUN_SETTING, ConnectOrders
from binders.spark.query.text import first_line
from binders.spark.query.user_code import JobFault, explain

Answer = dict[str, str]

_RETRIES = 3  # of a call to the server, some 3 s in all
_LOST_CALLS = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})

# What Spark says to a second launch of one attempt; the first of them may not have come to its end yet.
_STARTED_ELSEWHERE = ("Cannot start query with name", "Multiple streaming queries are concurrently using")

# It would write each failed analysis with some 100 lines of stack to the log; the answer tells it in one.
PySparkLogger.getLogger("DataFrameQueryContextLogger").disabled = True


def answer_one(connection: socket.socket) -> None:
    """Read orders from a connection, carry them out, and write the answer (both JSON).

    The answer's ``kind`` is ``started`` (with ``query`` and ``run``, their ids), ``exists`` (a query of that
    name runs in the session), ``refused`` or ``no_answer`` (with ``message``); of a rehearsal ``rehearsed``,
    with ``python``: the plan's nodes that run Python functions.
    """
    received = b"".join(iter(lambda: connection.recv(65536), b""))
    answer = carry_out(ConnectOrders.from_json(received))
    connection.sendall(json.dumps(answer).encode())
    connection.shutdown(socket.SHUT_RDWR)


def carry_out(orders: ConnectOrders) -> Answer:
    """Start the query that is ordered; see :func:`answer_one` for the answer."""
    try:
        return _start(orders)
    except JobFault as fault:
        return {"kind": "refused", "message": str(fault)}
    except PySparkException as error:
        return _answer_to(error, orders)
    except (KeyboardInterrupt, Exception, SystemExit) as error:  # a job's code may raise anything
        return {"kind": "refused", "message": explain(error, orders.path)}


def _start(orders: ConnectOrders) -> Answer:
    session = _session(orders)
    if orders.rehearsal:
        return {"kind": "rehearsed", "python": " ".join(sorted(python_nodes(session, orders)))}
    query: StreamingQuery = start_query(session, orders)
    session.conf.set(QUERY_SETTING, query.id)
    session.conf.set(RUN_SETTING, query.runId)
    return {"kind": "started", "query": query.id, "run": query.runId}


def _session(orders: ConnectOrders) -> SparkSession:
    # Any ChannelBuilder will do; PySpark's annotation names the default one.
    session = SparkSession(_Channel(orders))  # type: ignore[arg-type]
    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])
    # What a job's code asks for as the active session, or has built, is to be this one.
    SparkSession._set_default_and_active_session(session)
    os.environ["SPARK_REMOTE"] = f"sc://{orders.host}:{orders.port}"
    session.conf.set(CHECKPOINT_SETTING, orders.checkpoint)
    return session


class _Channel(ChannelBuilder):
    def __init__(self, orders: ConnectOrders) -> None:
        super().__init__(params={"user_id": USER, "session_id": orders.session})
        self._orders = orders

    def toChannel(self) -> grpc.Channel:  # noqa: N802 - PySpark's name
        orders = self._orders
        keys = Keys(orders.token, orders.ca_file, orders.certificate_file, orders.key_file, orders.tls)
        return open_channel(orders.host, orders.port, keys)

    @property
    def host(self) -> str:
        return self._orders.host


def _answer_to(error: PySparkException, orders: ConnectOrders) -> Answer:
    status = getattr(error, "getGrpcStatusCode", lambda: None)()
    message = first_line(str(error))
    if status in _LOST_CALLS or type(error).__name__ == "RetriesExceeded":
        return {"kind": "no_answer", "message": message}
    if any(words in message for words in _STARTED_ELSEWHERE):
        return {"kind": "exists", "message": message}
    return {"kind": "refused", "message": explain(error, orders.path)}
