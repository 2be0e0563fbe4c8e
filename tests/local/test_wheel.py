"""The wheel: its contents, its refusal without jars, and its commands outside of the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

import pytest

from testbed import ROOT
from testbed.servers.mosquitto import PROGRAM as MOSQUITTO
from tests.support.trials import trial

JARS = (
    "binders/jars/flink-mqtt.jar",
    "binders/jars/flink-small.jar",
    "binders/jars/spark-mqtt.jar",
    "binders/jars/speck-kafka.jar",
    "jars_and_apps/flink/speck-flink-jobs-all.jar",
    "jars_and_apps/flink/speck-flink-jobs.jar",
    "jars_and_apps/nexmark/speck-nexmark.jar",
)
TREE = ("LICENSE", "README.md", "pyproject.toml", "setup.cfg", "setup.py", "scripts/systemd")
PACKAGES = ("binders", "jars_and_apps", "pipelines", "speck")
INSTALL = ROOT / "scripts" / "install-packages.sh"
TIMEOUT = 600  # s, of an installation or a demo
SITES = "sites:\n  A:\n    spe_address: http://127.0.0.1:1/\n    broker_address: tcp://127.0.0.1:1\n"

needs_jars = pytest.mark.skipif(
    not all((ROOT / jar).exists() for jar in JARS), reason="needs the jars (make jars)"
)
pytestmark = pytest.mark.slow("builds the wheel, and installs packages")


def copied(directory: Path) -> Path:
    """A copy of all that the wheel is built from, so that tests at the same time share no build directory."""
    ignored = shutil.ignore_patterns("__pycache__", "target", "src", "connectors", "*.egg-info")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, directory / name, ignore=ignored)
    for name in TREE:
        (directory / name).parent.mkdir(exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, directory / name)
    return directory


def environment(directory: Path, *packages: str) -> Path:
    """The programs of a new virtual environment with these packages."""
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    done = install(directory, *packages)
    assert done.returncode == 0, done.stderr
    return directory / "bin"


def install(directory: Path, *packages: str) -> subprocess.CompletedProcess[str]:
    """Install packages of the versions of ``constraints.txt``, as the Makefile does."""
    command = [INSTALL, directory, "-c", "constraints.txt", *packages]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT)


def run(command: Path, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of an environment without this checkout on its path."""
    settings = {key: value for key, value in os.environ.items() if not key.startswith(("SPECK_", "PYTHON"))}
    words = [str(command), *map(str, arguments)]
    return subprocess.run(words, cwd=cwd, env=settings, capture_output=True, text=True, timeout=TIMEOUT)


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that builds wheels; skips where its packages cannot be had."""
    directory = tmp_path_factory.mktemp("builder") / "env"
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    done = install(directory, "setuptools>=70.1", "wheel")
    if done.returncode:
        pytest.skip(f"the packages that build a wheel cannot be installed: {done.stderr.strip()[-200:]}")
    return directory / "bin"


@pytest.fixture(scope="module")
def wheel(builder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    if absent := [jar for jar in JARS if not (ROOT / jar).exists()]:
        pytest.skip(f"{', '.join(absent)} not built (make jars)")
    directory = tmp_path_factory.mktemp("wheel")
    done = build(builder, copied(directory / "tree"), directory)
    assert done.returncode == 0, done.stderr
    (found,) = directory.glob("speck-*.whl")
    return found


def build(builder: Path, tree: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Build the wheel of a tree into ``target``."""
    options = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", target, tree)
    return run(builder / "pip", *options, cwd=target)


@contextmanager
def served(speck: Path, directory: Path) -> Iterator[str]:
    """The address of a server of the installed command."""
    (directory / "sites.yaml").write_text(SITES)
    command = [speck, "serve", "--port", "0", "--data-dir", "store", "--sites", "sites.yaml"]
    with subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


@needs_jars
@pytest.mark.parametrize(
    "jar", [JARS[0], *(pytest.param(each, marks=trial(f"[{JARS[0]}]")) for each in JARS[1:])]
)
def test_a_wheel_without_a_jar_is_refused(jar: str, builder: Path, tmp_path: Path) -> None:
    tree = copied(tmp_path / "tree")
    (tree / jar).unlink()
    done = build(builder, tree, tmp_path)
    assert done.returncode != 0
    sentence = f"speck is not built: {jar} is missing (expected the jars, which 'make jars' builds)"
    assert sentence in done.stdout + done.stderr
    assert not list(tmp_path.glob("*.whl"))


def test_an_editable_installation_needs_no_jars(builder: Path, tmp_path: Path) -> None:
    tree = copied(tmp_path / "tree")
    for jar in JARS:
        (tree / jar).unlink(missing_ok=True)
    options = ("install", "--no-deps", "--no-build-isolation", "--target", tmp_path / "there", "-e", tree)
    done = run(builder / "pip", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_wheel_has_all_data_of_its_packages_and_the_units(wheel: Path) -> None:
    names = {name.partition(".data/data/")[2] or name for name in ZipFile(wheel).namelist()}
    tracked = subprocess.check_output(["git", "ls-files", *PACKAGES, "scripts/systemd"], cwd=ROOT, text=True)
    data = {
        name.replace("scripts/systemd", "share/speck/systemd")
        for name in tracked.split()
        if not name.startswith(
            tuple(f"jars_and_apps/{name}/" for name in ("connectors", "flink", "nexmark", "sql"))
        )
    }
    assert data - names == set()
    assert set(JARS) <= names
    assert not [name for name in names if name.startswith(("tests", "benchmarks", "docs"))]


def test_the_wheel_has_the_contract_of_binders_as_tests(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    assert {"speck/testing/__init__.py", "speck/testing/brokers.py", "speck/testing/engines.py"} <= {*names}
    assert not [name for name in names if name.startswith(("tests/", "testbed/"))]
    (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    assert "Provides-Extra: testing" in ZipFile(wheel).read(metadata).decode()


def test_without_extras_it_is_the_client_and_a_coordinator(
    wheel: Path, builder: Path, tmp_path: Path
) -> None:
    done = install(builder.parent, str(wheel))  # beside what builds wheels, which is not of SpecK
    assert done.returncode == 0, done.stderr
    speck = builder / "speck"
    where = run(speck.with_name("python"), "-c", "import speck; print(speck.__file__)", cwd=tmp_path)
    assert where.stdout.startswith(str(builder.parent))
    assert "Usage: speck" in run(speck, "--help", cwd=tmp_path).stdout
    units = {path.name for path in (builder.parent / "share" / "speck" / "systemd").iterdir()}
    assert units >= {"speck.service", "speck-spark.service"}
    with served(speck, tmp_path) as address:
        jobs = run(speck, "--server", address, "jobs", "--json", cwd=tmp_path)
        assert (jobs.returncode, json.loads(jobs.stdout or "0")) == (0, []), jobs.stderr
    started = run(speck, "local", "up", cwd=tmp_path)
    assert started.returncode == 1
    assert "pyspark is not installed (pip install 'speck[spark]')" in started.stderr


@trial("the commands of such an environment")
@pytest.mark.engine
@pytest.mark.skipif(not (MOSQUITTO and shutil.which("java")), reason="needs Java and Mosquitto")
def test_the_demo_runs_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    speck = environment(tmp_path / "env", f"speck[local] @ {wheel.as_uri()}") / "speck"
    done = run(speck, "demo", "--limit", 2000, "--rate", 0, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts["jobs"] == 17
    assert counts["sent"]["readings"] == 2000
    assert counts["counted_locally"] == counts["counted_globally"] == counts["sent"]
