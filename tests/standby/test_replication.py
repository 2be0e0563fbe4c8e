"""Each write of the primary at the standby, whatever is interrupted, and what the witness grants."""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import speck
from speck.errors import StoreError
from speck.standby.follower import Follower
from speck.standby.messages import Answer, Header, NoAnswer, Refused
from speck.standby.witness import Witness
from speck.store import Event, Store
from speck.store.codec import EPOCH_KEY, POSITION_KEY
from speck.store.leveldb.database import Database
from speck.store.maintenance.repair import check_directory, repair
from speck.store.opening import writes_of
from testbed.benches.pair import InMemoryPair


@pytest.fixture(name="pair")
def pair_fixture(tmp_path: Path) -> Iterator[InMemoryPair]:
    pair = InMemoryPair(tmp_path)
    yield pair
    pair.close()


def write(store: Store, message: str) -> None:
    with store.transaction() as transaction:
        transaction.add_event(Event(1.0, "started", message))


def messages(store: Store) -> list[str]:
    return [each.message for each in store.events(100)]


def records(pair: InMemoryPair) -> tuple[object, object]:
    return pair.store.database.all(), pair.follower._database.all()


def test_a_new_standby_gets_all_records(pair: InMemoryPair) -> None:
    write(pair.store, "one")
    pair.join()
    mine, theirs = records(pair)
    assert mine == theirs
    assert pair.primary.status()["in_sync"]
    assert pair.witness.vote.in_sync


@pytest.mark.parametrize(
    ("version", "shown"), [(speck.__version__, ""), ("7.1", "7.1"), (None, "an earlier one")]
)
def test_the_other_version_of_a_standby_is_in_the_state(
    pair: InMemoryPair, version: str | None, shown: str
) -> None:
    assert pair.primary.status()["other_version"] == ""
    target = pair.to_standby.target

    def versioned(operation: str, header: Header, payload: bytes) -> Answer:
        found = target(operation, header, payload)
        others = {key: each for key, each in found.items() if key != "version"}
        return others | ({"version": version} if version and operation == "renew" else {})

    pair.to_standby.target = versioned
    pair.join()
    assert pair.primary.status()["in_sync"]
    assert pair.primary.status()["other_version"] == shown


def test_each_write_is_at_the_standby_before_it_is_acknowledged(pair: InMemoryPair) -> None:
    pair.join()
    write(pair.store, "one")
    mine, theirs = records(pair)
    assert mine == theirs


def test_the_positions_of_a_store_count_its_writes(pair: InMemoryPair) -> None:
    pair.join()
    before = writes_of(pair.store.database.get(POSITION_KEY))
    for number in range(3):
        write(pair.store, str(number))
    assert pair.follower.writes == before + 3
    pair.clock.now += 5.1
    pair.take_over().close()
    assert [writes_of(each) for each in (None, b"3", b"3.0123", b"3.17.0123")] == [0, 0, 0, 17]


def test_the_epoch_is_stored_with_its_first_write(pair: InMemoryPair) -> None:
    pair.join()
    write(pair.store, "one")
    assert pair.follower._database.get(EPOCH_KEY) == pair.store.database.get(EPOCH_KEY) == b"1"
    pair.primary.identity = replace(pair.primary.identity, epoch=2)
    write(pair.store, "two")
    mine, theirs = records(pair)
    assert mine == theirs
    assert pair.follower._database.get(EPOCH_KEY) == b"2"


def test_a_standby_takes_over_with_everything(pair: InMemoryPair) -> None:
    pair.join()
    for number in range(5):
        write(pair.store, str(number))
    pair.clock.now += 5.1
    with pair.take_over() as store:
        assert messages(store) == ["0", "1", "2", "3", "4"]
        assert store.identity == pair.store.identity
    assert (pair.witness.vote.epoch, pair.witness.vote.holder) == (2, "b")


def test_no_standby_takes_over_while_the_primary_is_heard_of(pair: InMemoryPair) -> None:
    pair.join()
    pair.clock.now += 4.9
    assert pair.follower.take_over(lambda: pair.claim("b")) is None
    pair.to_standby.broken = True
    pair.primary.renew_at_witness()
    pair.clock.now += 4.9
    with pytest.raises(Refused, match="the primary is in contact"):
        pair.take_over()
    pair.to_standby.broken = False
    pair.primary.keep_in_step(pair.store.database)  # it follows again
    assert pair.witness.vote.epoch == 1


def test_a_primary_that_is_replaced_writes_nothing_and_ends(pair: InMemoryPair) -> None:
    pair.join()
    pair.clock.now += 5.1
    pair.take_over().close()
    with pytest.raises(StoreError, match="neither the standby nor the witness has confirmed"):
        write(pair.store, "late")
    pair.primary.lease.renewed(pair.clock())  # even if it believed that it is the primary
    with pytest.raises(StoreError, match="cannot be written: the standby is not in step"):
        write(pair.store, "late")
    assert pair.deposed[-1].startswith("another server is the primary")
    assert messages(pair.store) == []


