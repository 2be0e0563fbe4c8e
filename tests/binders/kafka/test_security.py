"""Logins and TLS at a real Kafka that asks for them, by the binder and by the connector of jobs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from binders.common.connectors import KAFKA_CONNECTOR
from binders.common.java import java
from binders.kafka import KafkaBroker
from binders.spark.local.commands import CONNECTOR
from speck.core.inventory import Broker, Inventory, Login, Secret
from speck.errors import Rejected, SecretUnavailable, Unreachable
from testbed import ROOT
from testbed.servers.secured_kafka import PLAIN_USER, USER, SecuredKafka
from tests.support.requirements import needs
from tests.support.skips import skip_without_kafka

pytestmark = pytest.mark.engine

PASSWORD = "s3cretOfKafka40291"
SESSION = "speck-secured"


@pytest.fixture(name="secured", scope="module")
def secured_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    skip_without_kafka()
    with SecuredKafka(tmp_path_factory.mktemp("secured"), PASSWORD) as server:
        server.add_user()
        yield server


@pytest.fixture(name="login")
def login_fixture(secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> Login:
    monkeypatch.setenv("SECURED_PASSWORD", PASSWORD)
    monkeypatch.setenv("WRONG_PASSWORD", f"{PASSWORD}x")
    return Login(username=USER, password=Secret("${SECURED_PASSWORD}"), ca_file=str(secured.authority.file))


Opened = Callable[[Login], KafkaBroker]


@pytest.fixture(name="opened")
def opened_fixture(secured: SecuredKafka) -> Iterator[Opened]:
    made: list[KafkaBroker] = []

    def open_with(login: Login, address: str = secured.secured_address) -> KafkaBroker:
        inventory = Inventory({}, {"k": Broker(broker_address=address, broker_login=login)})
        made.append(KafkaBroker(address, inventory))
        return made[-1]

    yield open_with
    for each in made:
        each.close()


def by_plain(login: Login) -> Login:
    return replace(login, username=PLAIN_USER, sasl="plain")


def test_sessions_are_made_over_tls_with_a_login(login: Login, opened: Opened) -> None:
    broker = opened(login)
    broker.check()
    broker.ensure_session(SESSION, "in")
    assert broker.waiting(SESSION) == 0
    assert opened(by_plain(login)).session_exists(SESSION)


def certified(secured: SecuredKafka, login: Login) -> Login:
    """The login with the certificate of a client."""
    files = {"certificate_file": str(secured.client.file), "key_file": str(secured.client.key)}
    return replace(login, **files)


def test_a_certificate_is_a_login_alone_or_with_one(
    secured: SecuredKafka, login: Login, opened: Callable[..., KafkaBroker]
) -> None:
    by_both = replace(certified(secured, login), sasl="scram-sha-256")
    for each, address in (
        (replace(certified(secured, login), username=None, password=None), secured.certified_address),
        (by_both, secured.both_address),
    ):
        broker = opened(each, address)
        broker.check()
        broker.ensure_session(f"{SESSION}-certified", "certified")
        assert broker.waiting(f"{SESSION}-certified") == 0
    with pytest.raises(Rejected, match=r"does not offer SCRAM-SHA-512 \(expected sasl .* scram-sha-256"):
        opened(certified(secured, login), secured.both_address).check()
    # A server that closes the connection may do so before its reason has arrived.
    no_certificate = r"requires a client certificate|cannot be reached: .*(closed|reset|Broken pipe)"
    for each, address in (
        (replace(login, username=None, password=None), secured.certified_address),
        (replace(login, sasl="scram-sha-256"), secured.both_address),
    ):
        with pytest.raises(Unreachable, match=no_certificate):
            opened(each, address).check()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"password": Secret("${WRONG_PASSWORD}")},
            r"refused the login of user 'speck': Authentication failed",
        ),
        ({"username": "nobody"}, r"refused the login of user 'nobody'"),
        ({"sasl": "scram-sha-256"}, r"does not offer SCRAM-SHA-256 \(expected sasl .* plain, scram-sha-512"),
        ({"username": None, "password": None}, r"requires a login by plain, scram-sha-512"),
    ],
)
def test_a_refused_login_is_named_at_once(
    change: dict[str, object], text: str, login: Login, opened: Opened
) -> None:
    with pytest.raises(Rejected, match=text) as found:
        opened(replace(login, **change)).check()
    assert PASSWORD not in str(found.value)


def test_faults_of_tls_and_secrets_are_named(
    secured: SecuredKafka, login: Login, opened: Callable[..., KafkaBroker], tmp_path: Path
) -> None:
    for change, error, text in (
        (
            {"ca_file": None},
            Unreachable,
            r"no TLS connection: its certificate is not trusted.*expected a ca_file",
        ),
        ({"ca_file": str(tmp_path / "none")}, Unreachable, r"ca_file '.*none' cannot be used: no such file"),
        ({"password": Secret("${NOT_SET}")}, SecretUnavailable, r"NOT_SET"),
    ):
        with pytest.raises(error, match=text):
            opened(replace(login, **change)).check()
    with pytest.raises((Rejected, Unreachable), match=r"expected .*kafkas:// if it uses TLS"):
        opened(Login(), f"kafka://127.0.0.1:{secured.secured_port}").check()
    with pytest.raises(
        Unreachable, match=r"no TLS connection: it does not speak TLS|it closes the connection"
    ):
        opened(login, f"kafkas://127.0.0.1:{secured.port}").check()
    with pytest.raises(Rejected, match=r"takes no login at this port"):
        opened(replace(login, ca_file=None), secured.address).check()


class JobsClient:
    """A program that writes and reads by the connector of jobs."""

    def __init__(self, directory: Path) -> None:
        """Compile it: Java would do so at each run."""
        import pyspark

        jars = Path(pyspark.__file__).parent / "jars"
        logging = [str(each) for each in (*jars.glob("slf4j-api-*.jar"), *jars.glob("lz4-java-*.jar"))]
        self._java = Path(java("a test")).resolve()
        self._classes = ":".join([str(CONNECTOR), str(KAFKA_CONNECTOR), *logging, str(directory)])
        program = ROOT / "testbed" / "programs" / "kafka" / "WriteAndRead.java"
        compiler = str(self._java.with_name("javac"))
        subprocess.run(
            [compiler, "-J-XX:TieredStopAtLevel=1", "-cp", self._classes, "-d", str(directory), str(program)],
            check=True,
        )

    def run(self, address: str, login: Login, password_file: Path | None = None) -> str:
        """Its output."""
        files = (login.ca_file, login.certificate_file, login.key_file)
        given = (address, login.username, password_file, *files, login.sasl, SESSION)
        arguments = ["-" if each is None else str(each) for each in given]
        return subprocess.run(
            [str(self._java), "-XX:TieredStopAtLevel=1", "-cp", self._classes, "WriteAndRead", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout


@pytest.fixture(name="jobs_client", scope="module")
def jobs_client_fixture(tmp_path_factory: pytest.TempPathFactory) -> JobsClient:
    return JobsClient(tmp_path_factory.mktemp("classes"))


@needs(CONNECTOR, KAFKA_CONNECTOR)
def test_jobs_log_in_by_files(
    secured: SecuredKafka, login: Login, opened: Opened, jobs_client: JobsClient, tmp_path: Path
) -> None:
    opened(login).ensure_session(SESSION, "in")
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n", encoding="ascii")
    assert jobs_client.run(secured.secured_address, login, file).startswith("read: secured\n")
    file.write_text("other", encoding="ascii")
    told = jobs_client.run(secured.secured_address, by_plain(login), file)
    assert told.startswith("error: ")
    assert "Authentication failed" in told


@needs(CONNECTOR, KAFKA_CONNECTOR)
def test_jobs_log_in_by_a_certificate_and_by_both(
    secured: SecuredKafka, login: Login, opened: Opened, jobs_client: JobsClient, tmp_path: Path
) -> None:
    opened(login).ensure_session(SESSION, "in")
    file = tmp_path / "password"
    file.write_text(PASSWORD, encoding="ascii")
    by_both = replace(certified(secured, login), sasl="scram-sha-256")
    assert "read: secured\n" in jobs_client.run(secured.both_address, by_both, file)
    alone = replace(certified(secured, login), username=None, password=None)
    assert "read: secured\n" in jobs_client.run(secured.certified_address, alone)
