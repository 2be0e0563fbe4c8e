"""A site joins a running server over a real socket, with and without TLS: its files, and who is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from speck.agent.join import Server, join
from speck.agent.site_file import NAME, read_site_file
from speck.agent.status import contact
from speck.core.inventory import Inventory
from speck.errors import InvalidInput, Unreachable
from speck.link.code import JoinCode
from speck.link.frames import frames
from speck.schema.inventory import with_site, without_logins
from speck.server.tls import Certificate
from speck.testing.waiting import eventually
from testbed.benches.agents import PATIENCE, JoiningServer, joining_server, running_agent
from testbed.benches.examples import one_site
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from testbed.servers.base import REFUSING_PORT
from testbed.servers.certificates import Authority

ENTRY = {"spe_address": "sc://street:15002", "broker_address": "tcp://street:1883"}
KNOWN = replace(one_site("known", "sc://known:15002", "tcp://known:1883"), agent=True)
INVENTORY = Inventory({"known": KNOWN})
KINDS = double_kinds(World())
WITHOUT_TLS = JoinCode(site="street", server=b"1234").text()
WITH_TLS = JoinCode(site="street", server=b"1234", fingerprint=bytes(32)).text()


@pytest.fixture(name="server", scope="module")
def server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JoiningServer]:
    with joining_server(tmp_path_factory.mktemp("server"), KINDS, INVENTORY) as server:
        yield server


@pytest.fixture(name="authority", scope="module")
def authority_fixture(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(name="secured", scope="module")
def secured_fixture(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[JoiningServer]:
    made = authority.certificate("server", "fog.example.org")  # not the name by which it is reached
    certificate = Certificate(made.file, made.key)
    with joining_server(tmp_path_factory.mktemp("secured"), KINDS, INVENTORY, certificate) as server:
        yield server


def code_of(server: JoiningServer, site: str = "street") -> str:
    return server.services.agents.invite(site).code


def test_a_site_joins_and_its_agent_connects(server: JoiningServer, tmp_path: Path) -> None:
    found = join(code_of(server), server.address, tmp_path, ENTRY, None)
    assert read_site_file(tmp_path) == found
    assert found.site.name == "street"
    assert found.coordinator == f"ws://{server.address}"
    token = found.token.reveal()
    assert token not in (tmp_path / NAME).read_text()
    assert oct((tmp_path / "token").stat().st_mode)[-3:] == "600"
    with running_agent(tmp_path, KINDS):
        server.await_agent("street")
        engine = server.services.coordinator.pool.engine_for("sc://street:15002")
        assert list(engine.running()) == []
        server.services.agents.revoke("street")
        server.await_agent("street", there=False)
        with pytest.raises(Unreachable):
            engine.running()


def test_the_logins_of_a_site_stay_there(server: JoiningServer, tmp_path: Path) -> None:
    full = ENTRY | {"broker_login": {"username": "speck", "password": "file:/etc/speck/broker"}}
    own = with_site(Inventory(), "street", full).sites["street"]
    join(code_of(server), server.address, tmp_path, without_logins(full), own=own)
    password = read_site_file(tmp_path).site.broker_login.password
    assert password is not None
    assert password.reference == "file:/etc/speck/broker"
    known = server.enrolment.inventory.sites["street"]
    assert (known.broker_login.username, known.broker_login.password) == (None, None)


def test_a_site_of_the_inventory_needs_no_entry(server: JoiningServer, tmp_path: Path) -> None:
    found = join(code_of(server, "known"), server.address, tmp_path, None, None)
    assert found.site == KNOWN
    with running_agent(tmp_path, KINDS):
        server.await_agent("known")


def test_an_address_that_was_reached_directly_is_reached_by_the_agent(
    server: JoiningServer, tmp_path: Path
) -> None:
    pool = server.services.coordinator.pool
    entry = {"spe_address": "sc://lane:15002", "broker_address": "tcp://lane:1883"}
    assert list(pool.engine_for("sc://lane:15002").running()) == []  # of the double, without an agent
    join(code_of(server, "lane"), server.address, tmp_path, entry, None)
    with pytest.raises(Unreachable, match=r"agent of site 'lane' is not connected"):
        pool.engine_for("sc://lane:15002").running()


def test_a_clock_that_is_behind_does_not_hide_the_authority_of_a_certificate(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent would trust that certificate alone, and have no contact once it is replaced."""
    made = authority.certificate("early", "127.0.0.1", begins=2, days=4)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    certificate = Certificate(made.file, made.key)
    (tmp_path / "server").mkdir()
    with joining_server(tmp_path / "server", KINDS, INVENTORY, certificate) as server:
        found = join(code_of(server), server.address, tmp_path / "agent", ENTRY, None)
        assert found.certificate_file is None
        fault = "its certificate is not valid yet by the clock of this machine"
        with pytest.raises(InvalidInput, match=fault):
            join(code_of(server), server.address, tmp_path / "other", ENTRY, str(authority.file))


