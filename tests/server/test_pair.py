"""The servers of a pair: their settings, their roles at each start, and their events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import speck
from speck.core.settings import PairSettings
from speck.errors import Fault, InvalidInput, StoreError
from speck.server.pair.keeping import GRACE, StandbyEvents
from speck.server.pair.standby import Pair, Standby
from speck.standby.follower import Follower
from speck.standby.lease import Lease
from speck.standby.messages import Header, NoAnswer, Refused, Timing
from speck.standby.node import node_of
from speck.standby.primary import Identity, Primary, Wires
from speck.standby.witness import Vote, Witness
from speck.store.codec import EPOCH_KEY, POSITION_KEY
from speck.store.leveldb.database import Database
from testbed.benches.pair import Clock, InMemoryPair, Wire

URL, WITNESS = "http://127.0.0.1:1", "http://127.0.0.1:2"


class Server:
    """A server of a pair at each of its starts; ``claims`` are its requests to the witness."""

    def __init__(self, directory: Path, clock: Clock, witness: Witness, **role: str) -> None:
        self.directory, self.clock, self.witness = directory, clock, witness
        self._settings = PairSettings(witness=WITNESS, token=Path("token"), **role)  # type: ignore[arg-type]
        self.away = self.mute = False
        self.fault = ""  # for which it could not serve
        self.peer: Server | None = None
        self.start()

    def restart(self) -> None:
        self.follower.close()
        self.start()

    def start(self) -> None:
        self.follower = Follower(self.directory, Timing(), self.clock)
        pair = Pair(self._settings, self.directory, f"http://{self.directory.name}")
        self.lease = Lease(Timing(), self.clock)
        node = node_of(self.directory)
        self.standby = Standby(pair, node, self._asked, self.follower, self.lease, self._check, self._peer)

    def _peer(self, operation: str, header: Header, payload: bytes) -> dict[str, object]:
        if self.peer is None:
            raise NoAnswer("the other server does not answer")
        return self.peer.follower.handle(operation, header, payload)

    def _check(self, database: Database) -> None:
        if self.fault:
            raise InvalidInput([Fault(self.fault)], "agents")

    def _asked(self, operation: str, header: Header, payload: bytes) -> dict[str, object]:
        if self.away:
            raise NoAnswer("the witness does not answer")
        answer = self.witness.handle(operation, header, payload)
        if self.mute and operation == "claim":
            raise NoAnswer("the answer is lost")
        return answer


@pytest.fixture(name="clock")
def clock_fixture() -> Clock:
    return Clock()


@pytest.fixture(name="witness")
def witness_fixture(tmp_path: Path, clock: Clock) -> Witness:
    return Witness(tmp_path / "witness.json", Timing(), clock)


@pytest.fixture(name="first")
def first_fixture(tmp_path: Path, clock: Clock, witness: Witness) -> Iterator[Server]:
    server = Server(tmp_path / "first", clock, witness, standby=URL)
    yield server
    server.follower.close()


@pytest.fixture(name="second")
def second_fixture(tmp_path: Path, clock: Clock, witness: Witness) -> Iterator[Server]:
    server = Server(tmp_path / "second", clock, witness, standby_of=URL)
    yield server
    server.follower.close()


def in_step(server: Server, holder: str, form: str = "1", position: str = "1.a") -> None:
    """The server has a whole copy of the primary's, and the witness knows."""
    server.follower.handle("begin", {"epoch": 1, "url": URL, "identity": "i", "copy": "c"}, b"")
    server.follower.handle(
        "end", {"epoch": 1, "url": URL, "copy": "c", "position": position, "format": form}, b""
    )
    vote = {"epoch": 1, "number": 1, "holder": holder, "url": URL, "in_sync": True}
    server.witness.handle("renew", vote, b"")


def test_the_server_with_the_standby_begins(first: Server, second: Server) -> None:
    second.clock.now += 60
    assert second.standby.look() is None
    assert first.standby.look() == 1
    assert first.lease.held()
    assert node_of(first.directory).epoch == 1


def test_a_primary_resumes_at_once(first: Server) -> None:
    assert first.standby.look() == 1
    first.start()
    assert first.standby.look() == 2


