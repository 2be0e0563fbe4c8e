"""Archives of the classes that engines load at their start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import IO

import pytest

from binders.common import class_archive
from binders.common.java import java
from binders.flink.local import small
from binders.spark.local.commands import ARCHIVE
from speck.errors import LocalError
from speck.testing.waiting import eventually
from testbed.servers.spark import SparkServer

# A program of the JDK that ends by itself: an archive of its classes is written within a second, and one of
# Spark's, which the last test uses, in half a minute.
CLASS = "sun.tools.jar.Main"

needs_jdk = pytest.mark.skipif(shutil.which("javac") is None, reason="javac is not installed")


@pytest.fixture(autouse=True)
def prefix_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "spark_server" not in request.fixturenames:
        monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))


def program() -> list[str]:
    return [java("Spark"), "-m", f"jdk.jartool/{CLASS}", "--version"]


def make(directory: Path) -> None:
    said = directory / "some.log"
    programs = {"some": program()}

    def has_spoken() -> None:
        eventually(said.read_bytes, bool)

    class_archive.make(programs, os.environ, directory, has_spoken)


def test_two_processes_may_publish_one_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one publishes its own while the first has moved its archive beside the place."""
    (tmp_path / "one.jsa").write_bytes(b"one")
    (tmp_path / "two.jsa").write_bytes(b"two")
    to, move = class_archive.archive_path("some"), shutil.move

    def moved(source: Path, target: Path) -> None:
        monkeypatch.setattr(shutil, "move", move)
        move(source, target)
        class_archive._move(tmp_path / "two.jsa", to)
        assert to.read_bytes() == b"two"

    monkeypatch.setattr(shutil, "move", moved)
    class_archive._move(tmp_path / "one.jsa", to)
    assert to.read_bytes() == b"one"
    assert list(to.parent.iterdir()) == [to]


def test_two_processes_may_unpack_one_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one does so while the first has written a part."""
    distribution, content = tmp_path / "flink-dist-1.jar", bytes(range(256)) * 1000
    with zipfile.ZipFile(distribution, "w") as jar:
        jar.writestr(f"{small._RPC}.jar", content)
    monkeypatch.setattr(small, "_distribution", lambda: distribution)
    copy = shutil.copyfileobj

    def copied(source: IO[bytes], target: IO[bytes]) -> None:
        monkeypatch.setattr(shutil, "copyfileobj", copy)
        target.write(source.read(1000))
        small.unpack_rpc()
        assert small.rpc_jar().read_bytes() == content
        copy(source, target)

    monkeypatch.setattr(shutil, "copyfileobj", copied)
    small.unpack_rpc()
    assert small.rpc_jar().read_bytes() == content
    assert list(small.rpc_jar().parent.iterdir()) == [small.rpc_jar()]


@needs_jdk
@pytest.mark.engine
def test_an_archive_is_made_and_used(tmp_path: Path) -> None:
    assert class_archive.options("some") == ()
    make(tmp_path)
    command, *arguments = program()
    loaded = [command, *class_archive.options("some"), "-Xlog:class+load", *arguments]
    said = subprocess.run(loaded, capture_output=True, text=True, check=True, timeout=60)
    ours = [line for line in said.stdout.splitlines() if f"{CLASS} " in line]
    assert [line.endswith("source: shared objects file (top)") for line in ours] == [True]


@needs_jdk
@pytest.mark.engine
def test_one_that_does_not_fit_is_left_aside_without_a_word() -> None:
    class_archive.archive_path("some").parent.mkdir(parents=True)
    class_archive.archive_path("some").write_text("no archive")
    command, *arguments = program()
    loaded = [command, *class_archive.options("some"), *arguments]
    said = subprocess.run(loaded, capture_output=True, check=True, timeout=60)
    assert b"archive" not in said.stdout + said.stderr


def test_no_place_for_it(tmp_path: Path) -> None:
    (tmp_path / "environment").write_text("a file")
    program = [sys.executable, "-c", ""]
    with pytest.raises(LocalError, match=r"no class archive at .*some\.jsa: Not a directory"):
        class_archive.make({"some": program}, {}, tmp_path, (tmp_path / "some.jsa").touch)


def test_a_program_that_ends_without_one(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"no class archive at .*some\.jsa: the program wrote none"):
        class_archive.make({"some": [sys.executable, "-c", ""]}, {}, tmp_path, lambda: None)


@pytest.mark.skipif(
    not class_archive.options(ARCHIVE), reason="no archive of Spark's classes (speck local prepare)"
)
def test_a_server_uses_the_archive(spark_server: SparkServer) -> None:
    maps = Path(f"/proc/{spark_server.pid}/maps").read_text()
    assert str(class_archive.archive_path(ARCHIVE)) in maps
