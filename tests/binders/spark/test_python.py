"""Jobs with Python functions, and a Spark Connect server that has another Python than the coordinator."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from binders.spark.connect.grpc_client import ConnectClient, endpoint_of
from binders.spark.connect.probe import ServerProbe
from binders.spark.local.commands import CONNECTOR
from binders.spark.query.code_check import mentions_python_functions
from binders.spark.query.packages import required_packages
from speck.core.runtime import JobState
from speck.errors import Rejected
from speck.testing import attempt_of, await_state
from testbed.benches.spark import JOBS, SparkBench
from testbed.servers.mosquitto import PROGRAM, MosquittoServer
from testbed.servers.spark import SparkServer

OURS = f"{sys.version_info.major}.{sys.version_info.minor}"

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no mosquitto (apt-get install mosquitto)")


def other_python() -> tuple[str, str] | None:
    """The path and minor version of a Python of another minor version that Spark can run, if there is one."""
    for minor in (10, 12, 13, 14):
        installed = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3"))
        for program in [shutil.which(f"python3.{minor}"), *map(str, installed)]:
            asked = "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"
            command = [program or "false", "-c", asked]
            version = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
            if version == f"3.{minor}" and version != OURS:
                return str(program), version
    return None


@pytest.fixture(scope="module", name="foreign")
def foreign_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SparkBench, str]]:
    """A bench whose server has another Python, and that Python's minor version."""
    if not CONNECTOR.exists():
        pytest.skip(f"{CONNECTOR.name} is not built (make, or mvn package in jars_and_apps/connectors)")
    found = other_python()
    if found is None:
        pytest.skip(f"no Python of another minor version than {OURS} is installed")
    program, version = found
    directory = tmp_path_factory.mktemp("foreign")
    server = SparkServer(directory / "spark", heap="512m", conf={"spark.pyspark.python": program})
    server.environment = {"PYSPARK_PYTHON": program}
    with MosquittoServer(directory / "mosquitto") as broker, server:
        bench = SparkBench(server, broker, directory)
        yield bench, version
        bench.close()


@pytest.mark.parametrize(
    ("name", "entry", "node"),
    [
        ("simple", "reverse", "EvalPython"),
        ("frames", "mapped", "MapInPandas"),
        ("frames", "grouped", "FlatMapGroupsInPandas"),
        ("frames", "registered", "EvalPython"),
        ("packages", "stateful", "PythonUDF"),
    ],
)
@pytest.mark.engine
def test_a_job_with_python_functions_is_refused_before_anything_starts(
    foreign: tuple[SparkBench, str], name: str, entry: str, node: str
) -> None:
    bench, version = foreign
    job = bench.job(f"refused-{entry}", entry, JOBS / f"{name}.py")
    with pytest.raises(Rejected) as caught:
        bench.binder().check(job, None)
    assert f"job 'refused-{entry}' has Python functions" in str(caught.value)
    assert node in str(caught.value)
    assert f"its workers run Python {version} (expected {OURS})" in str(caught.value)
    assert bench.running(job.job_name) == 0


@pytest.mark.parametrize(("name", "entry"), [("simple", "upper"), ("frames", "without")])
@pytest.mark.engine
def test_a_job_without_runs_all_the_same(foreign: tuple[SparkBench, str], name: str, entry: str) -> None:
    bench, _ = foreign
    engine, job = bench.binder(), bench.job(f"runs-{entry}", entry, JOBS / f"{name}.py")
    engine.check(job, None)
    handle = engine.submit(job, attempt_of(job))
    await_state(engine, handle, JobState.RUNNING)
    engine.stop(handle, keep_state=False)


@pytest.mark.engine
def test_what_was_not_seen_before_is_said_when_it_fails(foreign: tuple[SparkBench, str]) -> None:
    bench, version = foreign
    engine, job = bench.binder(), bench.job("unseen", "reverse")
    handle = engine.submit(job, attempt_of(job))
    bench.feed(job)
    said = await_state(engine, handle, JobState.FAILED).message
    assert version in said
    assert OURS in said
    assert "\n" not in said
    engine.stop(handle, keep_state=False)


def test_the_workers_are_asked_once_as_long_as_the_server_runs(spark_server: SparkServer) -> None:
    client = ConnectClient(spark_server.address, endpoint_of(spark_server.address))
    try:
        assert ServerProbe(spark_server.address, client).python_fault() is None
        asked = []
        client.text = lambda *arguments: asked.append(arguments) or ""  # type: ignore[method-assign]
        assert ServerProbe(spark_server.address, client).python_fault() is None  # of another coordinator
        assert asked == []
    finally:
        client.close()


@pytest.fixture(name="site_bench", scope="module")
def site_bench_fixture(
    spark_server: SparkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkBench]:
    directory = tmp_path_factory.mktemp("bench")
    with MosquittoServer(directory / "mosquitto") as broker:
        bench = SparkBench(spark_server, broker, directory)
        yield bench
        bench.close()


PACKAGES = JOBS / "packages.py"


@pytest.mark.parametrize("entry", ["imported", "stateful"])
def test_a_package_that_the_server_lacks_is_named_before_anything_starts(
    site_bench: SparkBench, entry: str
) -> None:
    job = site_bench.job(f"lacks-{entry}", entry, PACKAGES)
    with pytest.raises(Rejected) as caught:
        site_bench.binder().check(job, None)
    line = required_packages(PACKAGES, entry)["no_such_package"]
    assert str(caught.value) == (
        f"job 'lacks-{entry}' has Python functions that import the package 'no_such_package' (packages.py, "
        f"line {line}), which {site_bench.server.address} does not have (install it for the Python of its "
        "workers)"
    )


