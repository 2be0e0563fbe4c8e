"""Splits are watched at their brokers, while these and the splits come and go; over engines in memory."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import requests

from speck.client import RequestRefused
from speck.core.inventory import Inventory
from speck.observe.split_watch import IDLE_PERIOD, LEAST_PAUSE, SplitWatch
from speck.server.api.exposition import exposition
from speck.testing.waiting import eventually
from testbed.servers.rest import RestServer, rest_server, yaml_of
from tests.fixtures.speck_command import Speck

E1, E2 = "{spe_address: sc://e1:15002}", "{spe_address: sc://e2:15002}"


def hot(*combiners: str, more: str = "", job: str = "hot readings out") -> str:
    places = ", ".join(combiners or (E1, E2))
    block = f"{{combiners: [{places}], window: 1 minute, metrics: {{window: 3 s, slide: 1 s}}{more}}}"
    return yaml_of(f"{job} key_split: {block}")


def report(rows: int = 0, busy: float = 0.0, **fields: Any) -> bytes:
    value = {"rows": rows, "busy": busy, "wall": busy, "faults": {}, **fields}
    return b"\xff" + json.dumps(value).encode()


class Bench:
    """A server whose watch is driven by the test, with a clock of its own."""

    def __init__(self, rest: RestServer) -> None:
        self.rest = rest
        self.time = 1000.0
        self.watch: SplitWatch = rest.coordinator.splits
        self.watch.now = self.watch.clock = lambda: self.time

    def apply(self, text: str) -> None:
        operation = self.rest.client.apply(text.encode(), "demo", wait=30)
        assert operation["state"] == "succeeded"
        self.step(IDLE_PERIOD)

    def step(self, seconds: float = 0.0) -> None:
        """Let time pass; one round for each broker and one more."""
        self.time += seconds
        for _ in range(1 + len(self.rest.world.brokers)):
            self.watch.round()

    def send(self, name: str, payload: bytes, broker: str = "") -> None:
        self.rest.world.publish(broker or self.broker(), f"speck/split/hot/report/{name}", payload)

    def broker(self, job: str = "hot.reducer") -> str:
        jobs = self.rest.queries.jobs()
        return str(next(each["job"]["sink_broker"] for each in jobs if each["job_name"] == job))

    def controls(self) -> list[tuple[str, dict[str, Any]]]:
        found = self.rest.world.broker(self.broker("hot.partitioner")).controls
        return [(session, json.loads(message)) for session, message in found]

    def split(self) -> dict[str, Any]:
        return self.rest.client.split("hot")


@pytest.fixture(name="bench")
def bench_fixture(rest: RestServer) -> Bench:
    return Bench(rest)


def test_reports_are_shown(bench: Bench) -> None:
    bench.apply(hot())
    fields = {"hot": 3, "true_hot": 1, "shared_keys": 2, "weights": [0.5, 0.5], "loads": [60, 40]}
    bench.send("partitioner", report(100, 0.2, faults={"late": 2, "bad": 1}, **fields))
    bench.send("0", report(60, 0.5))
    bench.send("1", report(40, 0.25, faults={"lost_frames": 4}))
    bench.send("reducer", report(0, 0.1))
    bench.step()
    bench.step(1.0)
    split = bench.split()
    assert split["metrics"]["rows_per_second"] == 100.0
    assert split["metrics"]["imbalance"] == pytest.approx(0.2)
    names = ("hot", "true_hot", "shared_keys", "late_rows", "bad_rows", "lost_frames", "weights")
    assert [split["metrics"][each] for each in names] == [3, 1, 2, 2, 1, 4, [0.5, 0.5]]
    assert [each["rows_per_second"] for each in split["parts"]] == [100.0, 60.0, 40.0, 0.0]
    assert [each["busy_share"] for each in split["parts"]] == [0.2, 0.5, 0.25, 0.1]


def test_losses_are_counted_and_reported_by_job_and_reason(bench: Bench) -> None:
    bench.apply(hot())
    bench.send("partitioner", report(1, faults={"late": 2, "bad": 1}))
    bench.send("1", report(1, faults={"lost_frames": 4}))
    bench.step()
    losses = {
        name: {each["reason"]: (each["kind"], each["count"], each["unit"]) for each in of["losses"]}
        for name in ("hot.partitioner", "hot.combiner-1")
        if (of := bench.rest.client.job(name))
    }
    assert losses == {
        "hot.partitioner": {"late": ("lost", 2, "row"), "bad row": ("lost", 1, "row")},
        "hot.combiner-1": {"lost frame": ("lost", 4, "frame")},
    }
    messages = [each["message"] for each in bench.rest.client.events() if each["kind"] == "lost"]
    assert sorted(messages) == [
        "job 'hot.combiner-1': 4 frames lost between the parts of a split, with the rows in them",
        "job 'hot.partitioner': 1 row dropped: no key, or no valid time",
        "job 'hot.partitioner': 2 rows dropped, since their windows were closed",
    ]
    text = exposition(bench.rest.services).decode()
    assert 'speck_split_lost_frames_total{split="hot"} 4.0' in text
    assert 'speck_split_late_rows_total{split="hot"} 2.0' in text
    assert 'job="hot.combiner-1",kind="lost",reason="lost frame"} 4.0' in text


def test_measured_work_is_sent_each_slide(bench: Bench) -> None:
    bench.apply(hot(more=", weights: measured"))
    bench.send("0", report(30, 0.5))
    bench.step()
    assert bench.controls() == []
    bench.step(1.0)
    (record,) = [each for each in bench.rest.client.jobs() if each["job_name"] == "hot.partitioner"]
    session = bench.rest.coordinator.store.attempts()
    (mine,) = {each.attempt.session for each in session if each.attempt.job_name == record["job_name"]}
    work = {"rows": 30, "busy": 0.5, "wall": 0.5}
    ((found, message),) = bench.controls()
    assert found == mine
    assert message["workers"] == [work, None]
    assert bench.time - 1 < message["end"] <= bench.time
    bench.step(1.0)
    assert [message["workers"] for _, message in bench.controls()] == [[work, None]] * 2
    bench.step(5.0)  # nobody reported within the window
    assert len(bench.controls()) == 2


def test_other_partitioners_are_sent_nothing(bench: Bench) -> None:
    bench.apply(hot())
    for _ in range(3):
        bench.send("0", report(30, 0.5))
        bench.step(1.0)
    assert bench.controls() == []
    bench.apply(hot(more=", partitioner: dalton-metrics"))
    bench.send("0", report(30, 0.5))
    bench.step()
    bench.step(1.0)
    assert len(bench.controls()) == 1


def test_a_split_in_one_job_is_one_worker(bench: Bench) -> None:
    bench.apply(yaml_of("hot readings out key_split: {combiners: 4, window: 1 minute}"))
    bench.send("whole", report(50, 0.5, faults={"late": 1}), bench.broker("hot"))
    bench.step()
    bench.step(10.0)
    text = exposition(bench.rest.services).decode()
    assert 'speck_split_rows_total{split="hot",worker="whole"} 50.0' in text
    assert 'job="hot",kind="lost",reason="late"} 1.0' in text
    assert "speck_split_imbalance{" not in text


def test_a_broker_that_is_away_stops_nothing(tmp_path: Path) -> None:
    """The partitioner's broker is another one than that of the combiners and the reducer."""
    with rest_server(tmp_path) as rest:
        bench = Bench(rest)
        text = hot(more=", weights: measured").replace("sink_broker:", "sink_broker: tcp://far:1883 #", 1)
        bench.apply(text)
        far, near = bench.broker(), bench.broker("hot.partitioner")
        assert far != near
        rest.world.down(near)
        bench.send("0", report(5, 0.1))
        bench.send("partitioner", report(5, 0.1), near)
        bench.step()
        bench.step(1.0)
        assert bench.split()["parts"][1]["rows_per_second"] == 5.0
        assert bench.split()["parts"][0]["rows_per_second"] is None
        rest.world.up(near)
        bench.step(LEAST_PAUSE)
        bench.send("partitioner", report(7, 0.1), near)
        bench.send("0", report(5, 0.1))
        bench.step()
        bench.step(1.0)
        assert bench.split()["parts"][0]["rows_per_second"] == pytest.approx(7 / 3)
        assert [message["workers"][0]["rows"] for _, message in bench.controls()] == [5]


