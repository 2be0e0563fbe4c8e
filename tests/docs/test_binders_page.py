"""The binder that docs/binders.md builds: a short page, whose code passes the contract and runs jobs."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from speck.binder import BrokerBinder, EngineBinder, Registry, installed
from speck.binder.contract import Capability
from speck.coordinator import Services, build
from speck.core.inventory import Engine, Inventory, Site
from speck.core.job import Job
from speck.core.settings import Settings
from speck.store import Store
from speck.testing import eventually
from testbed import ROOT
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition
from tests.support.docs_blocks import blocks

PAGE = ROOT / "docs" / "binders.md"
MOST_LINES = 400
LEAST_PASSED = 80  # tests of the contract: those of the abstract methods and of servers in trouble
CODE = (
    "def louder(message):\n    return message + '!'\n\n\ndef question(message):\n    return message + '?'\n"
)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The folder with the files of the page."""
    for block in blocks(PAGE):
        if "file" in block.notes:
            path = tmp_path / block.notes["file"]
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text)
    return tmp_path


def test_the_page_is_short() -> None:
    assert len(PAGE.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def run_suite(package: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rsf",
        "-p",
        "no:cacheprovider",
        *options,
        "test_abacus.py",
    ]
    environment = {"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow("servers in trouble are awaited")
def test_the_binders_pass_the_contract(package: Path) -> None:
    done = run_suite(package)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"(\d+) passed, (\d+) skipped", done.stdout)
    assert found is not None, done.stdout
    assert int(found[1]) >= LEAST_PASSED
    reasons = re.findall(r"^SKIPPED .*?\.py:\d+: (.*)$", done.stdout, re.MULTILINE)
    assert reasons
    assert all(reason.startswith(("this engine ", "this broker's binder has no ")) for reason in reasons)


BROKEN = [
    ('if not found["is_there"]:', "if False:", "test_a_state_that_is_gone_is_named"),
    ("self.reserved[job.job_name] = ", "_ = ", "test_no_room"),
]


@pytest.mark.slow("a suite runs in a process of its own")
def test_a_binder_that_breaks_the_contract_fails(package: Path) -> None:
    path = package / "speck_abacus" / "__init__.py"
    text = path.read_text()
    for line, broken, _ in BROKEN:
        assert text.count(line) == 1
        text = text.replace(line, broken)
    path.write_text(text)
    tests = [test for *_, test in BROKEN]
    done = run_suite(package, "-k", " or ".join(tests))
    assert done.returncode == 1, done.stdout
    for test in tests:
        assert f"FAILED test_abacus.py::TestEngine::{test}" in done.stdout


@pytest.fixture
def abacus(package: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The page's package as it is installed, and the module of its server."""
    declared = next(each for each in blocks(PAGE) if each.language == "toml").text
    points = re.findall(r'^(\w+) = "(.*)"$', declared, re.MULTILINE)
    record = package / "speck_abacus-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: speck-abacus\nVersion: 1.0\n")
    lines = "".join(f"{name} = {place}\n" for name, place in points)
    (record / "entry_points.txt").write_text(f"[speck.binders]\n{lines}")
    monkeypatch.syspath_prepend(package)
    yield import_module("speck_abacus.server")
    for name in ("speck_abacus", "speck_abacus.server"):
        sys.modules.pop(name, None)


def test_a_coordinator_runs_jobs_on_it(abacus: ModuleType, tmp_path: Path) -> None:
    """A job is started, keeps its count over an update, and no message is lost in between."""
    (tmp_path / "jobs.py").write_text(CODE)
    with abacus.serve(0) as server, Store(tmp_path / "store") as store:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        engine, broker = (f"{scheme}://127.0.0.1:{server.server_port}" for scheme in ("abacus", "beads"))
        services = build(
            store,
            kinds_of_page(),
            Inventory({"A": Site(name="A", engines=(Engine(spe_address=engine),), broker_address=broker)}),
            Settings(roots=(tmp_path,), period=0),
        )
        services.coordinator.start()
        try:
            check_a_life(services, server.abacus, job_on(engine, broker))
        finally:
            services.coordinator.close()
            server.shutdown()


def kinds_of_page() -> Registry:
    found = installed()
    assert found.engine_kind("abacus", "abacus://desk") is not None
    assert found.broker_kind("beads://desk") is not None
    return found


def job_on(engine: str, broker: str) -> Job:
    return Job(
        job_name="a",
        spe_address=engine,
        source_broker=broker,
        source_topic="in",
        sink_broker=broker,
        sink_topic="out",
        entry_class="louder",
        job_path="jobs.py",
        code_hash=sha256(CODE.encode()).hexdigest(),
        engine="abacus",
    )


def test_the_page_of_the_contract_has_every_method_and_capability() -> None:
    page = (ROOT / "docs" / "binder-contract.md").read_text(encoding="utf-8")
    methods = {name for base in (EngineBinder, BrokerBinder) for name in vars(base) if name[0] != "_"}
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", page))))
    assert {*methods, *(each.name for each in Capability)} <= words | {"address", "capabilities"}


def check_a_life(services: Services, abacus: Any, job: Job) -> None:
    abacus.ensure("listener", "out")
    carry_out(services, job)
    for number in range(3):
        abacus.publish("in", str(number))
    eventually(lambda: abacus.messages["listener"], lambda found: found == ["0!", "1!", "2!"])
    with abacus.lock:  # these wait until the new form has started
        abacus.publish("in", "3")
        stopped = threading.Thread(target=carry_out, args=(services, replace(job, entry_class="question")))
        stopped.start()
    stopped.join(60)
    abacus.publish("in", "4")
    eventually(lambda: abacus.messages["listener"], lambda found: len(found) == 5)
    assert abacus.messages["listener"][4] == "4?"
    assert abacus.messages["listener"][3] in ("3!", "3?")  # once, by either form
    (running,) = [each for each in abacus.jobs.values() if each["state"] == "running"]
    assert running["rows"] == 5  # its state has come along
    operation = user.delete_composition(services.coordinator, "traffic")
    assert operation.wait(60)
    assert abacus.topics.keys() == {"listener"}


def carry_out(services: Services, job: Job) -> None:
    operation, _ = user.apply(services.coordinator, composition(job))
    assert operation.wait(60)
    assert operation.state == "succeeded", operation.to_dict()
