"""Status, capacity, and bundle of drivers on standalone clusters: the pure parts."""

from __future__ import annotations

import ast
import errno
import importlib.util
import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path, PurePosixPath

import pyspark
import pytest

from binders.common.reservations import Reservations, slots_taken
from binders.spark.standalone.capacity import DRIVER_MEMORY, EXECUTOR_MEMORY, has_capacity, unplaced
from binders.spark.standalone.driver_bootstrap import DriverStatus as StatusFile
from binders.spark.standalone.driver_bootstrap import fetch, prefer_installed_pyspark
from binders.spark.standalone.driver_bundle import bundle, script
from binders.spark.standalone.driver_status import (
    DriverStatus,
    choose_driver,
    last_error_line,
    read_status,
    state_of,
)
from binders.spark.standalone.master import Cluster, Driver, Master, Worker
from speck.core.inventory import Engine
from speck.core.runtime import JobState
from speck.core.split import POLICIES
from testbed import ROOT
from testbed.servers.rest import rest_server


def driver(state: str, number: int = 0) -> Driver:
    return Driver(f"driver-20260101000000-{number:04}", state, "worker-1", "Main")


def status_of(kind: str, **more: object) -> DriverStatus:
    fields: dict[str, object] = {"message": kind, "age": 1.0, "starts": 1, "ran": kind == "running"}
    return DriverStatus(kind=kind, **(fields | more))  # type: ignore[arg-type]


# -- states


@pytest.mark.parametrize(
    ("found", "status", "waits", "state", "words"),
    [
        (driver("SUBMITTED"), None, False, JobState.STARTING, "waits for a worker"),
        (driver("RUNNING"), None, False, JobState.STARTING, "starts"),
        (driver("RUNNING"), status_of("building"), False, JobState.STARTING, "building"),
        (driver("RUNNING"), status_of("running"), False, JobState.RUNNING, "running"),
        (driver("RUNNING"), status_of("running", starts=3), False, JobState.RUNNING, "started 3 times"),
        (driver("RUNNING"), status_of("running"), True, JobState.STARTING, "waits for an executor"),
        (
            driver("RUNNING"),
            status_of("running", age=90.0),
            False,
            JobState.STARTING,
            "no heartbeat for 90 s",
        ),
        (driver("RUNNING"), status_of("starting", crashes=3), False, JobState.FAILED, "ends soon after"),
        (driver("RUNNING"), status_of("failed"), False, JobState.FAILED, "failed"),
        (driver("FINISHED"), status_of("failed"), False, JobState.FAILED, "failed"),
        (driver("FINISHED"), status_of("finished"), False, JobState.STOPPED, "finished"),
        (driver("FINISHED"), status_of("stopped"), False, JobState.LOST, "stopped"),
        (driver("FAILED"), status_of("running"), False, JobState.FAILED, "failed"),
        (driver("ERROR"), None, False, JobState.FAILED, "error"),
        (driver("KILLED"), status_of("running"), False, JobState.LOST, "killed"),
        (driver("RELAUNCHING"), status_of("running"), False, JobState.LOST, "relaunching"),
    ],
)
def test_state(found: Driver, status: DriverStatus | None, waits: bool, state: JobState, words: str) -> None:
    seen, message = state_of(found, status, waits)
    assert seen is state
    assert words in message


def test_of_several_drivers_the_one_that_works_counts() -> None:
    first, second = driver("RUNNING", 1), driver("RUNNING", 2)
    assert choose_driver([]) is None
    assert choose_driver([(first, None), (second, None)]) == (first, None)
    working = status_of("running")
    assert choose_driver([(first, status_of("starting")), (second, working)]) == (second, working)
    assert choose_driver([(first, status_of("gave_way")), (second, None)]) == (second, None)
    assert choose_driver([(first, status_of("gave_way"))]) is None
    over, failed = driver("FINISHED", 1), status_of("failed")
    assert choose_driver([(over, failed), (second, status_of("gave_way"))]) == (over, failed)


