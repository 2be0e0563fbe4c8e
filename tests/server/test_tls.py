"""The server over TLS: real connections to the real server, the rude ones among them.

``SPECK_CLIENTS`` is how many ask at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from speck.client import Client
from speck.errors import InvalidInput, ServerError
from speck.server.tls import Certificate
from speck.server.wsgi import WebServer
from testbed import ROOT
from testbed.servers.nginx import nginx_before_speck
from testbed.servers.rest import RestServer, rest_server, yaml_of
from testbed.servers.served_process import served
from testbed.servers.tls_proxy import certificate
from tests.server.requesting import YAML, problem_of, read_all
from tests.server.test_security import refused, speck
from tests.support.docs_blocks import only_block

CLIENTS = int(os.environ.get("SPECK_CLIENTS", "100"))


@dataclass(frozen=True)
class Secured:
    """A server that speaks TLS, and the certificate to trust."""

    rest: RestServer
    ca: Path

    @property
    def port(self) -> int:
        return int(self.rest.url.rpartition(":")[2])

    def connect(self) -> ssl.SSLSocket:
        context = ssl.create_default_context(cafile=self.ca)
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        return context.wrap_socket(plain, server_hostname="127.0.0.1")


@pytest.fixture(name="secured", scope="module")
def secured_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("tls")
    ca, key = certificate(directory, "server")
    with rest_server(directory, certificate=Certificate(ca, key)) as rest:
        yield Secured(rest, ca)


def test_a_server_that_speaks_tls(tmp_path: Path) -> None:
    """The whole way: options of the server, options of the command line, a composition."""
    ca, key = certificate(tmp_path, "server")
    file = tmp_path / "one.yaml"
    file.write_text(yaml_of("a t0 t1"))
    with served(tmp_path, "--tls-cert", ca, "--tls-key", key, SPECK_TOKEN="t" * 32) as server:
        assert server.url.startswith("https://127.0.0.1:")
        known = {"SPECK_URL": server.url, "SPECK_CA": str(ca), "SPECK_TOKEN": "t" * 32}
        done = speck("apply", file, **known)
        assert done.returncode == 0, done.stderr
        assert "a" in speck("--server", server.url, "--ca", ca, "jobs", SPECK_TOKEN="t" * 32).stdout
        untrusted = speck("jobs", SPECK_URL=server.url, SPECK_TOKEN="t" * 32)
        assert untrusted.returncode == 1
        assert "its certificate is not accepted: self-signed certificate" in untrusted.stderr.replace(
            "self signed", "self-signed"
        )
        assert "--ca or SPECK_CA" in untrusted.stderr
        assert len(untrusted.stderr.splitlines()) == 1
        server.process.terminate()
        assert server.process.wait(120) == 0


@pytest.mark.slow("runs the commands of the page, each a process")
def test_the_documented_way_to_let_others_in(tmp_path: Path) -> None:
    """The commands of docs/security.md, on a port and an address of the test's own."""
    begin, use = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "security.md").read_text(), re.DOTALL)
    made, _, serve = begin.replace("\\\n", "").partition("speck serve ")
    signed, key = certificate(tmp_path, "cert")
    signed.rename(tmp_path / "cert.pem")
    key.rename(tmp_path / "key.pem")
    (tmp_path / "compositions").mkdir()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["bash", "-euc", made], check=True, capture_output=True, cwd=tmp_path, env={"PATH": path})
    options = [each.replace("0.0.0.0", "127.0.0.1") for each in shlex.split(serve)]  # noqa: S104 - replaced
    with served(tmp_path, *options) as server:
        use = use.replace("https://speck.example.org:8180", server.url).replace("=ca.pem", "=cert.pem")
        for token in ("anna.token", "screen.token"):
            script = use.replace("anna.token", token).replace("speck jobs", "speck jobs --json")
            done = subprocess.run(
                ["bash", "-euc", script],
                capture_output=True,
                text=True,
                check=False,
                cwd=tmp_path,
                env={"PATH": path},
            )
            assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
        named = requests.get(
            f"{server.url}/healthz",
            headers={"Host": "speck.example.org:8180"},
            verify=str(tmp_path / "cert.pem"),
            timeout=120,
        )
        assert named.ok


