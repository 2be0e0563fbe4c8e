"""The road-traffic jobs on plain batch DataFrames, and their grammar in both engines."""

from __future__ import annotations

import gzip
import importlib.util
import json
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession

from binders.spark.query.split.sample import sample_in
from jars_and_apps.key_split.aggregations import CountSumMinMax, Percentiles, WordCount
from jars_and_apps.road_traffic.hot_towns import SpeedPercentiles
from speck.core.job import Scalar
from speck.core.split.advice import SplitSample
from speck.errors import Rejected
from testbed import ROOT
from testbed.servers.local_spark import local_spark
from tests.support.properties import tries

PROGRAMS = ROOT / "jars_and_apps" / "road_traffic"
LINE = "OK,49,75,668,49,2014-08-18T07:00:00,3,22732880,158324"


def _load_jobs() -> ModuleType:
    specification = importlib.util.spec_from_file_location("road_traffic_jobs", PROGRAMS / "jobs.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


jobs = _load_jobs()
Messages = Callable[[list[str]], DataFrame]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    # Not UTC, and with an hour that is missing and one that comes twice.
    with local_spark(conf={"spark.sql.session.timeZone": "Europe/Copenhagen"}) as session:
        yield session


@pytest.fixture(scope="module")
def messages(spark: SparkSession) -> Messages:
    def frame(values: list[str]) -> DataFrame:
        rows = [("sensors/1", value, datetime(2026, 1, 1)) for value in values]
        return spark.createDataFrame(rows, "topic STRING, value STRING, timestamp TIMESTAMP")

    return frame


def _values(frame: DataFrame) -> list[str]:
    assert frame.columns == ["value"]
    return [row.value for row in frame.collect()]


def _windows(frame: DataFrame) -> dict[str, dict[str, Any]]:
    found = [json.loads(value) for value in _values(frame)]
    return {window["start"]: window for window in found}


def _with(**fields: str) -> str:
    names = ["status", "time", "speed", "extID", "median", "TIMESTAMP", "vehicles", "id", "segment"]
    values = dict(zip(names, LINE.split(","), strict=True)) | fields
    return ",".join(values[name] for name in names)


WELL_FORMED = [
    LINE,
    _with(vehicles="0", speed="0", time="0", median="0"),
    _with(speed="74.5"),
    _with(TIMESTAMP="2016-02-29T23:59:59"),
    _with(TIMESTAMP="2000-02-29T00:00:00"),
    _with(TIMESTAMP="2014-08-18 07:00:00"),
    _with(TIMESTAMP="2014-08-18T07:00:00.123456"),
    _with(TIMESTAMP="2014-03-30T02:30:00"),  # no such time in Denmark, but a valid one
    _with(vehicles="99999999999999999999"),
    _with(segment="0"),
]
MALFORMED = [
    "",
    "no line at all",
    LINE + ",1",
    LINE.rpartition(",")[0],
    LINE + "\n",
    LINE + "\r",
    LINE + "\r\n",
    " " + LINE,
    "\n" + LINE,
    LINE + "\n" + LINE,
    _with(status="ERROR"),
    _with(status=""),
    _with(status="ok"),
    *(_with(**{name: "-1"}) for name in ("time", "speed", "extID", "median", "vehicles", "id", "segment")),
    *(_with(**{name: ""}) for name in ("time", "speed", "extID", "median", "vehicles", "id", "segment")),
    _with(vehicles="3.5"),
    _with(vehicles="NaN"),
    _with(speed="Infinity"),
    _with(speed="1e3"),
    _with(speed="."),
    _with(vehicles="٣"),
    _with(vehicles="３"),
    _with(vehicles="9" * 29),
    _with(TIMESTAMP=""),
    _with(TIMESTAMP="yesterday"),
    _with(TIMESTAMP="2014-08-18"),
    _with(TIMESTAMP="2014-02-30T00:00:00"),
    _with(TIMESTAMP="2014-02-29T00:00:00"),
    _with(TIMESTAMP="1900-02-29T00:00:00"),
    _with(TIMESTAMP="2014-04-31T00:00:00"),
    _with(TIMESTAMP="2014-13-01T00:00:00"),
    _with(TIMESTAMP="2014-00-01T00:00:00"),
    _with(TIMESTAMP="0000-01-01T00:00:00"),
    _with(TIMESTAMP="2014-08-18T24:00:00"),
    _with(TIMESTAMP="2014-08-18T07:60:00"),
    _with(TIMESTAMP="2014-08-18T07:00:60"),
    _with(TIMESTAMP="2014-08-18T07:00"),
]


def _well_formed(text: str) -> bool:
    """As the feeder has it: on bytes."""
    return re.match(jobs.READING.encode(), text.encode("utf-8", "surrogatepass")) is not None


def test_the_grammar_in_python() -> None:
    assert [line for line in WELL_FORMED if not _well_formed(line)] == []
    assert [line for line in MALFORMED if _well_formed(line)] == []


def test_clean_passes_well_formed_readings_as_they_are(messages: Messages) -> None:
    assert _values(jobs.clean(messages(WELL_FORMED + MALFORMED))) == WELL_FORMED


def test_clean_passes_a_repeated_line_twice(messages: Messages) -> None:
    assert _values(jobs.clean(messages([LINE, LINE]))) == [LINE, LINE]


def test_every_date_of_a_leap_century_as_python_has_it() -> None:
    for year in (1899, 1900, 1996, 2000, 2014, 2023, 2024, 2100, 2400):
        for month in range(14):
            for day in range(33):
                text = f"{year}-{month:02}-{day:02}T12:00:00"
                assert _well_formed(_with(TIMESTAMP=text)) == _is_a_time(text), text


def _is_a_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _mutated(text: str, chance: random.Random) -> str:
    pieces = [
        "",
        "0",
        "9",
        ",",
        "-",
        ".",
        "T",
        " ",
        "\n",
        "\r",
        "\0",
        "٣",
        "é",
        "OK",
        "29",
        "02",
        "1e9",
        "\u2028",
    ]
    for _ in range(chance.randrange(1, 4)):
        start = chance.randrange(len(text) + 1)
        text = text[:start] + chance.choice(pieces) + text[start + chance.randrange(3) :]
    return text


@tries(5)
@given(seed=st.integers(0, 2**32))
def test_both_engines_agree_on_every_line(messages: Messages, seed: int) -> None:
    chance = random.Random(seed)
    lines = [_mutated(chance.choice(WELL_FORMED), chance) for _ in range(2000)]
    assert _values(jobs.clean(messages(lines))) == [line for line in lines if _well_formed(line)]


def test_forward_adds_its_site(messages: Messages) -> None:
    assert _values(jobs.forward(messages([LINE]), site="A")) == [f"{LINE},A"]
    assert _values(jobs.forward(messages([LINE]))) == [LINE]


def test_local_stats_of_two_windows(messages: Messages) -> None:
    lines = [
        _with(speed="50", vehicles="2", segment="1"),
        _with(speed="30", vehicles="1", segment="2"),
        _with(speed="10", vehicles="0", segment="3"),
        _with(speed="40", vehicles="1", segment="1", TIMESTAMP="2014-08-18T07:14:59.999999"),
        _with(speed="60", vehicles="5", segment="4", TIMESTAMP="2014-08-18T07:15:00"),
    ]
    assert _windows(jobs.local_stats(messages(lines), site="A")) == {
        "2014-08-18T07:00:00": {
            "site": "A",
            "start": "2014-08-18T07:00:00",
            "end": "2014-08-18T07:15:00",
            "readings": 4,
            "vehicles": 4,
            "mean_speed": 40.0,
            "slowest": ["2", "1"],
        },
        "2014-08-18T07:15:00": {
            "site": "A",
            "start": "2014-08-18T07:15:00",
            "end": "2014-08-18T07:30:00",
            "readings": 1,
            "vehicles": 5,
            "mean_speed": 60.0,
            "slowest": ["4"],
        },
    }


def test_a_window_without_vehicles_has_no_speed(messages: Messages) -> None:
    (window,) = _windows(jobs.local_stats(messages([_with(vehicles="0")]))).values()
    assert (window["readings"], window["vehicles"], window["mean_speed"], window["slowest"]) == (
        1,
        0,
        None,
        [],
    )


def test_a_line_twice_is_two_readings(messages: Messages) -> None:
    (window,) = _windows(jobs.local_stats(messages([LINE, LINE]))).values()
    assert (window["readings"], window["vehicles"], window["slowest"]) == (2, 6, ["158324"])


def test_sums_are_exact_far_beyond_64_bits(messages: Messages) -> None:
    large = [int("9" * 28), 2**63, 2**53 + 1]
    (window,) = _windows(jobs.global_stats(messages([_with(vehicles=str(each)) for each in large]))).values()
    assert window["vehicles"] == sum(large)


def test_global_stats_takes_readings_of_all_sites_and_no_garbage(messages: Messages) -> None:
    lines = [f"{LINE},A", f"{LINE},B", LINE, f"{LINE},C\n", "garbage", _with(TIMESTAMP="2014-02-30T00:00:00")]
    (window,) = _windows(jobs.global_stats(messages(lines))).values()
    assert (window["site"], window["readings"], window["vehicles"]) == ("*", 3, 9)


def test_a_reading_of_the_far_future_is_an_error_of_its_message(messages: Messages) -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    soon, late = ((now + timedelta(hours=hours)).isoformat("T", "seconds") for hours in (23, 26))
    old = _with(TIMESTAMP="0001-01-01T00:00:00")
    assert len(_windows(jobs.local_stats(messages([old, LINE, _with(TIMESTAMP=soon)])))) == 3
    lines = messages([LINE, "garbage", _with(TIMESTAMP=late), _with(TIMESTAMP="9999-12-31T23:59:59")])
    assert len(_windows(jobs.global_stats(lines, ahead="9000 years"))) == 3
    for statistics in (jobs.local_stats, jobs.global_stats):
        with pytest.raises(SparkRuntimeException, match=f"{late} of a reading is too far ahead of the clock"):
            _values(statistics(lines))


def test_windows_do_not_depend_on_the_time_zone_of_the_session(messages: Messages) -> None:
    # In Denmark, the first does not exist and the second comes twice.
    times = ["2014-03-30T02:30:00", "2014-10-26T02:30:00"]
    windows = _windows(jobs.local_stats(messages([_with(TIMESTAMP=each) for each in times])))
    assert list(windows) == times


def test_aggregates_ask_for_update_mode() -> None:
    modes = {name: getattr(getattr(jobs, name), "output_mode", None) for name in ("clean", "forward")}
    assert modes == {"clean": None, "forward": None}
    assert jobs.local_stats.output_mode == jobs.global_stats.output_mode == "update"


def test_a_generated_day_as_a_stream_to_the_last_vehicle(
    spark: SparkSession, messages: Messages, tmp_path: Path
) -> None:
    day = tmp_path / "day.csv.gz"
    subprocess.run([sys.executable, PROGRAMS / "generate.py", "--sensors", "3", "--out", day], check=True)
    lines = gzip.decompress(day.read_bytes()).decode().splitlines()[1:]
    expected: Counter[str] = Counter()
    for line in lines:
        expected[line.split(",")[8]] += int(line.split(",")[6])
    messages(lines + MALFORMED).repartition(2).write.parquet(str(tmp_path / "in"))
    stream = (
        spark.readStream.schema("topic STRING, value STRING, timestamp TIMESTAMP")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "in"))
    )
    query = (
        jobs.global_stats(jobs.clean(stream), lateness="36500 days")
        .writeStream.outputMode("update")
        .format("memory")
        .queryName("windows")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        last: dict[str, dict[str, Any]] = {}
        for row in spark.table("windows").collect():  # in the order of the batches
            window = json.loads(row.value)
            last[window["start"]] = window
    finally:
        query.stop()
    assert len(last) == 96
    assert sum(window["readings"] for window in last.values()) == len(lines)
    assert sum(window["vehicles"] for window in last.values()) == expected.total()


# --- the aggregations of splits by keys


def _rows_of(aggregation: Any, frame: DataFrame) -> list[dict[str, Any]]:
    """The rows that an aggregation makes of the messages, as the binder selects them."""
    columns = aggregation.rows(frame)
    where = columns.pop("where", None)
    taken = frame if where is None else frame.where(where)
    named = taken.select(*(value.alias(name) for name, value in columns.items()))
    return [row.asDict() for row in named.withColumn("time", named.time.cast("double")).collect()]


def _sample(spark: SparkSession, path: Path, name: str, lines: list[str], **arguments: Scalar) -> SplitSample:
    return sample_in(spark, path, name, arguments, lines, 300_000_000)


def test_a_sample_of_hot_towns_is_measured(spark: SparkSession) -> None:
    lines = [LINE, LINE.replace("07:00", "07:20"), "broken", LINE.replace("2014-08-18T07", "2014-08-18T47")]
    lines += [LINE.replace("158324", "7").replace(",3,", ",0,"), LINE.replace("158324", "8")]
    towns = "Risskov: 158324; Aarhus: *"
    found = _sample(spark, PROGRAMS / "hot_towns.py", "SpeedPercentiles", lines, towns=towns, workload=20)
    assert (found.messages, found.groups, found.dropped) == (6, 3, 1)
    assert found.keys == {"Risskov": 6, "Aarhus": 3}  # rows are vehicles
    assert found.add_us > 0 < found.merge_us
    assert 50 < found.state_bytes < 2000
    cheaper = _sample(spark, PROGRAMS / "hot_towns.py", "SpeedPercentiles", lines, towns=towns)
    assert cheaper.add_us < found.add_us


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("return {'key': m.value}", r"rows\(\) of Own returned no time \(it has key\)"),
        ("return {'key': m.none, 'time': m.timestamp}", r"rows\(\) of 'Own' fails: .*none"),
        ("import no_such_package", r"needs the package 'no_such_package', .* \(own.py, line 3, column 5\)"),
        (
            "return {'key': m.value, 'time': m.timestamp, 'where': m.value == ''}",
            "no row of the sample counts",
        ),
        (
            "return {'key': m.value, 'time': m.timestamp, 'x': m.value}",
            r"fails: ZeroDivisionError.*own.py, line 5",
        ),
    ],
)
def test_a_class_that_fails_on_a_sample_is_refused(
    spark: SparkSession, tmp_path: Path, body: str, fault: str
) -> None:
    path = tmp_path / "own.py"
    path.write_text(
        f"class Own:\n  def rows(self, m):\n    {body}\n  def add(self, columns):\n    return 1 / 0\n"
        "  def merge(self, one, other): return one\n  def finish(self, state): return {}\n"
    )
    with pytest.raises(Rejected, match=fault):
        _sample(spark, path, "Own", ["one", "two"])