def test_drivers_are_ordered_by_their_number_beyond_9999() -> None:
    assert driver("RUNNING", 9999).order < driver("RUNNING", 10000).order


def test_last_words() -> None:
    log = "WARN a\njava.lang.OutOfMemoryError: Java heap space\n\tat a.b(c)\nINFO the end\n"
    assert last_error_line(log) == "java.lang.OutOfMemoryError: Java heap space"
    assert last_error_line("just this\n") == "just this"
    assert last_error_line("") == ""


# -- the status_of, as it is written and read


def test_a_status_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "speck.out"
    status = StatusFile(path)
    status.write("starting")
    status.write("running", "no batch yet", ran=True, running_since=0.0, control="http://host:1")
    written_at = json.loads(path.read_text())["at"]
    found = read_status(path.read_text(), written_at + 2)
    assert found is not None
    assert (found.kind, found.message, found.control) == ("running", "no batch yet", "http://host:1")
    assert found.age == pytest.approx(2, abs=0.01)
    assert (found.starts, found.crashes, found.ran) == (1, 0, True)


def test_a_status_that_cannot_be_written_ends_no_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status = StatusFile(tmp_path / "speck.out")
    status.write("running", "no batch yet", ran=True)
    with monkeypatch.context() as full:

        def write_text(path: Path, *_: object, **__: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        full.setattr(Path, "write_text", write_text)
        status.write("running", "a batch")
    assert "the status 'running' cannot be written" in capsys.readouterr().err
    assert json.loads((tmp_path / "speck.out").read_text())["message"] == "no batch yet"
    status.write("running", "another batch")
    assert json.loads((tmp_path / "speck.out").read_text())["message"] == "another batch"


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "{}", '{"kind": "running", "at": "noon"}'])
def test_malformed_status_files(text: str) -> None:
    assert read_status(text, 0.0) is None


def test_starts_and_crashes_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "speck.out"
    for starts in (1, 2, 3):
        status = StatusFile(path)
        status.write("starting")
        found = read_status(path.read_text(), 0.0)
        assert found is not None
        assert (found.starts, found.crashes) == (starts, starts - 1)
    long_ago = json.loads(path.read_text())["at"] - 3600
    status.write("running", ran=True, running_since=long_ago)
    StatusFile(path).write("starting")
    found = read_status(path.read_text(), 0.0)
    assert found is not None
    assert (found.starts, found.crashes, found.ran) == (4, 0, True)


# -- files


def test_a_file_that_is_there_is_not_fetched(tmp_path: Path) -> None:
    artifact = {"name": "a.py", "sha256": "00", "url": "http://127.0.0.1:1/artifacts/00/t/a.py"}
    there = tmp_path / "00" / "a.py"
    there.parent.mkdir()
    there.write_text("here")
    assert fetch(artifact, tmp_path) == there


def test_a_file_that_cannot_be_had_is_named_without_its_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binders.spark.standalone.driver_bootstrap.FETCH_PATIENCE", 0.3)
    artifact = {"name": "a.py", "sha256": "00", "url": "http://127.0.0.1:1/artifacts/00/sesame/a.py"}
    with pytest.raises(OSError, match=r"a\.py: not available from 127\.0\.0\.1:1") as caught:
        fetch(artifact, tmp_path)
    assert "sesame" not in str(caught.value)
    assert list((tmp_path / "00").iterdir()) == []


@pytest.mark.parametrize(
    "name", ["my job.py", "a#1.py", "a%41.py", "a?b=c.py", "luft-ä.py", "🚀.py", "a\\b.py", "ü" * 126 + ".py"]
)
def test_a_file_of_any_name_is_fetched_from_the_coordinator(tmp_path: Path, name: str) -> None:
    with rest_server(tmp_path / "server") as rest:
        assert rest.services.files is not None
        offered = rest.services.files.offer(name, b"content")
        artifact = {"name": offered.name, "sha256": offered.sha256, "url": offered.url}
        assert fetch(artifact, tmp_path / "cache").read_bytes() == b"content"
    assert [each.name for each in (tmp_path / "cache" / offered.sha256).iterdir()] == [name]


