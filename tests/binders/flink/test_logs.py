"""Logs and health of a Flink cluster, as SpecK reads them.  No cluster is started."""

from __future__ import annotations

import pytest

from binders.flink.healthcheck import checkup_of, clock_of, is_supported
from binders.flink.logs import Entry, entries, failures, merged, names_any, names_of
from binders.flink.metrics.collector import MetricsCollector
from binders.flink.rest.client import FlinkRest
from binders.flink.rest.overviews import Overview
from speck.core.inventory import Engine
from testbed.doubles.engine_answers import FLINK_JOB, VERTEX, AnswerServer, flink_answers, serving

LOG = """\
 at a.frame.of.an.entry(That.java:1)
2026-11-22 02:00:01.250 INFO Engine: Job 'a' (ff01) switched to RUNNING.
2026-11-22 02:00:03.000 WARN Task: vertex be02 failed
java.lang.IllegalStateException: no such street
\tat streets.Counting.map(Counting.java:12)
2026-11-22 02:00:04,000 INFO Engine: Job 'b' (ff02) is there.
"""
PLACES = {"execution.checkpointing.savepoint-dir": "file:/s"}


def test_an_entry_has_all_of_its_lines() -> None:
    found = entries(LOG)
    assert [(each.at[-6:], len(each.lines)) for each in found] == [
        ("01.250", 1),
        ("03.000", 3),
        ("04,000", 1),
    ]


def test_an_entry_is_of_a_job_that_it_names() -> None:
    own = names_of("ff01", "a", {"vertices": [{"id": "be02"}]})
    assert [names_any(each, own) for each in entries(LOG)] == [True, True, False]


def test_entries_of_several_files_stand_in_the_order_of_time() -> None:
    other = [Entry("2026-11-22T02:00:01,500", ("between",)), Entry("2026-11-22 02:00:09.000", ("last",))]
    lines = merged([*entries(LOG), *other])
    assert [lines.index(each) for each in ("between", "last")] == [1, 6]
    assert merged([]) == []


def test_a_failure_is_told_unless_the_log_told_it() -> None:
    history = [
        {"timestamp": 2_000, "stacktrace": "Newer: x\n\tat b", "taskName": "map (1/1)"},
        {"timestamp": 1_500, "stacktrace": "Older: y", "taskName": None},
        {"timestamp": 1_000, "stacktrace": ""},
    ]
    assert failures(history, ["Some line"]) == [
        "1970-01-01 00:00:01.500+00:00 failure: Older: y",
        "1970-01-01 00:00:02.000+00:00 failure of map (1/1): Newer: x",
        "\tat b",
    ]
    assert failures(history, ["Newer: x", "Older: y"]) == []


def manager(heartbeat: float) -> dict[str, float]:
    return {"timeSinceLastHeartbeat": heartbeat * 1000}


@pytest.mark.parametrize(
    ("heartbeats", "earliest", "latest"),
    [
        ([], None, None),
        ([0.0, -0.001], None, None),
        ([995.0], -7, 15),
        ([990.0, 1000.0], -2, 20),
        ([2000.0], 998, 1020),
    ],
)
def test_the_clock_is_as_the_last_heartbeat_bounds_it(
    heartbeats: list[float], earliest: float | None, latest: float | None
) -> None:
    found = clock_of([manager(each) for each in heartbeats], 10.0, (1000.0, 1002.0))
    assert found == (None if earliest is None else (earliest, latest))


@pytest.mark.parametrize(
    ("version", "known"), [("2.3.0", True), ("1.20.5", True), ("1.19.1", False), ("3.0", False), ("x", False)]
)
def test_versions(version: str, known: bool) -> None:
    assert is_supported(version) == known


@pytest.mark.parametrize(
    ("seen", "managers", "settings", "engine", "words"),
    [
        (Overview("2.3.0", 8, 8), 1, PLACES, {}, []),
        (Overview("2.3.0", 8, 8), 1, PLACES, {"slots": 4}, []),
        (Overview("2.3.0", 0, 0), 0, PLACES, {}, ["no TaskManager"]),
        (Overview("2.3.0", 8, 8), 1, {}, {}, ["no savepoint directory"]),
        (Overview("2.3.0", 8, 8), 1, {}, {"savepoint_dir": "file:/s"}, []),
        (Overview("2.3.0", 8, 8), 1, PLACES, {"slots": 9}, ["8 slots, but the inventory has 9"]),
        (Overview("2.3.0", 8, 8), 1, PLACES | {"table.local-time-zone": "UTC"}, {}, []),
        (
            Overview("2.3.0", 8, 8),
            1,
            PLACES | {"table.local-time-zone": "Asia/Tokyo"},
            {},
            ["to Asia/Tokyo: jobs"],
        ),
        (Overview("1.18.0", 8, 8), 1, {}, {}, ["Flink 1.18.0", "savepoint"]),
        (
            Overview("2.3.0", 8, 8),
            1,
            PLACES | {"web.submit.enable": "false"},
            {},
            ["web.submit.enable is fal"],
        ),
        (Overview("2.3.0", 8, 8), 1, PLACES | {"web.submit.enable": "true"}, {}, []),
    ],
)
def test_what_is_wrong_with_a_cluster(
    seen: Overview, managers: int, settings: dict[str, str], engine: dict[str, int], words: list[str]
) -> None:
    known = Engine(spe_address="http://a:8081/", **engine)  # type: ignore[arg-type]
    found = checkup_of(seen, [manager(1.0)] * managers, settings, known, (1.0, 1.0))
    assert found.version == f"Flink {seen.version}"
    assert len(found.complaints) == len(words)
    assert all(word in each.message for word, each in zip(words, found.complaints, strict=True))


def test_rates_begin_anew_with_a_job_that_came_back_from_a_checkpoint() -> None:
    """Looked at seldom, it may have counted more by then than before it failed, and run for longer."""
    server, meter = AnswerServer(flink_answers()), MetricsCollector()
    (counters,) = [pattern for pattern in server.answers if VERTEX in pattern and pattern.endswith("get=.*")]
    (statistics,) = [pattern for pattern in server.answers if pattern.endswith("/checkpoints")]

    def sample(seconds: float, restored: int) -> float | None:
        for each in server.answers[counters]:
            each["sum"] = 1000 * seconds if "Idle" in each["id"] else 10 * seconds
        server.answers[statistics]["counts"]["restored"] = restored
        found = meter.metrics(rest, FLINK_JOB)
        assert found is not None
        return found.input_rate

    with serving(server) as port:
        rest = FlinkRest(f"http://127.0.0.1:{port}")
        assert [sample(10, 0), sample(20, 0)] == [None, pytest.approx(10, rel=0.1)]
        assert sample(30, 1) is None
        assert sample(40, 1) == pytest.approx(10, rel=0.1)
        assert sample(20, 1) is None  # and one that had no checkpoint yet
        rest.close()
