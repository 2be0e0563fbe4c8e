"""Code that clients send: whole, in parts, under one path and with different texts."""

from __future__ import annotations

import hashlib
import io
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from speck.errors import Conflict, InvalidInput, StoreFull
from speck.store.artifacts import Artifacts, hash_of
from speck.store.jobfile import LARGEST, BadFile
from speck.store.uploads import LIFETIME, Uploads
from testbed.benches.jobs_by_hand import make_job
from tests.support.properties import SHARE

ONE, TWO = b"def work(messages): return messages\n", b"def work(messages): return None\n"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(name="clock")
def clock_fixture() -> Clock:
    return Clock()


@pytest.fixture(name="uploads")
def uploads_fixture(tmp_path: Path, clock: Clock) -> Uploads:
    return Uploads(tmp_path / "uploads", tmp_path / "artifacts", clock, 1 << 20)


def send(uploads: Uploads, content: bytes) -> str:
    uploads.receive(sha256(content), io.BytesIO(content))
    return sha256(content)


def test_a_content_is_found_under_any_name_and_is_received_once(uploads: Uploads) -> None:
    assert uploads.received(sha256(ONE)) == (0, False)
    one = send(uploads, ONE)
    assert uploads.received(one) == (len(ONE), True)
    assert uploads.find(one, "air.py").read_bytes() == uploads.find(one, "water.py").read_bytes() == ONE
    assert uploads.receive(one, io.BytesIO(b"no one reads this")) == len(ONE)
    assert uploads.find(one, "air.py").read_bytes() == ONE


def test_parts_are_put_together_and_a_break_goes_on_where_it_was(uploads: Uploads) -> None:
    one, size = sha256(ONE), len(ONE)
    uploads.receive(one, io.BytesIO(ONE[:10]), 0, size)
    assert uploads.received(one) == (10, False)
    with pytest.raises(BadFile, match="does not have"):
        uploads.find(one, "air.py")
    with pytest.raises(Conflict, match=r"has 10 bytes here \(expected offset=10\)"):
        uploads.receive(one, io.BytesIO(ONE), 0, size)
    uploads.receive(one, io.BytesIO(ONE[10:]), 10, size)
    assert uploads.find(one, "air.py").read_bytes() == ONE


def test_a_content_that_a_loss_of_power_has_cut_is_sent_again(tmp_path: Path, clock: Clock) -> None:
    """Its name was on the disk, and its content was not: no retry of the apply would ever repair that."""
    places = tmp_path / "uploads", tmp_path / "artifacts"
    before = Uploads(*places, clock, 1 << 20)
    one = send(before, ONE)
    before.find(one, "air.py")
    (tmp_path / "uploads" / one / ".complete").write_bytes(b"")
    after = Uploads(*places, clock, 1 << 20)
    assert after.received(one) == (0, False)
    with pytest.raises(BadFile, match="does not have"):
        after.find(one, "air.py")
    assert send(after, ONE) == one
    assert after.received(one) == (len(ONE), True)
    assert after.find(one, "air.py").read_bytes() == ONE


