"""Backup, restore, check and repair of a store."""

from __future__ import annotations

import errno
import hashlib
import io
import itertools
import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import plyvel
import pytest
import requests

from speck import cli
from speck.client import Client
from speck.core.runtime import Attempt, Handle
from speck.errors import StoreDamaged, StoreError, StoreLocked
from speck.store import (
    AttemptRecord,
    Event,
    Head,
    JobRecord,
    RetryState,
    Revision,
    SessionRecord,
    Store,
    codec,
)
from speck.store.abandoned import AbandonedAttempt, AbandonedSession
from speck.store.leveldb import manifest
from speck.store.maintenance.backup import archive, restore
from speck.store.maintenance.integrity import LEAP, artifacts_directory
from speck.store.maintenance.repair import check, check_directory, repair
from testbed.benches import user
from testbed.benches.jobs_by_hand import make_job
from testbed.benches.sessions import named
from testbed.servers.rest import RestServer, rest_server, yaml_of

TWO = yaml_of("a t0 t1", "b t1 t2").encode()


def speck(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["speck", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


def closed(rest: RestServer) -> Path:
    """The directory of the server's store, which it lets go of."""
    rest.coordinator.close()
    rest.coordinator.store.close()
    return rest.coordinator.store.directory


# --- backup and restore


def test_backup_of_a_running_server_is_restored_to_the_same(
    rest: RestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rest.client.apply(TWO, "demo", wait=30, message="first")
    rest.client.apply(yaml_of("a t0 t1", "b t1 t3").encode(), "demo", wait=30, message="second")
    secret = rest.services.files
    assert secret is not None
    secret.token("x")  # makes the server's secret
    file, place = tmp_path / "backup.tar.gz", tmp_path / "restored" / "store"
    hold = rest.world.hold("submit", "c")
    rest.client.apply(yaml_of("c x y").encode(), "other")
    assert hold.reached.wait(30)  # an operation is in progress meanwhile
    assert speck(monkeypatch, "--server", rest.url, "store", "backup", file) == 0
    hold.release()
    assert f"{file}: " in capsys.readouterr().err
    with tarfile.open(file) as tar:
        names = tar.getnames()
        (code,) = (each for each in names if each.startswith("artifacts/"))
        assert set(names) == {"backup.json", "records/000000", code, "end.json"}
    live = rest.coordinator.store.directory
    assert (live / "secret").read_bytes() not in b"".join(_members(file))
    assert speck(monkeypatch, "store", "restore", file, "--data-dir", place) == 0
    assert "1 files of code, as of " in capsys.readouterr().err
    assert check_directory(place) == []
    with Store(place) as store:
        messages = [store.revision("demo", number).message for number in (1, 2)]
        assert messages == ["first", "second"]
        assert [each["state"] for each in store.operations()] == ["succeeded", "succeeded", "running"]
        # Attempts made since then have lower numbers than the next one, which so may read.
        assert [each.attempts for each in store.jobs("demo")] == [1 + LEAP, 2 + LEAP]
    assert (place / code).read_text() == (rest.root / "work.py").read_text()


def _members(file: Path) -> list[bytes]:
    with tarfile.open(file) as tar:
        found = (tar.extractfile(each) for each in tar.getmembers())
        return [each.read() for each in found if each is not None]


@pytest.mark.usefixtures("known_owner")
def test_coordinator_goes_on_from_a_backup(rest: RestServer, tmp_path: Path) -> None:
    """Copies started after the backup give way to those started next; nothing runs twice."""
    from speck.coordinator import build
    from speck.core.settings import Settings
    from testbed.doubles.kinds import double_kinds

    rest.client.apply(TWO, "demo", wait=30)
    pieces = b"".join(rest.client.back_up())
    rest.client.apply(yaml_of("a t0 t1 trigger: 1 seconds", "b t1 t2").encode(), "demo", wait=30)
    closed(rest)
    restore(io.BytesIO(pieces), "backup", tmp_path / "again")
    with Store(tmp_path / "again") as store:
        coordinator = build(
            store, double_kinds(rest.world), settings=Settings(roots=(rest.root,), period=0)
        ).coordinator
        coordinator.start()
        operation, _ = user.rollback(coordinator, "demo", 1)
        assert operation.wait(30)
        assert operation.state == "succeeded"
        assert {name: each.kind for name, each in operation.actions.items()} == {"a": "start", "b": "keep"}
        assert rest.world.broker("tcp://b1:1883").fences[named("a")] == 2 + LEAP
        coordinator.close()
    rest.world.violations.clear()  # the stray copy: it ends at the fence, as it is observed
    (orphan,) = (each for each in rest.world.running("a") if each.attempt.number == 2)
    assert orphan.job.trigger == "1 seconds"


def test_all_kinds_of_records_are_known_to_check(tmp_path: Path) -> None:
    """Records of the reconciler alone included: repair would drop unknown ones."""
    with Store(tmp_path / "store") as store:
        with store.transaction() as transaction:
            attempt = Attempt(id="aa", job_name="a", number=1, session="speck-a")
            transaction.put_abandoned_attempt(
                AbandonedAttempt("c", "spark", "sc://x", "tcp://b1:1883", attempt)
            )
            transaction.put_abandoned_session(AbandonedSession("c", "a", "tcp://b1:1883", "speck-a", "in"))
            transaction.put_retry_state("a", RetryState(3, 5.0, "was refused"))
            transaction.put_operation("2", {"id": "2", "kind": "heal", "state": "succeeded"})
            transaction.add_event(Event(1.0, "drift", "it died", automatic=True))
        assert check(store.records(), tmp_path / "store") == []
        assert store.retry_states() == {"a": RetryState(3, 5.0, "was refused")}
        identity = store.identity
    with Store(tmp_path / "store") as store:
        assert store.identity == identity
        assert [each.automatic for each in store.events()] == [True]
    with Store(tmp_path / "other") as store:
        assert store.identity != identity


def forget(rest: RestServer) -> None:
    """Delete the composition, and the history that is retained of it."""
    rest.client.delete_composition("demo", wait=30)
    with rest.coordinator.store.transaction() as transaction:
        transaction.forget_composition("demo")
    rest.coordinator.deployments.history.forget("demo")
    rest.coordinator.retention._unswept = True
    rest.coordinator.retention.sweep_code()


def test_backup_keeps_the_code_that_is_forgotten_meanwhile(rest: RestServer) -> None:
    rest.client.apply(TWO, "demo", wait=30)
    pieces = rest.queries.backup()
    code = next((rest.coordinator.store.directory / "artifacts").glob("*/*"))
    forget(rest)
    assert code.exists()
    assert b"".join(pieces)
    rest.client.apply(TWO, "demo", wait=30)
    forget(rest)
    assert not code.exists()


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda data: data[: len(data) // 2], "is not a complete backup"),
        (lambda data: data[:-1], "is not a complete backup"),
        (lambda data: data[:-20] + bytes(20), "is not a complete backup"),
        (lambda data: b"", "is not a complete backup"),
        (lambda data: b"something else\n", "is not a complete backup"),
    ],
    ids=["half", "cut", "garbled", "empty", "other"],
)
def test_restore_of_what_is_no_whole_backup_leaves_nothing(
    tmp_path: Path, harm: Callable[[bytes], bytes], words: str
) -> None:
    records = _sample(tmp_path)
    data = b"".join(archive(records, tmp_path / "store", 1.0, "x"))
    with pytest.raises(StoreError, match=words) as reported:
        restore(io.BytesIO(harm(data)), "file", tmp_path / "again")
    assert "\n" not in str(reported.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


@pytest.mark.parametrize("name", ["../evil", "artifacts/../../evil", "/evil", f"artifacts/{'a' * 64}/x"])
def test_restore_writes_nowhere_else(tmp_path: Path, name: str) -> None:
    archived = io.BytesIO()
    with tarfile.open(fileobj=archived, mode="w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.size = 4
        tar.addfile(member, io.BytesIO(b"evil"))
    archived.seek(0)
    with pytest.raises(StoreError, match=r"does not belong in a backup|differs from what was backed up"):
        restore(archived, "file", tmp_path / "again")
    assert list(tmp_path.iterdir()) == []


def test_restore_goes_over_nothing(tmp_path: Path) -> None:
    records = _sample(tmp_path)
    data = b"".join(archive(records, tmp_path / "store", 1.0, "x"))
    with pytest.raises(StoreError, match="is not empty, so nothing was restored"):
        restore(io.BytesIO(data), "file", tmp_path / "store")
    assert check_directory(tmp_path / "store") == check(records, tmp_path / "store")


def test_restored_code_is_on_the_disk_before_the_store_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, code = _sample(tmp_path), b"print(1)"
    kept = artifacts_directory(tmp_path / "store") / hashlib.sha256(code).hexdigest() / "work.py"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(code)
    data, synced, fsync = b"".join(archive(records, tmp_path / "store", 1.0, "x")), set[int](), os.fsync

    def note(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    restore(io.BytesIO(data), "file", tmp_path / "again")
    made = tmp_path / "again" / kept.relative_to(tmp_path / "store")
    assert made.read_bytes() == code
    assert {each.stat().st_ino for each in (made, made.parent, made.parent.parent, tmp_path)} <= synced


# --- check and repair


def _sample(tmp_path: Path) -> list[tuple[bytes, bytes]]:
    """A store with one composition of two jobs, of which one runs."""
    jobs = {name: make_job(name, code_hash="") for name in ("a", "b")}
    session = SessionRecord("tcp://b1:1883", "speck-a", "in")
    attempt = Attempt(id="ab" * 16, job_name="a", number=7, session="speck-a")
    with Store(tmp_path / "store") as store:
        with store.transaction() as transaction:
            transaction.put_head(Head("traffic", 2))
            for number in (1, 2):
                transaction.put_revision(Revision("traffic", number, 1.0, jobs))
            transaction.put_job(JobRecord("a", "traffic", 7, (session,)))
            transaction.put_job(JobRecord("b", "traffic"))
            transaction.put_attempt(AttemptRecord(attempt, 2, "running", Handle("sc://e1:1", "id")))
            transaction.put_operation("op", {"state": "succeeded"})
        return store.records()


CHANGES: dict[str, tuple[str, bytes | None, list[str]]] = {
    "head garbled": (
        "composition/traffic",
        b"{",
        ["composition/traffic: cannot be read", "composition 'traffic': has revisions, but no record"],
    ),
    "head gone": ("composition/traffic", None, ["composition 'traffic': has revisions, but no record"]),
    "last revision gone": (
        "revision/traffic/0000000002",
        None,
        [
            "composition 'traffic': its last revision, 2, is missing -> revision 1 takes its place",
            "attempt 7 of job 'a': revision 2, which defines how it runs, is missing -> forgotten; it may "
            "still run at sc://e1:1",
        ],
    ),
    "job gone": ("job/a", None, ["attempt 7 of job 'a': its job has no record -> recorded"]),
    "desired job gone": ("job/b", None, ["job 'b': is desired, but has no record"]),
    "attempt garbled": ("attempt/a/0000000007", b"\xff\x00", ["attempt/a/0000000007: cannot be read"]),
    "job of nobody": (
        "job/z",
        b'{"c":"none"}',
        ["job 'z': its composition 'none' is not known -> forgotten"],
    ),
    "session unknown": (
        "job/a",
        b'{"c":"traffic","n":7}',
        ["attempt 7 of job 'a': its session 'speck-a' is"],
    ),
    "abandoned attempt of no such form": (
        "left/aa",
        codec.encode_plain({"composition": "traffic"}),
        ["left/aa: cannot be read"],
    ),
    "operation garbled": ("operation/op", b"x", ["operation/op: cannot be read"]),
    "key of no kind": ("what/ever", b"x", ["what/ever: cannot be read"]),
    "format gone": ("meta/format", None, ["meta/format: is ''"]),
}


def test_a_number_above_all_that_connectors_read_is_lowered_where_no_attempt_runs(tmp_path: Path) -> None:
    _sample(tmp_path)
    place = tmp_path / "store"
    with Store(place) as store, store.transaction() as transaction:
        for name in ("a", "b"):
            record = store.job(name)
            assert record is not None
            transaction.put_job(replace(record, attempts=10**18))
    running, idle = [each for each in check_directory(place) if "the number of" in each.message]
    assert (running.what, running.mends) == ("job 'a'", ())
    assert "since an attempt of it may run: delete the job" in running.message
    assert idle.message == f"the number of its last attempt is {10**18} (expected less than {10**15})"
    repair(place)
    with Store(place) as store:
        (lowered,) = [each for each in store.jobs() if each.name == "b"]
        assert (lowered.attempts, lowered.renumbers) == (LEAP, True)


@pytest.mark.parametrize("case", CHANGES)
def test_check_finds_and_repair_mends(tmp_path: Path, case: str) -> None:
    key, value, expected = CHANGES[case]
    _sample(tmp_path)
    place = tmp_path / "store"
    with plyvel.DB(str(place)) as database:
        database.delete(key.encode()) if value is None else database.put(key.encode(), value)
    (place / "SEAL").unlink()
    found = check_directory(place)
    assert f"{found[0].what}: {found[0].message}".startswith(expected[0].split(" -> ")[0])
    _, mended = repair(place)
    said = [f"{each.what}: {each.message} -> {each.remedy}" for each in mended if each.mends]
    assert all(any(line.startswith(words) for line in said) for words in expected), said
    assert [each for each in check_directory(place) if each.mends] == []
    with Store(place) as store:
        assert store.head("traffic") is not None
        assert {each.name for each in store.jobs()} == {"a", "b"}
        assert all(each.attempts >= 7 or each.name == "b" for each in store.jobs())


def test_sound_store_has_nothing_to_repair(rest: RestServer) -> None:
    rest.client.apply(TWO, "demo", wait=30)
    assert rest.client.check_store() == []
    place = closed(rest)
    before = check_directory(place)
    copy, found = repair(place)
    assert (before, found) == ([], [])
    assert (copy / "CURRENT").exists()


@pytest.mark.parametrize("name", ["MANIFEST-*", "CURRENT", "*.log", "*.ldb"])
def test_repair_saves_what_can_be_read(rest: RestServer, name: str) -> None:
    rest.client.apply(TWO, "demo", wait=30)
    rest.client.apply(yaml_of("a t0 t1", "b t1 t3").encode(), "demo", wait=30)
    place = closed(rest)
    path = next(place.glob(name))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + b"rubbish" + content[len(content) // 2 + 7 :])
    if name != "*.log":  # which is empty here: all is in a table
        with pytest.raises(StoreError, match="is damaged"):
            check_directory(place)
    repair(place)
    assert [each for each in check_directory(place) if each.mends] == []
    if name in ("MANIFEST-*", "CURRENT"):
        with Store(place) as store:
            assert store.revision_numbers("demo") == [1, 2]
            assert len(store.attempts()) == 2


class Killed(BaseException):
    """The process ends here."""


def test_a_replacement_of_files_that_is_killed_at_any_step_is_ended_by_the_next_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _sample(tmp_path)
    place, new = tmp_path / "store", shutil.copytree(tmp_path / "store", tmp_path / "new")
    with Store(new) as store, store.transaction() as transaction:
        transaction.put_head(Head("rewritten", 0))
    for steps in itertools.count():
        copy = shutil.copytree(place, tmp_path / f"copy-{steps}")
        if not _is_killed(monkeypatch, steps, partial(manifest.replace, new, copy)):
            break
        if manifest.is_half_replaced(copy):
            with pytest.raises(StoreDamaged, match=r"its repair was interrupted .*speck store repair"):
                Store(copy)
        repair(copy)
        with Store(copy) as store:
            assert {"rewritten", "traffic"} >= {each.name for each in store.heads()} >= {"traffic"}
            assert {each.name for each in store.jobs()} == {"a", "b"}
    assert steps > 8
    with Store(copy) as store:
        assert {each.name for each in store.heads()} == {"rewritten", "traffic"}


def _is_killed(monkeypatch: pytest.MonkeyPatch, steps: int, work: Callable[[], None]) -> bool:
    """True if the work changes files in more steps than these, after which it is killed."""
    left = iter(range(steps))

    def dying(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            if next(left, None) is None:
                raise Killed
            return function(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        for owner, name in ((shutil, "copy2"), (shutil, "copyfile"), (Path, "unlink"), (Path, "rename")):
            patch.setattr(owner, name, dying(getattr(owner, name)))
        try:
            work()
        except Killed:
            return True
    return False


def test_a_copy_made_before_a_repair_is_whole_or_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _sample(tmp_path)
    place = tmp_path / "store"
    assert _is_killed(monkeypatch, 4, partial(repair, place))
    assert not list(place.glob("before-repair-*"))
    copy, _ = repair(place)
    assert copy.name == "before-repair-1"


def test_check_finds_code_that_is_gone_or_harmed(rest: RestServer) -> None:
    rest.client.apply(TWO, "demo", wait=30)
    code = next((rest.coordinator.store.directory / "artifacts").glob("*/*"))
    code.write_text("harmed")
    (found,) = rest.client.check_store()
    assert found["message"] == "does not match its hash; 'demo' revision 1 'a', 'demo' revision 1 'b' name it"
    shutil.rmtree(code.parent)
    assert rest.client.check_store()[0]["message"].startswith("is missing; ")


def test_code_that_is_harmed_stays_out_of_a_backup_and_is_mended_by_an_apply(
    rest: RestServer, tmp_path: Path
) -> None:
    rest.client.apply(TWO, "demo", wait=30)
    code = next((rest.coordinator.store.directory / "artifacts").glob("*/*"))
    code.write_text("")  # by a loss of power
    restored = restore(io.BytesIO(b"".join(rest.client.back_up())), "file", tmp_path / "again")
    assert restored.records > 0 and restored.artifacts == 0
    rest.client.delete_composition("demo", wait=30)
    rest.client.apply(TWO, "demo", wait=30)
    assert code.read_text() == (rest.root / "work.py").read_text()
    assert rest.client.check_store() == []


def test_store_that_a_server_holds_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess

    script = (
        "import sys; from pathlib import Path; from speck.store import Store\n"
        "store = Store(Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    _sample(tmp_path)
    place = tmp_path / "store"
    command = [sys.executable, "-c", script, str(place)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "open\n"
            for call in (check_directory, repair):
                with pytest.raises(StoreLocked, match=f"is held by process {holder.pid};"):
                    call(place)
            assert not list(place.glob("before-repair-*"))
        finally:
            holder.kill()


def test_backup_and_check_over_rest_need_the_token(tmp_path: Path) -> None:
    with rest_server(tmp_path, token="right") as rest:
        for path in ("/store/backup", "/store/check"):
            assert requests.get(rest.url + path, timeout=30).status_code == 401


@pytest.mark.parametrize("links", [True, False])
def test_two_backups_to_one_file_are_one_backup_and_an_error(
    rest: RestServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    links: bool,
) -> None:
    file = tmp_path / "backups" / "today.tar.gz"
    file.parent.mkdir()
    back_up = Client.back_up

    def with_another_meanwhile(client: Client) -> Iterator[bytes]:
        pieces = back_up(client)
        yield next(pieces)
        with monkeypatch.context() as other:
            other.setattr(Client, "back_up", back_up)
            assert speck(monkeypatch, "--server", rest.url, "store", "backup", file) == 0
        yield from pieces

    def no_links(source: object, target: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Client, "back_up", with_another_meanwhile)
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    assert speck(monkeypatch, "--server", rest.url, "store", "backup", file) == 1
    assert f"error: {file} already exists (expected a new file)" in capsys.readouterr().err
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    assert speck(monkeypatch, "store", "restore", file, "--data-dir", tmp_path / "new") == 0


def test_store_commands_tell_what_is_wrong(
    rest: RestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("x")
    assert speck(monkeypatch, "--server", rest.url, "store", "backup", taken) == 1
    assert f"error: {taken} already exists" in capsys.readouterr().err
    assert speck(monkeypatch, "store", "restore", taken, "--data-dir", tmp_path / "new") == 1
    assert "is not a complete backup" in capsys.readouterr().err
    for command in ("check", "repair", "backup"):
        file = [tmp_path / "file"] if command == "backup" else []
        assert speck(monkeypatch, "store", command, *file, "--data-dir", tmp_path / "none") == 1
        assert "there is no store in" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    assert speck(monkeypatch, "--server", rest.url, "store", "check") == 0
    assert capsys.readouterr().out == "no faults\n"