@pytest.mark.engine
def test_a_proxy_that_speaks_tls_before_it(tmp_path: Path) -> None:
    """Requests and streams come through at once."""
    block = only_block("security.md", "nginx")
    with rest_server(tmp_path, token="right") as rest, nginx_before_speck(block, tmp_path, rest.url) as proxy:
        ca = str(proxy.certificate)
        problem_of(requests.get(f"{proxy.address}/jobs", verify=ca, timeout=120), 401)
        known = {"Authorization": "Bearer right"}
        live = f"{proxy.address}/live"
        with requests.get(live, headers=known, verify=ca, timeout=120, stream=True) as stream:
            events = stream.iter_lines()
            assert b'"whole":true' in next(line for line in events if line.startswith(b"data"))
            text = yaml_of("a x y labels: {note: " + "x" * 400 + "}") + "#" * 3_000_000
            url = f"{proxy.address}/compositions?name=c&wait=60"
            sent = known | YAML | {"Origin": proxy.address, "Sec-Fetch-Site": "same-origin"}
            done = requests.post(url, data=text, headers=sent, verify=ca, timeout=120)
            assert done.json()["state"] == "succeeded"
            assert any(b'"a"' in line for line in events)


def test_each_side_is_told_what_the_other_speaks(secured: Secured, rest: RestServer) -> None:
    plainly = secured.rest.url.replace("https", "http")
    answer = requests.get(f"{plainly}/jobs", timeout=120)
    problem_of(answer, 400)
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    with pytest.raises(ServerError, match=r"speaks HTTPS only \(expected https://"):
        Client(plainly).jobs()
    with pytest.raises(ServerError, match=r"does not use TLS \(expected http://"):
        Client(rest.url.replace("http", "https"), ca=secured.ca).jobs()


def test_old_versions_are_not_spoken(secured: Secured) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", secured.port), timeout=120) as plain,
        pytest.raises(ssl.SSLError),
    ):
        context.wrap_socket(plain)
    with secured.connect() as connection:
        assert connection.version() in ("TLSv1.2", "TLSv1.3")


@pytest.mark.slow("megabytes over many connections")
def test_large_bodies_and_answers_arrive_whole_beside_each_other(secured: Secured) -> None:
    """Compositions of a megabyte go in, and plans of half of one come out, on kept connections."""
    note = "x" * 400
    text = yaml_of(*(f"job-{n} in{n} out{n} labels: {{note: {note}}}" for n in range(400)))
    text += "#" * (1_000_000 - len(text))
    ca = str(secured.ca)

    def plan(number: int) -> int:
        with requests.Session() as web:
            url = f"{secured.rest.url}/compositions?dry_run=true&name=c{number}"
            answers = [web.post(url, data=text, headers=YAML, verify=ca, timeout=300) for _ in range(2)]
            assert all(len(answer.content) > 400_000 for answer in answers)
            return sum(len(answer.json()["actions"]) for answer in answers)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(plan, range(4))) == [800] * 4
    problem_of(requests.get(f"{secured.rest.url}/nothing", verify=str(secured.ca), timeout=120), 404)


def test_requests_that_come_in_pieces_and_in_one(secured: Secured) -> None:
    one = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    last = one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with secured.connect() as connection:
        connection.sendall(one * 500 + last)  # more than a record holds
        assert read_all(connection).count(b'{"status": "ok"}') == 501
    with secured.connect() as connection:
        for byte in last:
            connection.sendall(bytes([byte]))
        answer = read_all(connection)  # which raises unless the end is said over TLS too
        assert answer.endswith(b'{"status": "ok"}')