def test_an_engine_is_not_called_without_a_lease(pair: InMemoryPair) -> None:
    pair.primary.permit("sc://a:1")
    pair.clock.now += 4.1
    with pytest.raises(Exception, match=r"sc://a:1 is not called: .* \(epoch 1\)"):
        pair.primary.permit("sc://a:1")
    pair.primary.look()
    assert len(pair.deposed) == 1


def test_the_first_write_tells_the_witness_that_the_primary_serves(pair: InMemoryPair) -> None:
    primary = pair.begin("a", "primary")
    primary.renew_at_witness()
    pair.witness.vote = replace(pair.witness.vote, former="b")
    primary.renew_at_witness()
    assert pair.witness.vote.former == "b"
    primary.confirm([(b"job/x", b"")], b"")
    assert pair.witness.vote.former == ""


def test_a_primary_goes_on_alone_once_the_witness_knows(pair: InMemoryPair) -> None:
    pair.join()
    pair.to_standby.broken = True
    write(pair.store, "alone")
    assert not pair.witness.vote.in_sync
    pair.clock.now += 5.1
    with pytest.raises(Refused, match="has not all that the primary has written"):
        pair.take_over()


def test_a_primary_without_both_writes_nothing(pair: InMemoryPair) -> None:
    pair.join()
    pair.to_standby.broken = pair.to_witness.broken = True
    with pytest.raises(StoreError, match="the witness has not confirmed"):
        write(pair.store, "nowhere")
    assert messages(pair.store) == []
    pair.to_standby.broken = False
    pair.primary.keep_in_step(pair.store.database)
    write(pair.store, "again")
    mine, theirs = records(pair)
    assert mine == theirs


def test_a_write_whose_answer_is_lost_is_not_missed(pair: InMemoryPair) -> None:
    """The standby has it, the primary goes on alone: neither takes the other for its like."""
    pair.join()
    pair.to_standby.mute = True
    pair.to_witness.broken = True
    with pytest.raises(StoreError):
        write(pair.store, "refused")
    pair.to_standby.mute = pair.to_witness.broken = False
    write(pair.store, "alone")
    assert not pair.witness.vote.in_sync
    pair.join()
    mine, theirs = records(pair)
    assert mine == theirs
    assert messages(pair.store) == ["alone"]


def test_a_copy_that_breaks_off_is_no_store(pair: InMemoryPair, tmp_path: Path) -> None:
    write(pair.store, "one")
    break_off(pair, "before end")
    assert not pair.follower.is_complete
    pair.follower.close()
    with pytest.raises(StoreError, match="incomplete copy of the primary's store"):
        Store(tmp_path / "standby")
    with pytest.raises(StoreError, match="cannot be repaired: it is an incomplete copy"):
        repair(tmp_path / "standby")
    assert not list((tmp_path / "standby").glob("before-repair-*"))
    assert not any(each.mends for each in check_directory(tmp_path / "standby"))


def break_off(pair: InMemoryPair, at: str) -> None:
    """A copy that ends at an operation."""

    def passed(operation: str) -> None:
        if operation == at:
            raise NoAnswer("killed")

    pair.to_standby.passed = passed
    with pytest.raises(NoAnswer):
        pair.primary.keep_in_step(pair.store.database)
    pair.to_standby.passed = lambda operation: None


def go_apart(pair: InMemoryPair, *names: str) -> None:
    """The primary writes alone."""
    pair.to_standby.broken = True
    for name in names:
        write(pair.store, name)
    pair.to_standby.broken = False


@pytest.mark.parametrize("at", ["after begin", "after records", "before end"])
def test_a_standby_has_its_former_store_until_a_copy_is_whole(
    pair: InMemoryPair, tmp_path: Path, at: str
) -> None:
    pair.join()
    write(pair.store, "before")
    go_apart(pair, "alone")
    break_off(pair, at)
    pair.follower.close()
    with Store(tmp_path / "standby") as store:
        assert messages(store) == ["before"]


def test_a_copy_after_one_that_broke_off_is_whole(pair: InMemoryPair) -> None:
    """With records that were added, changed and deleted meanwhile."""
    keys = [f"profile/link/a/{number}".encode() for number in range(3)]
    pair.store.database.write([(key, b"1") for key in keys[:2]])
    pair.join()
    go_apart(pair, "alone")
    break_off(pair, "after records")
    pair.store.database.write([(keys[0], None), (keys[1], b"2"), (keys[2], b"1")])
    pair.join()
    mine, theirs = records(pair)
    assert mine == theirs
    assert pair.primary.status()["in_sync"]


