"""Login to a Spark Connect server that demands a token, directly and through TLS."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from binders.spark import connect_engine
from binders.spark.connect.engine import ConnectEngine
from binders.spark.local.commands import CONNECTOR
from speck.core.inventory import Inventory, Login, Secret
from speck.core.job import Job
from speck.core.runtime import Handle, JobState
from speck.errors import BinderError, Rejected, SecretUnavailable, Unreachable
from speck.testing import attempt_of, eventually
from testbed.benches.examples import job, one_site
from testbed.benches.spark import SparkBench
from testbed.servers.certificates import Authority
from testbed.servers.mosquitto import PROGRAM, MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.servers.tls_proxy import TlsProxy, certificate
from tests.support.trials import trial

pytestmark = pytest.mark.engine

TOKEN = "s3cret-of-site-a"
WITH_TOKEN = Login(token=Secret("${SPARK_TOKEN}"))


@pytest.fixture(scope="module", name="guarded")
def guarded_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkServer]:
    """A server that demands the token."""
    if not CONNECTOR.exists():
        pytest.skip(f"{CONNECTOR.name} is not built (make, or mvn package in jars_and_apps/connectors)")
    conf = {"spark.connect.authenticate.token": TOKEN}
    with SparkServer(tmp_path_factory.mktemp("guarded"), heap="512m", conf=conf) as server:
        yield server


@pytest.fixture(scope="module", name="certificates")
def certificates_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the certificates ``proxy.pem`` and ``other.pem``, and a file that is none."""
    directory = tmp_path_factory.mktemp("certificates")
    for name in ("proxy", "other"):
        certificate(directory, name)
    (directory / "rubbish.pem").write_text("rubbish")
    return directory


@pytest.fixture(scope="module", name="proxy")
def proxy_fixture(guarded: SparkServer, certificates: Path) -> Iterator[TlsProxy]:
    with TlsProxy(guarded.port, certificates / "proxy.pem", certificates / "proxy.key") as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def token_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_TOKEN", TOKEN)


def failure(address: str, login: Login) -> BinderError:
    """The error of a request to the server, checked for the address and the absence of the token."""
    engine = engine_at(address, login)
    try:
        with pytest.raises(BinderError) as caught:
            engine.capacity()
        lost = Handle(address, "00000000-0000-0000-0000-000000000000", {"query": "q", "run": "r", "job": "j"})
        assert engine.status(lost).state is JobState.UNKNOWN  # the job may well run
    finally:
        engine.close()
    assert TOKEN not in str(caught.value) + repr(caught.value.__cause__)
    assert address in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


def engine_at(address: str, login: Login) -> ConnectEngine:
    site = one_site("A", address, "tcp://127.0.0.1:1883", engine_login=login)
    engine = connect_engine(address, Inventory({"A": site}))
    assert isinstance(engine, ConnectEngine)
    return engine


# -- who is let in


@pytest.mark.skipif(PROGRAM is None, reason="mosquitto is not installed (apt-get install mosquitto)")
@pytest.mark.parametrize(
    "over_tls", [pytest.param(False, id="plain", marks=trial("[tls]")), pytest.param(True, id="tls")]
)
def test_the_right_token_runs_a_job(
    guarded: SparkServer, proxy: TlsProxy, certificates: Path, tmp_path: Path, over_tls: bool
) -> None:
    login = replace(WITH_TOKEN, ca_file=str(certificates / "proxy.pem")) if over_tls else WITH_TOKEN
    address = f"sc://127.0.0.1:{proxy.port}" if over_tls else guarded.address
    with MosquittoServer(tmp_path / "mosquitto") as broker:
        bench = SparkBench(guarded, broker, tmp_path)
        job = replace(bench.job("over-tls" if over_tls else "plain", "upper"), spe_address=address)
        engine = engine_at(address, login)
        try:
            _messages_go_through(engine, bench, job)
        finally:
            engine.close()
            bench.close()


def _messages_go_through(engine: ConnectEngine, bench: SparkBench, job: Job) -> None:
    engine.check(job, None)
    handle = engine.submit(job, attempt_of(job))
    bench.mqtt.send(job.source_topic, ["a"])
    eventually(lambda: bench.mqtt.got(job), lambda got: got == ["A"])
    engine.stop(handle, keep_state=False)
    assert engine.status(handle).state is JobState.LOST


@pytest.mark.parametrize(
    ("token", "words"),
    [("not-s3cret", "Invalid authentication token"), (None, "No authentication token provided")],
    ids=["wrong", "missing"],
)
def test_who_has_not_the_token_is_refused(
    guarded: SparkServer, monkeypatch: pytest.MonkeyPatch, token: str | None, words: str
) -> None:
    monkeypatch.setenv("SPARK_TOKEN", token or "")
    refused = failure(guarded.address, WITH_TOKEN if token else Login())
    assert isinstance(refused, Rejected)
    assert f"rejects the login (engine_login.token): {words}" in str(refused)
    assert token is None or token not in str(refused) + repr(refused.__cause__)


def test_a_token_that_is_nowhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_TOKEN")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        engine = engine_at(f"sc://127.0.0.1:{listener.getsockname()[1]}", WITH_TOKEN)
        with pytest.raises(SecretUnavailable, match=r"secret '\$\{SPARK_TOKEN\}' is not set"):
            engine.capacity()
        engine.close()