def test_the_bundle_holds_what_the_driver_imports() -> None:
    with zipfile.ZipFile(BytesIO(bundle())) as archive:
        names = set(archive.namelist())
        sources = {name: archive.read(name).decode() for name in names if name.endswith(".py")}
    for name, source in sources.items():
        for line in source.splitlines():
            word, _, rest = line.strip().partition(" ")
            module = rest.split()[0] if word in ("from", "import") and rest else ""
            if module.split(".")[0] in ("speck", "binders"):
                assert f"{module.replace('.', '/')}.py" in names, f"{name} imports {module}"


def test_the_script_needs_the_standard_library_alone() -> None:
    imported = {
        line.split()[1].split(".")[0]
        for line in script().decode().splitlines()
        if line.startswith(("import ", "from "))
    }
    assert imported <= sys.stdlib_module_names | {"__future__"}


# -- room


def worker(cores: int, memory: int) -> Worker:
    return Worker("w", "http://w", cores, cores, memory, memory)


BOTH = DRIVER_MEMORY + EXECUTOR_MEMORY


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ([], False),
        ([worker(2, BOTH)], True),
        ([worker(1, BOTH)], False),
        ([worker(2, BOTH - 1)], False),
        ([worker(1, DRIVER_MEMORY), worker(1, EXECUTOR_MEMORY)], True),
        ([worker(1, DRIVER_MEMORY - 1), worker(2, EXECUTOR_MEMORY)], False),
        ([worker(0, BOTH), worker(4, BOTH)], True),
    ],
)
def test_room(workers: list[Worker], expected: bool) -> None:
    assert has_capacity(workers) is expected


def test_room_that_is_promised_to_others_is_not_promised_again() -> None:
    two_jobs = [worker(2, BOTH), worker(2, BOTH)]
    assert has_capacity(two_jobs, drivers=1, executors=1)
    assert not has_capacity(two_jobs, drivers=1, executors=2)
    assert not has_capacity(two_jobs, drivers=2, executors=1)


def test_resources_of_reservations_that_are_placed_are_not_counted_twice() -> None:
    """The driver of ``b`` is on a worker and its executor is not; that of ``c`` waits; ``a`` has all."""
    waiting = replace(driver("SUBMITTED", 3), worker="")
    drivers = (driver("RUNNING", 1), driver("RUNNING", 2), waiting, driver("KILLED", 4))
    owners = {each.id: name for each, name in zip(drivers, "abcd", strict=True)}
    running = frozenset({"speck a 01", "somebody else's", "speck b 02"})
    cluster = Cluster((), drivers, running, waiting=frozenset({"speck b 02"}))
    assert unplaced(cluster, owners, frozenset("abcd")) == (2, 3)
    assert unplaced(cluster, owners, frozenset()) == (0, 0)


def test_slots_that_are_taken() -> None:
    assert slots_taken(["a", "b"], 0, frozenset("b")) == 2
    assert slots_taken(["a", "b"], 0, frozenset("c")) == 3
    assert slots_taken(["a"], 1, frozenset("c")) == 2  # an unidentified job, which may be that one
    assert slots_taken(["a"], 2, frozenset("c")) == 3


def test_a_reservation_ends_with_its_deadline_and_with_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    reservations: Reservations[int] = Reservations()
    with pytest.raises(KeyError), reservations.deciding("a", 1):
        raise KeyError
    with reservations.deciding("b", 2) as others:
        assert others == {}
    with reservations.deciding("c", 1) as others:
        assert others == {"b": 2}
    reservations.update("b", lambda slots: slots + 1)
    reservations.update("a", lambda slots: slots + 1)
    assert reservations.current() == {"b": 3, "c": 1}
    reservations.retain(lambda slots: slots < 3)
    reservations.release("c")
    assert reservations.released == 1
    monkeypatch.setattr("binders.common.reservations.RESERVED", -1.0)
    with reservations.deciding("c", 1) as others:
        assert others == {}
    with reservations.deciding("a", 1) as others:
        assert others == {}