def test_a_late_write_amid_a_copy_is_refused(pair: InMemoryPair) -> None:
    """The copy is compared with the store as it was at its begin."""
    pair.join()
    at = (pair.follower._database.get(POSITION_KEY) or b"").decode()
    go_apart(pair, "alone")
    late = {"epoch": 1, "url": "", "before": at, "after": "1.late"}
    break_off(pair, "after records")
    with pytest.raises(Refused, match="not in step"):
        pair.follower.handle("write", late, b"")
    pair.follower.handle("files", {"epoch": 1, "url": "", "identity": pair.store.identity}, b"")
    pair.follower.handle("write", late, b"")  # that copy will not come to an end


def test_what_is_written_during_a_copy_comes_after_it(pair: InMemoryPair) -> None:
    write(pair.store, "before")

    def write_meanwhile(passed: str) -> None:
        if passed == "after records":
            write(pair.store, "meanwhile")

    pair.to_standby.passed = write_meanwhile
    pair.primary.keep_in_step(pair.store.database)
    assert pair.primary.status()["in_sync"]
    mine, theirs = records(pair)
    assert mine == theirs


def test_what_is_written_during_a_copy_holds_up_few_writes(pair: InMemoryPair) -> None:
    """A copy takes minutes on a slow link, and each write a round trip."""
    write(pair.store, "before")
    locked: list[bool] = []

    def passed(operation: str) -> None:
        if operation == "before end":
            for number in range(30):
                write(pair.store, str(number))
        if operation == "before write":
            locked.append(pair.store.database._writing.locked())
            if len(locked) == 10:
                write(pair.store, "amid these")

    pair.to_standby.passed = passed
    pair.primary.keep_in_step(pair.store.database)
    assert pair.primary.status()["in_sync"]
    mine, theirs = records(pair)
    assert mine == theirs
    assert len(locked) == 31
    assert sum(locked) <= 5


def test_a_standby_with_an_older_copy_of_its_store_is_copied_again(pair: InMemoryPair) -> None:
    """Its machine was set back to a snapshot; nothing is written that it could refuse."""
    pair.join()
    older = pair.follower._database.all()
    write(pair.store, "acknowledged")
    pair.follower._database.write([(key, None) for key, _ in pair.follower._database.all()])
    pair.follower._database.write(older)
    known: list[bool] = []

    def passed(operation: str) -> None:
        if operation == "before begin":
            known.append(pair.witness.vote.in_sync)

    pair.to_standby.passed = passed
    pair.primary.keep_in_step(pair.store.database)
    assert known == [False]
    mine, theirs = records(pair)
    assert mine == theirs
    assert pair.primary.status()["in_sync"]


def test_a_write_on_its_way_leaves_the_standby_in_step(pair: InMemoryPair) -> None:
    """The standby is ahead of the primary's store by it, or it comes between two looks at that."""
    pair.join()
    write(pair.store, "one")
    begun = pair.to_standby.sent.count("files")

    def keep(passed: str) -> None:
        if passed == "after write":
            pair.to_standby.passed = lambda operation: None
            pair.primary.keep_in_step(pair.store.database)

    pair.to_standby.passed = keep
    write(pair.store, "two")

    def write_meanwhile(passed: str) -> None:
        if passed == "after renew":
            pair.to_standby.passed = lambda operation: None
            write(pair.store, "three")
            write(pair.store, "four")

    pair.to_standby.passed = write_meanwhile
    pair.primary.keep_in_step(pair.store.database)
    assert pair.to_standby.sent.count("files") == begun


def test_a_late_part_of_a_former_copy_is_refused(pair: InMemoryPair) -> None:
    pair.join()
    header = {"epoch": 1, "url": "", "copy": "former"}
    with pytest.raises(Refused, match="was abandoned"):
        pair.follower.handle("records", header, b"")


def test_a_store_that_is_written_alone_is_not_taken_for_a_copy(pair: InMemoryPair, tmp_path: Path) -> None:
    """A server was started on the standby's directory without its pair."""
    pair.join()
    pair.follower.close()
    with Store(tmp_path / "standby") as store:
        assert store.database.get(POSITION_KEY) is None
    pair.follower = Follower(tmp_path / "standby", pair.timing, pair.clock)
    assert not pair.follower.is_complete
    pair.join()
    assert pair.follower.is_complete


def test_a_store_of_another_is_not_overwritten(tmp_path: Path) -> None:
    with Store(tmp_path / "standby") as other:
        write(other, "precious")
    pair = InMemoryPair(tmp_path)
    (code := tmp_path / "primary" / "artifacts" / ("a" * 64)).mkdir(parents=True)
    (code / "job.py").write_text("")
    with pytest.raises(NoAnswer, match="is another one than the primary's"):
        pair.primary.keep_in_step(pair.store.database)
    pair.close()
    with Store(tmp_path / "standby") as other:
        assert messages(other) == ["precious"]
    assert not (tmp_path / "standby" / "artifacts").exists()