def test_a_certificate_is_trusted_by_its_fingerprint(secured: JoiningServer, tmp_path: Path) -> None:
    found = join(code_of(secured), secured.address, tmp_path, ENTRY, None)
    assert found.coordinator == f"wss://{secured.address}"
    assert found.certificate_file is not None
    with running_agent(tmp_path, KINDS):
        secured.await_agent("street")


def test_an_agent_refuses_another_certificate(
    secured: JoiningServer, authority: Authority, tmp_path: Path
) -> None:
    join(code_of(secured), secured.address, tmp_path, ENTRY, None)
    other = authority.certificate("other", "127.0.0.1")
    certificate = Certificate(other.file, other.key)
    with joining_server(tmp_path / "other", KINDS, INVENTORY, certificate) as impostor:
        described = read_site_file(tmp_path)
        data = json.loads((tmp_path / NAME).read_text()) | {"coordinator": f"wss://{impostor.address}"}
        (tmp_path / NAME).write_text(json.dumps(data))
        assert read_site_file(tmp_path) != described
        with running_agent(tmp_path, KINDS) as agent:
            reason = eventually(
                lambda: contact(agent.directory)["reason"], lambda found: "started" not in found
            )
            assert "CERTIFICATE_VERIFY_FAILED" in reason.upper().replace(" ", "_")
        assert impostor.hub.presence("street") is None


def test_a_code_is_not_sent_to_a_server_with_another_certificate(
    secured: JoiningServer, authority: Authority, tmp_path: Path
) -> None:
    code = code_of(secured)
    other = authority.certificate("impostor", "127.0.0.1")
    certificate = Certificate(other.file, other.key)
    with joining_server(tmp_path / "impostor", KINDS, INVENTORY, certificate) as impostor:
        seen: list[object] = []
        impostor.hub.join = lambda request: seen.append(request)  # type: ignore[assignment, func-returns-value]
        with pytest.raises(InvalidInput, match=r"has another certificate than the code names"):
            join(code, impostor.address, tmp_path / "agent", ENTRY, None)
    assert seen == []
    assert not (tmp_path / "agent" / NAME).exists()
    assert join(code, secured.address, tmp_path / "agent", ENTRY, None).site.name == "street"


def test_an_authority_may_be_given(tmp_path: Path, authority: Authority) -> None:
    made = authority.certificate("named", "127.0.0.1")
    with joining_server(tmp_path / "server", KINDS, INVENTORY, Certificate(made.file, made.key)) as server:
        found = join(code_of(server), server.address, tmp_path / "agent", ENTRY, str(authority.file))
        assert (found.ca_file, found.certificate_file) == (str(authority.file), None)
        with running_agent(tmp_path / "agent", KINDS):
            server.await_agent("street")


def test_a_refused_code_leaves_nothing(server: JoiningServer, tmp_path: Path) -> None:
    code = code_of(server)
    join(code, server.address, tmp_path / "first", ENTRY, None)
    with pytest.raises(InvalidInput, match=r"was used before"):
        join(code, server.address, tmp_path / "second", ENTRY, None)
    assert list((tmp_path / "second").iterdir()) == []