def test_a_token_that_changes_is_used_with_the_next_call(guarded: SparkServer, tmp_path: Path) -> None:
    (file := tmp_path / "token").write_text("of-yesterday")
    engine = engine_at(guarded.address, Login(token=Secret(f"file:{file}")))
    with pytest.raises(Rejected, match="Invalid authentication token"):
        engine.capacity()
    file.write_text(TOKEN)
    assert engine.capacity().cores
    engine.close()


@pytest.mark.parametrize("token", ["two\nlines", "tökén"], ids=["lines", "letters"])
def test_a_token_that_cannot_be_one(
    guarded: SparkServer, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("SPARK_TOKEN", token)
    said = str(failure(guarded.address, WITH_TOKEN))
    assert said.endswith("is not a bearer token (expected one line of printable ASCII)")
    assert token not in said


# -- TLS


@pytest.mark.parametrize(
    ("ca_file", "words"),
    [
        ("other.pem", r"certificate is not trusted: .* \(expected one signed by .*other\.pem'\)"),
        ("rubbish.pem", r"rubbish\.pem' of .*: contains no certificate \(expected a PEM file\)"),
        ("none.pem", r"none\.pem' of .*: no such file or directory \(expected a PEM file\)"),
        (None, "if it speaks TLS, engine_login needs a ca_file"),
    ],
)
def test_a_ca_file_that_does_not_fit(
    proxy: TlsProxy, certificates: Path, ca_file: str | None, words: str
) -> None:
    path = str(certificates / ca_file) if ca_file else None
    unreachable = failure(f"sc://127.0.0.1:{proxy.port}", replace(WITH_TOKEN, ca_file=path))
    assert isinstance(unreachable, Unreachable)
    assert unreachable.__cause__ is not None
    with pytest.raises(Unreachable, match=words):
        raise unreachable


def test_an_address_that_asks_for_tls_gets_it(proxy: TlsProxy, certificates: Path) -> None:
    address = f"sc://127.0.0.1:{proxy.port}/;use_ssl=true"
    assert "certificate is not trusted" in str(failure(address, WITH_TOKEN))
    engine = engine_at(address, replace(WITH_TOKEN, ca_file=str(certificates / "proxy.pem")))
    assert engine.capacity().cores
    a_job = job("over-tls", engine="spark", spe_address=address)
    assert engine._query_spec(a_job, attempt_of(a_job)).tls
    engine.close()


def test_a_certificate_for_another_name(proxy: TlsProxy, certificates: Path) -> None:
    login = replace(WITH_TOKEN, ca_file=str(certificates / "proxy.pem"))
    assert "is not for 'localhost'" in str(failure(f"sc://localhost:{proxy.port}", login))


def test_a_certificate_that_has_expired(guarded: SparkServer, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    late = authority.certificate("late", "127.0.0.1", days=-1)
    login = replace(WITH_TOKEN, ca_file=str(authority.file))
    with TlsProxy(guarded.port, late.file, late.key) as proxy:
        assert "its certificate has expired" in str(failure(f"sc://127.0.0.1:{proxy.port}", login))


def test_a_proxy_that_asks_for_a_certificate(guarded: SparkServer, tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    own, client = authority.certificate("own", "127.0.0.1"), authority.certificate("client", "me@example.org")
    stranger = other.certificate("stranger", "me@example.org")
    login = replace(WITH_TOKEN, ca_file=str(authority.file))
    shown = replace(login, certificate_file=str(client.file), key_file=str(client.key))
    strange = replace(login, certificate_file=str(stranger.file), key_file=str(stranger.key))
    broken = replace(shown, key_file=str(stranger.key))
    with TlsProxy(guarded.port, own.file, own.key, asks_for=authority.file) as proxy:
        address = f"sc://127.0.0.1:{proxy.port}"
        engine = engine_at(address, shown)
        assert engine.capacity().cores
        engine.close()
        said = str(failure(address, login))
        assert "it ends the TLS connection (if it requires a client certificate: certificate_file" in said
        assert "may reject the certificate of engine_login.certificate_file" in str(failure(address, strange))
        assert "contains no certificate for key_file" in str(failure(address, broken))


def test_tls_without_http_2(guarded: SparkServer, certificates: Path) -> None:
    login = replace(WITH_TOKEN, ca_file=str(certificates / "proxy.pem"))
    pem, key = certificates / "proxy.pem", certificates / "proxy.key"
    with TlsProxy(guarded.port, pem, key, protocols=()) as proxy:
        assert "expected ALPN h2" in str(failure(f"sc://127.0.0.1:{proxy.port}", login))


def test_a_server_that_speaks_no_tls(guarded: SparkServer, certificates: Path) -> None:
    login = replace(WITH_TOKEN, ca_file=str(certificates / "proxy.pem"))
    assert "it does not speak TLS" in str(failure(guarded.address, login))


def test_a_token_never_goes_to_another_machine_in_the_clear() -> None:
    # 127.0.0.2 is this machine too, which SpecK does not know; it hears all that is sent.
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.2", 0)) as listener:
        hearing = threading.Thread(target=_hear, args=(listener, heard))
        hearing.start()
        try:
            failure(f"sc://127.0.0.2:{listener.getsockname()[1]}", WITH_TOKEN)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            hearing.join(30)
    assert b"\x16\x03" in [part[:2] for part in heard]  # a TLS handshake record, as it should be
    assert TOKEN.encode() not in b"".join(heard)


def _hear(listener: socket.socket, heard: list[bytes]) -> None:
    while True:
        try:
            peer, _ = listener.accept()
        except OSError:
            return
        with peer, suppress(OSError):
            heard.append(peer.recv(65536))