def test_files_come_before_the_write_that_names_them(pair: InMemoryPair, tmp_path: Path) -> None:
    small, large = b"1", b"x" * (3 << 20)
    mine, theirs = (tmp_path / name / "artifacts" for name in ("primary", "standby"))

    def place(directory: Path, content: bytes) -> Path:
        return directory / hashlib.sha256(content).hexdigest() / "job.jar"

    place(mine, small).parent.mkdir(parents=True)
    place(mine, small).write_bytes(small)
    pair.join()
    assert place(theirs, small).read_bytes() == small
    place(mine, large).parent.mkdir(parents=True)
    place(mine, large).write_bytes(large)
    write(pair.store, "names it")
    assert place(theirs, large).read_bytes() == large
    assert pair.primary.status()["in_sync"]


@pytest.mark.parametrize("name", ["../x", "artifacts/../x", "pair.json", "artifacts/" + "a" * 64 + "/.."])
def test_no_other_file_is_written(pair: InMemoryPair, name: str) -> None:
    header = {"epoch": 1, "url": "", "name": name, "offset": 0, "last": True, "sha256": ""}
    with pytest.raises(Exception, match="is no file of a store"):
        pair.follower.handle("file", header, b"")


def test_a_witness_that_starts_again_knows(pair: InMemoryPair, tmp_path: Path) -> None:
    pair.join()
    again = Witness(tmp_path / "witness.json", pair.timing, pair.clock)
    assert again.vote == pair.witness.vote
    with pytest.raises(Refused, match="the primary is in contact"):
        again.handle("claim", {"epoch": 1, "holder": "b", "url": "", "first": False}, b"")


def test_any_faults_of_the_wires_lose_nothing(tmp_path: Path) -> None:
    """Acknowledged writes are in the store of the primary, and at most one server is the primary."""
    for seed in range(3):
        chance = random.Random(seed)
        pair = InMemoryPair(tmp_path / str(seed))
        acknowledged: list[str] = []
        for number in range(25):
            for wire in (pair.to_standby, pair.to_witness):
                wire.broken, wire.mute = chance.random() < 0.2, chance.random() < 0.1
            pair.clock.now += chance.choice((0.1, 1.0))
            with_faults(pair, chance)
            try:
                write(pair.store, str(number))
            except StoreError:
                continue
            acknowledged.append(str(number))
        pair.to_standby.broken = pair.to_standby.mute = False
        pair.to_witness.broken = pair.to_witness.mute = False
        pair.clock.now += 5.1
        try:
            with pair.take_over() as store:
                found = messages(store)
        except Refused:
            found = messages(pair.store)
        assert [each for each in found if each in acknowledged] == acknowledged, seed
        pair.close()


def with_faults(pair: InMemoryPair, chance: random.Random) -> None:
    for work in (pair.primary.renew_at_witness, lambda: pair.primary.keep_in_step(pair.store.database)):
        if chance.random() < 0.7:
            with contextlib.suppress(NoAnswer, Refused):
                work()


# --- the standby's end


def test_a_write_that_does_not_follow_is_refused(pair: InMemoryPair) -> None:
    pair.join()
    header = {"epoch": 1, "url": "", "before": "1.other", "after": "1.next"}
    with pytest.raises(Refused, match="not in step"):
        pair.follower.handle("write", header, b"")
    assert pair.follower._database.get(POSITION_KEY) != b"1.next"


def test_a_former_primary_is_refused(pair: InMemoryPair) -> None:
    pair.follower.handle("renew", {"epoch": 2, "url": ""}, b"")
    with pytest.raises(Refused, match=r"epoch 1 is over \(epoch 2\)") as error:
        pair.follower.handle("renew", {"epoch": 1, "url": ""}, b"")
    assert error.value.epoch == 2


def test_nothing_is_taken_while_the_next_epoch_is_asked_for(pair: InMemoryPair) -> None:
    pair.join()
    pair.clock.now += 5.1

    def claim() -> int:
        with pytest.raises(Refused, match="asks to be the primary"):
            pair.follower.handle("renew", {"epoch": 1, "url": ""}, b"")
        raise NoAnswer("the answer is lost")

    assert pair.follower.take_over(claim) is None
    pair.follower.handle("renew", {"epoch": 1, "url": ""}, b"")  # it follows again


def test_a_write_without_the_copy_loses_the_position(tmp_path: Path) -> None:
    with closing(Database(tmp_path)) as database:
        database.write([(POSITION_KEY, b"1.a")])
        assert database.get(POSITION_KEY) == b"1.a"
        database.write([(b"job/x", b"")])
        assert database.get(POSITION_KEY) is None