@pytest.mark.parametrize("last", [5, 6])
def test_a_primary_whose_standby_is_ahead_does_not_resume(first: Server, second: Server, last: int) -> None:
    """Its machine was set back to a snapshot; with its store, the later changes would be lost."""
    first.standby.look()
    in_step(second, node_of(first.directory).identifier, position="1.7.x")
    first.restart()
    first.follower._database.write([(POSITION_KEY, b"1.%d.x" % last)])
    first.peer = second
    assert first.standby.look() is None
    assert f"ends with write {last}, and that of {URL} with write 7" in first.standby.state()["detail"]
    first.peer = None  # it knows by now
    first.clock.now += 5.1
    assert first.standby.look() is None
    assert second.standby.look() == 2


@pytest.mark.parametrize(
    ("mine", "theirs"), [(b"1.7.x", "1.7.x"), (b"1.8.x", "1.7.x"), (b"1.x", "1.7.x"), (b"1.7.x", "1.x")]
)
def test_a_primary_whose_standby_is_not_known_to_be_ahead_resumes(
    first: Server, second: Server, mine: bytes, theirs: str
) -> None:
    first.standby.look()
    in_step(second, node_of(first.directory).identifier, position=theirs)
    first.restart()
    first.follower._database.write([(POSITION_KEY, mine)])
    first.peer = second
    assert first.standby.look() == 2


def test_a_primary_whose_standby_was_not_in_step_resumes(first: Server, second: Server) -> None:
    first.standby.look()
    in_step(second, node_of(first.directory).identifier, position="1.7.x")
    vote = {"epoch": 1, "number": 2, "holder": node_of(first.directory).identifier, "url": URL}
    first.witness.handle("renew", vote | {"in_sync": False}, b"")  # it has written alone since
    first.restart()
    first.follower._database.write([(POSITION_KEY, b"1.5.x")])
    first.peer = second
    assert first.standby.look() == 2


def test_a_standby_takes_over_after_silence(first: Server, second: Server) -> None:
    first.standby.look()
    in_step(second, node_of(first.directory).identifier)
    second.clock.now += 4.9
    assert second.standby.look() is None
    second.clock.now += 0.2
    assert second.standby.look() == 2
    first.start()
    assert first.standby.look() is None  # another one has been the primary since
    assert "it knows of no primary yet" in first.standby.state()["detail"]


def test_a_standby_that_could_not_serve_does_not_take_over(first: Server, second: Server) -> None:
    """The former primary would be refused for good, although it may be back at once."""
    first.standby.look()
    in_step(second, node_of(first.directory).identifier)
    second.clock.now += 5.1
    second.fault = "site 'A' is reached through an agent"
    assert second.standby.look() is None
    assert "this server cannot take over: site 'A' is" in second.standby.state()["detail"]
    first.restart()
    assert first.standby.look() == 2


def test_a_standby_whose_store_cannot_be_read_does_not_take_over(first: Server, second: Server) -> None:
    first.standby.look()
    in_step(second, node_of(first.directory).identifier, form="2")
    second.clock.now += 5.1
    assert second.standby.look() is None
    assert "has format '2'" in second.standby.state()["detail"]
    assert second.witness.vote.epoch == 1


