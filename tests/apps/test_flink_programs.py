"""The Flink programs against their PySpark twins: the same messages in, the same results out."""

from __future__ import annotations

import base64
import gzip
import importlib.util
import json
import random
import re
import subprocess
from collections.abc import Callable, Iterator
from datetime import datetime
from types import ModuleType

import pytest
from pyspark.sql import DataFrame, SparkSession

from testbed import ROOT
from testbed.servers.local_spark import local_spark
from tests.apps.test_road_traffic import LINE, MALFORMED, WELL_FORMED
from tests.support.trials import trial

pytestmark = pytest.mark.engine

FLINK = ROOT / "jars_and_apps" / "flink" / "target"
DAY = ROOT.parent / "shared" / "data" / "aarhus_traffic" / "readings-2014-08-18.csv.gz"
# As Flink's own configuration opens them.
OPENED = ["java.lang", "java.net", "java.io", "java.text", "java.time", "java.util", "java.util.concurrent"]


def _load_jobs() -> ModuleType:
    path = ROOT / "jars_and_apps" / "road_traffic" / "jobs.py"
    specification = importlib.util.spec_from_file_location("road_traffic_jobs", path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


jobs = _load_jobs()
Twin = Callable[[DataFrame], DataFrame]
TWINS: dict[str, Twin] = {
    "Clean": lambda messages: jobs.clean(messages),
    "Forward": lambda messages: jobs.forward(messages, site="A"),
    "LocalStats": lambda messages: jobs.local_stats(messages, site='A "quoted" \\ site'),
    "GlobalStats": lambda messages: jobs.global_stats(messages),
}
SITES = {"Clean": "", "Forward": "A", "LocalStats": 'A "quoted" \\ site', "GlobalStats": ""}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with local_spark() as session:
        yield session


def _on_spark(spark: SparkSession, program: str, lines: list[str]) -> list[str]:
    rows = [("sensors/1", line, datetime(2026, 1, 1)) for line in lines]
    frame = spark.createDataFrame(rows, "topic STRING, value STRING, timestamp TIMESTAMP").coalesce(1)
    return [row.value for row in TWINS[program](frame).collect()]


def _on_flink(program: str, lines: list[str]) -> list[str]:
    classpath = FLINK / "test.classpath"
    if not classpath.exists():
        pytest.skip("the Flink programs are not built (make jars)")
    folders = f"{FLINK / 'classes'}:{FLINK / 'test-classes'}"
    command = ["java", "-Xmx600m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    command += ["-cp", f"{folders}:{classpath.read_text()}", "io.speck.flink.jobs.LocalRun"]
    done = subprocess.run(
        [*command, program, SITES[program]],
        input=b"\n".join(base64.b64encode(line.encode()) for line in lines),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [base64.b64decode(line).decode() for line in done.stdout.split()]


def _final(objects: list[str]) -> dict[str, str]:
    """The last object of each window, by its start."""
    return {json.loads(each)["start"]: each for each in objects}


@pytest.fixture(scope="module")
def day() -> list[str]:
    if not DAY.exists():
        pytest.skip(f"the real day of data is not there ({DAY})")
    """Readings of all hours of the day, of every twentieth line."""
    lines = gzip.decompress(DAY.read_bytes()).decode().splitlines()
    readings = sorted(line for line in lines if line.startswith("OK,"))
    return sorted(readings[::20], key=lambda line: line.split(",")[5])


def _with_malformed(lines: list[str], chance: random.Random) -> list[str]:
    mixed = list(lines)
    for malformed in MALFORMED * 3:
        mixed.insert(chance.randrange(len(mixed) + 1), malformed)
    return mixed


@pytest.mark.parametrize("program", ["Clean", pytest.param("Forward", marks=trial("[Clean]"))])
def test_the_same_messages_byte_for_byte(spark: SparkSession, day: list[str], program: str) -> None:
    lines = _with_malformed(WELL_FORMED + day, random.Random(1))
    assert _on_flink(program, lines) == _on_spark(spark, program, lines)


@pytest.mark.parametrize("program", ["LocalStats", pytest.param("GlobalStats", marks=trial("[LocalStats]"))])
def test_the_same_windows_of_a_real_day(spark: SparkSession, day: list[str], program: str) -> None:
    lines = _with_malformed([f"{line},B" if n % 3 else line for n, line in enumerate(day)], random.Random(2))
    flink = _final(_on_flink(program, lines))
    assert len(flink) >= 96
    readings = sum(re.match(jobs.SITED_READING, line) is not None for line in lines)
    assert sum(json.loads(each)["readings"] for each in flink.values()) == readings >= len(day)
    assert flink == _final(_on_spark(spark, program, lines))


def test_the_same_windows_of_random_readings(spark: SparkSession) -> None:
    """Ties, decimals, sums beyond 64 bits, windows with no vehicle."""
    chance = random.Random(3)
    names = ["status", "time", "speed", "extID", "median", "TIMESTAMP", "vehicles", "id", "segment"]
    lines = list(WELL_FORMED)
    for minute in range(0, 24 * 60, 2):
        for _ in range(8):
            values = dict(zip(names, LINE.split(","), strict=True))
            values["speed"] = chance.choice(
                ["0", "7", "7.0", "12.5", "30.25", "0.1", str(chance.randrange(200))]
            )
            values["vehicles"] = chance.choice(["0", "0", "1", "3", "9" * 28])
            values["segment"] = str(chance.randrange(12))
            values["TIMESTAMP"] = f"2014-08-18T{minute // 60:02}:{minute % 60:02}:00"
            lines.append(",".join(values[name] for name in names))
    lines = sorted((line for line in lines if "2014-08-18" in line), key=lambda line: line.split(",")[5])
    assert _final(_on_flink("LocalStats", lines)) == _final(_on_spark(spark, "LocalStats", lines))
