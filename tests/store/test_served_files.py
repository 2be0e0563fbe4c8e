"""Files that engines fetch: served by content, each for its own token alone."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest
import requests

from speck.errors import StoreError
from speck.server.process import _reached_at
from speck.store.beginnings import Beginnings
from speck.store.served_files import BEGINNINGS, ServedFiles
from testbed.servers.rest import rest_server


def test_an_engine_fetches_with_the_url_alone(tmp_path: Path) -> None:
    with rest_server(tmp_path, token="of-the-api") as rest:
        files = rest.services.files
        assert files is not None
        artifact = files.offer("job.py", b"content")
        answer = requests.get(artifact.url, timeout=30)
        assert (answer.status_code, answer.content) == (200, b"content")
        assert artifact.url.endswith("/job.py")
        other = files.offer("other.py", b"other")
        token = artifact.url.split("/")[-2]
        for url in (
            other.url.replace(other.url.split("/")[-2], token),  # the token of another artifact
            artifact.url.replace(token, token[:-1] + ("0" if token[-1] != "0" else "1")),
            artifact.url.replace("job.py", "secret"),
            artifact.url.replace("job.py", "..%2F..%2Fsecret"),
            artifact.url.replace(token, "%C3%A9"),
        ):
            refused = requests.get(url, timeout=30)
            assert refused.status_code == 404, url
        assert requests.get(f"{rest.url}/jobs", timeout=30).status_code == 401


def test_urls_are_good_after_a_restart_and_of_no_other_coordinator(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = ServedFiles(tmp_path / "a", "http://here/")
    artifact = first.offer("job.py", b"content")
    assert artifact.url.startswith("http://here/artifacts/")
    again, other = ServedFiles(tmp_path / "a", "http://here"), ServedFiles(tmp_path / "b", "http://here")
    assert again.offer("job.py", b"content") == artifact
    token = artifact.url.split("/")[-2]
    assert again.find(artifact.sha256, token, "job.py") is not None
    other.offer("job.py", b"content")
    assert other.find(artifact.sha256, token, "job.py") is None
    assert first.token("stop:1") == again.token("stop:1") != other.token("stop:1")
    assert first.token(f"artifact:{artifact.sha256}") != first.token("stop:1")


def test_the_secret_is_for_its_owner_alone(tmp_path: Path) -> None:
    files = ServedFiles(tmp_path, "http://here")
    artifact = files.offer("job.py", b"content")
    secret = tmp_path / "secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert "artifacts" not in repr(artifact)  # whoever knows the URL may fetch


def test_what_cannot_be_kept_is_named(tmp_path: Path) -> None:
    (tmp_path / "served").write_text("a file where a folder belongs")
    with pytest.raises(StoreError, match=r"job\.py cannot be stored"):
        ServedFiles(tmp_path, "http://here").offer("job.py", b"content")


def test_where_engines_reach_the_server() -> None:
    assert _reached_at("10.0.0.4", 8180) == "http://10.0.0.4:8180"
    assert _reached_at("::1", 8180) == "http://[::1]:8180"
    everywhere = _reached_at("0.0.0.0", 8180)  # noqa: S104 - compared, not bound
    assert "0.0.0.0" not in everywhere  # noqa: S104


DAY = 86_400.0
FORMER = ("former",)  # an attempt


def offered(files: ServedFiles, name: str, seconds: float) -> Path:
    """The folder of a file that was offered some time ago."""
    folder = files.directory / "served" / files.offer(name, name.encode()).sha256
    at = time.time() - seconds
    for path in (folder / name, folder):
        os.utime(path, (at, at))
    return folder


def looked(files: ServedFiles, seconds: float, *attempts: str) -> None:
    """There was a look at the attempts some time ago."""
    Beginnings(files.directory / BEGINNINGS).earliest(attempts, time.time() - seconds)


@pytest.fixture(name="served")
def served_fixture(tmp_path: Path) -> ServedFiles:
    return ServedFiles(tmp_path, "http://here")


def test_what_no_attempt_may_fetch_any_more_is_deleted(served: ServedFiles) -> None:
    """An attempt is offered its files when it begins, and may fetch them again for as long as it runs."""
    folder = offered(served, "launcher.jar", 30 * DAY)
    looked(served, 20 * DAY, *FORMER)
    served.forget_unused((), (), ("later", *FORMER))
    assert folder.exists()
    served.forget_unused((), (), ("later",))
    assert not folder.exists()


def test_files_of_an_attempt_that_began_about_then_stay(served: ServedFiles) -> None:
    """A clock may have been set since."""
    folder = offered(served, "launcher.jar", 30 * DAY)
    looked(served, 24 * DAY)
    served.forget_unused((), (), ("later",))
    assert folder.exists()


def test_files_without_attempts_are_deleted_after_a_week(served: ServedFiles) -> None:
    old, new = offered(served, "old.jar", 8 * DAY), offered(served, "new.jar", 6 * DAY)
    served.forget_unused((), (), ())
    assert not old.exists()
    assert new.exists()


def test_a_failed_deletion_of_unused_files_is_logged(
    served: ServedFiles, caplog: pytest.LogCaptureFixture
) -> None:
    place = offered(served, "old.py", 30 * DAY)
    (served.directory / BEGINNINGS).mkdir()  # where a file is expected
    served.forget_unused((), (), ())
    assert place.exists()
    assert [each.levelname for each in caplog.records] == ["WARNING"]
    assert "unused files that engines fetched are not deleted now" in caplog.text


def test_code_goes_with_the_last_revision_that_names_it(served: ServedFiles) -> None:
    """Independent of the attempts; not while an engine may be building it."""
    gone, building, named = (
        offered(served, "gone.jar", 2 * 3600),
        offered(served, "building.jar", 60),
        offered(served, "named.jar", 300 * DAY),
    )
    served.forget_unused((named.name,), (gone.name, building.name), FORMER)
    assert (gone.exists(), building.exists(), named.exists()) == (False, True, True)
    served.forget_unused((named.name,), (), ())
    assert named.exists()


def test_a_file_that_is_offered_again_stays(served: ServedFiles) -> None:
    folder = offered(served, "launcher.jar", 30 * DAY)
    served.offer("launcher.jar", b"launcher.jar")
    served.forget_unused((), (folder.name,), ())
    assert folder.exists()


def test_attempts_from_before_the_first_look_may_have_begun_at_any_time(served: ServedFiles) -> None:
    """As those of a former version, or of the former primary."""
    folder = offered(served, "launcher.jar", 30 * DAY)
    for _ in range(2):
        served.forget_unused((), (), FORMER)
        assert folder.exists()
    served.forget_unused((), (), ())
    assert not folder.exists()


def test_the_beginnings_of_attempts_are_those_of_looks(tmp_path: Path) -> None:
    beginnings = Beginnings(tmp_path / "attempts.json")
    assert beginnings.earliest((), 10.0) == float("inf")
    assert beginnings.earliest(("a",), 20.0) == 10.0
    assert beginnings.earliest(("a", "b"), 30.0) == 10.0
    assert Beginnings(tmp_path / "attempts.json").earliest(("b",), 40.0) == 20.0
    assert beginnings.earliest(("b",), 15.0) == 0.0  # the clock was set back
    (tmp_path / "attempts.json").write_text("{}")
    assert beginnings.earliest(("b",), 50.0) == 0.0
