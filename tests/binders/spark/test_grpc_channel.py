"""The client of gRPC against an independent server of this process, and its connections."""

from __future__ import annotations

import errno
import logging
import os
import socket
import ssl
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pyspark.sql.connect.proto as pb2
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from binders.spark.connect import grpc_channel, http2
from binders.spark.connect.grpc_client import LARGEST, ConnectClient, ServerRefused, endpoint_of
from speck.core.inventory import Login, Secret
from speck.errors import BinderError, OutcomeUnknown, Unreachable
from speck.testing.waiting import eventually
from speck.testing.wire_trouble import Listener, Relay
from testbed.servers.certificates import Authority
from testbed.servers.grpc_server import grpc_server
from testbed.servers.http2_server import Http2Server, answered
from testbed.servers.tls_proxy import TlsProxy

SESSION = str(uuid.UUID(int=1))
RELATION = pb2.Relation(range=pb2.Range(start=0, end=1, step=1))
TOKEN = "s3cret-of-site-a"
METHODS = "spark.connect.SparkConnectService"


class Service:
    """A server that answers all methods that these tests call; ``tokens`` are those it was shown."""

    def __init__(self) -> None:
        self.uploaded: dict[str, bytes] = {}
        self.tokens: list[str] = []
        self.peers: set[str] = set()
        self.error: tuple[grpc.StatusCode, str, bytes] | None = None
        self.rows = b""

    def config(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.peers.add(context.peer())
        self.tokens += [value for name, value in context.invocation_metadata() if name == "authorization"]
        if self.error is not None:
            status, message, details = self.error
            context.set_trailing_metadata((("grpc-status-details-bin", details),))
            context.abort(status, message)
        pairs = [pb2.KeyValue(key=each, value=each.upper()) for each in request.operation.get_option.keys]
        return pb2.ConfigResponse(pairs=pairs)

    def add(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
        name = ""
        for each in requests:
            for artifact in each.batch.artifacts:
                self.uploaded[artifact.name] = artifact.data.data
            if each.HasField("begin_chunk"):
                name = each.begin_chunk.name
                self.uploaded[name] = each.begin_chunk.initial_chunk.data
            elif each.HasField("chunk"):
                self.uploaded[name] += each.chunk.data
        summary = pb2.AddArtifactsResponse.ArtifactSummary
        artifacts = [summary(name=each, is_crc_successful=True) for each in self.uploaded]
        return pb2.AddArtifactsResponse(artifacts=artifacts)

    def execute(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        for start in range(0, len(self.rows), 1 << 20):
            batch = pb2.ExecutePlanResponse.ArrowBatch(row_count=1, data=self.rows[start : start + (1 << 20)])
            yield pb2.ExecutePlanResponse(session_id=SESSION, arrow_batch=batch)

    def handler(self) -> grpc.GenericRpcHandler:
        answers = {
            "Config": grpc.unary_unary_rpc_method_handler(
                self.config, pb2.ConfigRequest.FromString, pb2.ConfigResponse.SerializeToString
            ),
            "AddArtifacts": grpc.stream_unary_rpc_method_handler(
                self.add, pb2.AddArtifactsRequest.FromString, pb2.AddArtifactsResponse.SerializeToString
            ),
            "ExecutePlan": grpc.unary_stream_rpc_method_handler(
                self.execute, pb2.ExecutePlanRequest.FromString, pb2.ExecutePlanResponse.SerializeToString
            ),
        }
        return grpc.method_handlers_generic_handler(METHODS, answers)


@contextmanager
def client_of(port: int, login: Login | None = None, host: str = "127.0.0.1") -> Iterator[ConnectClient]:
    address = f"sc://{host}:{port}"
    with closing(ConnectClient(address, endpoint_of(address, login or Login()))) as client:
        yield client


@pytest.fixture(name="service")
def service_fixture() -> Service:
    return Service()


@pytest.fixture(name="port")
def port_fixture(service: Service) -> Iterator[int]:
    with grpc_server(service.handler()) as port:
        yield port


@pytest.fixture(autouse=True)
def quiet_fixture(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No warning is logged, as by asyncio of a task whose error nobody took, and never a token."""
    caplog.set_level(logging.DEBUG)
    yield
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []
    assert TOKEN not in caplog.text


# -- calls


def test_threads_share_connections(service: Service, port: int) -> None:
    with client_of(port) as client:
        with ThreadPoolExecutor(16) as threads:
            found = threads.map(lambda number: client.settings(SESSION, [f"a{number}"]), range(200))
            assert list(found) == [{f"a{number}": f"A{number}"} for number in range(200)]
        assert len(client._channel._idle) <= grpc_channel._MOST_IDLE
        assert not client._channel._busy
        service.peers.clear()
        for _ in range(20):
            client.settings(SESSION, ["a"])
    assert len(service.peers) == 1


def test_a_connection_is_replaced_before_it_is_old(
    service: Service, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client_of(port) as client:
        monkeypatch.setattr(http2, "_MOST_REQUESTS", 5)
        for _ in range(10):
            client.settings(SESSION, ["a"])
        assert len(service.peers) == 2
        for name in ("_OLDEST", "_IDLE"):
            monkeypatch.setattr(http2, "_MOST_REQUESTS", 500)
            monkeypatch.setattr(http2, name, 0.0)
            client.settings(SESSION, ["a"])
            monkeypatch.undo()
    assert len(service.peers) == 4


def test_files_are_uploaded_beyond_the_window_of_flow_control(service: Service, port: int) -> None:
    files = {"large": os.urandom(20 << 20), "small": b"x", "empty": b""}
    with client_of(port) as client:
        client.upload(SESSION, files, 30.0)
    assert service.uploaded == files


def test_answers_are_received_beyond_the_window_of_flow_control(service: Service, port: int) -> None:
    service.rows = os.urandom(20 << 20)
    with client_of(port) as client:
        assert b"".join(client._batches(SESSION, RELATION, 30.0, LARGEST)) == service.rows


def test_a_client_can_be_used_again_after_it_was_closed(port: int) -> None:
    with client_of(port) as client:
        for _ in range(3):
            assert client.settings(SESSION, ["a"]) == {"a": "A"}
            client.close()
            client.close()


def test_errors_of_spark_have_their_class_and_parameters(service: Service, port: int) -> None:
    info = error_details_pb2.ErrorInfo(
        metadata={"errorClass": "SOME_CLASS", "messageParameters": '{"name": "\N{LATIN SMALL LETTER AE}"}'}
    )
    packed = AnyMessage()
    packed.Pack(info)
    details = status_pb2.Status(code=13, message="m", details=[packed]).SerializeToString()
    service.error = (grpc.StatusCode.INTERNAL, "b\N{LATIN SMALL LETTER AE}d, 100%\nmore", details)
    with client_of(port) as client, pytest.raises(ServerRefused) as caught:
        client.settings(SESSION, ["a"])
    assert caught.value.error_class == "SOME_CLASS"
    assert caught.value.parameters == {"name": "\N{LATIN SMALL LETTER AE}"}
    assert str(caught.value).endswith(": b\N{LATIN SMALL LETTER AE}d, 100%")


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        ("UNAUTHENTICATED", ServerRefused, r"rejects the login \(engine_login.token\): why"),
        ("UNIMPLEMENTED", OutcomeUnknown, r"is not Spark Connect's \(why; is it that server's port\?\)"),
        ("UNAVAILABLE", OutcomeUnknown, r"did not answer \(unavailable: why\)"),
        ("INTERNAL", ServerRefused, "Spark Connect server sc://[0-9.:]+: why$"),
    ],
)
def test_errors_without_a_class(
    service: Service, port: int, status: str, kind: type[BinderError], words: str
) -> None:
    for details in (b"", b"\xff\xff"):
        service.error = (grpc.StatusCode[status], "why", details)
        with client_of(port) as client, pytest.raises(kind, match=words):
            client.settings(SESSION, ["a"])


# -- connections


def test_a_server_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with client_of(port) as client, pytest.raises(Unreachable, match="cannot be reached: connection refused"):
        client.settings(SESSION, ["a"])
    with client_of(port, host="localhost") as client, pytest.raises(Unreachable, match="connection refused"):
        client.settings(SESSION, ["a"])
    with client_of(port, host="a..b") as client, pytest.raises(Unreachable, match="cannot be reached: "):
        client.settings(SESSION, ["a"])


def test_a_host_that_drops_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_channel, "_CONNECT_TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        filling = [socket.socket() for _ in range(4)]
        for each in filling:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        with client_of(port) as client, ThreadPoolExecutor(8) as threads:
            begun = time.monotonic()
            for call in [threads.submit(client.settings, SESSION, ["a"]) for _ in range(8)]:
                with pytest.raises(Unreachable, match="cannot be reached: timed out"):
                    call.result()
            assert time.monotonic() - begun < 1.0  # they do not wait in turn
        for each in filling:
            each.close()


def test_a_server_that_was_restarted_is_connected_to_anew(service: Service) -> None:
    with grpc_server(service.handler()) as port:
        relay = Relay(port)
        with relay, client_of(relay.port) as client:
            assert client.settings(SESSION, ["a"])
            relay.close_connections()
            eventually(lambda: client._channel._idle[0].is_usable(), lambda usable: not usable)
            assert client.settings(SESSION, ["a"])


def test_an_answer_that_is_lost_leaves_the_outcome_unknown(port: int) -> None:
    with Relay(port, lose_answer_to=b"not-to-be-answered") as relay, client_of(relay.port) as client:
        assert client.settings(SESSION, ["a"])
        with pytest.raises(OutcomeUnknown, match=r"did not answer \(connection lost: "):
            client.settings(SESSION, ["not-to-be-answered"])


class Counting(Listener):
    """Takes connections and sends nothing, or HTTP/2's settings alone."""

    def __init__(self, greeting: bytes) -> None:
        super().__init__()
        self.taken, self._greeting = 0, greeting

    def serve(self, connection: socket.socket) -> None:
        self.taken += 1
        connection.sendall(self._greeting)
        while connection.recv(65536):
            pass


SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def test_a_connection_without_a_sign_of_the_server_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_channel, "_OPEN_TIMEOUT", 0.2)
    for greeting, taken in ((b"", 2), (SETTINGS, 2)):
        with Counting(greeting) as server, client_of(server.port) as client:
            for _ in range(2):
                begun = time.monotonic()
                with pytest.raises(OutcomeUnknown, match="did not answer"):
                    client.rows(SESSION, RELATION, 0.3)
                assert time.monotonic() - begun < 2
            assert server.taken == taken


def test_a_close_ends_calls_in_progress() -> None:
    for greeting in (b"", SETTINGS):
        with Counting(greeting) as server, client_of(server.port) as client, ThreadPoolExecutor() as threads:
            call = threads.submit(client.rows, SESSION, RELATION, 20.0)
            eventually(lambda server=server: server.taken, bool)  # type: ignore[misc]
            client.close()
            with pytest.raises(OutcomeUnknown, match="the client was closed"):
                call.result(5)


def test_a_forked_process_has_connections_of_its_own(service: Service) -> None:
    with Http2Server(answered) as server, client_of(server.port) as client:
        assert client.session_exists(SESSION)
        child = os.fork()
        if child == 0:
            ok = False
            try:
                ok = client.session_exists(SESSION)
                client.close()
            finally:
                os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert client.session_exists(SESSION)
        assert server.taken == 2


# -- TLS and tokens


def test_tls_and_its_errors(
    service: Service, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_TOKEN", TOKEN)
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    own, late = authority.certificate("own", "127.0.0.1"), authority.certificate("late", "127.0.0.1", days=-1)
    mine, strange = authority.certificate("mine", "me@x.org"), other.certificate("strange", "me@x.org")
    login = Login(token=Secret("${SPARK_TOKEN}"), ca_file=str(authority.file))

    def said(port: int, login: Login = login, host: str = "127.0.0.1") -> str:
        with client_of(port, login, host) as client, pytest.raises(Unreachable) as caught:
            client.settings(SESSION, ["a"])
        assert TOKEN not in str(caught.value) + repr(caught.value.__cause__)
        return str(caught.value)

    with TlsProxy(port, own.file, own.key) as proxy:
        with client_of(proxy.port, login) as client:
            assert client.settings(SESSION, ["a"]) == {"a": "A"}
        assert service.tokens == [f"Bearer {TOKEN}"]
        untrusted = said(proxy.port, Login(ca_file=str(other.file)))
        assert "certificate is not trusted: unable to get local issuer certificate" in untrusted
        assert f"(expected one signed by '{other.file}')" in untrusted
        assert "(expected engine_login with a ca_file)" in str(
            _failure(f"sc://127.0.0.1:{proxy.port}/;use_ssl=true")
        )
        assert "its certificate is not for 'localhost'" in said(proxy.port, host="localhost")
        assert "if it speaks TLS, engine_login needs a ca_file" in said(proxy.port, Login())
    with TlsProxy(port, late.file, late.key) as proxy:
        assert "its certificate has expired" in said(proxy.port)
    with TlsProxy(port, own.file, own.key, protocols=()) as proxy:
        assert "expected ALPN h2" in said(proxy.port)
    with TlsProxy(port, own.file, own.key, asks_for=authority.file) as proxy:
        shown = Login(ca_file=login.ca_file, certificate_file=str(mine.file), key_file=str(mine.key))
        with client_of(proxy.port, shown) as client:
            assert client.settings(SESSION, ["a"]) == {"a": "A"}
        assert "if it requires a client certificate" in said(proxy.port)
        foreign = Login(ca_file=login.ca_file, certificate_file=str(strange.file), key_file=str(strange.key))
        assert "it may reject the certificate" in said(proxy.port, foreign)
    assert "it does not speak TLS" in said(port)


def test_a_close_while_tls_takes_the_socket_over_ends_the_call(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection does not have the new socket yet, and the former one is detached."""
    authority = Authority(tmp_path)
    own, wrap = authority.certificate("own", "127.0.0.1"), ssl.SSLContext.wrap_socket
    login = Login(ca_file=str(authority.file))
    with TlsProxy(port, own.file, own.key) as proxy, client_of(proxy.port, login) as client:

        def wrapped(context: ssl.SSLContext, connection: socket.socket, **how: Any) -> ssl.SSLSocket:
            made = wrap(context, connection, **how)
            if not how.get("server_side"):
                client.close()
            return made

        monkeypatch.setattr(ssl.SSLContext, "wrap_socket", wrapped)
        with pytest.raises(OutcomeUnknown, match="the client was closed"):
            client.settings(SESSION, ["a"])


def _failure(address: str) -> BinderError:
    with (
        closing(ConnectClient(address, endpoint_of(address))) as client,
        pytest.raises(Unreachable) as caught,
    ):
        client.settings(SESSION, ["a"])
    return caught.value


def test_a_changed_token_is_used_at_once(service: Service, port: int, tmp_path: Path) -> None:
    (file := tmp_path / "token").write_text("first")
    with client_of(port, Login(token=Secret(f"file:{file}"))) as client:
        client.settings(SESSION, ["a"])
        file.write_text("second")
        client.settings(SESSION, ["a"])
    assert service.tokens == ["Bearer first", "Bearer second"]


def test_a_token_is_not_sent_in_the_clear_to_a_name_of_another_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_TOKEN", TOKEN)
    monkeypatch.setattr(grpc_channel, "_is_loopback", lambda made: False)
    login = Login(token=Secret("${SPARK_TOKEN}"))
    words = "another machine, to which a token is sent over TLS only"
    with Counting(SETTINGS) as server, client_of(server.port, login) as client:
        for _ in range(2):
            with pytest.raises(Unreachable, match=words):
                client.settings(SESSION, ["a"])


def test_a_connection_that_is_reset_before_a_token_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def reset(made: socket.socket) -> bool:
        raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))

    monkeypatch.setenv("SPARK_TOKEN", TOKEN)
    monkeypatch.setattr(grpc_channel, "_is_loopback", reset)
    login, words = Login(token=Secret("${SPARK_TOKEN}")), "cannot be reached: it closes the connection"
    with (
        Counting(SETTINGS) as server,
        client_of(server.port, login) as client,
        pytest.raises(Unreachable, match=words),
    ):
        client.settings(SESSION, ["a"])
