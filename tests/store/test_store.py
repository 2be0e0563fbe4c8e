"""The store against real LevelDB."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from speck.core.job import Job
from speck.core.placement import Expects, PlacementOptions
from speck.core.runtime import Attempt, Handle, State
from speck.core.settings import HistoryBounds
from speck.errors import NotFound, StoreError, StoreLocked
from speck.store import (
    AttemptRecord,
    DeletedComposition,
    Event,
    Head,
    Intent,
    JobRecord,
    Revision,
    SessionRecord,
    Store,
)
from speck.store import store as store_module
from speck.store.leveldb.database import Database
from speck.testing.waiting import eventually
from testbed.benches.jobs_by_hand import make_job


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store") as opened:
        yield opened


def revision(number: int, *jobs: Job) -> Revision:
    jobs_by_name = {job.job_name: job for job in jobs}
    return Revision("traffic", number, 12.5, jobs_by_name, "ann", "why", 2, (1, 0, 3))


def attempt(number: int, job: str = "a") -> Attempt:
    return Attempt(
        id=f"{number:032x}", job_name=job, number=number, session="speck-a", state=State("kind", "place")
    )


def test_the_options_of_placement_are_kept_with_a_revision_and_jobs_with_their_sites(tmp_path: Path) -> None:
    expects = Expects(rate=500.0, cost=2e-5)
    placed = make_job("a", sites=("A", "D"), placed=("spe_address",), apart=("b",), expects=expects)
    options = PlacementOptions(mode="auto", max_age=2.0, min_gain=0.1, group=4)
    written = [revision(1, placed), replace(revision(2, placed), placement=options)]
    written.append(replace(revision(3), placement=PlacementOptions()))
    with Store(tmp_path / "s") as store, store.transaction() as transaction:
        for each in written:
            transaction.put_revision(each)
    with Store(tmp_path / "s") as store:
        assert [store.revision("traffic", each.number) for each in written] == written


def test_everything_written_is_read_again_after_reopening(tmp_path: Path) -> None:
    head = Head("traffic", 3, deleting=True, left_behind=("sc://e", "tcp://b"), give_up=True)
    job = make_job("a", arguments={"window": "1 minute", "k": 3}, labels={"team": "ö"}, code_hash="ab" * 32)
    sessions = (SessionRecord("tcp://b", "speck-a", "t"),)
    record = JobRecord(
        "a", "traffic", 7, sessions, State("k", "l"), "bad", state_source="00" * 16, unmade_sessions=sessions
    )
    running = AttemptRecord(attempt(7), 3, "running", Handle("sc://e", "id", {"run": "x"}))
    intended = AttemptRecord(attempt(8), 3)
    event = Event(1.5, "started", "said", "traffic", "a", "op")
    intents = (Intent("a", "start", "new"), Intent("b", "stop", "gone"))
    accepted = Event(1.0, "accepted", "said", "traffic", "", "op", "ann", "why", intents)
    with Store(tmp_path / "s") as store, store.transaction() as transaction:
        transaction.put_head(head)
        transaction.put_revision(revision(3, job))
        transaction.put_job(record)
        transaction.put_attempt(running)
        transaction.put_attempt(intended)
        transaction.put_operation("op", {"state": "running"})
        transaction.add_event(accepted)
        transaction.add_event(event)
    with Store(tmp_path / "s") as store:
        assert store.heads() == [head]
        assert store.revision("traffic", 3) == revision(3, job)
        assert store.jobs() == [record]
        assert store.attempts() == [running, intended]
        assert store.operation("op") == {"state": "running"}
        assert store.events() == [accepted, event]


@pytest.mark.parametrize(
    "text",
    [
        "0123456789abcdef0123456789abcdef",
        "01234567-89ab-cdef-0123-456789abcdef",
        "ünd 01234567-89ab-cdef-0123-456789abcdef/0123456789abcdef0123456789abcdef.",
        "0123456789ABCDEF0123456789ABCDEF",
        "fe" * 16 + "-" + "ff" * 16,
        "ab" * 32,
    ],
)
def test_ids_are_written_short_and_read_as_they_were(store: Store, text: str) -> None:
    event = Event(1.0, text, text * 2, text)
    with store.transaction() as transaction:
        transaction.add_event(event)
        transaction.put_attempt(AttemptRecord(attempt(1), 1, "running", Handle("sc://e", text, {text: text})))
    assert store.events() == [event]
    assert store.attempts()[0].handle == Handle("sc://e", text, {text: text})


def test_transaction_that_fails_writes_nothing(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.transaction() as transaction:
        transaction.put_head(Head("traffic", 1))
        raise ZeroDivisionError
    assert store.heads() == []


@pytest.mark.parametrize("error", [MemoryError("no memory"), TypeError("a defect"), KeyboardInterrupt()])
def test_a_write_that_breaks_off_is_done_for_nobody_who_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def breaks_off(changes: object) -> None:
        raise error

    database = Database(tmp_path / "db")
    monkeypatch.setattr(database, "_write_batch", breaks_off)
    with ThreadPoolExecutor(2) as threads:
        with database.paused():
            writes = [threads.submit(database.write, [(key, b"1")]) for key in (b"a", b"b")]
            eventually(database._queue.qsize, lambda size: size == 2)
        failures = [each.exception(30) for each in writes]
    assert None not in failures
    assert any(isinstance(each, StoreError) for each in failures)
    monkeypatch.undo()
    database.write([(b"c", b"1")])
    assert [database.get(key) for key in (b"a", b"b", b"c")] == [None, None, b"1"]
    database.close()


def test_no_part_of_a_write_that_breaks_off_is_on_disk(tmp_path: Path) -> None:
    database = Database(tmp_path / "db")
    with pytest.raises(StoreError, match="a write broke off"):
        database.write([(b"a", b"1"), (b"b", "no bytes")])  # type: ignore[list-item]
    database.write([(b"c", b"1")])
    assert [database.get(key) for key in (b"a", b"b", b"c")] == [None, None, b"1"]
    database.close()


def test_jobs_and_attempts_of_one(store: Store) -> None:
    with store.transaction() as transaction:
        for name, composition in (("a", "x"), ("ab", "x"), ("b", "y")):
            transaction.put_job(JobRecord(name, composition))
            transaction.put_attempt(AttemptRecord(attempt(1, name), 1))
    assert [each.name for each in store.jobs("x")] == ["a", "ab"]
    assert [each.attempt.job_name for each in store.attempts("a")] == ["a"]


def test_a_deleted_composition_is_forgotten_with_its_revisions(store: Store) -> None:
    with store.transaction() as transaction:
        transaction.put_head(Head("traffic", 1))
        transaction.put_revision(revision(1))
    assert store.revision("traffic", 1).number == 1
    with store.transaction() as transaction:
        transaction.put_deleted(DeletedComposition("traffic", 1, 2.5, "ann", "enough", "f" * 20))
    assert store.head("traffic") is None
    assert store.revision("traffic", 1).number == 1
    assert store.deleted("traffic") == DeletedComposition("traffic", 1, 2.5, "ann", "enough", "f" * 20)
    assert [each.name for each in store.deletions()] == ["traffic"]
    with store.transaction() as transaction:
        transaction.forget_composition("traffic")
    assert store.deleted("traffic") is None
    with pytest.raises(NotFound, match="no revision 1"):
        store.revision("traffic", 1)


def test_audit_log_is_bounded_and_keeps_its_order(tmp_path: Path) -> None:
    with Store(tmp_path / "store", HistoryBounds(events=5)) as store:
        for number in range(12):
            with store.transaction() as transaction:
                transaction.add_event(Event(number, "k", str(number)))
        assert [each.message for each in store.events()] == ["7", "8", "9", "10", "11"]
        assert [each.message for each in store.events(2)] == ["10", "11"]
        assert [each.message for each in store.events(2, lambda each: each.at < 10)] == ["8", "9"]


def test_a_lower_bound_holds_for_the_events_that_are_there_too(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        for number in range(10):
            store.add_events([Event(1.0, "started", f"{number}", automatic=number % 2 == 1)])
    bounds = HistoryBounds(events=3, loop_events=2)
    with Store(tmp_path / "store", bounds) as store:
        store.add_events([Event(1.0, "started", "10")])
        assert [each.message for each in store.events()] == ["6", "7", "8", "9", "10"]
    with Store(tmp_path / "store", bounds) as store:
        store.add_events([Event(1.0, "started", "11", automatic=True)])
        assert [each.message for each in store.events()] == ["6", "8", "9", "10", "11"]


def test_the_events_within_a_bound_are_not_read_at_the_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path / "store") as store:
        store.add_events(Event(1.0, "k", f"{number}") for number in range(50))
    numbers = list[int]()

    def noted(key: bytes) -> int:
        numbers.append(int(key.rpartition(b"/")[2]))
        return numbers[-1]

    monkeypatch.setattr(store_module, "_number_in", noted)
    with Store(tmp_path / "store", HistoryBounds(events=48)):
        assert numbers == [0, 1, 2]


def test_oldest_operations_are_forgotten(tmp_path: Path) -> None:
    with Store(tmp_path / "store", HistoryBounds(operations=2)) as store:
        with store.transaction() as transaction:
            for number in range(5):
                transaction.put_operation(f"{number}", {"n": number})
        store.trim_operations(spared={"1"})
        assert [each["n"] for each in store.operations()] == [1, 3, 4]


def test_second_process_is_told_who_holds_the_store(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from speck.store import Store\n"
        "store = Store(Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "open\n"
            with pytest.raises(StoreLocked, match=f"is held by process {holder.pid};"):
                Store(tmp_path)
        finally:
            holder.kill()
    Store(tmp_path).close()  # a killed owner leaves nothing that keeps others out


def test_errors_name_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="file/store' cannot be opened"):
        Store(tmp_path / "file" / "store")
    store = Store(tmp_path / "store")
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.heads()


def test_store_of_another_format_is_refused(tmp_path: Path) -> None:
    import plyvel

    with plyvel.DB(str(tmp_path), create_if_missing=True) as database:
        database.put(b"meta/format", b"99")
    with pytest.raises(StoreError, match="has format '99', this SpecK reads '1'"):
        Store(tmp_path)


def test_attempts_come_by_their_numbers_however_many_digits_these_have(store: Store) -> None:
    numbers = [7, 10**10 - 1, 10**10, 10**12]
    with store.transaction() as transaction:
        for job, number in ((job, number) for job in ("b", "a") for number in reversed(numbers)):
            transaction.put_attempt(AttemptRecord(attempt(number, job), 1))
    assert [each.attempt.number for each in store.attempts("a")] == numbers
    found = [(each.attempt.job_name, each.attempt.number) for each in store.attempts()]
    assert found == [(job, number) for job in "ab" for number in numbers]
    with store.transaction() as transaction:
        transaction.delete_attempt(attempt(10**12, "a"))
    assert [each.attempt.number for each in store.attempts("a")] == numbers[:-1]
