"""Client for the part of Spark Connect's gRPC protocol that the coordinator uses.

:class:`pyspark.sql.connect.session.SparkSession` is not used, for three reasons: it retries for ten minutes,
where a coordinator needs a deadline; it opens a channel for each session, where one for each server suffices;
and most of its requests create the session they name, so that each poll of a lost job would create a session.
``GetStatus`` creates none.

The protocol: ``spark/connect/base.proto`` and ``commands.proto`` of Spark 4.3.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit
from zlib import crc32

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from binders.spark.connect.arrow_text import one_text
from binders.spark.connect.credentials import USER, Keys
from binders.spark.connect.grpc_channel import (
    CallFailed,
    Channel,
    Limits,
    NotConnected,
    NotGrpc,
    Refused,
    Status,
    TooLarge,
)
from binders.spark.connect.protocol import pb2
from binders.spark.query.progress import failure_line
from binders.spark.query.text import first_line
from speck.binder.deadline import limited
from speck.core.inventory import Login
from speck.errors import BinderError, OutcomeUnknown, Rejected, Unreachable

DEFAULT_PORT = 15002  # of Spark Connect

QUICK = 10.0  # s, for requests that a server answers from memory
SLOW = 45.0  # s, for requests that need an analysis, or class loading
LARGEST = 64 << 20  # bytes of all messages of one answer

_MESSAGES = 100_000  # of one answer
_CHUNK = 256 * 1024  # bytes of an artifact in one message
_SERVICE = "/spark.connect.SparkConnectService"

_TLS = "/;use_ssl=true"  # the suffix of an address, as in Spark
_SIMPLE = pb2.AnalyzePlanRequest.Explain.EXPLAIN_MODE_SIMPLE


class ServerRefused(Rejected):
    """Spark answered with an error; with its error class, such as ``DATA_SOURCE_NOT_FOUND``."""

    def __init__(
        self, message: str, *, address: str, error_class: str, parameters: Mapping[str, str] | None = None
    ) -> None:
        self.error_class = error_class
        self.parameters = parameters or {}
        super().__init__(message, address=address)

    @property
    def of_session(self) -> bool:
        """True if the server does not know the session, or has closed it."""
        return self.error_class.startswith("INVALID_HANDLE.SESSION")

    @property
    def of_query(self) -> bool:
        """True if the server does not know the session, or not the query in it."""
        return self.of_session or "STREAMING_QUERY" in self.error_class


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Host, port and login of a Connect server."""

    host: str
    port: int
    login: Login = field(default_factory=Login)
    tls: bool = False

    @property
    def keys(self) -> Keys:
        """The current credentials.  Raises :class:`~speck.errors.SecretUnavailable`."""
        return Keys.of(self.login, self.tls)

    def __repr__(self) -> str:
        return f"Endpoint({self.host}:{self.port})"


@dataclass(frozen=True, slots=True)
class Query:
    """A streaming query: the id of its checkpoint, the id of this run, and its name."""

    id: str
    run_id: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """A query's status (``StreamingQueryStatus`` of Spark)."""

    active: bool
    in_trigger: bool
    message: str