def test_the_records_of_a_standby_are_read_once_for_each_position(
    first: Server, second: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for an epoch twice a second while the witness alone is in contact with the primary."""
    first.standby.look()
    holder = node_of(first.directory).identifier
    in_step(second, holder)
    read: list[Database] = []
    monkeypatch.setattr("speck.standby.follower.check", read.append)
    second.clock.now += 5.1
    vote = {"epoch": 1, "number": 2, "holder": holder, "url": URL, "in_sync": True}
    second.witness.handle("renew", vote, b"")
    assert [second.standby.look() for _ in range(3)] == [None] * 3
    assert len(read) == 1
    write = {"epoch": 1, "url": URL, "before": "1.a", "after": "1.b"}
    second.follower.handle("write", write, b"")
    second.clock.now += 5.1
    assert second.standby.look() == 2
    assert len(read) == 2
    assert second.standby.is_checked


def taken_over(first: Server, second: Server) -> Primary:
    """The second server as the primary, which has not begun to serve."""
    assert first.standby.look() == 1
    in_step(second, node_of(first.directory).identifier)
    second.clock.now += 5.1
    assert second.standby.look() == 2
    lost = Wire(second.witness.handle, broken=True)
    wires = Wires(lost, lost, lost, Wire(second.witness.handle))
    identity = Identity(node_of(second.directory).identifier, "http://second", 2)
    return Primary(identity, second.directory, wires, second.lease, lambda reason: None)


def test_the_former_primary_returns_if_its_successor_did_not_begin(first: Server, second: Server) -> None:
    """Nothing was written since: it has everything, and so has the other one."""
    primary = taken_over(first, second)
    primary.renew_at_witness()  # while it opens its store
    first.restart()
    first.follower._database.write([(POSITION_KEY, b"1.a")])
    first.clock.now += 4.9
    assert first.standby.look() is None  # its successor may be opening its store
    first.clock.now += 0.2
    assert first.standby.look() == 3
    with pytest.raises(StoreError, match="the witness has not confirmed"):
        primary.announce()
    second.restart()
    second.clock.now += 5.1
    assert second.standby.look() == 4  # nor has the former one begun


def test_the_former_primary_does_not_return_once_its_successor_serves(first: Server, second: Server) -> None:
    taken_over(first, second).announce()
    first.restart()
    first.follower._database.write([(POSITION_KEY, b"1.a")])
    first.clock.now += 60
    assert first.standby.look() is None
    assert "lacks changes of the last primary" in first.standby.state()["detail"]


def test_a_successor_that_did_not_begin_waits_for_silence(first: Server, second: Server) -> None:
    """It could begin and end for ever otherwise, and the former primary would never be asked."""
    taken_over(first, second)
    second.restart()
    assert second.standby.look() is None
    second.clock.now += 5.1
    assert second.standby.look() == 3


def test_a_primary_that_does_not_begin_again_is_replaced(first: Server, second: Server) -> None:
    """It renews its lease while it opens its store, and ends with an error each time."""
    first.standby.look()
    in_step(second, holder := node_of(first.directory).identifier)
    first.restart()
    assert first.standby.look() == 2
    vote = {"epoch": 2, "number": 1, "holder": holder, "url": URL, "in_sync": False, "opening": True}
    first.witness.handle("renew", vote, b"")
    second.clock.now += 5.1
    assert second.standby.look() == 3


def test_a_standby_that_is_not_in_step_waits(first: Server, second: Server) -> None:
    first.standby.look()
    second.clock.now += 60
    assert second.standby.look() is None
    in_step(second, node_of(first.directory).identifier)
    vote = {"epoch": 1, "number": 2, "holder": node_of(first.directory).identifier, "url": URL}
    second.witness.handle("renew", vote | {"in_sync": False}, b"")
    second.clock.now += 60
    assert second.standby.look() is None


def test_the_record_of_a_witness_of_a_later_version_is_read(first: Server) -> None:
    handle = first.witness.handle
    first.witness.handle = lambda *request: handle(*request) | {"later": 1}  # type: ignore[method-assign]
    assert first.standby.look() == 1


def test_servers_of_an_earlier_version_read_the_record_of_a_witness(first: Server, second: Server) -> None:
    """They end at a field that they do not have."""
    primary = taken_over(first, second)
    assert "former" in first.witness.handle("status", {}, b"")
    primary.announce()
    assert first.witness.handle("status", {}, b"").keys() == {"epoch", "holder", "url", "in_sync"}


def test_a_standby_names_the_other_version_of_its_primary(second: Server) -> None:
    second.follower.handle("renew", {"epoch": 1, "url": URL, "version": speck.__version__}, b"")
    assert speck.__version__ not in second.standby.state()["detail"]
    second.follower.handle("renew", {"epoch": 1, "url": URL, "version": "7.1"}, b"")
    expected = f"{URL}, of version 7.1 (this server has {speck.__version__}: upgrade the older of the two)"
    assert expected in second.standby.state()["detail"]


def test_nobody_begins_without_the_witness(first: Server) -> None:
    first.away = True
    assert first.standby.look() is None
    assert "the witness does not answer" in first.standby.state()["detail"]


def test_nobody_begins_again_when_the_record_is_lost(first: Server, tmp_path: Path) -> None:
    first.standby.look()
    (tmp_path / "witness.json").unlink()
    first.witness = Witness(tmp_path / "witness.json", Timing(), first.clock)
    first.start()
    assert first.standby.look() is None
    assert "the witness has lost its record" in first.standby.state()["detail"]


def test_a_grant_whose_answer_was_lost_is_asked_for_again(first: Server, second: Server) -> None:
    first.standby.look()
    in_step(second, node_of(first.directory).identifier)
    second.clock.now += 5.1
    header = {"epoch": 1, "holder": node_of(second.directory).identifier, "url": "", "first": False}
    assert second.witness.handle("claim", header, b"")["epoch"] == 2
    assert second.standby.look() == 3


@pytest.mark.parametrize("restarts", [False, True])
def test_a_first_primary_whose_grant_was_lost_asks_again(first: Server, restarts: bool) -> None:
    """Its store has no position yet by which it were known to be complete."""
    first.mute = True
    assert first.standby.look() is None
    first.mute = False
    if restarts:
        first.restart()
    assert first.standby.look() is None
    first.clock.now += 5.1
    assert first.standby.look() == 2


def test_a_primary_without_a_position_whose_grant_was_lost_asks_again(first: Server) -> None:
    """Its store was repaired."""
    assert first.standby.look() == 1
    first.restart()
    first.mute = True
    assert first.standby.look() is None
    first.mute = False
    first.clock.now += 5.1
    assert first.standby.look() == 3


def test_a_standby_with_a_part_of_a_store_does_not_ask(first: Server, second: Server) -> None:
    """It asked when it had all of the former primary's."""
    first.standby.look()
    in_step(second, node_of(first.directory).identifier)
    second.clock.now += 5.1
    second.mute = True
    assert second.standby.look() is None
    second.mute = False
    second.follower._database.write([(POSITION_KEY, None)])
    second.clock.now += 5.1
    assert second.standby.look() is None
    assert "the store here is no complete copy" in second.standby.state()["detail"]


def test_a_server_whose_grant_it_does_not_know_waits_for_silence(first: Server, second: Server) -> None:
    """The former primary may have a lease from this server's own confirmation."""
    first.standby.look()
    in_step(second, node_of(first.directory).identifier)
    second.clock.now += 5.1
    header = {"epoch": 1, "holder": node_of(second.directory).identifier, "url": "", "first": False}
    second.witness.handle("claim", header, b"")
    second.follower.handle("renew", {"epoch": 1, "url": URL}, b"")
    assert second.standby.look() is None
    second.restart()
    assert second.standby.look() is None
    second.clock.now += 5.1
    assert second.standby.look() == 3


def test_a_witness_refuses_a_lower_epoch(first: Server, second: Server) -> None:
    first.standby.look()
    in_step(second, node_of(first.directory).identifier)
    second.clock.now += 5.1
    second.standby.look()
    vote = {"epoch": 1, "number": 9, "holder": node_of(first.directory).identifier, "url": URL}
    with pytest.raises(Refused, match="another server is the primary") as error:
        second.witness.handle("renew", vote | {"in_sync": False}, b"")
    assert error.value.epoch == 2


def test_a_witness_takes_requests_in_their_order(first: Server) -> None:
    first.standby.look()
    holder = node_of(first.directory).identifier
    vote = {"epoch": 1, "holder": holder, "url": URL}
    first.witness.handle("renew", vote | {"number": 2, "in_sync": False}, b"")
    with pytest.raises(Refused, match="a later request has come before"):
        first.witness.handle("renew", vote | {"number": 1, "in_sync": True}, b"")
    assert first.witness.vote == Vote(1, holder, URL, in_sync=False)


@pytest.mark.parametrize("content", ["", "[]", '{"format": 2}', '{"format": 1, "epoch": "1"}'])
def test_a_record_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "w").write_text(content)
    with pytest.raises(InvalidInput, match="record of a witness"):
        Witness(tmp_path / "w")
    assert (tmp_path / "w").read_text() == content