def test_hot_towns_take_readings_alone_and_name_their_towns(messages: Messages) -> None:
    lines = [
        LINE,
        LINE.replace("158324", "179148").replace(",3,", ",0,"),
        LINE.replace("158324", "1"),
        "broken",
        "",
        LINE.replace("OK", "KO"),
        LINE.replace(",75,", ",fast,"),
        LINE.replace(",3,", ",many,"),
        LINE.replace("2014-08-18T07", "2014-08-18T47"),
    ]
    found = _rows_of(SpeedPercentiles("Hinnerup: 158324; Risskov: 179148 184892"), messages(lines))
    seven = 1408345200.0  # 2014-08-18T07:00:00Z, whatever the session's zone
    assert found == [
        {"key": "Hinnerup", "time": seven, "speed": 75.0, "times": 3},
        {"key": "Risskov", "time": seven, "speed": 75.0, "times": 0},
        {"key": "1", "time": seven, "speed": 75.0, "times": 3},
        {"key": "Hinnerup", "time": None, "speed": 75.0, "times": 3},  # dropped as a row without a time
    ]
    towns = SpeedPercentiles("Risskov: 179148; Aarhus: *")
    assert [row["key"] for row in _rows_of(towns, messages(lines[:3]))] == ["Aarhus", "Risskov", "Aarhus"]
    assert [row["key"] for row in _rows_of(SpeedPercentiles(), messages(lines[:1]))] == ["158324"]


def test_rows_of_json_messages(messages: Messages) -> None:
    lines = [
        '{"key": "a", "time": 1408345200, "value": 1.5}',
        '{"key": "b", "time": "2014-08-18T07:00:00Z", "value": "-2"}',
        '{"key": "c", "time": 1408345200, "value": "NaN"}',
        '{"key": "d", "time": 1408345200}',
        "broken",
    ]
    assert _rows_of(CountSumMinMax(), messages(lines)) == [
        {"key": "a", "time": 1408345200.0, "value": 1.5},
        {"key": "b", "time": 1408345200.0, "value": -2.0},
    ]
    assert _rows_of(Percentiles(), messages(lines)) == _rows_of(CountSumMinMax(), messages(lines))


def test_every_word_is_a_row(messages: Messages) -> None:
    found = _rows_of(WordCount(), messages(["Once upon, a time: ONCE", "", "  Ærø!"]))
    assert [row["key"] for row in found] == ["once", "upon", "a", "time", "once", "ærø"]