def endpoint_of(address: str, login: Login = Login()) -> Endpoint:  # noqa: B008 - frozen
    """The endpoint of ``sc://HOST[:PORT][/;use_ssl=true]``.

    Raises :class:`~speck.errors.Rejected` for any other address.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    tls = parts.path == _TLS if host is not None else False
    if host is None or parts.scheme != "sc" or (parts.path.strip("/") and not tls):
        raise Rejected(
            f"{address!r} is not a Spark Connect address (expected sc://HOST:PORT)", address=address
        )
    return Endpoint(host, port or DEFAULT_PORT, login, tls)


class ConnectClient:
    """The calls to one server, over connections that all sessions and threads share.

    ``session`` is everywhere the UUID of a session of the user :data:`USER`.  Every call has a deadline, and
    raises :class:`~speck.errors.Unreachable`, :class:`~speck.errors.OutcomeUnknown` or
    :class:`ServerRefused`.
    """

    def __init__(self, address: str, endpoint: Endpoint) -> None:
        self.address = address
        self._endpoint = endpoint
        self._channel = Channel(address, endpoint.host, endpoint.port)

    def close(self) -> None:
        """Close the connections; no session is touched."""
        self._channel.close()

    # -- sessions

    def session_exists(self, session: str) -> bool:
        """True if the server knows the session; never creates it."""
        request = pb2.GetStatusRequest(session_id=session, user_context=_user())
        request.operation_status.SetInParent()
        try:
            self._unary("GetStatus", request, QUICK)
        except ServerRefused as error:
            if not error.of_session:
                raise
            return False
        return True

    def release(self, session: str, *, reusable: bool = False) -> None:
        """End a session with its queries and files; nothing if the server does not know it.

        A ``reusable`` session may be created again under the same id.
        """
        request = pb2.ReleaseSessionRequest(session_id=session, user_context=_user())
        request.allow_reconnect = reusable
        self._unary("ReleaseSession", request, SLOW)

    def settings(self, session: str, names: Sequence[str]) -> dict[str, str]:
        """The settings of these names that have a value."""
        requested = pb2.ConfigRequest.GetOption(keys=list(names))
        operation = pb2.ConfigRequest.Operation(get_option=requested)
        request = pb2.ConfigRequest(session_id=session, user_context=_user(), operation=operation)
        answer = self._unary("Config", request, QUICK)
        return {pair.key: pair.value for pair in answer.pairs if pair.HasField("value")}

    def set(self, session: str, name: str, value: str) -> None:
        """Give a setting of the session a value."""
        pairs = [pb2.KeyValue(key=name, value=value)]
        operation = pb2.ConfigRequest.Operation(set=pb2.ConfigRequest.Set(pairs=pairs))
        request = pb2.ConfigRequest(session_id=session, user_context=_user(), operation=operation)
        self._unary("Config", request, QUICK)

    # -- plans

    def spark_version(self, session: str) -> str:
        """The server's version of Spark."""
        request = self._analysis(session, spark_version=pb2.AnalyzePlanRequest.SparkVersion())
        return cast(str, self._unary("AnalyzePlan", request, SLOW).spark_version.version)

    def columns(self, session: str, source: pb2.Read) -> list[str]:
        """The names of a source's columns; analyzes the source without reading it."""
        plan = pb2.Plan(root=pb2.Relation(read=source))
        request = self._analysis(session, schema=pb2.AnalyzePlanRequest.Schema(plan=plan))
        answer = self._unary("AnalyzePlan", request, SLOW)
        return [field.name for field in answer.schema.schema.struct.fields]

    def explain(self, session: str, relation: pb2.Relation) -> str:
        """The physical plan of a relation, as text."""
        explained = pb2.AnalyzePlanRequest.Explain(plan=pb2.Plan(root=relation), explain_mode=_SIMPLE)
        request = self._analysis(session, explain=explained)
        return cast(str, self._unary("AnalyzePlan", request, SLOW).explain.explain_string)

    def text(self, session: str, relation: pb2.Relation) -> str:
        """The one value of a relation of one row of one text."""
        batches = self._batches(session, relation, SLOW, LARGEST)
        if len(batches) == 1 and (found := one_text(batches[0])) is not None:
            return found
        for row in self._rows_of(batches):
            return str(next(iter(row.values())))
        raise OutcomeUnknown(f"{self.address} returned no row (expected one)", address=self.address)

    def rows(
        self, session: str, relation: pb2.Relation, deadline: float, most: int = LARGEST
    ) -> list[dict[str, Any]]:
        """The rows of a relation, by column name, all in memory; for a command, its result.

        Raises :class:`~speck.errors.OutcomeUnknown` for an answer of more than ``most`` bytes.
        """
        return self._rows_of(self._batches(session, relation, deadline, most))

    def _batches(self, session: str, relation: pb2.Relation, deadline: float, most: int) -> list[bytes]:
        """The parts of the rows of a relation, each a stream of Arrow's."""
        found = self._execute(session, pb2.Plan(root=relation), "arrow_batch", deadline, most)
        return [each.data for each in found]

    def _rows_of(self, batches: Iterable[bytes]) -> list[dict[str, Any]]:
        import pyarrow  # takes 40 MB, and is not needed for what is asked again and again

        try:
            tables = [pyarrow.ipc.open_stream(each).read_all() for each in batches]
            return [row for each in tables for row in each.to_pylist()]
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            message = f"{self.address} gave an answer that is not Spark Connect's (rows that cannot be read)"
            raise OutcomeUnknown(message, address=self.address) from error

    def upload(self, session: str, files: Mapping[str, bytes], deadline: float) -> None:
        """Upload artifacts, by name, to a session; the name determines how the server handles the content."""
        requests = (
            pb2.AddArtifactsRequest(session_id=session, user_context=_user(), **part)
            for name, content in files.items()
            for part in _artifact_parts(name, content)
        )
        answer = self._one("AddArtifacts", requests, deadline)
        arrived = {each.name for each in answer.artifacts if each.is_crc_successful}
        if missing := sorted(files.keys() - arrived):
            raise OutcomeUnknown(
                f"{self.address} did not receive {missing[0]} completely", address=self.address
            )

    # -- streaming queries

    def active_queries(self, session: str) -> list[Query]:
        """The queries that run in a session."""
        command = pb2.StreamingQueryManagerCommand(active=True)
        wrapped = pb2.Command(streaming_query_manager_command=command)
        result = self._command(session, wrapped, "streaming_query_manager_command_result", QUICK)
        return [Query(each.id.id, each.id.run_id, each.name) for each in result.active.active_queries]

    def query_status(self, session: str, query: Query) -> QueryStatus:
        """A query's status, also of one that ended, while its session lives."""
        status = self._query(session, query, QUICK, status=True).status
        return QueryStatus(status.is_active, status.is_trigger_active, status.status_message)

    def query_exception(self, session: str, query: Query) -> str | None:
        """Spark's description of a query's failure (many lines, with causes), or ``None``."""
        result = self._query(session, query, QUICK, exception=True).exception
        if not result.HasField("exception_message"):
            return None
        return cast(str, result.stack_trace or result.exception_message)

    def last_progress(self, session: str, query: Query) -> str | None:
        """The JSON of a query's last progress report, or ``None`` before the first."""
        reports = self._query(session, query, QUICK, last_progress=True).recent_progress.recent_progress_json
        return reports[-1] if reports else None

    def recent_progress(self, session: str, query: Query) -> list[str]:
        """The JSON of the progress reports that the server retains of a query, oldest first."""
        return list(
            self._query(session, query, QUICK, recent_progress=True).recent_progress.recent_progress_json
        )

    def physical_plan(self, session: str, query: Query) -> str:
        """The physical plan of a query's last batch, as text; a sentence before the first."""
        explain = pb2.StreamingQueryCommand.ExplainCommand(extended=False)
        return str(self._query(session, query, QUICK, explain=explain).explain.result)

    def stop_query(self, session: str, query: Query) -> None:
        """Stop a query at once; returns when it has stopped."""
        self._query(session, query, SLOW, stop=True)

    # -- calls and errors

    def _query(self, session: str, query: Query, deadline: float, **command: Any) -> Any:
        identity = pb2.StreamingQueryInstanceId(id=query.id, run_id=query.run_id)
        message = pb2.StreamingQueryCommand(query_id=identity, **command)
        wrapped = pb2.Command(streaming_query_command=message)
        return self._command(session, wrapped, "streaming_query_command_result", deadline)

    def _command(self, session: str, command: pb2.Command, result: str, deadline: float) -> Any:
        results = self._execute(session, pb2.Plan(command=command), result, deadline)
        if not results:
            raise OutcomeUnknown(f"{self.address} returned no {result}", address=self.address)
        return results[0]

    def _execute(
        self, session: str, plan: pb2.Plan, result: str, deadline: float, most: int = LARGEST
    ) -> list[Any]:
        request = pb2.ExecutePlanRequest(session_id=session, user_context=_user(), plan=plan)
        answers = self._call("ExecutePlan", [request], deadline, Limits(most, _MESSAGES))
        return [getattr(answer, result) for answer in answers if answer.HasField(result)]

    def _analysis(self, session: str, **analysis: Any) -> pb2.AnalyzePlanRequest:
        return pb2.AnalyzePlanRequest(session_id=session, user_context=_user(), **analysis)

    def _unary(self, method: str, request: Any, deadline: float) -> Any:
        return self._one(method, [request], deadline)

    def _one(self, method: str, requests: Iterable[Any], deadline: float) -> Any:
        answers = self._call(method, requests, deadline, Limits(LARGEST, 1))
        if not answers:
            raise self._translated(NotGrpc("it has no message"))
        return answers[0]

    def _call(self, method: str, requests: Iterable[Any], deadline: float, limits: Limits) -> list[Any]:
        """The messages of the answer, all of them: the server cancels a call whose answer is not read."""
        keys = self._endpoint.keys  # a changed token is used at once
        sent = (request.SerializeToString() for request in requests)
        try:
            answers = self._channel.call(f"{_SERVICE}/{method}", sent, keys, limits, limited(deadline))
            return [getattr(pb2, f"{method}Response").FromString(answer) for answer in answers]
        except CallFailed as error:
            raise self._translated(error) from error
        except DecodeError as error:
            raise self._translated(NotGrpc("a message cannot be decoded")) from error

    def _translated(self, error: CallFailed) -> BinderError:
        server, address = f"Spark Connect server {self.address}", self.address
        if isinstance(error, NotConnected):
            return Unreachable(f"{server} cannot be reached: {error}", address=address)
        if isinstance(error, TooLarge):
            return OutcomeUnknown(f"{server}: its answer is too large ({error})", address=address)
        if isinstance(error, NotGrpc):
            return self._foreign(str(error))
        if isinstance(error, Refused):
            return self._refused(error)
        return OutcomeUnknown(f"{server} did not answer ({error})", address=address)

    def _refused(self, error: Refused) -> BinderError:
        info = error_info(error)
        error_class = info.get("errorClass", "")
        shorten = failure_line if error_class == "PYTHON_EXCEPTION" else first_line
        details = shorten(str(error)) or error.status.name
        if error.status is Status.UNAUTHENTICATED:
            message = f"Spark Connect server {self.address} rejects the login (engine_login.token): {details}"
            return ServerRefused(message, address=self.address, error_class=error_class)
        if not error_class and error.status is Status.UNIMPLEMENTED:
            return self._foreign(details)
        if error_class or error.status not in _LOST_CALLS:
            message = f"Spark Connect server {self.address}: {details}"
            return ServerRefused(
                message, address=self.address, error_class=error_class, parameters=_parameters(info)
            )
        message = (
            f"Spark Connect server {self.address} did not answer ({error.status.name.lower()}: {details})"
        )
        return OutcomeUnknown(message, address=self.address)

    def _foreign(self, reason: str) -> OutcomeUnknown:
        message = (
            f"{self.address} gave an answer that is not Spark Connect's ({reason}; is it that server's port?)"
        )
        return OutcomeUnknown(message, address=self.address)