def test_the_address_of_users_is_named(tmp_path: Path) -> None:
    class Users(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Users) as users:
        thread = Thread(target=users.handle_request)
        thread.start()
        with pytest.raises(
            InvalidInput, match=r"sites cannot join at .* --agents, which is not that of users"
        ):
            join(WITHOUT_TLS, f"127.0.0.1:{users.server_port}", tmp_path, ENTRY, None)
        thread.join()


def test_the_directory_of_another_site_is_left_alone(server: JoiningServer, tmp_path: Path) -> None:
    join(code_of(server), server.address, tmp_path, ENTRY, None)
    before = (tmp_path / NAME).read_text()
    code = code_of(server, "known")
    with pytest.raises(InvalidInput, match=r"belongs to site 'street', and the code belongs to site 'known'"):
        join(code, server.address, tmp_path, None, None)
    assert (tmp_path / NAME).read_text() == before
    assert join(code, server.address, tmp_path / "own", None, None).site == KNOWN  # it was not used


def test_a_second_machine_is_refused_while_the_first_answers(server: JoiningServer, tmp_path: Path) -> None:
    join(code_of(server), server.address, tmp_path / "one", ENTRY, None)
    (tmp_path / "two").mkdir(mode=0o700)
    for name in (NAME, "token"):
        (tmp_path / "two" / name).write_bytes((tmp_path / "one" / name).read_bytes())
    with ExitStack() as stack:
        stack.enter_context(running_agent(tmp_path / "one", KINDS, machine="m1"))
        server.await_agent("street")
        stack.enter_context(running_agent(tmp_path / "two", KINDS, machine="m2"))
        found = eventually(lambda: server.services.agents.second("street"), lambda found: found is not None)
        assert found is not None
        assert (found.first, found.second) == ("m1", "m2")
        present = server.hub.presence("street")
        assert present is not None
        assert present.hello.machine == "m1"


def test_a_machine_takes_over_from_one_that_is_gone(server: JoiningServer, tmp_path: Path) -> None:
    join(code_of(server), server.address, tmp_path, ENTRY, None)
    for machine in ("m1", "m2"):
        with running_agent(tmp_path, KINDS, machine=machine):
            server.await_agent("street")
        server.await_agent("street", there=False)


def test_a_request_to_join_in_pieces_is_refused(server: JoiningServer) -> None:
    with connect(f"ws://{server.address}/join", proxy=None, compression=None) as site:
        large = {"protocol": 1, "version": "1", "code": "x" * (1 << 19)}
        with pytest.raises(ConnectionClosed):  # while it sends, or afterwards
            for frame in frames(large, 1):
                site.send(frame)
            site.recv(PATIENCE)


@pytest.mark.parametrize(
    ("server", "code", "message"),
    [
        ("fog", WITHOUT_TLS, "'fog' is not an address .expected HOST:PORT"),
        ("http://fog:1", WITHOUT_TLS, "is not an address"),
        ("fog:1/path", WITHOUT_TLS, "is not an address"),
        ("[::1", WITHOUT_TLS, "is not an address"),
        ("fog:port", WITHOUT_TLS, "is not an address"),
        ("fog:1", WITHOUT_TLS, "'fog:1' has no TLS of its own .expected wss://HOST:PORT of a proxy"),
        ("ws://127.0.0.1:1", WITH_TLS, "would be reached without TLS"),
    ],
    ids=["no port", "HTTP", "a path", "half an address", "no number", "no TLS", "TLS left out"],
)
def test_bad_addresses_are_named(server: str, code: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Server.of(server, JoinCode.parse(code))


def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    address = f"127.0.0.1:{REFUSING_PORT}"
    with pytest.raises(InvalidInput, match=f"ws://{address}: .*refused"):
        join(WITHOUT_TLS, address, tmp_path / "agent", ENTRY, None)
    assert not (tmp_path / "agent" / NAME).exists()
