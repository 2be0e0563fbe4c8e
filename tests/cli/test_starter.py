"""``speck init``: the files are valid, pass their own test, and run on a real engine and broker."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from binders.common import class_archive
from binders.common.java import java
from binders.spark.local.commands import ARCHIVE, CONNECTOR
from speck.cli import cli
from speck.cli.init import starter_files, write_starter
from speck.errors import LocalError, SpeckError
from speck.testing.waiting import eventually
from testbed.benches.mqtt_client import MqttClient
from testbed.servers.base import REFUSING_PORT
from testbed.servers.local_spark import JVM_OPTIONS
from testbed.servers.mosquitto import PROGRAM, MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.servers.terminal import command, environment, piped

NOWHERE = f"http://127.0.0.1:{REFUSING_PORT}"
FILES = [
    *("README.md", "composition.yaml", "jobs/readings.py", "schemas/composition.schema.json"),
    *("schemas/inventory.schema.json", "sites.yaml", "test_readings.py"),
]


def files_of(directory: Path) -> list[str]:
    return sorted(str(each.relative_to(directory)) for each in directory.rglob("*") if each.is_file())


@pytest.fixture
def started(tmp_path: Path) -> Path:
    """A directory written by the command."""
    said = piped(NOWHERE, "init", "first", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "next: read first/README.md" in said.stderr
    return tmp_path / "first"


def test_the_files_are_valid(started: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert files_of(started) == FILES
    monkeypatch.chdir(started)
    run = partial(CliRunner().invoke, cli)
    said = run(["validate", "composition.yaml", "--sites", "sites.yaml"])
    assert said.stdout == "composition.yaml: composition hot-readings, jobs pick-hot, no faults\n"
    assert run(["validate", "sites.yaml"]).exit_code == 0
    drawn = run(["graph", "composition.yaml", "--sites", "sites.yaml"]).stdout
    assert "readings --> pick-hot --> hot" in drawn


def test_every_command_of_its_readme_is_one() -> None:
    readme = next(content.decode() for name, content in starter_files() if name.name == "README.md")
    named = set(re.findall(r"\bspeck ([a-z]+)", readme))
    assert len(named) >= 8
    assert named <= cli.commands.keys()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "sites.yaml").write_text("mine")
    said = piped(NOWHERE, "init", cwd=tmp_path)
    assert said.returncode == 1
    assert said.stderr == (
        "error: sites.yaml already exists; nothing was written (choose another directory)\n"
    )
    assert files_of(tmp_path) == ["sites.yaml"]
    (tmp_path / "sites.yaml").unlink()
    (tmp_path / "README.md").symlink_to(tmp_path / "nowhere")
    with pytest.raises(SpeckError, match=r"README\.md already exists"):
        write_starter(tmp_path)


def test_a_directory_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = piped(NOWHERE, "init", "file/below", cwd=tmp_path)
    assert (said.returncode, said.stderr) == (1, "error: file/below: Not a directory\n")


def _has_java() -> bool:
    try:
        return bool(java("Spark"))
    except LocalError:
        return False


@pytest.mark.skipif(not _has_java(), reason="Spark needs Java")
@pytest.mark.engine
def test_its_own_test_passes(started: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=started,
        # PySpark sets variables in a process that opens a Connect session, as other tests may have done here.
        env={name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        # A quick start, as in testbed.servers.local_spark.
        | {
            "JAVA_TOOL_OPTIONS": " ".join((*JVM_OPTIONS, *class_archive.options(ARCHIVE))),
            "PYSPARK_SUBMIT_ARGS": "--master local[1] --conf spark.ui.enabled=false pyspark-shell",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert "3 passed" in done.stdout, done.stdout + done.stderr


@contextmanager
def serving(directory: Path) -> Iterator[str]:
    """The server in this directory, with its inventory, on a free port."""
    serve = command(NOWHERE, "serve", "--port", "0", "--data-dir", "store", "--sites", "sites.yaml")
    with subprocess.Popen(
        serve, stdout=subprocess.PIPE, text=True, cwd=directory, env=environment()
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.skipif(
    not (CONNECTOR.exists() and PROGRAM), reason="needs Mosquitto and the connector (make jars)"
)
def test_it_runs_on_spark_and_mosquitto(
    started: Path, spark_server: SparkServer, mosquitto: MosquittoServer
) -> None:
    sites = started / "sites.yaml"
    text = sites.read_text().replace("sc://127.0.0.1:15002", spark_server.address)
    checkpoints = f"    checkpoint_dir: {started / 'checkpoints'}\n"
    sites.write_text(text.replace("tcp://127.0.0.1:1883", mosquitto.address) + checkpoints)
    with serving(started) as url:
        checked = piped(url, "sites", "check")
        assert (checked.returncode, checked.stdout.splitlines()[-1]) == (0, "no faults"), checked.stdout
        applied = piped(url, "apply", "composition.yaml", cwd=started)
        assert applied.returncode == 0, applied.stderr
        mqtt_client = MqttClient(mosquitto.port, "hot")
        try:
            mqtt_client.send(
                "readings", ['{"sensor": "s1", "celsius": 31.5}', '{"sensor": "s2", "celsius": 1}']
            )
            eventually(lambda: mqtt_client.received, bool)
        finally:
            mqtt_client.close()
        assert [json.loads(value) for _, value in mqtt_client.received] == [{"sensor": "s1", "celsius": 31.5}]
        # Both at once, or each in a batch of its own.
        rows = re.compile(r": (\d+) rows in")
        eventually(
            lambda: piped(url, "logs", "pick-hot").stdout,
            lambda said: sum(map(int, rows.findall(said))) == 2,
        )
        assert piped(url, "delete", "hot-readings", "--yes").returncode == 0
