"""The program of a launched process: connect, build the job's DataFrame, start its query, answer, exit.

Runs in a fork of :mod:`binders.spark.connect.forkserver`.  It exits without releasing its session: the query
belongs to the session and goes on running in the server.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any

import grpc  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql.connect.client import ChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.connect.streaming.query import StreamingQuery

from binders.spark.connect.child_channel import open_channel
from binders.spark.connect.credentials import USER, Keys
from binders.spark.connect.shipped_imports import shipped_imports
from binders.spark.query.builder import configure, rehearse, start_query
from binders.spark.query.spec import QUERY_SETTING, RUN_SETTING, ConnectQuerySpec
from binders.spark.query.text import first_line
from binders.spark.query.user_code import JobFault, explain

Answer = dict[str, str]

_RETRIES = 3  # of a call to the server, some 3 s in all
_LOST_CALLS = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})

# Spark's errors for a second launch of one attempt, while the first one may still be in progress.
_STARTED_ELSEWHERE = ("Cannot start query with name", "Multiple streaming queries are concurrently using")

# Otherwise it logs a stack trace of 100 lines for each failed analysis, whose reason the response reports.
PySparkLogger.getLogger("DataFrameQueryContextLogger").disabled = True


def answer_one(connection: socket.socket) -> None:
    """Read a query's specification from a connection, start the query, and write the answer (both JSON).

    The answer's ``kind`` is ``started`` (with ``query`` and ``run``, their ids), ``exists`` (a query of that
    name runs in the session), ``refused`` or ``no_answer`` (with ``message``); of a rehearsal ``rehearsed``,
    with ``python``: the plan's nodes that run Python functions, ``imports``: the packages that these import,
    and ``sources``: how often it reads.
    """
    received = b"".join(iter(lambda: connection.recv(65536), b""))
    answer = start(ConnectQuerySpec.from_json(received))
    connection.sendall(json.dumps(answer).encode())
    connection.shutdown(socket.SHUT_RDWR)


def start(spec: ConnectQuerySpec) -> Answer:
    """Start the specified query; see :func:`answer_one` for the answer."""
    try:
        return _start(spec)
    except JobFault as fault:
        return {"kind": "refused", "message": str(fault)}
    except PySparkException as error:
        return _answer_to(error, spec)
    except (KeyboardInterrupt, Exception, SystemExit) as error:  # a job's code may raise anything
        return {"kind": "refused", "message": explain(error, spec.path)}


def _start(spec: ConnectQuerySpec) -> Answer:
    session = _session(spec)
    if spec.rehearsal:
        found = rehearse(session, spec)
        imports = shipped_imports(_plan_of(found.result, session))
        # Spark prints no physical plan of a query with functions that keep state.
        nodes = found.python_nodes or (frozenset({"PythonUDF"}) if imports else frozenset())
        return {
            "kind": "rehearsed",
            "python": " ".join(sorted(nodes)),
            "imports": " ".join(sorted(imports)),
            "sources": str(found.sources),
        }
    query: StreamingQuery = start_query(session, spec)
    configure(session, {QUERY_SETTING: query.id, RUN_SETTING: query.runId})
    return {"kind": "started", "query": query.id, "run": query.runId}


def _plan_of(result: Any, session: SparkSession) -> Any:
    """The plan of a DataFrame as a message of Spark Connect."""
    return result._plan.to_proto(session.client)


def _session(spec: ConnectQuerySpec) -> SparkSession:
    # Any ChannelBuilder will do; PySpark's annotation names the default one.
    session = SparkSession(_Channel(spec))  # type: ignore[arg-type]
    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])
    # The active session, and the one that a job's own builder returns, must be this one.
    SparkSession._set_default_and_active_session(session)
    os.environ["SPARK_REMOTE"] = f"sc://{spec.host}:{spec.port}"
    return session


class _Channel(ChannelBuilder):
    def __init__(self, spec: ConnectQuerySpec) -> None:
        super().__init__(params={"user_id": USER, "session_id": spec.session})
        self._spec = spec

    def toChannel(self) -> grpc.Channel:  # noqa: N802 - PySpark's name
        spec = self._spec
        keys = Keys(spec.token, spec.ca_file, spec.certificate_file, spec.key_file, spec.tls)
        return open_channel(spec.host, spec.port, keys)

    @property
    def host(self) -> str:
        return self._spec.host


def _answer_to(error: PySparkException, spec: ConnectQuerySpec) -> Answer:
    status = getattr(error, "getGrpcStatusCode", lambda: None)()
    message = first_line(str(error))
    if status in _LOST_CALLS or type(error).__name__ == "RetriesExceeded":
        return {"kind": "no_answer", "message": message}
    if any(words in message for words in _STARTED_ELSEWHERE):
        return {"kind": "exists", "message": message}
    return {"kind": "refused", "message": explain(error, spec.path)}