def test_splits_that_come_change_and_go(bench: Bench) -> None:
    assert bench.watch.meters() == {}
    bench.apply(hot())
    assert len(bench.rest.world.broker(bench.broker()).feeds) == 1
    bench.apply(hot(E1, E2, E1.replace("e1", "e3")))
    bench.send("2", report(9, 0.1))
    bench.step()
    bench.step(1.0)
    assert bench.split()["parts"][3]["rows_per_second"] == 3.0  # 9 in 3 seconds
    broker = bench.broker()
    bench.rest.client.delete_composition("demo", wait=30)
    bench.step(IDLE_PERIOD)
    assert bench.watch.meters() == {}
    assert bench.rest.world.broker(broker).feeds == []


def test_the_watch_runs_on_its_own_and_ends(tmp_path: Path) -> None:
    with rest_server(tmp_path, Inventory()) as rest:
        watch = rest.coordinator.splits
        watch.start()
        rest.client.apply(hot().encode(), "demo", wait=30)
        bench_broker = next(each["job"]["sink_broker"] for each in rest.queries.jobs())
        eventually(lambda: rest.world.broker(bench_broker).feeds, bool)
        rest.world.publish(bench_broker, "speck/split/hot/report/0", report(5, 0.1))
        eventually(lambda: watch.totals().get("hot", ({}, {}))[0], lambda work: "0" in work)
        watch.close()
        assert rest.world.broker(bench_broker).feeds == []
        assert "split watch" not in [each.name for each in threading.enumerate()]


def test_windows_are_listed_and_recorded(bench: Bench, speck: Speck, tmp_path: Path) -> None:
    bench.apply(hot())
    for rows in (10, 20, 30):
        bench.send("0", report(rows, 0.5))
        bench.send("1", report(10, 0.5))
        bench.step()
        bench.step(1.0)
    windows = bench.rest.client.split_windows("hot")
    first = next(number for number, each in enumerate(windows) if any(each["workers"]))
    assert [each["workers"][0]["rows"] for each in windows[first:]] == [10, 30, 60]
    assert bench.rest.client.split_windows("hot", windows[-2]["end"]) == windows[-1:]
    missing = requests.get(f"{bench.rest.url}/splits/hat/windows", timeout=30)
    assert missing.status_code == 404
    with pytest.raises(RequestRefused):
        bench.rest.client.split_windows("hot", -1.0)
    path = tmp_path / "steps.jsonl"
    assert speck("split", "record", "hot", "-o", str(path), "--steps", "2").code == 0
    steps = [json.loads(line) for line in path.read_text().splitlines()]
    assert [set(each) for each in steps] == [{"obs", "action", "reward", "next_obs"}] * 2
    assert steps[0]["next_obs"] == steps[1]["obs"]
    assert speck("split", "record", "hat", "-o", str(path), "--steps", "1").code != 0
