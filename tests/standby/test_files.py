"""The files of a primary at its standby: sent before a write names them, and deleted once none does."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import NoReturn

import pytest

from speck.standby import follower
from speck.standby.files import NewFiles
from speck.standby.follower import Follower
from speck.standby.messages import Answer, Header, NoAnswer, Refused
from speck.store import Event
from speck.store.artifacts import hash_of
from speck.store.served_files import BEGINNINGS, ServedFiles
from testbed.benches.pair import InMemoryPair

LARGE = b"x" * (3 << 20)
OTHER = b"y" * 10


@pytest.fixture(name="pair")
def pair_fixture(tmp_path: Path) -> Iterator[InMemoryPair]:
    pair = InMemoryPair(tmp_path)
    pair.join()
    yield pair
    pair.close()


def write(pair: InMemoryPair, message: str = "written") -> None:
    with pair.store.transaction() as transaction:
        transaction.add_event(Event(1.0, "started", message))


def name_of(content: bytes) -> str:
    return f"artifacts/{hashlib.sha256(content).hexdigest()}/job.jar"


def put(pair: InMemoryPair, content: bytes) -> None:
    """Store a file at the primary."""
    path = pair.directory / "primary" / name_of(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def place(pair: InMemoryPair, content: bytes) -> None:
    """Store a file at the primary, and have it sent before."""
    sha256 = hashlib.sha256(content).hexdigest()
    with pair.primary.placing(name_of(content), lambda: BytesIO(content), sha256):
        put(pair, content)


def remove(pair: InMemoryPair, content: bytes) -> None:
    path = pair.directory / "primary" / name_of(content)
    path.unlink()
    path.parent.rmdir()


def at_standby(pair: InMemoryPair, content: bytes) -> bool:
    path = pair.directory / "standby" / name_of(content)
    return path.exists() and path.read_bytes() == content


def clean(pair: InMemoryPair, named: Callable[[], set[str]] = set) -> None:
    pair.primary.delete_gone(named)


def at(pair: InMemoryPair, step: str, work: Callable[[], object]) -> None:
    """Do something at the first passing of a step."""

    def passed(operation: str) -> None:
        if operation == step:
            pair.to_standby.passed = lambda operation: None
            work()

    pair.to_standby.passed = passed


# --- sending


def test_a_large_file_holds_up_no_write(pair: InMemoryPair) -> None:
    locked: list[bool] = []

    def passed(operation: str) -> None:
        if operation == "before file":
            locked.append(pair.store.database._writing.locked())

    files = ServedFiles(pair.directory / "primary", "http://here", pair.primary)
    files.token("any")  # makes the secret
    write(pair)
    pair.to_standby.passed = passed
    artifact = files.offer("job.jar", LARGE)
    write(pair)
    assert len(locked) > 4
    assert not any(locked)
    assert (pair.directory / "standby" / "served" / artifact.sha256 / "job.jar").read_bytes() == LARGE


def test_others_write_while_a_file_is_sent(pair: InMemoryPair) -> None:
    at(pair, "after file", lambda: write(pair, "meanwhile"))
    place(pair, LARGE)
    assert pair.primary.status()["in_sync"]
    assert at_standby(pair, LARGE)
    assert pair.to_standby.sent.count("write") == 1


def test_who_needs_a_file_that_is_on_its_way_waits_for_it(pair: InMemoryPair) -> None:
    """Two changes have the same new code."""
    with ThreadPoolExecutor(1) as pool:
        second: list[Future[None]] = []

        def begin() -> None:
            second.append(pool.submit(place, pair, LARGE))
            with pytest.raises(TimeoutError):
                second[0].result(0.2)

        at(pair, "after file", begin)
        place(pair, LARGE)
        second[0].result(10)
    assert pair.to_standby.sent.count("file") == len(LARGE) // (256 << 10)
    assert at_standby(pair, LARGE)


def test_a_file_that_cannot_be_sent_is_not_tried_again_with_the_write(pair: InMemoryPair) -> None:
    at(pair, "after file", lambda: setattr(pair.to_standby, "broken", True))
    place(pair, LARGE)
    pair.to_standby.broken = False
    sent = len(pair.to_standby.sent)
    write(pair)
    assert pair.to_standby.sent[sent:] == []
    assert not pair.witness.vote.in_sync
    pair.join()
    assert at_standby(pair, LARGE)
    assert pair.primary.status()["in_sync"]


def test_code_that_is_changed_on_its_way_is_not_sent(pair: InMemoryPair) -> None:
    """The part that stores it reports that; the standby stays in step."""
    sha256 = hashlib.sha256(LARGE).hexdigest()
    with pair.primary.placing(name_of(LARGE), lambda: BytesIO(LARGE + b"more"), sha256):
        pass
    assert not at_standby(pair, LARGE)
    assert pair.primary.status()["in_sync"]


def test_code_that_cannot_be_read_leaves_the_standby_in_step(pair: InMemoryPair) -> None:
    def missing() -> NoReturn:
        raise FileNotFoundError("job.jar")

    with pair.primary.placing(name_of(LARGE), missing, "0" * 64):
        pass
    assert pair.primary.status()["in_sync"]


def test_a_file_that_comes_while_records_are_copied_is_sent_before_the_lock(pair: InMemoryPair) -> None:
    pair.to_standby.broken = True
    write(pair, "alone")
    pair.to_standby.broken = False
    locked: list[bool] = []

    def passed(operation: str) -> None:
        if operation == "after records":
            put(pair, LARGE)
        if operation == "before file":
            locked.append(pair.store.database._writing.locked())

    pair.to_standby.passed = passed
    pair.primary.keep_in_step(pair.store.database)
    assert locked
    assert not any(locked)
    assert at_standby(pair, LARGE)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_standby_that_comes_back_amid_a_file_is_not_sent_it_again(
    pair: InMemoryPair, restarts: bool
) -> None:
    """A write was too slow beside it; the list of the standby's files does not have this one yet."""

    def come_back() -> None:
        pair.to_standby.broken = True
        write(pair, "alone")
        pair.to_standby.broken = False
        if restarts:
            pair.follower.close()
            pair.follower = Follower(pair.directory / "standby", pair.timing, pair.clock)
        pair.primary.keep_in_step(pair.store.database)
        assert pair.primary.status()["in_sync"]

    at(pair, "after file", come_back)
    place(pair, LARGE)
    assert pair.primary.status()["in_sync"] is not restarts  # a new process has no pieces of it
    pair.join()
    write(pair)
    assert at_standby(pair, LARGE)
    assert pair.to_standby.sent.count("file") == len(LARGE) // (256 << 10) + (2 if restarts else 0)