@pytest.mark.parametrize("entry", ["optional", "elsewhere", "found"])
def test_a_package_that_no_function_at_the_site_needs_is_not_asked_for(
    site_bench: SparkBench, entry: str
) -> None:
    site_bench.binder().check(site_bench.job(f"has-{entry}", entry, PACKAGES), None)


def test_packages_that_are_there_are_asked_for_once(spark_server: SparkServer) -> None:
    client = ConnectClient(spark_server.address, endpoint_of(spark_server.address))
    try:
        probe = ServerProbe(spark_server.address, client)
        assert probe.missing_packages(["no_such_package", "pandas", "xml"]) == ["no_such_package"]
        asked = []
        client.text = lambda *arguments: asked.append(arguments) or "other"  # type: ignore[method-assign]
        other = ServerProbe(spark_server.address, client)  # of another coordinator
        assert other.missing_packages(["pandas", "xml"]) == []
        assert asked == []
        assert other.missing_packages(["pandas", "other"]) == ["other"]
        assert len(asked) == 1
    finally:
        client.close()


def packages(tmp_path: Path, body: str, entry: str = "job") -> dict[str, int]:
    path = tmp_path / "file.py"
    path.write_text(body)
    return required_packages(path, entry)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (
            "def job(m):\n import numpy.linalg, os\n from shapely import ops as o\n",
            {"numpy": 2, "shapely": 3},
        ),
        # An import that may register something counts for every job of the file.
        ("import a\ndef job(m): return m\ndef other(m):\n import b\n", {"a": 1}),
        ("def job(m): return f()\ndef f():\n class X:\n  import a\n", {"a": 4}),
        ("def job(m):\n import a\n import a.b\n from pyspark.sql import functions\n", {"a": 2}),
        ("def job(m):\n from . import a\n from .b import c\n", {}),
        (
            "def job(m):\n try:\n  import a\n except ImportError:\n  import b\n finally:\n  import c\n",
            {"c": 7},
        ),
        ("def job(m):\n try:\n  import a\n except (ValueError, ModuleNotFoundError):\n  pass\n", {}),
        ("def job(m):\n try:\n  import a\n except:\n  pass\n", {}),
        ("def job(m):\n try:\n  import a\n except ValueError:\n  pass\n", {"a": 3}),
        ("def job(m):\n with suppress(ImportError):\n  import a\n with x:\n  import b\n", {"b": 5}),
        ("def job(m):\n if m:\n  import a\n", {}),
        ("import typing\nif typing.TYPE_CHECKING:\n import a\nimport b\ndef job(m): a.x, b.x\n", {"b": 4}),
        ("def job(m:\n", {}),
        ("x = 1\n", {}),
    ],
)
def test_packages_that_a_job_imports(body: str, found: dict[str, int], tmp_path: Path) -> None:
    assert packages(tmp_path, body) == found


def test_packages_that_a_job_in_an_archive_imports(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "jobs.zip", "w") as archive:
        archive.writestr("jobs/clean.py", "import a\ndef clean(m):\n import c\n return a.x\n")
    assert required_packages(tmp_path / "jobs.zip", "jobs.clean.clean") == {"a": 1, "c": 3}
    assert required_packages(tmp_path / "jobs.zip", "jobs.none.clean") == {}
    assert required_packages(tmp_path / "none.zip", "jobs.none.clean") == {}


@pytest.mark.engine
def test_a_server_without_python_says_so(tmp_path: Path) -> None:
    if not CONNECTOR.exists():
        pytest.skip(f"{CONNECTOR.name} is not built (make, or mvn package in jars_and_apps/connectors)")
    server = SparkServer(tmp_path / "spark", heap="512m", conf={"spark.pyspark.python": "no-such-python"})
    server.environment = {"PYSPARK_PYTHON": "no-such-python"}
    with MosquittoServer(tmp_path / "mosquitto") as broker, server:
        bench = SparkBench(server, broker, tmp_path)
        try:
            with pytest.raises(Rejected, match=r"has Python functions .*: .*no-such-python") as caught:
                bench.binder().check(bench.job("a", "reverse"), None)
            assert "\n" not in str(caught.value)
            bench.binder().check(bench.job("b", "upper"), None)
        finally:
            bench.close()


@pytest.mark.parametrize(("name", "mentioned"), [("simple.py", True), ("frames.py", True)])
def test_words_of_python_functions(name: str, mentioned: bool, tmp_path: Path) -> None:
    assert mentions_python_functions(JOBS / name) is mentioned
    archive = tmp_path / "jobs.zip"
    with zipfile.ZipFile(archive, "w") as package:
        package.writestr("other.py", "x = 1\n")
        package.write(JOBS / name, "package/inner.py")
    assert mentions_python_functions(archive) is mentioned


def test_no_words_of_python_functions(tmp_path: Path) -> None:
    plain = tmp_path / "plain.py"
    plain.write_text("def clean(messages):\n    return messages.where('value > 1')\n")
    assert not mentions_python_functions(plain)
    with zipfile.ZipFile(tmp_path / "plain.zip", "w") as package:
        package.write(plain, "plain.py")
        package.writestr("notes.txt", "udf")
    assert not mentions_python_functions(tmp_path / "plain.zip")
