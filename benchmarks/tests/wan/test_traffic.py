"""The readings and results of the rig's traffic."""

from __future__ import annotations

import json
import os
import time

import pytest

from benchmarks.wan import traffic
from benchmarks.wan.traffic import Lines, Reader, Stream, packet, text


def _read(payload: str, window: int = 3, streams: int = 1) -> dict[str, float]:
    reader = Reader(window, streams)
    reader.take("topic", payload)
    return reader.taken()["topic"]


def test_a_reading_has_its_time() -> None:
    sent = time.monotonic_ns() - 2_000_000_000
    found = _read(Stream("t", 1, 3).reading(sent, False))
    assert found["readings"] == found["messages"] == 1
    assert 2 <= found["p50"] < 60


def test_the_vehicles_of_a_stream_sum_up_to_the_time_of_its_latest_reading() -> None:
    stream = Stream("t", 1, 3)
    readings = [stream.reading(1_000 * number, number % 3 == 0) for number in range(1, 9)]
    sound = [each for each in readings if each.startswith("OK,")]
    assert sum(int(each.split(",")[6]) for each in sound) == 8_000
    assert len(sound) == 6


def _statistics(site: str, readings: int, vehicles: int, start: str = "2026-03-02T00:45:00") -> str:
    return json.dumps({"site": site, "start": start, "readings": readings, "vehicles": vehicles})


def test_statistics_have_the_mean_time_of_their_streams() -> None:
    now = time.monotonic_ns()
    assert 1 <= _read(_statistics("A", 5, now - 1_000_000_000))["p50"] < 60
    assert 3 <= _read(_statistics("*", 5, 2 * now - 6_000_000_000), streams=2)["p50"] < 60


def test_statistics_of_more_streams_than_their_site_implies_are_refused() -> None:
    with pytest.raises(ValueError, match="cover more streams than its site name implies"):
        _read(_statistics("A", 5, 2 * time.monotonic_ns()), streams=2)


def test_readings_that_statistics_count_are_those_since_the_last_question() -> None:
    reader = Reader(3, 1)
    for count in (10, 14):
        reader.take("topic", _statistics("A", count, 0))
    assert reader.taken()["topic"]["readings"] == 4
    reader.take("topic", _statistics("A", 20, 0))
    assert reader.taken()["topic"]["readings"] == 6


def test_statistics_of_another_window_do_not_count() -> None:
    reader = Reader(3, 1)
    reader.take("topic", _statistics("A", 1, 0, start="2026-03-02T01:00:00"))
    assert reader.taken()["topic"]["messages"] == 0


def test_what_is_due_follows_the_rate() -> None:
    stream = Stream("t", 300, 3)
    assert sum(stream.due(0.005) for _ in range(1000)) == pytest.approx(1500, abs=1)


@pytest.mark.parametrize("quality", [0, 1])
@pytest.mark.parametrize("size", [10, 200])
def test_packets_are_taken_once_they_are_whole(quality: int, size: int) -> None:
    reader = Reader(3, 1)
    reading = Stream("t", 1, 3).reading(time.monotonic_ns(), False) + ",x" * size
    identifier = b"\x01\x02" if quality else b""
    message = packet(0x30 | quality << 1, text("topic") + identifier + reading.encode())
    rest, acknowledgements = traffic._packets(message + message[:-1], reader)
    assert (rest, acknowledgements) == (message[:-1], packet(0x40, identifier) if quality else b"")
    assert traffic._packets(rest + message[-1:], reader)[0] == b""
    assert reader.taken()["topic"]["messages"] == 2


def test_lines_that_come_together_are_read_together() -> None:
    reading, writing = os.pipe()
    lines = Lines(reading)
    os.write(writing, b"sensors/1=5\nsensors/2=5\nsens")
    assert lines.taken() == ["sensors/1=5", "sensors/2=5"]
    os.write(writing, b"ors/1=6\n")
    assert lines.taken() == ["sensors/1=6"]
    os.close(writing)
    assert lines.taken() is None
    os.close(reading)
