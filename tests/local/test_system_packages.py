"""The requests to the system's package manager of machines that lack some packages."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed import ROOT

SCRIPT = ROOT / "scripts" / "system-packages.sh"
TOOLS = ("bash", "env", "id", "sed")
THERE = {"mosquitto": "", "mvn": "", "java": "", "javac": "echo javac 17.0.15", "python3": ""}
RECORD = 'echo "${0##*/} $*" >> "$RECORD"\n'

Machine = Callable[[dict[str, str | None]], tuple[int, str, str]]


@pytest.fixture(name="machine")
def machine_fixture(tmp_path: Path) -> Machine:
    """Runs the script on a machine with these programs beside what it needs; None takes one away."""

    def run(changed: dict[str, str | None]) -> tuple[int, str, str]:
        for tool in TOOLS:
            (tmp_path / tool).symlink_to(shutil.which(tool) or "")
        for name, text in {**THERE, "id": "echo 0", **changed}.items():
            if text is not None:
                (tmp_path / name).unlink(missing_ok=True)
                (tmp_path / name).write_text(f"#!{shutil.which('bash')}\n{text}\n")
                (tmp_path / name).chmod(0o755)
        record = tmp_path / "record"
        said = subprocess.run(
            [shutil.which("bash") or "", SCRIPT],
            env={"PATH": str(tmp_path), "RECORD": str(record)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert said.stdout == ""
        return said.returncode, said.stderr, record.read_text() if record.exists() else ""

    return run


def test_nothing_is_missing(machine: Machine) -> None:
    assert machine({"apt-get": RECORD}) == (0, "", "")


def test_what_is_missing_is_installed(machine: Machine) -> None:
    code, said, asked = machine(
        {"java": None, "javac": None, "mvn": None, "apt-get": RECORD, "apt-cache": ""}
    )
    assert (code, said) == (0, "installing openjdk-17-jdk-headless maven\n")
    assert asked == "apt-get update -qq\napt-get install -y -q openjdk-17-jdk-headless maven\n"


def test_a_release_without_this_java(machine: Machine) -> None:
    none_but_21 = 'case "$2" in *21*) exit 0;; *) exit 100;; esac'
    code, _, asked = machine({"javac": "echo javac 11.0.2", "apt-get": RECORD, "apt-cache": none_but_21})
    assert (code, asked.splitlines()[-1]) == (0, "apt-get install -y -q openjdk-21-jdk-headless")


def test_another_package_manager(machine: Machine) -> None:
    code, _, asked = machine({"javac": None, "dnf": RECORD})
    assert (code, asked) == (0, "dnf install -y -q java-17-openjdk-devel\n")


def test_without_the_rights(machine: Machine) -> None:
    code, said, asked = machine(
        {"id": "echo 1000", "mvn": None, "apt-get": RECORD, "sudo": "exit 1", "apt-cache": ""}
    )
    assert (code, asked) == (1, "")
    assert said == "SpecK needs: maven. Install them first, as root:  apt-get install maven\n"


def test_without_a_package_manager(machine: Machine) -> None:
    code, said, _ = machine({"mvn": None})
    assert code == 1
    assert "install them, then run make again" in said


@pytest.mark.parametrize(
    ("python", "reported"),
    [("echo Python 3.9.2; exit 1", "python3 is: Python 3.9.2. "), (None, "python3 is: ")],
)
def test_an_old_python(machine: Machine, python: str | None, reported: str) -> None:
    code, said, asked = machine({"python3": python, "apt-get": RECORD})
    assert (code, asked) == (1, "")
    assert said.startswith("SpecK needs Python 3.11 or newer, and ")
    assert reported in said
    assert "make PYTHON=python3.11" in said