# -- the master's own address


@pytest.mark.parametrize(
    ("address", "own", "fault"),
    [
        ("spark://edge:7077", "spark://10.0.0.1:7077", None),
        ("spark://edge", "spark://10.0.0.1:7077", None),
        ("spark://edge:7077", "", None),
        ("spark://edge:7077", "spark://10.0.0.1:what", None),
        ("spark://edge:8081", "spark://10.0.0.1:7077", "expected port 7077: its own address is"),
    ],
)
def test_drivers_find_the_master_at_its_address(address: str, own: str, fault: str | None) -> None:
    found = Master(address, Engine(spe_address=address)).address_fault(Cluster((), (), url=own))
    assert found is None if fault is None else fault in (found or "")


# -- the bundle of modules

PREFIXES = ("binders.", "speck.")


def imports_of(module: str) -> set[str]:
    """The modules of SpecK that a module imports, within functions too."""
    specification = importlib.util.find_spec(module)
    assert specification is not None and specification.origin is not None
    found: set[str] = set()
    for node in ast.walk(ast.parse(Path(specification.origin).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None and node.level == 0, f"{module} has a relative import"
            found.add(node.module)
    return {each for each in found if each.startswith(PREFIXES)}


def test_the_bundle_has_exactly_the_modules_that_the_driver_imports() -> None:
    needed = {"binders.spark.standalone.driver"}
    pending = list(needed)
    while pending:
        new = imports_of(pending.pop()) - needed
        needed |= new
        pending += new
    packages = {str(parent) for each in needed for parent in PurePosixPath(each.replace(".", "/")).parents}
    with zipfile.ZipFile(BytesIO(bundle())) as archive:
        members = {name for name in archive.namelist() if not name.startswith("jars_and_apps/")}
    modules = {f"{each.replace('.', '/')}.py" for each in needed}
    assert members == modules | {f"{each}/__init__.py" for each in packages - {"."}}


def test_the_policies_are_read_from_the_bundle(tmp_path: Path) -> None:
    (tmp_path / "bundle.zip").write_bytes(bundle())
    code = (
        "from jars_and_apps.key_split.baselines.policy import Policy, __file__, shipped, shipped_text\n"
        "print(__file__)\n"
        "print(*(Policy.of_text(shipped_text(name)).name for name in shipped()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path / "bundle.zip")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    file, names = done.stdout.splitlines()
    assert Path(file).is_relative_to(tmp_path)
    assert tuple(names.split()) == POLICIES


# -- the modules of PySpark


@pytest.mark.slow("starts a new interpreter")
def test_pyspark_is_imported_compiled() -> None:
    """As ``spark-submit`` runs the script: with the zips of Spark's Python modules first."""
    home = Path(pyspark.__file__).parent
    zips = sorted(str(each) for each in (home / "python" / "lib").glob("*.zip"))
    assert len(zips) == 2
    code = (
        "import os, sys; from driver_bootstrap import prefer_installed_pyspark as prefer; "
        "prefer(os.environ['SPARK_HOME'], sys.path); import pyspark; print(pyspark.__file__)"
    )
    script = ROOT / "binders" / "spark" / "standalone"
    variables = {"SPARK_HOME": str(home), "PYTHONPATH": os.pathsep.join([*zips, str(script)])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()) == home / "__init__.py"


@pytest.mark.parametrize("home", ["", "/opt/spark", str(Path(pyspark.__file__).parent)])
def test_zips_of_another_spark_stay_first(home: str) -> None:
    path = [f"{home}/python/lib/pyspark.zip", "/usr/lib/python3", "/opt/lib"]
    prefer_installed_pyspark(home, path)
    assert path[0] == f"{home}/python/lib/pyspark.zip"
