"""Logins, TLS, and servers that are no broker: errors name the cause, and show no secret."""

from __future__ import annotations

import gc
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from binders.mqtt import MQTT, MqttBroker
from binders.mqtt.address import BrokerAddress
from speck.binder import Registry
from speck.core.inventory import Inventory, Login, Secret
from speck.errors import InvalidInput, OutcomeUnknown, Rejected, SecretUnavailable, SpeckError, Unreachable
from testbed.servers.base import free_port
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.web_proxy import web_proxy
from tests.binders.mqtt.raw_access import SESSION, binder, inventory


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[MosquittoServer]:
    """A broker that lets in user ``speck`` with password ``s3cret-word`` only."""
    passwords = tmp_path / "passwords"
    program = shutil.which("mosquitto_passwd", path="/usr/bin:/usr/local/bin:/usr/sbin")
    if program is None:
        pytest.skip("mosquitto_passwd is not installed (apt-get install mosquitto)")
    subprocess.run([program, "-b", "-c", str(passwords), "speck", "s3cret-word"], check=True)
    with MosquittoServer(tmp_path / "broker", f"allow_anonymous false\npassword_file {passwords}") as server:
        yield server


@pytest.mark.engine
def test_login_by_reference(guarded: MosquittoServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", "s3cret-word")
    broker = binder(guarded, Login(username="speck", password=Secret("${BROKER_PASSWORD}")))
    broker.check()
    broker.ensure_session(SESSION, "in")
    assert broker.session_exists(SESSION)


@pytest.mark.engine
def test_wrong_password_is_refused_and_not_shown(
    guarded: MosquittoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", "not-s3cret")
    broker = binder(guarded, Login(username="speck", password=Secret("${BROKER_PASSWORD}")))
    with pytest.raises(Rejected, match="Not authorized") as caught:
        broker.check()
    assert "not-s3cret" not in str(caught.value) + repr(caught.value.__cause__)
    assert guarded.address in str(caught.value)


@pytest.mark.engine
def test_missing_secret_is_named(guarded: MosquittoServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BROKER_PASSWORD", raising=False)
    with pytest.raises(SecretUnavailable, match="BROKER_PASSWORD"):
        binder(guarded, Login(username="speck", password=Secret("${BROKER_PASSWORD}"))).check()


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A broker's TLS address, and the file of the certificate to trust."""
    certificate, key = tmp_path / "broker.pem", tmp_path / "broker.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    port = free_port()
    plain = free_port()
    settings = f"listener {plain} 127.0.0.1\nlistener {port} 127.0.0.1\ncertfile {certificate}\nkeyfile {key}"
    with MosquittoServer(tmp_path / "broker", settings, port=plain):
        yield f"mqtts://127.0.0.1:{port}", certificate


@pytest.mark.engine
def test_tls_with_the_right_certificate(tls: tuple[str, Path]) -> None:
    address, certificate = tls
    broker = MqttBroker(address, inventory(address, Login(ca_file=str(certificate))))
    broker.ensure_session(SESSION, "in")
    assert broker.session_exists(SESSION)


@pytest.mark.engine
def test_tls_without_trust(tls: tuple[str, Path]) -> None:
    with pytest.raises(Unreachable, match=r"TLS.*certificate") as caught:
        MqttBroker(tls[0], Inventory()).check()
    assert isinstance(caught.value.__cause__, ssl.SSLError)


@pytest.mark.engine
def test_missing_ca_file_is_named(tls: tuple[str, Path]) -> None:
    with pytest.raises(Unreachable, match=r"nowhere\.pem"):
        MqttBroker(tls[0], inventory(tls[0], Login(ca_file="nowhere.pem"))).check()


# --- what is no broker ----------------------------------------------------------------------------


@contextmanager
def server_that(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that does this with each connection; real TCP, no MQTT."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer, suppress(OSError):  # a client that hangs up leaves the server to the next one
                    answer(peer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


CALLS: list[Callable[[MqttBroker], object]] = [
    lambda broker: broker.check(),
    lambda broker: broker.warnings(),
    lambda broker: broker.ensure_session(SESSION, "in"),
    lambda broker: broker.session_exists(SESSION),
    lambda broker: broker.delete_session(SESSION),
    lambda broker: broker.fence(SESSION, 1),
]

ANSWERS = {
    "closes": b"",
    "speaks HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "garbage": bytes(range(256)),
    "CONNACK of MQTT 3": b"\x20\x02\x00\x01",
    "CONNACK cut short": b"\x20\x01\x00",
    "SUBACK first": b"\x90\x04\x00\x01\x00\x00",
}


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
def test_no_error_of_the_library_leaks(answer: bytes, call: Callable[[MqttBroker], object]) -> None:
    def reply(peer: socket.socket) -> None:
        peer.recv(100)
        peer.sendall(answer)

    with server_that(reply) as address, pytest.raises(SpeckError) as caught:
        call(MqttBroker(address, Inventory(), timeout=2))
    assert address in str(caught.value)


def test_a_broker_of_mqtt_3_is_refused_with_the_reason() -> None:
    def reply(peer: socket.socket) -> None:
        peer.recv(100)
        peer.sendall(ANSWERS["CONNACK of MQTT 3"])

    with server_that(reply) as address, pytest.raises(Rejected) as caught:
        MqttBroker(address, Inventory(), timeout=2).check()
    assert f"{address} refused the connection: it does not speak MQTT 5 (SpecK" in str(caught.value)


def test_a_server_that_never_answers() -> None:
    released = threading.Event()

    def keep_silent(peer: socket.socket) -> None:
        released.wait(30)

    with server_that(keep_silent) as address:
        try:
            with pytest.raises(OutcomeUnknown, match=r"did not answer in 0\.3 s"):
                MqttBroker(address, Inventory(), timeout=0.3).check()
        finally:
            released.set()


def test_an_unknown_host_is_unreachable() -> None:
    with pytest.raises(Unreachable, match="no-such-host"):
        MqttBroker("tcp://no-such-host.invalid:1883", Inventory()).check()


def test_a_closed_connection_leaves_no_file_open(mosquitto: MosquittoServer) -> None:
    """Not even until the garbage of circles is collected, which may take minutes."""
    used = binder(mosquitto)
    used.check()
    used.close()
    gc.collect()
    gc.disable()
    try:
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(5):
            used.check()
            used.close()
        assert len(list(Path("/proc/self/fd").iterdir())) <= before
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "address", ["tcp:/x", "http://a:1", "tcp://a:x", "tcp://", "tcp://a:0", "tcp://a/b", ""]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(InvalidInput, match="tcp://HOST:PORT"):
        MQTT.connect(address, Inventory())


def test_an_address_with_a_password_is_not_repeated() -> None:
    with pytest.raises(InvalidInput) as caught:
        MQTT.connect("tcp://user:hidden@host:1883", Inventory())
    assert "hidden" not in str(caught.value)


def test_ports_and_kinds() -> None:
    assert BrokerAddress.parse("tcp://h").port == 1883
    assert BrokerAddress.parse("ssl://h").port == 8883
    assert BrokerAddress.parse("mqtt://[::1]:7").host == "::1"
    registry = Registry.of([MQTT])
    assert all(registry.broker_kind(f"{scheme}://h:1") is MQTT for scheme in ("tcp", "mqtt", "mqtts", "ssl"))


def test_no_proxy_of_the_environment_is_used(
    mosquitto: MosquittoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("socks", reason="without PySocks, paho knows no proxy")
    with web_proxy() as proxy:
        proxy.install(monkeypatch)
        binder(mosquitto).check()
        assert proxy.seen == []
