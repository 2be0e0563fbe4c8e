"""A store whose disk is full, whose directory cannot be written, or whose files were harmed."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from speck import cli
from speck.apply.operation import Operation
from speck.client import RequestRefused
from speck.coordinator import build
from speck.core.change import Request
from speck.core.settings import Settings
from speck.errors import StoreDamaged, StoreFull
from speck.store import Head, JobRecord, Revision, Store
from speck.store.maintenance.contents import Contents
from speck.store.maintenance.integrity import findings
from testbed.benches.jobs_by_hand import make_job, write_code
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from testbed.servers.rest import RestServer, yaml_of

TRANSACTIONS = 30


@contextlib.contextmanager
def full_disk(limit: int = 48 * 1024) -> Iterator[None]:
    """No file of this process grows beyond so many bytes: a write then fails half way, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def write(store: Store, number: int) -> None:
    """One transaction: a revision, the head that names it, and some bulk that compresses badly."""
    job = make_job("a", arguments={"bulk": os.urandom(400).hex()})
    with store.transaction() as transaction:
        transaction.put_revision(Revision("traffic", number, 1.0, {"a": job}))
        transaction.put_head(Head("traffic", number))
        transaction.put_job(JobRecord("a", "traffic"))


def whole(store: Store) -> int:
    """The number of transactions there: the first so many, each of them whole."""
    head = store.head("traffic") or Head("traffic", 0)
    assert store.revision_numbers("traffic") == list(range(1, head.revision + 1))
    assert all(store.revision("traffic", number).jobs for number in range(1, head.revision + 1))
    return head.revision


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a store as a crash leaves it."""
    place = tmp_path_factory.mktemp("killed")
    with Store(place / "live") as store:
        for number in range(1, TRANSACTIONS + 1):
            write(store, number)
        shutil.copytree(place / "live", place / "store")
    return place / "store"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a store that was closed; it has tables and a log."""
    place = tmp_path_factory.mktemp("closed") / "store"
    with Store(place) as store:
        for number in range(1, TRANSACTIONS):
            write(store, number)
        store.compact()
        write(store, TRANSACTIONS)
    return place


def harmed(directory: Path, copy: Path, name: str, harm: str) -> Path:
    """A copy in which one file is cut, garbled, emptied or gone."""
    shutil.copytree(directory, copy)
    (path,) = copy.glob(name)
    content = path.read_bytes()
    match harm:
        case "cut":
            path.write_bytes(content[:-3])
        case "empty":
            path.write_bytes(b"")
        case "garbled":
            middle = len(content) // 2
            path.write_bytes(content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :])
        case "gone":
            path.unlink()
    return copy


# --- harm


@pytest.mark.parametrize("part", [0.0, 0.001, 0.1, 0.35, 0.5, 0.77, 0.999])
def test_log_cut_anywhere_by_a_crash_loses_whole_transactions_at_its_end(
    killed: Path, tmp_path: Path, part: float
) -> None:
    copy = shutil.copytree(killed, tmp_path / "copy")
    (log,) = copy.glob("*.log")
    os.truncate(log, int(log.stat().st_size * part))
    with Store(copy) as store:
        there = whole(store)
        assert there <= TRANSACTIONS * part
        assert findings(Contents.of(store.records())) == []
        write(store, there + 1)
        assert whole(store) == there + 1


@pytest.mark.parametrize("harm", ["cut", "garbled", "empty", "gone"])
@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*", "*.ldb", "*.log"])
def test_harm_to_a_closed_store_is_told_and_nothing_is_touched(
    closed: Path, tmp_path: Path, name: str, harm: str
) -> None:
    copy = harmed(closed, tmp_path / "copy", name, harm)
    before = {path.name: path.stat().st_size for path in copy.glob("*.ldb")}
    with pytest.raises(StoreDamaged, match=r"is damaged: .*speck store repair") as reported:
        Store(copy)
    assert "\n" not in str(reported.value)
    assert before.items() <= {path.name: path.stat().st_size for path in copy.glob("*.ldb")}.items()


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("CURRENT", "gone"),
        ("MANIFEST-*", "cut"),
        ("MANIFEST-*", "garbled"),
        ("*.log", "garbled"),
        ("*.log", "gone"),
    ],
)
def test_harm_to_a_store_that_was_killed_is_told(killed: Path, tmp_path: Path, name: str, harm: str) -> None:
    copy = harmed(killed, tmp_path / "copy", name, harm)
    if (name, harm) == ("MANIFEST-*", "cut"):
        os.truncate(next(copy.glob(name)), 10)
    with pytest.raises(StoreDamaged, match="is damaged"):
        Store(copy)