def test_a_standby_comes_in_step_after_a_file_that_was_not_sent_before(pair: InMemoryPair) -> None:
    """It was begun to be stored while the standby was away: the next write would wait for it."""
    pair.to_standby.broken = True
    write(pair, "alone")
    sha256 = hashlib.sha256(LARGE).hexdigest()
    with pair.primary.placing(name_of(LARGE), lambda: BytesIO(LARGE), sha256):
        pair.to_standby.broken = False
        with pytest.raises(NoAnswer, match="is being stored, and was not sent yet"):
            pair.primary.keep_in_step(pair.store.database)
        put(pair, LARGE)
    pair.primary.keep_in_step(pair.store.database)
    assert pair.primary.status()["in_sync"]
    assert at_standby(pair, LARGE)


def test_the_disk_of_the_standby_holds_up_no_write(
    pair: InMemoryPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of 100 MiB takes seconds there."""
    locked: list[bool] = []

    def noted(path: Path, work: Callable[[Path], object]) -> object:
        locked.append(pair.follower._guard.locked())
        return work(path)

    for name in ("hash_of", "sync_file"):
        work = getattr(follower, name)
        monkeypatch.setattr(follower, name, lambda path, work=work: noted(path, work))
    place(pair, LARGE)
    assert len(locked) >= len(LARGE) // (256 << 10)
    assert not any(locked)


def test_a_file_with_a_long_name_is_copied(pair: InMemoryPair) -> None:
    name = "j" * 251 + ".jar"
    ServedFiles(pair.directory / "primary", "http://here", pair.primary).offer(name, OTHER)
    write(pair)
    assert pair.primary.status()["in_sync"]
    assert list((pair.directory / "standby" / "served").glob(f"*/{name}"))


def test_a_second_try_does_not_harm_what_is_put_in_place(
    pair: InMemoryPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender has given up while the standby's disk is slow."""
    sha256 = hashlib.sha256(OTHER).hexdigest()
    header = {"epoch": 1, "url": "", "name": name_of(OTHER), "offset": 0}

    def slow(path: Path) -> str | None:
        found = hash_of(path)
        pair.follower.handle("file", header | {"last": False, "sha256": ""}, OTHER[:1])
        return found

    monkeypatch.setattr(follower, "hash_of", slow)
    pair.follower.handle("file", header | {"last": True, "sha256": sha256}, OTHER)
    assert at_standby(pair, OTHER)


def test_pieces_of_a_former_process_are_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "standby" / "artifacts" / ("a" * 64)
    folder.mkdir(parents=True)
    (folder / ".speck-scratch-1").write_text("")
    pair = InMemoryPair(tmp_path)
    assert not list(folder.iterdir())
    pair.close()


# --- deleting


def test_what_the_primary_deletes_is_deleted_at_the_standby(pair: InMemoryPair) -> None:
    place(pair, LARGE)
    place(pair, OTHER)
    remove(pair, OTHER)
    clean(pair)
    assert at_standby(pair, LARGE)
    assert not (pair.directory / "standby" / name_of(OTHER)).parent.exists()
    place(pair, OTHER)
    assert at_standby(pair, OTHER)


def test_what_was_deleted_before_the_standby_came_is_deleted(tmp_path: Path) -> None:
    pair = InMemoryPair(tmp_path)
    path = tmp_path / "standby" / name_of(OTHER)
    path.parent.mkdir(parents=True)
    path.write_bytes(OTHER)
    (tmp_path / "standby" / "secret").write_bytes(b"of a former primary")
    clean(pair)
    assert path.exists()
    pair.join()
    clean(pair)
    assert not path.exists()
    assert (tmp_path / "standby" / "secret").exists()
    pair.close()


def test_code_of_a_change_that_is_refused_is_deleted_again(pair: InMemoryPair) -> None:
    sha256 = hashlib.sha256(OTHER).hexdigest()
    with (
        pytest.raises(ValueError, match="refused"),
        pair.primary.placing(name_of(OTHER), lambda: BytesIO(OTHER), sha256),
    ):
        clean(pair)
        assert at_standby(pair, OTHER)
        raise ValueError("refused")
    clean(pair)
    assert not at_standby(pair, OTHER)


def test_code_that_records_name_stays_though_the_primary_has_lost_it(pair: InMemoryPair) -> None:
    place(pair, OTHER)
    remove(pair, OTHER)
    clean(pair, lambda: {hashlib.sha256(OTHER).hexdigest()})
    assert at_standby(pair, OTHER)


def test_a_file_that_comes_again_while_it_is_to_be_deleted_stays(pair: InMemoryPair) -> None:
    """It is stored, and named by a write, between the look at the files and the deletion."""
    place(pair, OTHER)
    remove(pair, OTHER)

    def named() -> set[str]:
        place(pair, OTHER)
        write(pair)
        return set()

    clean(pair, named)
    assert at_standby(pair, OTHER)
    assert "delete" not in pair.to_standby.sent


def test_a_file_that_comes_again_while_it_is_deleted_is_sent_again(pair: InMemoryPair) -> None:
    place(pair, OTHER)
    remove(pair, OTHER)
    with ThreadPoolExecutor(1) as pool:
        second: list[Future[None]] = []

        def begin() -> None:
            second.append(pool.submit(place, pair, OTHER))
            with pytest.raises(TimeoutError):
                second[0].result(0.2)

        at(pair, "before delete", begin)
        clean(pair)
        second[0].result(10)
    write(pair)
    assert at_standby(pair, OTHER)


def test_a_deletion_that_comes_late_deletes_nothing(pair: InMemoryPair) -> None:
    """Its sender has given up, and has sent the file again; or has asked for the files again."""
    place(pair, OTHER)
    remove(pair, OTHER)
    late: list[Header] = []
    target = pair.to_standby.target

    def held_back(operation: str, header: Header, payload: bytes) -> Answer:
        if operation == "delete":
            late.append(dict(header))
            pair.to_standby.mute = True
            return {}
        return target(operation, header, payload)

    pair.to_standby.target = held_back
    with pytest.raises(Exception, match="the answer is lost"):
        clean(pair)
    pair.to_standby.mute, pair.to_standby.target = False, target
    place(pair, OTHER)
    with pytest.raises(Refused, match="a later request about files"):
        pair.follower.handle("delete", late[0], b"")
    assert at_standby(pair, OTHER)
    remove(pair, OTHER)
    clean(pair)
    assert not at_standby(pair, OTHER)


def test_a_deletion_that_failed_is_tried_again(pair: InMemoryPair) -> None:
    place(pair, OTHER)
    remove(pair, OTHER)
    pair.to_standby.broken = True
    with pytest.raises(Exception, match="the wire is broken"):
        clean(pair)
    pair.to_standby.broken = False
    clean(pair)
    assert not at_standby(pair, OTHER)


def test_nothing_is_deleted_at_a_standby_that_is_not_in_step(pair: InMemoryPair) -> None:
    """Its records may name what is gone here."""
    place(pair, OTHER)
    remove(pair, OTHER)

    def go_apart() -> set[str]:
        pair.to_standby.broken = True
        write(pair)
        pair.to_standby.broken = False
        return set()

    clean(pair, go_apart)
    assert at_standby(pair, OTHER)
    clean(pair)
    assert at_standby(pair, OTHER)
    at(pair, "after records", lambda: clean(pair))  # while it is copied again
    pair.primary.keep_in_step(pair.store.database)
    assert at_standby(pair, OTHER)
    clean(pair)
    assert not at_standby(pair, OTHER)


def test_a_change_amid_a_new_copy_keeps_its_code(pair: InMemoryPair) -> None:
    """It deletes one file and brings one that was deleted before."""
    place(pair, OTHER)
    place(pair, LARGE)
    remove(pair, OTHER)
    pair.to_standby.broken = True
    write(pair, "alone")
    pair.to_standby.broken = False

    def change() -> None:
        place(pair, OTHER)
        write(pair, "names it")
        remove(pair, LARGE)
        clean(pair)

    at(pair, "after records", change)
    pair.primary.keep_in_step(pair.store.database)
    assert pair.primary.status()["in_sync"]
    clean(pair)
    assert at_standby(pair, OTHER)
    assert not at_standby(pair, LARGE)
    assert pair.store.database.all() == pair.follower._database.all()


@pytest.mark.parametrize("name", ["secret", "pair.json", "../x", "artifacts/../x"])
def test_nothing_else_is_deleted(pair: InMemoryPair, name: str) -> None:
    header = {"epoch": 1, "url": "", "names": [name], "number": 1000}
    with pytest.raises(Exception, match="is no file that may be deleted"):
        pair.follower.handle("delete", header, b"")


def test_a_standby_of_an_earlier_version_is_asked_for_no_deletion(pair: InMemoryPair) -> None:
    target = pair.to_standby.target

    def earlier(operation: str, header: Header, payload: bytes) -> Answer:
        return {key: each for key, each in target(operation, header, payload).items() if key != "deletes"}

    pair.to_standby.broken = True
    write(pair)
    pair.to_standby.broken, pair.to_standby.target = False, earlier
    place(pair, OTHER)
    pair.join()
    remove(pair, OTHER)
    clean(pair)
    assert "delete" not in pair.to_standby.sent


def test_a_standby_does_not_know_when_attempts_began(tmp_path: Path) -> None:
    (tmp_path / "standby" / "served").mkdir(parents=True)
    (tmp_path / "standby" / BEGINNINGS).touch()
    pair = InMemoryPair(tmp_path)
    assert not (tmp_path / "standby" / BEGINNINGS).exists()
    pair.close()


def test_a_folder_that_changed_a_moment_ago_is_looked_at_again(tmp_path: Path) -> None:
    """A file that comes within one tick of the clock leaves the folder's time as it was."""
    files = NewFiles(tmp_path)
    (folder := tmp_path / "artifacts" / ("a" * 64)).mkdir(parents=True)
    assert [files.may_differ() for _ in range(2)] == [True, True]
    for path in (folder, folder.parent):
        os.utime(path, (1, 1))
    assert [files.may_differ() for _ in range(2)] == [True, False]
