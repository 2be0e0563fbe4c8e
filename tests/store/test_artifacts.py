"""Artifacts: served by content, each for its own token alone."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import requests

from speck.errors import StoreError
from speck.server.process import _reached_at
from speck.store.artifacts import ServedFiles
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
