"""The messages in the spools of a site's writers that its broker may have lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest
from paho.mqtt.client import topic_matches_sub
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from binders.mqtt import MqttBroker
from binders.mqtt.address import BrokerAddress
from binders.mqtt.connection import Connection
from binders.mqtt.spools import Spool, marked, spools
from speck.agent.places import SiteInventory
from speck.core.inventory import Engine, Inventory, Site
from speck.errors import SessionOfAnother
from speck.testing.brokers import OTHER, OWNER
from testbed.faults.rig import paho_client
from testbed.servers.mosquitto import MosquittoServer
from tests.binders.mqtt.raw_access import SESSION, connection

ADDRESS = BrokerAddress.parse("tcp://127.0.0.1:1883")
ID = "0a" * 16
# Two records as the connector has written them.
WRITTEN = bytes.fromhex(
    "00000068cf426f8f326600056d69642f31000041260009737065636b2d6a6f620009666f72776172642d31260009737065636b"
    "2d736571001c66306135643961362f302f302f393134372e307e303630643239303652454143482f55502f434f4e4e4543542f"
    "4c4546542d302d323934"
    "0000006817d6100f326600056d69642f31000041260009737065636b2d6a6f620009666f72776172642d31260009737065636b"
    "2d736571001c66306135643961362f302f302f393134382e307e653733363539663152454143482f55502f434f4e4e4543542f"
    "4c4546542d302d323936"
)
STAMPS = [("forward-1", "f0a5d9a6/0/0/9147.0~060d2906"), ("forward-1", "f0a5d9a6/0/0/9148.0~e73659f1")]


def text(value: str) -> bytes:
    return len(value).to_bytes(2) + value.encode()


def number(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + number(value >> 7)


def record(stamp: int, topic: str = "mid/1", payload: bytes = b"", flags: int = 0x32) -> bytes:
    """The record of a message of job ``a``."""
    properties = b"&" + text("speck-job") + text("a") + b"&" + text("speck-seq") + text(f"run/0/0/{stamp}")
    rest = text(topic) + b"\0\0" + number(len(properties)) + properties + payload
    packet = bytes([flags]) + number(len(rest)) + rest
    return len(packet).to_bytes(4) + b"sum!" + packet


def spool(
    root: Path, files: dict[int, bytes], broker: str = "127.0.0.1-1883-0123abcd", name: str = ID
) -> Spool:
    """A spool below the checkpoints in ``root``; the files by the numbers of their first messages."""
    folder = root / "~spool" / broker / name
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    for first, content in files.items():
        (folder / f"{first:019}.log").write_bytes(content)
    return Spool(folder)


def stamps(found: Spool, after: int) -> list[str]:
    return [sequence for _, (_, sequence) in found.after(after)]


def test_records_of_the_connector_are_read(tmp_path: Path) -> None:
    found = spool(tmp_path, {9148: WRITTEN})
    assert list(found.after(0)) == [("mid/1", each) for each in STAMPS]
    assert list(found.after(9148)) == [("mid/1", STAMPS[1])]
    assert list(found.after(9149)) == []


@pytest.mark.parametrize(
    ("after", "expected"), [(0, [1, 2, 3, 7, 8]), (2, [3, 7, 8]), (3, [7, 8]), (7, [8]), (8, []), (20, [])]
)
def test_messages_are_numbered_over_files(tmp_path: Path, after: int, expected: list[int]) -> None:
    first, second = (b"".join(map(record, each)) for each in ((1, 2, 3), (7, 8)))
    found = spool(tmp_path, {1: first, 7: second})
    assert stamps(found, after) == [f"run/0/0/{each}" for each in expected]


def test_a_spool_that_begins_behind_what_the_broker_has_saved_does_not_have_all(tmp_path: Path) -> None:
    """The writer has dropped the others: after 300 s, or for want of memory."""
    found = spool(tmp_path, {5: record(5), 6: record(6)})
    assert [found.covers(each) for each in (0, 3, 4, 5, 9)] == [False, False, True, True, True]
    assert spool(tmp_path / "empty", {}).covers(0)


def test_a_spool_is_stranded_that_no_process_holds_or_has_written_to_lately(tmp_path: Path) -> None:
    found = spool(tmp_path, {1: record(1), 5: record(5)})
    written = (found.folder / f"{5:019}.log").stat().st_mtime
    assert [found.is_stranded(written + each) for each in (-5000, 5, 599, 601)] == [False, False, False, True]
    lock = "import fcntl; file = open('lock', 'r+b'); fcntl.lockf(file, 2); print(flush=True); input()"
    command = [sys.executable, "-S", "-c", lock]
    with subprocess.Popen(
        command, cwd=found.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert not found.is_stranded(written + 601)
        process.communicate(b"\n")
    assert found.is_stranded(written + 601)
    (found.folder / "lock").unlink()
    assert not found.is_stranded(written + 601)  # a process has just taken it over
    assert not spool(tmp_path / "empty", {}).is_stranded(written + 601)


@pytest.mark.parametrize("cut", [1, 8, 20])
def test_a_record_that_a_crash_has_torn_was_not_acknowledged(tmp_path: Path, cut: int) -> None:
    found = spool(tmp_path, {1: record(1) + record(2)[:-cut]})
    assert stamps(found, 0) == ["run/0/0/1"]
    found = spool(tmp_path / "zeros", {1: record(1) + bytes(50)})
    assert stamps(found, 0) == ["run/0/0/1"]


@pytest.mark.parametrize(
    "files",
    [
        {1: record(1) + record(2)[:-1], 3: record(3)},  # torn, and not the last one
        {1: record(1, flags=0x30)},  # QoS 0
        {1: b"\0\0\0\x04sum!" + b"\x32\x7f\0\0"},  # another length
        {1: b"\0\0\0\x02sum!" + b"\x32\xff"},  # a length without an end
    ],
)
def test_damage_is_no_number(tmp_path: Path, files: dict[int, bytes]) -> None:
    with pytest.raises(ValueError, match=r"damaged|packet"):
        list(spool(tmp_path, files).after(0))


def test_a_large_message_that_is_retained_and_without_a_stamp(tmp_path: Path) -> None:
    packet = text("parked") + b"\0\0\0" + b"x" * 3_000_000
    content = b"\x33" + number(len(packet)) + packet
    found = spool(tmp_path, {1: len(content).to_bytes(4) + b"sum!" + content + record(2)})
    assert list(found.after(0)) == [("parked", ("", "")), ("mid/1", ("a", "run/0/0/2"))]


def test_a_spool_that_is_taken_over_meanwhile_has_nothing(tmp_path: Path) -> None:
    found = spool(tmp_path, {1: record(1), 2: record(2)})
    messages = found.after(0)
    next(messages)
    for path in found.folder.iterdir():
        path.unlink()
    assert list(messages) == []
    found.folder.rmdir()
    assert list(found.after(0)) == []


@pytest.mark.parametrize("location", ["{}", "{}/", "file:{}", "file://{}", "file://localhost{}"])
def test_the_spools_of_a_broker_lie_beside_the_checkpoints(tmp_path: Path, location: str) -> None:
    own = [spool(tmp_path, {}), spool(tmp_path, {}, "127.0.0.1-1883-ffffffff", "1b" * 16)]  # of two users
    for other in ("127.0.0.1-1884-0123abcd", "127.0.0.1-1883", "127x0x0x1-1883-0123abcd"):
        spool(tmp_path, {}, other)
    (own[0].folder.parent / "notes").mkdir()
    found = spools(location.format(tmp_path), ADDRESS) or []
    assert sorted(each.folder for each in found) == sorted(each.folder for each in own)
    assert own[0].mark == f"speck/sink/{ID}"


def test_an_address_of_ipv6_is_shown_with_other_signs(tmp_path: Path) -> None:
    own = spool(tmp_path, {}, "__1-1883-0123abcd")
    assert spools(str(tmp_path), BrokerAddress.parse("tcp://[::1]:1883")) == [own]


def test_checkpoints_elsewhere_have_unknown_spools(tmp_path: Path) -> None:
    for location in (None, "", "states", "hdfs://name/states", "file://far/states", f"{tmp_path}/none"):
        assert spools(location, ADDRESS) is None
    assert spools(str(tmp_path), ADDRESS) == []


# --- at a broker


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MosquittoServer]:
    with MosquittoServer(tmp_path / "broker") as server:
        yield server


def site(server: MosquittoServer, *checkpoints: Path) -> Site:
    places = enumerate(map(str, checkpoints))
    engines = tuple(Engine(spe_address=f"sc://e{place}:1", checkpoint_dir=each) for place, each in places)
    return Site(name="A", engines=engines, broker_address=server.address)


def at_site(server: MosquittoServer, tmp_path: Path, *checkpoints: Path) -> MqttBroker:
    """The binder of an agent, at a site whose engines have these checkpoints."""
    return MqttBroker(server.address, SiteInventory(site(server, *checkpoints), tmp_path / "agent"))


def send(server: MosquittoServer, messages: Iterable[int]) -> None:
    """Publish messages with the stamps of :func:`record`."""
    client = paho_client(server)
    for each in messages:
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        stamp = [("speck-job", "a"), ("speck-seq", f"run/0/0/{each}")]
        setattr(properties, "UserProperty", stamp)  # noqa: B010
        client.publish("mid/1", b"", 1, properties=properties).wait_for_publish(30)
    client.disconnect()
    client.loop_stop()


def mark(server: MosquittoServer, held: Spool, content: bytes) -> None:
    with connection(server, "marker") as writer:
        writer.publish(held.mark, content, retain=True)


@pytest.mark.engine
def test_what_the_broker_had_not_saved_is_counted(server: MosquittoServer, tmp_path: Path) -> None:
    """Messages 1 to 9 were written: 4 is the last in the mark; 3 to 6 wait, since the mark is older."""
    name = f"127.0.0.1-{server.port}-0123abcd"
    content = b"".join(map(record, range(1, 10))) + record(10, "other/1")
    held = spool(tmp_path / "states", {1: content}, name)
    broker = at_site(server, tmp_path, tmp_path / "states")
    broker.ensure_session(SESSION, "mid/+")
    send(server, range(3, 7))
    mark(server, held, b"4")
    assert broker.unsaved(SESSION, "mid/+") == 3
    assert broker.waiting(SESSION) == 4
    assert broker.stranded() == 0  # it was written just now
    os.utime(held.folder / f"{1:019}.log", (0, 0))
    assert broker.stranded() == 6
    assert broker.unsaved(SESSION, "#") == 4
    assert broker.unsaved("speck-other", "mid/1") == 5  # a session that the broker has lost
    mark(server, held, b"")
    assert broker.unsaved(SESSION, "mid/1") == 5  # 1, 2, 7, 8 and 9
    assert (held.folder / f"{1:019}.log").read_bytes() == content
    broker.close()


@pytest.mark.engine
def test_spools_that_cannot_be_read_make_the_number_unknown(server: MosquittoServer, tmp_path: Path) -> None:
    name, seen = f"127.0.0.1-{server.port}-0123abcd", tmp_path / "states"
    seen.mkdir()
    assert at_site(server, tmp_path, seen).unsaved(SESSION, "mid/1") == 0
    assert at_site(server, tmp_path, seen, tmp_path / "none").unsaved(SESSION, "mid/1") is None
    assert at_site(server, tmp_path, seen, tmp_path / "none").stranded() is None
    held = spool(seen, {1: record(1, flags=0x30)}, name)
    assert at_site(server, tmp_path, seen).unsaved(SESSION, "mid/1") is None
    (held.folder / f"{1:019}.log").write_bytes(record(1))
    assert at_site(server, tmp_path, seen).unsaved(SESSION, "mid/1") == 1
    assert MqttBroker(server.address, Inventory({"A": site(server, seen)})).unsaved(SESSION, "mid/1") is None
    (held.folder / f"{1:019}.log").rename(held.folder / f"{2:019}.log")
    assert at_site(server, tmp_path, seen).unsaved(SESSION, "mid/1") is None  # the first one was dropped
    (held.folder / f"{2:019}.log").unlink()
    (held.folder / f"{1:019}.log").mkdir()
    assert at_site(server, tmp_path, seen).unsaved(SESSION, "mid/1") is None


def test_a_bridge_makes_the_number_unknown(tmp_path: Path) -> None:
    class Bridged:
        def retained_at_once(self, filters: Sequence[str], known: str, echo: str) -> dict[str, bytes]:
            assert topic_matches_sub(filters[0], "$SYS/broker/connection/far/state")
            return {"$SYS/broker/connection/far/state": b"1", known: b"mosquitto version 2.0"}

    assert marked(cast(Connection, Bridged()), [spool(tmp_path, {})]) is None


@pytest.mark.engine
def test_a_session_of_another_is_not_looked_into(server: MosquittoServer, tmp_path: Path) -> None:
    spool(tmp_path / "states", {1: record(1)}, f"127.0.0.1-{server.port}-0123abcd")
    foreign, broker = (at_site(server, tmp_path, tmp_path / "states") for _ in range(2))
    foreign.take_owner(OTHER)
    broker.take_owner(OWNER)
    foreign.ensure_session(SESSION, "mid/1")
    with pytest.raises(SessionOfAnother):
        broker.unsaved(SESSION, "mid/1")