def test_the_loop_does_not_spin_while_answers_are_sent(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds, loop_once = Counter[str](), WebServer._loop_once

    def counted(server: WebServer) -> None:
        rounds["all"] += 1
        loop_once(server)

    monkeypatch.setattr(WebServer, "_loop_once", counted)
    one = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with secured.connect() as connection:
        connection.sendall(one * 500 + one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert read_all(connection).count(b'{"status": "ok"}') == 501
    assert rounds["all"] < 10 * 501  # it went round some 35 times an answer


@pytest.mark.slow("many clients at once")
def test_many_clients_at_once(secured: Secured) -> None:
    """Each sends on while it is answered: what is read and what is written meet in every connection."""
    context = ssl.create_default_context(cafile=secured.ca)
    request = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

    bodies: set[bytes] = set()

    async def client(times: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", secured.port, ssl=context)
        writer.write(request * times)
        for _ in range(times):
            head = await reader.readuntil(b"\r\n\r\n")
            (length,) = re.findall(rb"content-length: (\d+)", head.lower())
            bodies.add(await reader.readexactly(int(length)))
        writer.close()
        await writer.wait_closed()
        return times

    async def clients() -> list[int]:
        return await asyncio.gather(*(client(5) for _ in range(CLIENTS)))

    assert sum(asyncio.run(clients())) == 5 * CLIENTS
    (body,) = bodies
    assert json.loads(body)["paths"]


def test_clients_that_break_off_cost_nothing(secured: Secured) -> None:
    hello = ssl.MemoryBIO()
    client = ssl.create_default_context(cafile=secured.ca).wrap_bio(
        ssl.MemoryBIO(), hello, server_hostname="x"
    )
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    greeting = hello.read()
    for sent in (
        b"",
        greeting[:1],
        greeting[:50],
        greeting,
        b"\x16\x03\x01\xff\xff" + b"\0" * 100,
        b"\0" * 5000,
    ):
        for reset in (False, True):
            with socket.create_connection(("127.0.0.1", secured.port), timeout=120) as connection:
                connection.sendall(sent)
                if reset:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert requests.get(f"{secured.rest.url}/healthz", verify=str(secured.ca), timeout=120).ok


def test_clients_that_drip_are_cut(tmp_path: Path) -> None:
    ca, key = certificate(tmp_path, "server")
    with rest_server(tmp_path, patience=1.0, certificate=Certificate(ca, key)) as rest:
        secured = Secured(rest, ca)
        silent = [socket.create_connection(("127.0.0.1", secured.port), timeout=120) for _ in range(40)]
        for connection in silent[::2]:
            connection.sendall(b"\x16\x03\x01")
        dripping = secured.connect()
        dripping.sendall(b"GET /jobs HTT")
        assert requests.get(f"{rest.url}/healthz", verify=str(ca), timeout=120).ok
        for connection in silent:
            assert connection.recv(1) == b""
            connection.close()
        assert b" 408 Request Timeout" in read_all(dripping)
        dripping.close()


def test_an_operation_is_followed_over_tls(secured: Secured) -> None:
    hold = secured.rest.world.hold("submit")
    url = f"{secured.rest.url}/compositions?name=followed"
    begun = requests.post(url, data=yaml_of("f x y"), headers=YAML, verify=str(secured.ca), timeout=120)
    path = f"/operations/{begun.json()['id']}/events"
    with secured.connect() as stream:
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        assert stream.recv(65536).startswith(b"HTTP/1.1 200")
        hold.release()
        assert b'"state": "succeeded"' in read_all(stream)


def test_a_certificate_is_renewed_while_the_server_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.server.tls._CHECK_PERIOD", 0.0)
    ca, key = certificate(tmp_path, "server")
    with rest_server(tmp_path, certificate=Certificate(ca, key)) as rest:
        new, new_key = certificate(tmp_path, "new")
        new.replace(ca)  # one of the two: they do not fit together
        with pytest.raises(requests.exceptions.SSLError):
            requests.get(f"{rest.url}/healthz", verify=str(ca), timeout=120)
        new_key.replace(key)
        assert requests.get(f"{rest.url}/healthz", verify=str(ca), timeout=120).ok


def test_what_is_no_certificate_is_told(tmp_path: Path) -> None:
    ca, key = certificate(tmp_path, "server")
    _, other_key = certificate(tmp_path, "other")
    public = tmp_path / "public.key"
    shutil.copyfile(key, public)
    public.chmod(0o644)
    rubbish = tmp_path / "rubbish"
    rubbish.write_text("rubbish")
    rubbish.chmod(0o600)
    locked = tmp_path / "locked.key"
    encrypt = [
        "openssl",
        "pkey",
        "-aes128",
        "-passout",
        "pass:open-sesame",
        "-in",
        str(key),
        "-out",
        str(locked),
    ]
    subprocess.run(encrypt, check=True, capture_output=True)
    for each in (key, other_key, locked):
        each.chmod(0o600)
    for chosen, chosen_key, said in (
        (ca, other_key, "not a certificate and its key in PEM: key values mismatch"),
        (ca, public, "can be used by others"),
        (rubbish, key, "rubbish is not PEM"),
        (ca, rubbish, "rubbish is not PEM"),
        (tmp_path / "none", key, "cannot be read: No such file"),
        (ca, tmp_path / "none", "cannot be read: No such file"),
        (ca, locked, "without a password"),
    ):
        with pytest.raises(InvalidInput, match=said):
            Certificate(chosen, chosen_key)
    assert "key values mismatch" in refused(tmp_path, "--tls-cert", ca, "--tls-key", other_key)
