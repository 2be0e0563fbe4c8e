"""The audit of dependencies, on copies of what is really pinned."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from scripts.audit import ROOT, OutOfReach, ask_service, audit, main, needed, not_as_pinned


@pytest.fixture(name="tree")
def tree_fixture(tmp_path: Path) -> Path:
    """The files of the audit, to be changed."""
    for name in ("constraints.txt", "requirements-pyflink.txt"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    for pom in (ROOT / "jars_and_apps").rglob("pom.xml"):
        if "target" not in pom.parts:
            copy = tmp_path / pom.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(pom, copy)
    return tmp_path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_what_is_pinned_now_is_known_to_be_well(tree: Path) -> None:
    assert list(audit(tree)) == []


def test_a_pin_that_is_known_to_be_vulnerable_fails_though_the_service_is_out_of_reach(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def out_of_reach(requirements: str) -> list[str]:
        raise OutOfReach("no route")

    (line,) = [
        each for each in (tree / "constraints.txt").read_text().splitlines() if each.startswith("waitress==")
    ]
    change(tree / "constraints.txt", line, "waitress==3.0.0")
    monkeypatch.setattr("scripts.audit.ask_service", out_of_reach)
    monkeypatch.setattr(sys, "argv", ["audit", str(tree)])
    assert main() == 1
    said = capsys.readouterr().err
    assert "the advisory service was not asked (no route)" in said
    assert "waitress 3.0.0 is vulnerable (CVE-2024-49768" in said
    assert f"waitress {line.partition('==')[2]} is installed, and 3.0.0 is pinned" in said


def test_the_python_of_flink_and_java_are_looked_at_too(tree: Path) -> None:
    change(tree / "requirements-pyflink.txt", "pymongo==", "pymongo==4.0.0 # ")
    pom = tree / "jars_and_apps" / "connectors" / "pom.xml"
    text = pom.read_text()
    version = text.partition("<netty.version>")[2].partition("<")[0]
    change(pom, f"<netty.version>{version}", "<netty.version>4.1.110.Final")
    faults = list(audit(tree))
    assert any("pymongo 4.0.0 is vulnerable (CVE-2024-5629" in fault for fault in faults)
    assert any(
        "io.netty:netty-handler 4.1.110.Final is vulnerable (CVE-2025-24970" in fault for fault in faults
    )
    assert len(faults) == 2


@pytest.mark.parametrize(
    "loose", ["click", "click>=8", "click==8.*", "click==8.1,<9", "click @ https://x/y.whl"]
)
def test_what_is_not_pinned_exactly_fails(tree: Path, loose: str) -> None:
    with (tree / "requirements-pyflink.txt").open("a") as file:
        file.write(f"{loose}\n")
    assert list(audit(tree)) == [
        f"requirements-pyflink.txt: {loose!r} is no exact version (expected NAME==VERSION)"
    ]


@pytest.mark.parametrize("loose", ["[4.2,)", "4.3-SNAPSHOT", "LATEST", "${nothing}"])
def test_an_artifact_that_is_not_pinned_exactly_fails(tree: Path, loose: str) -> None:
    pom = tree / "jars_and_apps" / "connectors" / "mqtt-core" / "pom.xml"
    change(pom, "${netty.version}", loose)
    faults = list(audit(tree))
    assert any("io.netty:netty-handler" in fault and "is no exact version" in fault for fault in faults)


def test_what_is_installed_and_not_pinned_is_told() -> None:
    assert not_as_pinned({"a": "1", "b": "2", "pip": "9"}, {"a": "1"}) == [
        "b 2 is installed, and none is pinned in constraints.txt"
    ]
    found = needed()
    assert {"speck", "pytest", "waitress", "werkzeug", "msgpack"} <= found.keys()  # cachecontrol[filecache]
    assert "pip" in needed("pip")
    assert needed("pip").keys() == {"pip"}


@pytest.mark.slow("asks a service in the network")
def test_the_service_condemns_what_is_vulnerable_and_nothing_else() -> None:
    try:
        reported = ask_service("urllib3==1.24.1\n")
    except OutOfReach as error:
        pytest.skip(f"the advisory service is out of reach: {error}")
    assert any("urllib3 1.24.1 is vulnerable" in each for each in reported)