@pytest.mark.parametrize(
    ("name", "content", "size", "message"),
    [
        (sha256(ONE), TWO, None, "is not the hash of the content"),
        (sha256(ONE), ONE + b"#", len(ONE), "has more than"),
        (sha256(ONE), ONE, LARGEST + 1, "at most"),
        ("../../etc", ONE, None, "is not a SHA-256 hash"),
        (sha256(ONE).upper(), ONE, None, "is not a SHA-256 hash"),
    ],
)
def test_what_is_refused_leaves_nothing(
    uploads: Uploads, name: str, content: bytes, size: int | None, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        uploads.receive(name, io.BytesIO(content), 0, size)
    assert uploads.received(sha256(ONE)) == (0, False)


@pytest.mark.parametrize("name", ["", ".", "..", ".complete", ".partial"])
def test_a_name_that_is_none(uploads: Uploads, name: str) -> None:
    with pytest.raises(BadFile, match="hidden"):
        uploads.find(send(uploads, ONE), name)


def test_what_no_composition_named_for_an_hour_goes(uploads: Uploads, clock: Clock) -> None:
    one, two = send(uploads, ONE), send(uploads, TWO)
    clock.now += LIFETIME - 1
    uploads.find(one, "air.py")
    clock.now += 2
    send(uploads, b"x = 1\n")
    assert uploads.received(one)[1] and not uploads.received(two)[1]


def test_all_together_are_bounded(tmp_path: Path, clock: Clock) -> None:
    uploads = Uploads(tmp_path / "uploads", tmp_path / "artifacts", clock, most_bytes=len(ONE) + 5)
    send(uploads, ONE)
    with pytest.raises(StoreFull, match="are not applied"):
        uploads.receive(sha256(TWO), io.BytesIO(TWO), 0, len(TWO))
    clock.now += LIFETIME + 1
    uploads.receive(sha256(TWO), io.BytesIO(TWO), 0, len(TWO))


def test_a_part_that_is_there_counts_once(tmp_path: Path, clock: Clock) -> None:
    uploads = Uploads(tmp_path / "uploads", tmp_path / "artifacts", clock, most_bytes=len(ONE) + 5)
    uploads.receive(sha256(ONE), io.BytesIO(ONE[:30]), 0, len(ONE))
    uploads.receive(sha256(ONE), io.BytesIO(ONE[30:]), 30, len(ONE))
    assert uploads.received(sha256(ONE)) == (len(ONE), True)


def test_an_upload_goes_on_after_its_hour(uploads: Uploads, clock: Clock) -> None:
    uploads.receive(sha256(ONE), io.BytesIO(ONE[:10]), 0, len(ONE))
    clock.now += LIFETIME + 1
    uploads.receive(sha256(ONE), io.BytesIO(ONE[10:]), 10, len(ONE))
    assert uploads.find(sha256(ONE), "air.py").read_bytes() == ONE


def test_applied_code_takes_no_room(tmp_path: Path, clock: Clock) -> None:
    """Each plan finds it, which keeps it among the uploads."""
    uploads = Uploads(tmp_path / "uploads", tmp_path / "artifacts", clock, most_bytes=len(ONE) + 5)
    artifacts = Artifacts(tmp_path / "artifacts", (), uploads.content)
    artifacts.keep([make_job("a", job_path="jobs.py", code_hash=send(uploads, ONE))])
    send(uploads, TWO)
    clock.now += LIFETIME + 1
    send(uploads, b"x = 1\n")  # which deletes the first uploads
    uploads.find(sha256(ONE), "jobs.py")
    send(uploads, TWO)
    with pytest.raises(StoreFull, match=f"^{len(TWO) + 6} bytes of code were sent"):
        uploads.receive(sha256(b"#"), io.BytesIO(b"#"), 0, len(ONE))


def test_a_server_may_accept_none(tmp_path: Path, clock: Clock) -> None:
    uploads = Uploads(tmp_path / "uploads", tmp_path / "artifacts", clock, 0)
    with pytest.raises(Conflict, match="accepts no code"):
        uploads.receive(sha256(ONE), io.BytesIO(ONE))
    with pytest.raises(BadFile, match="accepts no code"):
        uploads.find(sha256(ONE), "air.py")


def test_two_texts_under_one_path_are_two_artifacts(tmp_path: Path, uploads: Uploads) -> None:
    artifacts = Artifacts(tmp_path / "artifacts", (), uploads.content)
    jobs = [
        make_job(name, job_path="jobs.py", code_hash=send(uploads, content))
        for name, content in (("a", ONE), ("b", TWO))
    ]
    artifacts.keep(jobs)
    assert [Path(artifacts.placed(job).job_path).read_bytes() for job in jobs] == [ONE, TWO]


def test_accepted_code_need_not_be_sent_again(tmp_path: Path, uploads: Uploads, clock: Clock) -> None:
    artifacts = Artifacts(tmp_path / "artifacts", (), uploads.content)
    artifacts.keep([make_job("a", job_path="jobs.py", code_hash=send(uploads, ONE))])
    clock.now += LIFETIME + 1
    send(uploads, TWO)  # which deletes the first upload
    assert uploads.received(sha256(ONE)) == (len(ONE), True)
    assert uploads.find(sha256(ONE), "other.py").read_bytes() == ONE


def test_a_damaged_copy_counts_as_none(tmp_path: Path, uploads: Uploads) -> None:
    place = tmp_path / "artifacts" / sha256(ONE) / "air.py"
    place.parent.mkdir(parents=True)
    place.write_bytes(TWO)
    assert uploads.received(sha256(ONE)) == (0, False)
    place.write_bytes(ONE)
    assert uploads.received(sha256(ONE)) == (len(ONE), True)
    place.write_bytes(TWO)
    assert uploads.received(sha256(ONE)) == (0, False)


def test_accepted_code_that_has_not_changed_is_hashed_once(
    tmp_path: Path, uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file may have 512 MiB, and each client with a token may ask for it."""
    place = tmp_path / "artifacts" / sha256(ONE) / "air.py"
    place.parent.mkdir(parents=True)
    place.write_bytes(ONE)
    hashed: list[Path] = []

    def counted(path: Path) -> str | None:
        hashed.append(path)
        return hash_of(path)

    monkeypatch.setattr("speck.store.uploads.hash_of", counted)
    assert [uploads.received(sha256(ONE)) for _ in range(5)] == [(len(ONE), True)] * 5
    assert hashed == [place]


@pytest.mark.slow("a race, which shows by chance")
def test_a_file_that_goes_while_it_is_looked_at_counts_as_none(tmp_path: Path, uploads: Uploads) -> None:
    """As code that no composition names any more, or an upload that another one pushes out."""
    over = threading.Event()
    places = [tmp_path / folder / sha256(ONE) / "air.py" for folder in ("artifacts", "uploads")]
    whole = tmp_path / "air.py"

    def come_and_go() -> None:
        while not over.is_set():
            for place in places:
                place.parent.mkdir(parents=True, exist_ok=True)
                whole.write_bytes(ONE)
                with suppress(FileNotFoundError):  # pruned
                    whole.replace(place)  # as uploads are: never seen in part
                shutil.rmtree(place.parent, ignore_errors=True)

    with ThreadPoolExecutor(1) as thread:
        other = thread.submit(come_and_go)
        try:
            for number in range(round(400 * SHARE)):
                assert uploads.received(sha256(ONE)) in [(0, False), (len(ONE), True)]
                send(uploads, b"x = %d" % number)
        finally:
            over.set()
        other.result(30)


def test_uploads_last_no_longer_after_the_clock_was_set_back(uploads: Uploads, clock: Clock) -> None:
    one = send(uploads, ONE)
    clock.now -= 2 * LIFETIME
    send(uploads, TWO)
    assert uploads.received(one) == (0, False)