def test_a_claim_is_above_the_epochs_of_an_earlier_pair(first: Server) -> None:
    first.follower._database.write([(EPOCH_KEY, b"41")])
    assert first.standby.look() == 42


# --- events


def test_a_clock_that_is_set_back_delays_no_event_of_a_standby(tmp_path: Path) -> None:
    pair = InMemoryPair(tmp_path)
    now, steady = [pair.primary.status()["since"]], [0.0]
    events = StandbyEvents(pair.primary, pair.store, lambda: now[0])
    events.steady = lambda: steady[0]
    events.look()
    now[0] -= 3600.0
    steady[0] += GRACE - 1
    events.look()
    assert [each.kind for each in pair.store.events(9)] == ["primary"]
    steady[0] += 1
    events.look()
    assert [each.kind for each in pair.store.events(9)] == ["primary", "standby away"]
    pair.close()


def test_an_event_tells_of_a_standby_that_is_away(tmp_path: Path) -> None:
    pair = InMemoryPair(tmp_path)
    now = [pair.primary.status()["since"]]
    events = StandbyEvents(pair.primary, pair.store, lambda: now[0])
    events.look()
    now[0] += GRACE + 1
    events.look()
    pair.join()
    events.look()
    events.look()
    assert [(each.kind, each.message) for each in pair.store.events(9)] == [
        ("primary", "this server is the primary, epoch 1"),
        ("standby away", "the standby is not in step: it has not answered yet"),
        ("standby back", "the standby is in step"),
    ]
    pair.close()