_KILLED_WHILE_OPENING = """
import os, signal, sys
from pathlib import Path
import plyvel
from speck.store import Store
original = plyvel.DB
def opened(*arguments, **named):
    database = original(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)
    return database
plyvel.DB = opened
Store(Path(sys.argv[1]))
"""


def test_server_killed_while_it_opens_its_store_leaves_no_damage(closed: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(closed, tmp_path / "copy")
    command = [sys.executable, "-c", _KILLED_WHILE_OPENING, str(copy)]
    assert subprocess.run(command, check=False, timeout=60).returncode == -9
    with Store(copy) as store:
        assert whole(store) == TRANSACTIONS


def test_record_that_makes_no_sense_is_named_and_the_rest_is_served(rest: RestServer) -> None:
    rest.client.apply(yaml_of("a t0 t1").encode(), "demo", wait=30)
    rubbish = [(b"composition/other", b"{"), (b"revision/demo/0000000002", b"no")]
    rest.coordinator.store._database.write(rubbish)
    answer = requests.get(f"{rest.url}/compositions", timeout=30)
    assert (answer.status_code, answer.headers["Content-Type"]) == (503, "application/problem+json")
    assert "'composition/other' cannot be read" in answer.json()["detail"]
    assert requests.get(f"{rest.url}/compositions/demo/revisions/1", timeout=30).ok
    assert [each["what"] for each in rest.client.check_store()] == [key.decode() for key, _ in rubbish]


def test_read_that_fails_holds_nothing_up(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    store._database.write([(b"composition/a", b"{"), (b"composition/b", b"{")])
    with pytest.raises(StoreDamaged) as reported:
        store.heads()
    closing = threading.Thread(target=store.close, daemon=True)
    closing.start()
    closing.join(30)
    assert not closing.is_alive(), reported


# --- no room


def test_full_disk_is_told_and_nothing_written_is_lost(tmp_path: Path) -> None:
    """Records confirmed before, and after there is room again, are there whole."""
    store = Store(tmp_path / "store")
    done = 0
    with full_disk():
        with pytest.raises(StoreFull, match=r"cannot be written: the disk is full .*free some space"):
            for number in range(1, 1000):
                write(store, number)
                done = number
        assert (done > 10, whole(store), isinstance(store.failure, StoreFull)) == (True, done, True)
        with pytest.raises(StoreFull):
            write(store, done + 1)
    assert whole(store) == done
    for number in range(done + 1, done + 11):
        write(store, number)
    assert store.failure is None
    copy = shutil.copytree(tmp_path / "store", tmp_path / "as after a crash")
    store.close()
    for place in (tmp_path / "store", copy):
        with Store(place) as again:
            assert whole(again) == done + 10


def test_server_with_a_full_disk_answers_reads_and_refuses_the_rest(rest: RestServer) -> None:
    rest.client.apply(yaml_of("a t0 t1", "b t1 t2").encode(), "demo", wait=30)
    with full_disk(64):
        with pytest.raises(RequestRefused, match="the disk is full") as reported:
            rest.client.apply(yaml_of("a t0 t9").encode(), "demo", wait=30)
        assert reported.value.status == 507
        assert [each["state"] for each in rest.client.jobs()] == ["running", "running"]
        alive = requests.get(f"{rest.url}/healthz", timeout=30)
        assert (alive.status_code, "the disk is full" in alive.json()["store"]) == (200, True)
        rest.coordinator.reconciler.round()
        ready = requests.get(f"{rest.url}/readyz", timeout=30)
        assert (ready.status_code, "the store cannot be written" in ready.json()["detail"]) == (503, True)
        assert len(rest.client.revisions("demo")) == 1
    rest.coordinator.reconciler.round()  # which finds that there is room again before any change
    assert requests.get(f"{rest.url}/readyz", timeout=30).json() == {"status": "ok"}
    operation = rest.client.apply(yaml_of("a t0 t9").encode(), "demo", wait=30)
    assert (operation["state"], operation["revision"]) == ("succeeded", 2)
    assert sorted(rest.world.where()) == ["a"]
    assert requests.get(f"{rest.url}/healthz", timeout=30).json() == {"status": "ok"}


def test_disk_that_fills_during_an_operation_ends_it_and_blocks_nothing(rest: RestServer) -> None:
    hold = rest.world.hold("submit", "a")
    begun = rest.client.apply(yaml_of("a t0 t1").encode(), "demo")
    assert hold.reached.wait(30)
    with full_disk(64):
        hold.release()
        ended = list(rest.client.follow(begun["id"]))[-1]
        assert ended["state"] == "failed"
        assert "the disk is full" in ended["actions"][0]["error"]
    again = rest.client.apply(yaml_of("a t0 t1").encode(), "demo", wait=30)
    assert (again["state"], len(rest.world.running("a"))) == ("succeeded", 1)
    rest.coordinator.close()
    rest.coordinator.store.close()
    with Store(rest.coordinator.store.directory) as store:  # nothing is taken for being at work for ever
        assert [each["state"] for each in store.operations()] == ["running", "succeeded"]
        restarted = build(
            store, double_kinds(rest.world), settings=Settings(roots=(rest.root,), period=0)
        ).coordinator
        restarted.start()
        restarted.close()
        assert "running" not in [each["state"] for each in store.operations()]
        assert len(rest.world.running("a")) == 1


def test_of_two_operations_whose_end_was_not_stored_the_last_is_gone_on_with(tmp_path: Path) -> None:
    world, desired = World(), {"a": make_job("a", "t0", "t1")}
    write_code(tmp_path)
    with Store(tmp_path / "store") as store:
        begun = [
            Operation(f"{number:011x}", "traffic", number, Request(), float(number), lambda: 0.0)
            for number in (1, 2)
        ]
        with store.transaction() as transaction:
            for operation in begun:
                transaction.put_revision(Revision("traffic", operation.revision, 1.0, desired))
                transaction.put_operation(operation.id, operation.to_dict())
            transaction.put_head(Head("traffic", 2))
            transaction.put_job(JobRecord("a", "traffic"))
        coordinator = build(
            store, double_kinds(world), settings=Settings(roots=(tmp_path,), period=0)
        ).coordinator
        coordinator.changes.artifacts.keep(desired.values())
        coordinator.start()
        coordinator.close()
        assert [(each["state"], each["error"]) for each in store.operations()] == [
            ("failed", "its end could not be stored"),
            ("succeeded", ""),
        ]
    assert (len(world.running("a")), world.violations) == (1, [])


def test_code_that_finds_no_room_is_told_and_leaves_nothing(rest: RestServer) -> None:
    (rest.root / "work.py").write_text("def work(messages):\n    return messages  # " + "and so on " * 20)
    with full_disk(64), pytest.raises(RequestRefused, match="code of job 'a' cannot be stored") as reported:
        rest.client.apply(yaml_of("a t0 t1").encode(), "demo", wait=30)
    assert reported.value.status == 507
    assert not list((rest.coordinator.store.directory / "artifacts").glob("*/*"))
    assert rest.client.apply(yaml_of("a t0 t1").encode(), "demo", wait=30)["state"] == "succeeded"


# --- no right to write

_READ_ONLY = """
import os, sys
from pathlib import Path
from speck.errors import StoreError
from speck.store import Store
place = Path(sys.argv[1])
if os.geteuid() == 0:
    os.seteuid(65534)  # root may write anywhere
try:
    Store(place)
except StoreError as error:
    print(type(error).__name__, error)
"""


def test_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)
        place = Path(scratch) / "store"
        with Store(place) as store:
            write(store, 1)
        for path in place.iterdir():
            path.chmod(0o444)
        place.chmod(0o555)
        command = [sys.executable, "-c", _READ_ONLY, str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        place.chmod(0o755)
    assert done.stdout.startswith("StoreError store '"), done.stderr
    assert "cannot be opened: " in done.stdout
    assert "ermission denied" in done.stdout
    assert done.stderr == ""


def test_command_line_tells_a_damaged_store_in_one_line(
    closed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = harmed(closed, tmp_path / "copy", "CURRENT", "gone")
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    for command in (["serve", "--port", "0"], ["store", "check"]):
        monkeypatch.setattr(sys, "argv", ["speck", *command, "--data-dir", str(copy)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        assert (ended.value.code, said.out, len(said.err.splitlines())) == (1, "", 1)
        assert "its file CURRENT is missing" in said.err
    # A server that could not begin leaves them as they were.
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
