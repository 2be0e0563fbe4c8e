"""The access list of docs/security.md at a real Mosquitto, and the topics that it must know."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from binders.mqtt.address import BrokerAddress
from binders.mqtt.broker import MqttBroker
from binders.mqtt.connection import Connection
from speck.core.inventory import Broker, Inventory, Login, Secret
from speck.errors import Rejected
from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.servers.mosquitto import MosquittoServer

pytestmark = pytest.mark.engine

SECTION = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").partition("\n## Topics of SpecK\n")[2]
SECTION = SECTION.partition("\n## ")[0]
LIST = SECTION.partition("```\n")[2].partition("```")[0]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")][:3]
    for line in SECTION.splitlines()
    if line.startswith("| `speck/")
]
PASSWORD = "correct horse battery"
SESSION = "speck-a:0a1b2c3d4e5f6071"
_SOURCES = ("speck", "binders", "jars_and_apps")
_PASSWORDS = shutil.which("mosquitto_passwd", path="/usr/bin:/usr/local/bin:/usr/sbin")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MosquittoServer]:
    if _PASSWORDS is None:
        pytest.skip("mosquitto is not installed (apt-get install mosquitto)")
    directory = tmp_path_factory.mktemp("access")
    (directory / "access").write_text(LIST, encoding="utf-8")
    (directory / "passwords").touch()
    for user in ("speck", "jobs", "device"):
        subprocess.run([_PASSWORDS, "-b", str(directory / "passwords"), user, PASSWORD], check=True)
    settings = f"""
        allow_anonymous false
        password_file {directory}/passwords
        acl_file {directory}/access
    """
    with MosquittoServer(directory, settings) as server:
        yield server


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", PASSWORD)


def login(user: str) -> Login:
    return Login(username=user, password=Secret("${BROKER_PASSWORD}"))


def binder(broker: MosquittoServer, user: str) -> MqttBroker:
    site = Broker(broker_address=broker.address, broker_login=login(user))
    return MqttBroker(broker.address, Inventory({}, {"b": site}))


def connected(broker: MosquittoServer, user: str) -> Connection:
    return Connection(BrokerAddress.parse(broker.address), login(user), f"test-{user}", timeout=10)


def example(topic: str) -> str:
    """A topic of a row of the table."""
    return topic.split("`")[1].replace("#", "x/y").replace("SESSION", SESSION)


def may_publish(broker: MosquittoServer, user: str, topic: str) -> bool:
    with connected(broker, user) as client:
        try:
            client.publish(topic, b"{}", retain=True)
        except Rejected:
            return False
    return True


@pytest.mark.parametrize("row", ROWS, ids=[row[0].split("`")[1] for row in ROWS])
def test_each_topic_has_its_publishers_and_its_readers_and_no_others(
    broker: MosquittoServer, row: list[str]
) -> None:
    topic, (_, publishers, readers) = example(row[0]), row
    of_jobs = ("reader", "writer", "jobs", "engines")
    assert may_publish(broker, "speck", topic)
    assert may_publish(broker, "jobs", topic) == any(each in publishers for each in of_jobs)
    assert not may_publish(broker, "device", topic)
    assert any(each in readers for each in (*of_jobs, "same"))
    for user, expected in (("speck", b"{}"), ("jobs", b"{}"), ("device", None)):
        with connected(broker, user) as client:
            assert read(client, topic) == expected, user


def read(client: Connection, topic: str) -> bytes | None:
    """The retained message of a topic; a subscription that is not permitted gets none."""
    client.subscribe(topic)
    return client.take_until([topic], 0.5).get(topic)


def test_it_is_enough_for_a_coordinator(broker: MosquittoServer, job_name: str) -> None:
    session = f"speck-{job_name}:0a1b2c3d4e5f6071"  # a repetition meets the tombstone of the last one
    made = binder(broker, "speck")
    made.check()
    made.ensure_session(session, "in/a")
    made.name_writers(session, ["b"])
    made.fence(session, 3)
    made.claim_session(session, "in/a")
    made.send_control(session, b"{}", 1)
    assert (made.fenced(session), made.waiting(session), made.drained(session, "m", 0.2)) == (3, 0, None)
    eventually(made.stored_bytes, lambda found: found is not None)
    made.delete_session(session)
    assert not made.session_exists(session)
    made.close()


def test_a_device_reaches_no_reader_by_a_topic_of_speck(broker: MosquittoServer) -> None:
    forger, made = binder(broker, "device"), binder(broker, "speck")
    session = "speck-b:0a1b2c3d4e5f6071"
    made.fence(session, 3)
    with pytest.raises(Rejected, match=r"refused a message to 'speck/.*': Not authorized"):
        forger.fence(session, 10**18 - 1)
    assert made.fenced(session) == 3
    forger.close()
    made.close()


def test_the_table_has_all_topics_that_speck_and_its_connectors_name() -> None:
    files = [
        path
        for folder in _SOURCES
        for kind in ("*.py", "*.java")
        for path in (ROOT / folder).rglob(kind)
        if "test" not in path.parts
    ]
    named = {found for path in files for found in re.findall(r"\"speck/[a-z]+/", path.read_text("utf-8"))}
    assert len(named) > 8
    assert {each.strip('"') for each in named} == {beginning(row[0]) for row in ROWS}


def beginning(cell: str) -> str:
    """The part of a topic before the name of a session or of a split."""
    return re.split("SESSION|NAME|ID", cell.split("`")[1])[0]