_LOST_CALLS = frozenset({Status.UNAVAILABLE, Status.DEADLINE_EXCEEDED, Status.CANCELLED})


def error_info(error: Refused) -> Mapping[str, str]:
    """The metadata of an error (google.rpc.ErrorInfo), such as ``errorClass``; empty if there is none."""
    try:
        status = status_pb2.Status.FromString(error.details)
        for detail in status.details:
            info = error_details_pb2.ErrorInfo()
            if detail.Unpack(info):
                return dict(info.metadata)
    except DecodeError:
        pass
    return {}


def _parameters(info: Mapping[str, str]) -> dict[str, str]:
    """The parameters of Spark's error; empty if they were too long to be sent."""
    try:
        found = json.loads(info.get("messageParameters", "{}"))
    except ValueError:
        return {}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _artifact_parts(name: str, content: bytes) -> Iterator[dict[str, Any]]:
    """The fields, except for session and user, of the requests that upload one artifact."""
    parts = [content[start : start + _CHUNK] for start in range(0, len(content), _CHUNK)] or [b""]
    chunks = [pb2.AddArtifactsRequest.ArtifactChunk(data=each, crc=crc32(each)) for each in parts]
    if len(chunks) == 1:
        single = pb2.AddArtifactsRequest.SingleChunkArtifact(name=name, data=chunks[0])
        yield {"batch": pb2.AddArtifactsRequest.Batch(artifacts=[single])}
        return
    begin = pb2.AddArtifactsRequest.BeginChunkedArtifact(
        name=name, total_bytes=len(content), num_chunks=len(chunks), initial_chunk=chunks[0]
    )
    yield {"begin_chunk": begin}
    yield from ({"chunk": each} for each in chunks[1:])


def _user() -> pb2.UserContext:
    return pb2.UserContext(user_id=USER)
