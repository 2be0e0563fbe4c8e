"""The places of job files: under the roots, whatever is written, linked, or swapped meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from speck.store.jobfile import LARGEST, BadFile, content_hash, locate, open_located
from testbed.servers.rest import SOLO
from testbed.servers.served_process import served
from tests.server.requesting import problem_of

CODE = "def work(messages):\n    return messages\n"


@pytest.fixture(name="root")
def root_fixture(tmp_path: Path) -> Path:
    """A directory of job files, beside one that holds a secret."""
    root = tmp_path / "root"
    (root / "deep" / "er").mkdir(parents=True)
    (root / "work.py").write_text(CODE)
    (root / "deep" / "er" / "work.py").write_text(CODE)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "work.py").write_text("secret = 'sesame'\n")
    return root


def test_a_file_is_opened_by_its_path_under_the_root(root: Path) -> None:
    for path in ("work.py", "deep/er/work.py", "deep/../work.py", str(root / "work.py")):
        with open_located(locate(path, [root]), [root]) as file:
            assert file.read().decode() == CODE
    inner = root / "link.py"
    inner.symlink_to("deep/er/work.py")
    assert content_hash(locate("link.py", [root]), [root]) == content_hash(root / "work.py", [root])


def test_what_is_put_in_the_place_of_a_file_after_it_was_found_is_not_read(root: Path) -> None:
    path = locate("work.py", [root])
    path.unlink()
    path.symlink_to("../outside/work.py")
    with pytest.raises(BadFile, match="cannot be read"):
        open_located(path, [root])
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(BadFile, match="not a regular file"):  # and nobody waits for a writer
        open_located(path, [root])
    path.unlink()
    path.mkdir()
    with pytest.raises(BadFile):
        open_located(path, [root])


def test_what_is_put_in_the_place_of_a_directory_is_not_entered(root: Path) -> None:
    path = locate("deep/er/work.py", [root])
    (root / "deep" / "er").rename(root / "was")
    (root / "deep" / "er").symlink_to("../../outside")
    with pytest.raises(BadFile, match="cannot be read"):
        content_hash(path, [root])


def test_a_root_may_itself_be_a_link_and_hidden(root: Path) -> None:
    hidden = root.parent / ".hidden"
    root.rename(hidden)
    root.symlink_to(hidden)
    assert content_hash(locate("work.py", [root]), [root]) == content_hash(
        locate("work.py", [hidden]), [hidden]
    )


@pytest.mark.slow("a new interpreter")
def test_a_name_that_the_locale_cannot_express_is_a_fault(root: Path) -> None:
    code = (
        "from pathlib import Path; from speck.store.jobfile import locate; locate('z\\xe4hler.py', [Path()])"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", code]
    found = subprocess.run(
        command, capture_output=True, encoding="utf-8", env=environment, cwd=root, check=False
    )
    assert "BadFile: cannot be a name of a file in ascii (expected a locale in UTF-8" in found.stderr


def test_a_file_that_is_too_large(root: Path) -> None:
    with (root / "work.py").open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(BadFile, match=r"has 536,870,913 bytes \(at most 536,870,912 are accepted\)"):
        content_hash(locate("work.py", [root]), [root])


def test_what_a_job_may_not_name(root: Path, tmp_path: Path) -> None:
    """Asked of a real server, which tells nothing of what lies outside."""
    second = tmp_path / "second"
    second.mkdir()
    (second / "other.py").write_text(CODE)
    (root / "out.py").symlink_to("../outside/work.py")
    (root / "up").symlink_to("../outside")
    (root / "loop.py").symlink_to("loop.py")
    (root / "device.py").symlink_to("/dev/zero")
    (root / ".git").mkdir()
    (root / ".git" / "work.py").write_text(CODE)
    (root / "seen.py").symlink_to(".git/work.py")
    (root / "store.py").symlink_to("store/secret")
    os.mkfifo(root / "pipe.py")
    (root / "directory.py").mkdir()
    outside = "is outside of the directories"
    with served(tmp_path, "--root", root, "--root", second) as server:

        def said(job_path: str) -> str:
            url = f"{server.url}/jobs?composition=c&wait=60"
            answer = requests.post(url, json=SOLO | {"job_path": job_path}, timeout=120)
            if answer.ok:
                return str(answer.json()["state"])
            return str(problem_of(answer, 422)["detail"])

        for path in ("work.py", "other.py", "deep/er/work.py", str(second / "other.py")):
            assert said(path) == "succeeded", path
        for path, words in {
            "../outside/work.py": outside,
            "deep/../../outside/work.py": outside,
            str(tmp_path / "outside" / "work.py"): outside,
            str(tmp_path / "outside" / "none.py"): outside,
            "/etc/passwd.py": outside,
            "//etc/passwd.py": outside,
            "out.py": "does not exist",
            "up/work.py": "does not exist",
            "device.py": "does not exist",
            "loop.py": "cannot be resolved",
            ".git/work.py": "is hidden",
            "seen.py": "is hidden",
            "pipe.py": "not a regular file",
            "directory.py": "not a regular file",
            "none.py": "does not exist",
            "~/work.py": "does not exist",
        }.items():
            answer = said(path)
            assert words in answer, (path, answer)
            assert "sesame" not in answer
