"""The counts of jobs' work out of Flink's metrics, pure and with an engine that repeats its answers."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import pytest

from binders.common import processor
from binders.common.processor import MOST, WINDOW, Idle, ProcessorShare
from binders.flink.metrics.collector import MetricsCollector
from binders.flink.metrics.profile import VertexReading, clock, job_sample, never_falling, profiled
from binders.flink.metrics.rates import BACKPRESSURED, BUSY, IDLE, RECORDS_OUT
from binders.flink.metrics.rates import VertexSample as Counters
from binders.flink.rest.client import FlinkRest
from binders.flink.rest.validation import Aggregate, aggregates
from binders.flink.workers import ONE_PROCESS, TASK_MANAGERS, cores_of, idle_cores
from speck.core.profile import EVENT_LOOP, AckSample, JobSample, VertexSample
from testbed.doubles.engine_answers import FLINK_JOB, VERTEX, AnswerServer, flink_answers, serving


def single(value: float) -> Aggregate:
    return Aggregate(value, value, value)


def source(seconds: float, busy: float, *, busiest: float | None = None) -> VertexReading:
    """A source of two subtasks that has run so long, and emitted 10 messages a second."""
    rest = 2000 * seconds - 1000 * busy
    values = {
        BUSY: Aggregate(1000 * busy, 0, 1000 * (busy / 2 if busiest is None else busiest)),
        IDLE: single(rest - 100),
        BACKPRESSURED: single(100.0),
        RECORDS_OUT: single(9 * seconds),
        "Source__mqtt.receivedBytes": single(700 * seconds),
    }
    counters = Counters(True, 2, 10 * seconds, 1000 * busy, rest - 100, 100.0)
    return VertexReading("source", counters, values)


def sink(least: Aggregate, median: Aggregate, full: Aggregate) -> VertexReading:
    """A sink that has sent 7 messages; its figures of the acknowledgements."""
    names = ("ackMillisMin", "ackMillis", "windowFull")
    figures = {
        f"Sink__Writer.{name}": value for name, value in zip(names, (least, median, full), strict=True)
    }
    values = {
        BUSY: single(50),
        IDLE: single(900),
        BACKPRESSURED: single(50),
        "Sink__Writer.numBytesSend": single(420),
    }
    return VertexReading("sink", Counters(False, 1, 8, 50, 900, 50, sent=7.0), values | figures)


def test_counts_of_a_job() -> None:
    reading = source(10, 4), sink(single(3), single(5), single(0.25))
    assert job_sample("id", 9.0, reading, {}, {"Sink__Writer": "tcp://b:1"}, 640) == JobSample(
        engine_id="id",
        observed=9.0,
        messages_in=100,
        messages_out=7,
        bytes_in=7000,
        bytes_out=420,
        vertices=(
            VertexSample(
                name="source",
                subtasks=2,
                records_in=100,
                records_out=90,
                busy=4.0,
                idle=15.9,
                back_pressured=0.1,
                busiest=0.2,
            ),
            VertexSample(
                name="sink",
                subtasks=1,
                records_in=8,
                records_out=7,
                busy=0.05,
                idle=0.9,
                back_pressured=0.05,
                busiest=0.05,
            ),
        ),
        state_bytes=640,
        acks=(AckSample(broker="tcp://b:1", least=0.003, median=0.005, window_full=0.25),),
    )
    assert clock(reading) == 10


def test_a_job_without_the_connector_has_no_bytes() -> None:
    reading = source(10, 4)
    del reading.values["Source__mqtt.receivedBytes"]  # type: ignore[attr-defined]
    sample = job_sample("id", 9.0, [reading], {}, {}, None)
    assert (sample.bytes_in, sample.bytes_out, sample.messages_out) == (None, None, None)
    assert (sample.acks, sample.state_bytes) == ((), None)


def test_the_busiest_subtask_is_of_the_time_since_the_last_reading() -> None:
    before, after = source(10, 4, busiest=4), source(20, 14, busiest=9)
    sample = job_sample("id", 9.0, [after], {"source": before}, {}, None)
    assert sample.vertices[0].busiest == pytest.approx(0.5)
    restarted = job_sample("id", 9.0, [before], {"source": after}, {}, None)
    assert restarted.vertices[0].busiest == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("least", "median", "expected"),
    [
        (single(-1), single(-1), (None, None)),
        (Aggregate(1, -1, 2), Aggregate(3, -1, 4), (0.002, 0.004)),
        (Aggregate(3, 1, 2), Aggregate(7, 3, 4), (0.001, 0.004)),
    ],
    ids=["none-wrote", "one-wrote", "both-wrote"],
)
def test_acknowledgements_of_subtasks(
    least: Aggregate, median: Aggregate, expected: tuple[float | None, float | None]
) -> None:
    (acks,) = job_sample("i", 0.0, [sink(least, median, single(0))], {}, {"Sink__Writer": "b"}, None).acks
    assert (acks.least, acks.median) == expected


def test_sinks_whose_broker_is_not_known_are_left_out() -> None:
    assert job_sample("i", 0.0, [sink(single(1), single(1), single(0))], {}, {}, None).acks == ()


def test_times_do_not_fall_but_with_a_restart() -> None:
    before, later = source(20, 4), source(20.5, 3.9)
    grown = never_falling(later, before)
    assert grown.values[BUSY].sum == before.values[BUSY].sum
    assert grown.values[IDLE].sum == later.values[IDLE].sum
    assert grown.sample == later.sample
    assert never_falling(source(3, 1), before) == source(3, 1)
    assert never_falling(later, None) == later


def test_which_metrics_a_profile_has() -> None:
    names = ["0.x", "windowFull", "Sink__Writer.windowFull", "Sink__Writer.stamps", "a.b.receivedBytes"]
    assert profiled(names) == ("Sink__Writer.windowFull", "a.b.receivedBytes")


def test_values_that_are_not_finite_are_left_out() -> None:
    good = {"id": "a", "sum": 3, "min": 1, "max": 2}
    assert aggregates([good, good | {"id": "b", "min": "NaN"}]) == {"a": Aggregate(3, 1, 2)}
    with pytest.raises(KeyError):
        aggregates([{"id": "a", "sum": 3}])


def test_a_reading_for_metrics_serves_a_profile_too() -> None:
    """``observed`` grows as the clock of the sources, and not as the time of the requests."""
    server, collector = AnswerServer(flink_answers()), MetricsCollector()
    (counters,) = [pattern for pattern in server.answers if VERTEX in pattern and pattern.endswith("get=.*")]

    def run(seconds: float) -> None:
        for each in server.answers[counters]:
            value = 1000 * seconds if "Idle" in each["id"] else 10 * seconds
            each |= {"sum": value, "min": value, "max": value}

    def profile() -> tuple[JobSample, bool]:
        server.asked.clear()
        found = collector.profile(rest, FLINK_JOB)
        assert found is not None
        return found, counters in server.asked

    with serving(server) as port:
        rest = FlinkRest(f"http://127.0.0.1:{port}")
        run(10)
        collector.metrics(rest, FLINK_JOB)
        first, asked = profile()
        assert not asked
        run(17)
        second, asked = profile()
        assert asked
        assert not any(pattern.endswith("/checkpoints") for pattern in server.asked)
        rest.close()
    assert (first.messages_in, first.bytes_out, second.messages_in) == (100, 100, 170)
    assert second.observed - first.observed == pytest.approx(7 * 1.02)  # idle, busy and back pressured
    assert second.observed <= time.time()
    assert [acks.broker for acks in second.acks] == ["tcp://b:1"]


def test_work_outside_of_tasks_counts_beyond_that_of_idle_jobs() -> None:
    share = ProcessorShare()
    share.add(0, 0.0, {"a": 0.0})
    idle = 10 * (processor.IDLE.process + processor.IDLE.job)
    assert share.add(10, 1.0 + idle / 2, {"a": 1.0}) == 1.0
    assert share.add(20, 4.0 + 2 * idle, {"a": 2.0}) == pytest.approx(2.0)


def test_the_event_loop_that_all_jobs_share_is_no_work_of_one_of_them() -> None:
    share = ProcessorShare(0.1)
    share.add(0, 0.0, {"a": 0.0, "b": 0.0}, {"a": 0, "b": 0}, TASK_MANAGERS)
    idle = 10 * (TASK_MANAGERS.process + 2 * TASK_MANAGERS.job)
    loop = 10 * EVENT_LOOP * math.sqrt(900)
    counts = {"a": 8000, "b": 1000}
    found = share.add(10, 1.0 + idle + loop, {"a": 0.5, "b": 1.5}, counts, TASK_MANAGERS)
    assert found == pytest.approx(0.5)
    counts |= {"c": 10**9}  # new: its messages so far came earlier
    again = share.add(
        20, 1.0 + 2 * idle + loop + 10 * TASK_MANAGERS.job, {"a": 0.5, "b": 1.5}, counts, TASK_MANAGERS
    )
    assert again == pytest.approx(0.5, rel=0.1)


def test_the_measured_event_loop_is_taken_off_in_place_of_the_usual_one() -> None:
    share, counts = ProcessorShare(0.1), {"a": 9000}
    share.add(0, 0.0, {"a": 0.0}, {"a": 0}, TASK_MANAGERS, 0.001)
    others = 10 * (TASK_MANAGERS.process + TASK_MANAGERS.job + 0.001 * math.sqrt(900))
    assert share.add(10, 1.0 + others, {"a": 2.0}, counts, TASK_MANAGERS, 0.001) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([-1.0], None), ([0.0011], 0.0011), ([0.0011, 0.002], 0.002), ([-1.0, 0.002], 0.002), ([], None)],
)
def test_the_event_loop_is_that_of_the_connectors_where_they_know_it(
    values: list[float], expected: float | None
) -> None:
    reading = source(10, 4)
    loops = {f"Source__{number}.eventLoop": single(value) for number, value in enumerate(values)}
    found = job_sample("id", 9.0, [replace(reading, values={**reading.values, **loops})], {}, {}, None)
    assert found.event_loop == expected


def test_overestimated_idle_shares_leave_a_busy_job_a_cost() -> None:
    share = ProcessorShare(0.1)
    share.add(0, 0.0, {"a": 0.0}, {"a": 0})
    assert share.add(10, 0.2, {"a": 4.0}, {"a": 10_000}) == pytest.approx(0.1 * 0.2 / 4.0)


@pytest.mark.parametrize(
    ("ports", "expected"),
    [([-1], ONE_PROCESS), ([40123], TASK_MANAGERS), ([-1, 40123], TASK_MANAGERS), ([], TASK_MANAGERS)],
)
def test_a_manager_in_the_same_process_is_idle_time_too(ports: list[int], expected: Idle) -> None:
    assert idle_cores([{"id": "tm", "dataPort": port} for port in ports]) == expected
    assert idle_cores([{"id": "tm"}]) == TASK_MANAGERS


def test_the_share_of_busy_time_that_is_processor_time() -> None:
    share = ProcessorShare()
    assert share.add(0, 100.0, {"a": 7.0}) is None
    assert share.add(10, 102.0, {"a": 11.0, "b": 90.0}) == pytest.approx(0.5)  # 2 s of 4 s; b is new
    assert share.add(20, 104.0, {"a": 11.0, "b": 94.0}) == pytest.approx(0.5)
    assert share.add(30, 204.0, {"a": 12.0, "b": 94.0}) == MOST
    assert share.add(31 + WINDOW, 204.0, {"a": 12.0, "b": 94.0}) is None
    assert share.add(32 + WINDOW, 1.0, {"a": 13.0}) is None  # the TaskManagers are others
    assert share.add(33 + WINDOW, None, {"a": 14.0}) is None
    assert share.add(34 + WINDOW, 3.0, {"a": 15.0}) is None
    assert share.add(35 + WINDOW, 3.5, {"a": 16.0}) == pytest.approx(0.5)


def test_metrics_of_a_sink_that_registers_later_are_found() -> None:
    """The cluster reports the metrics of a task before its writer has registered those of the sink."""
    server, collector = AnswerServer(flink_answers()), MetricsCollector()
    (counters,) = [pattern for pattern in server.answers if VERTEX in pattern and pattern.endswith("get=.*")]
    names = f"/jobs/{FLINK_JOB}/vertices/{VERTEX}/subtasks/metrics"
    of_sink = [metric for metric in server.answers[names] if metric["id"] == "b.numRecordsSend"]
    server.answers[names].remove(of_sink[0])

    def run(seconds: float) -> None:
        for metric in server.answers[counters]:
            value = 1000 * seconds if "Idle" in metric["id"] else 10 * seconds
            metric |= {"sum": value, "min": value, "max": value}

    with serving(server) as port:
        rest = FlinkRest(f"http://127.0.0.1:{port}")
        found = []
        for seconds in (10, 12, 14, 16):
            run(seconds)
            metrics = collector.metrics(rest, FLINK_JOB)
            assert metrics is not None
            rates = metrics.input_rate, metrics.output_rate
            found.append(tuple(rate and round(rate) for rate in rates))
            if seconds == 12:
                server.answers[names] += of_sink
        rest.close()
    first, unknown, learned, known = found
    assert (first, unknown, learned) == ((None, None), (10, None), (None, None))
    assert known == (10, 10)


def manager(at: str, cores: int | None = 2, **fields: Any) -> dict[str, Any]:
    """A TaskManager as Flink lists it, ``at`` a host and port."""
    hardware = {} if cores is None else {"cpuCores": cores}
    path = f"pekko.tcp://flink@{at}/user/rpc/taskmanager_0"
    return {"id": f"{at}-1a2b3c", "path": path, "dataPort": 4001, "hardware": hardware} | fields


@pytest.mark.parametrize(
    ("managers", "cores"),
    [
        ([manager("10.0.0.1:4000")], 2),
        ([manager("10.0.0.1:4000"), manager("10.0.0.1:4002")], 2),
        ([manager("10.0.0.1:4000"), manager("10.0.0.2:4000", 8), manager("10.0.0.2:4002", 8)], 10),
        ([manager("[fd00::1]:4000"), manager("[fd00::1]:4002")], 2),
        ([manager("a:1", path="pekko://flink/user", dataPort=-1), manager("b:1", path="", dataPort=-1)], 2),
        ([manager("a:1", path="odd"), manager("b:1", path="odd")], 4),
        ([manager("10.0.0.1:4000"), manager("10.0.0.1:4002", None)], None),
        ([], None),
    ],
)
def test_the_cores_of_a_machine_count_once(managers: list[dict[str, Any]], cores: int | None) -> None:
    assert cores_of(managers) == cores
