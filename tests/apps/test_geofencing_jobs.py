"""The geofencing jobs on a real engine and broker, one of them updated with its state while movers move."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from binders.flink.local.cluster import CONNECTOR as CLUSTER_CONNECTOR
from binders.spark.local.commands import CONNECTOR
from speck.apply.operation import Operation
from speck.binder import installed
from speck.coordinator import build
from speck.core.inventory import Inventory
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.store import Store
from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.mqtt_client import MqttClient
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import PROGRAM, MosquittoServer
from testbed.servers.spark import SparkServer
from tests.apps.test_geofencing_functions import example
from tests.support.flights import FLIGHTS, MAPS, NEEDS_FLIGHTS
from tests.support.trials import trial

pytest.importorskip("shapely", reason="needs the extra `fences`")

from jars_and_apps.geofencing import bundle, feeder, generate, real
from jars_and_apps.geofencing.reference import Reference, differences, points_of

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        not (CONNECTOR.exists() and PROGRAM), reason="needs Mosquitto and the connector (make jars)"
    ),
]

# One site does the work of all: without jobs that only pass messages on.
COMPOSITION = """
name: fences
jobs:
- {{job_name: fences-admit, site: A, source_topic: fences/+, sink_topic: geo/fences, entry_class: admit,
    job_path: jars_and_apps/geofencing/fences.py}}
- {{job_name: fences-locate, site: A, source_topic: geo/+, sink_topic: located, entry_class: locate,
    job_path: jars_and_apps/geofencing/fences.py, parallelism: 1,
    trigger: {trigger}, arguments: {{site: A, lateness: {lateness}}}}}
- {{job_name: fences-track, site: A, source_topic: located, sink_topic: events, entry_class: track,
    job_path: jars_and_apps/geofencing/visits.py, parallelism: 1, arguments: {{sites: A, shards: 2}}}}
- {{job_name: fences-occupancy, site: A, source_topic: events, sink_topic: occupancy, entry_class: occupancy,
    job_path: jars_and_apps/geofencing/visits.py, parallelism: 1}}
"""

LOCATE = """
name: fences
jobs:
- {job_name: large-locate, site: A, source_topic: geo/+, sink_topic: located, entry_class: locate,
    job_path: jars_and_apps/geofencing/fences.py, parallelism: 1, arguments: {site: A, lateness: 1}}
"""

# With the functions of a user, whose errors park a message.
WITH_FUNCTIONS = """
name: fences
jobs:
- {job_name: fences-admit, site: A, source_topic: fences/+, sink_topic: geo/fences,
    entry_class: geofencing.jobs.admit, job_path: fleet.zip}
- {job_name: fences-locate, site: A, source_topic: geo/+, sink_topic: located,
    entry_class: geofencing.jobs.locate, job_path: fleet.zip, parallelism: 1,
    arguments: {site: A, lateness: 1}, on_error: park, park_topic: parked}
- {job_name: fences-track, site: A, source_topic: located, sink_topic: events,
    entry_class: geofencing.jobs.track, job_path: fleet.zip, parallelism: 1, arguments: {sites: A, shards: 2}}
"""

# Two sites, one with Spark and one with Flink, whose positions are merged by both.
MIXED = """
name: fences
jobs:
- {job_name: fences-admit, site: A, source_topic: fences/+, sink_topic: admitted, entry_class: admit,
    job_path: jars_and_apps/geofencing/fences.py}
- {job_name: fences-spread-a, site: A, source_topic: admitted, sink_topic: a/fences, entry_class: spread,
    job_path: jars_and_apps/geofencing/visits.py}
- {job_name: fences-spread-c, site: C, source_topic: admitted, sink_topic: c/fences,
    entry_class: spread_on_flink, job_path: jars_and_apps/geofencing/visits.py}
- {job_name: fences-locate-a, site: A, source_topic: a/+, sink_topic: tracks/a, entry_class: locate,
    job_path: jars_and_apps/geofencing/fences.py, parallelism: 1, arguments: {site: A}}
- {job_name: fences-locate-c, site: C, source_topic: c/+, sink_topic: tracks/c, entry_class: locate_on_flink,
    job_path: jars_and_apps/geofencing/fences.py, arguments: {site: C}}
- {job_name: fences-track-a, site: A, source_topic: tracks/+, sink_topic: events/spark, entry_class: track,
    job_path: jars_and_apps/geofencing/visits.py, parallelism: 1, arguments: {sites: "A,C", shards: 2}}
- {job_name: fences-track-c, site: C, source_topic: tracks/+, sink_topic: events/flink,
    entry_class: track_on_flink, job_path: jars_and_apps/geofencing/visits.py, arguments: {sites: "A,C"}}
"""

REPORTS = ("late", "late fence", "rejected")
PATIENCE = 300.0  # s
STILL = 20.0  # s, after which no more events are expected
LARGE = 10_000_000  # bytes of a message
LARGE_PACKETS = f"max_packet_size {2 * LARGE}"  # of a broker; the configuration that SpecK ships takes 4 MiB


class OneSite:
    """A coordinator with the jobs at one site, and everything that passes its broker."""

    def __init__(
        self,
        server: SparkServer,
        broker: MosquittoServer,
        store: Store,
        directory: Path,
        flink: FlinkServer | None = None,
    ) -> None:
        checkpoints = {"checkpoint_dir": str(directory / "checkpoints")}
        sites = {"A": one_site("A", server.address, broker.address, **checkpoints)}
        if flink is not None:
            sites["C"] = one_site("C", flink.address, broker.address)
        self._inventory = Inventory(sites)
        self._roots = (ROOT, directory)
        settings = Settings(roots=self._roots, period=1)  # heals: a message is parked between two starts
        self._coordinator = build(store, installed(), self._inventory, settings).coordinator
        self._coordinator.start()
        self.mqtt_client = MqttClient(broker.port, "#")

    def apply(self, trigger: str, lateness: float) -> Operation:
        return self.apply_text(COMPOSITION.format(trigger=trigger, lateness=lateness))

    def apply_text(self, text: str) -> Operation:
        loaded = load_composition(
            text, inventory=self._inventory, registry=installed(), root=self._roots, default_name="fences"
        )
        operation, _ = user.apply(self._coordinator, loaded.composition)
        assert operation.wait(300)
        return operation

    def lines(self, topic: str) -> list[dict[str, Any]]:
        """The objects that came on a topic."""
        came = [text for name, text in list(self.mqtt_client.received) if name == topic]
        return [json.loads(line) for text in came for line in text.split("\n")]

    def close(self) -> None:
        self.mqtt_client.close()
        assert user.delete_composition(self._coordinator, "fences").wait(120)
        self._coordinator.close()


@pytest.fixture
def site(spark_server: SparkServer, mosquitto: MosquittoServer, tmp_path: Path) -> Iterator[OneSite]:
    with Store(tmp_path / "store") as store:
        found = OneSite(spark_server, mosquitto, store, tmp_path)
        yield found
        found.close()


@trial("the functions of the jobs in tests/apps/test_geofencing_visits.py, and of the demo")
def test_every_event_is_that_of_the_reference(site: OneSite, tmp_path: Path) -> None:
    generate.write(tmp_path, movers=20, fences=40, minutes=5, seed=3)
    fences = list(feeder.messages_of(tmp_path / "fences.jsonl"))
    stream = [each | {"site": "A"} for each in feeder.messages_of(tmp_path / "stream.jsonl")]
    assert site.apply("100 milliseconds", 10.0).state == "succeeded"
    send(site, fences)
    send(site, [{"topic": "fences/broken", "text": "POINT (7 46)"}])
    eventually(lambda: site.lines("geo/fences"), lambda found: len(found) == len(fences) + 1)
    send(site, stream[: len(stream) // 2])
    eventually(lambda: site.lines("events"), lambda found: len(found) > 20)
    updated = site.apply("200 milliseconds", 20.0)
    assert updated.state == "succeeded"
    assert {name: action.kind for name, action in updated.actions.items() if action.kind != "keep"} == {
        "fences-locate": "update"
    }
    send(site, stream[len(stream) // 2 :])

    def compared() -> dict[str, int]:
        events = site.lines("events")
        records = [each for each in site.lines("geo/fences") if "rejected" not in each]
        return compared_with(events, records, stream) | {"rejected": len(rejected(events))}

    malformed = sum(bool(each.get("malformed")) for each in stream) + 1  # and the record without a fence
    counts = eventually(compared, lambda found: not found["missing"] and found["rejected"] >= malformed)
    assert counts.pop("awaited") > 40
    assert counts == {"missing": 0, "extra": 0, "twice": 0, "wrong": 0, "rejected": malformed}
    ask(site, {"question": "where", "mover": stream_mover(stream)})
    totals = eventually(lambda: occupancy(site), lambda found: found == visits(site))
    assert sum(totals.values()) > 40
    (refused,) = (each for each in site.lines("geo/fences") if "rejected" in each)
    assert refused["fence"] == "broken"
    assert refused["rejected"].startswith("it is not JSON in UTF-8")


@trial("the functions of the jobs in tests/apps/test_geofencing.py")
def test_messages_of_ten_megabytes_are_answered(spark_server: SparkServer, tmp_path: Path) -> None:
    with MosquittoServer(tmp_path / "mosquitto", LARGE_PACKETS) as broker, Store(tmp_path / "store") as store:
        site = OneSite(spark_server, broker, store, tmp_path)
        try:
            assert site.apply_text(LOCATE).state == "succeeded"
            site.mqtt_client.send("geo/positions", large_positions())
            eventually(lambda: site.lines("located"), large_positions_are_answered, PATIENCE)
        finally:
            site.close()


@trial("the same functions in tests/apps/test_geofencing_functions.py")
def test_the_functions_of_a_user_run_in_the_jobs(site: OneSite, tmp_path: Path) -> None:
    (tmp_path / "fleet.py").write_text(example())
    (tmp_path / "fleet.zip").write_bytes(bundle.bundle(tmp_path / "fleet.py", "Fleet"))
    assert site.apply_text(WITH_FUNCTIONS).state == "succeeded"
    route = {"type": "LineString", "coordinates": [[7, 46], [7.1, 46]]}
    times = {"time": "2026-03-02T06:00:00.000Z"}
    site.mqtt_client.send(
        "fences/route", [json.dumps({"type": "Feature", "geometry": route, "properties": times})]
    )
    (record,) = eventually(lambda: site.lines("geo/fences"), lambda found: len(found) == 1)
    assert record["geometry"]["type"] == "Polygon"

    def positions(*rows: tuple[int, float, object]) -> None:
        """Second, latitude and accuracy of positions of a bus."""
        lines = [
            {"type": "Feature", "id": "bus", "geometry": {"type": "Point", "coordinates": [7.05, latitude]}}
            | {"properties": {"time": f"2026-03-02T07:00:{second:02}.000Z", "accuracy": accuracy}}
            for second, latitude, accuracy in rows
        ]
        site.mqtt_client.send("geo/positions", [json.dumps(line) for line in lines])

    positions((0, 47, 5), (1, 46, 5), (2, 47, 90), (5, 46, "bad"), (11, 47, 5), (20, 47, 5))
    found = eventually(lambda: site.lines("events"), lambda found: len(found) == 2)
    assert [(each["event"], each["time"][-7:-1]) for each in found] == [
        ("enter", "01.000"),
        ("exit", "11.000"),
    ]
    (parked,) = eventually(lambda: site.lines("parked"), lambda found: len(found) == 1)
    assert parked["properties"]["accuracy"] == "bad"
    site.mqtt_client.send("located", [json.dumps({"question": "q", "mover": "bus", "box": [7, 46, 8, 48]})])
    answers = eventually(
        lambda: [each for each in site.lines("events") if each["event"] == "answer"],
        lambda found: len(found) == 2,
    )
    (mover,) = (each for answer in answers for each in answer["movers"])
    assert mover["own"] == {"route": 10.0}


@contextmanager
def two_engines(spark_server: SparkServer, tmp_path: Path) -> Iterator[OneSite]:
    """The jobs of :data:`MIXED`, without any fence."""
    python = ROOT / ".pyflink" / "bin" / "python"
    if not python.exists() or not CLUSTER_CONNECTOR.exists():
        pytest.skip("needs PyFlink and the connector (make pyflink jars)")
    with (
        FlinkServer(tmp_path / "flink", python=str(python), slots=8) as flink,
        MosquittoServer(tmp_path / "mosquitto", LARGE_PACKETS) as broker,
        Store(tmp_path / "store") as store,
    ):
        site = OneSite(spark_server, broker, store, tmp_path, flink)
        try:
            assert site.apply_text(MIXED).state == "succeeded"
            yield site
        finally:
            site.close()


def settled(lines: Callable[[], list[dict[str, Any]]], least: int) -> list[dict[str, Any]]:
    """The lines, once there are enough and no more come: the reference is too slow to be asked again."""
    seen, since = -1, 0.0

    def found() -> list[dict[str, Any]]:
        nonlocal seen, since
        came = lines()
        if len(came) > seen:
            seen, since = len(came), time.monotonic()
        return came

    return eventually(found, lambda came: len(came) > least and time.monotonic() - since > STILL, PATIENCE)


def assert_as_the_reference(site: OneSite, made: Path, least: int) -> None:
    """Send the messages of a folder to two sites; the events of both engines are those of the reference."""
    fences = list(feeder.messages_of(made / "fences.jsonl"))
    stream = [
        each | {"site": "C" if each["site"] == "C" else "A"}
        for each in feeder.messages_of(made / "stream.jsonl")
    ]
    send(site, fences)
    for name in ("a", "c"):
        spread = f"{name}/fences"
        eventually(
            lambda spread=spread: site.lines(spread), lambda found: len(found) == len(fences), PATIENCE
        )
    send(site, [at_site(each) for each in stream])
    for engine in ("spark", "flink"):
        events = settled(lambda engine=engine: site.lines(f"events/{engine}"), least)
        records = [each for each in site.lines("admitted") if "rejected" not in each]
        counts = compared_with(events, records, stream)
        assert counts.pop("awaited") > least
        assert counts == {"missing": 0, "extra": 0, "twice": 0, "wrong": 0}, engine


@trial("the jobs on Spark in tests/apps/test_geofencing_visits.py, and programs in tests/binders/flink")
def test_events_of_spark_and_flink_are_those_of_the_reference(
    spark_server: SparkServer, tmp_path: Path
) -> None:
    generate.write(tmp_path, movers=20, fences=40, minutes=5, seed=4)
    with two_engines(spark_server, tmp_path) as site:
        assert_as_the_reference(site, tmp_path, 40)
        for name in ("a", "c"):
            site.mqtt_client.send(f"{name}/positions", large_positions())
            tracks = f"tracks/{name}"
            eventually(lambda tracks=tracks: site.lines(tracks), large_positions_are_answered, PATIENCE)
        site.mqtt_client.send("fences/large", [padded({"type": "Feature", "geometry": None})])
        (refused,) = eventually(
            lambda: [each["rejected"] for each in site.lines("admitted") if each["fence"] == "large"],
            lambda found: len(found) == 1,
        )
        assert refused == f"it has {LARGE} bytes (expected at most 262144)"


@pytest.mark.timeout(1200)  # s; the reference takes minutes
@NEEDS_FLIGHTS
@trial("the functions of the jobs in tests/apps/test_geofencing_visits.py")
def test_events_of_real_flights_on_spark_and_flink_are_those_of_the_reference(
    spark_server: SparkServer, tmp_path: Path
) -> None:
    assert FLIGHTS is not None and MAPS is not None
    real.write(tmp_path, FLIGHTS, MAPS, limit=3000)
    with two_engines(spark_server, tmp_path) as site:
        assert_as_the_reference(site, tmp_path, 300)


def padded(feature: dict[str, Any]) -> str:
    """A Feature as a message of :data:`LARGE` bytes."""
    text = json.dumps(feature | {"properties": {"time": "2026-03-03T07:00:00Z", "note": ""}})
    return text.replace('"note": "', '"note": "' + "x" * (LARGE - len(text)))


def large_positions() -> list[str]:
    """A message that is no position, and one that is."""
    at = {"type": "Point", "coordinates": [7.5, 46.9]}
    return ["x" * LARGE, padded({"type": "Feature", "id": "heavy", "geometry": at})]


def large_positions_are_answered(lines: Sequence[dict[str, Any]]) -> bool:
    """True if the one is located, and the other rejected with its reason and its beginning."""
    reasons = [each["reason"] for each in rejected(lines) if each["line"] == "x" * 200]
    located = [each["mover"] for each in lines if "in" in each]
    return located.count("heavy") == 1 and [each[:23] for each in reasons] == ["it is not JSON in UTF-8"]


def at_site(message: dict[str, Any]) -> dict[str, Any]:
    """A message of the generator, with a topic for each site of one broker."""
    found = message["topic"].removeprefix("geo/")
    return message | {"topic": found if found.startswith("fences/") else f"{message['site'].lower()}/{found}"}


def compared_with(events: Sequence[Any], records: Sequence[Any], stream: Sequence[Any]) -> dict[str, int]:
    """The comparison of events with the reference."""
    found = [each for each in events if each["event"] not in REPORTS]
    return differences(found, Reference(points_of(stream), records, events).events())


def stream_mover(stream: Sequence[Any]) -> str:
    """Some mover."""
    return str(json.loads(stream[0]["text"].split("\n")[0])["id"])


def ask(site: OneSite, question: dict[str, Any]) -> None:
    """Ask a question on the topic of the tracker, and have the answers of both shards."""
    site.mqtt_client.send("located", [json.dumps(question)])
    name = question["question"]
    answers = eventually(
        lambda: [each for each in site.lines("events") if each.get("question") == name],
        lambda found: len(found) == 2,
    )
    assert {each["shard"] for each in answers} == {0, 1}
    assert {each["mover"] for answer in answers for each in answer["movers"]} <= {question["mover"]}


def visits(site: OneSite) -> Counter[tuple[str, str]]:
    """The numbers of enters and exits by fence."""
    return Counter(
        (each["fence"], f"{each['event']}s")
        for each in site.lines("events")
        if each["event"] in ("enter", "exit")
    )


def occupancy(site: OneSite) -> Counter[tuple[str, str]]:
    """The same from the job of that name: the last totals of each window."""
    last = {(each["fence"], each["start"]): each for each in site.lines("occupancy")}
    found = Counter[tuple[str, str]]()
    for (fence, _), each in last.items():
        found += Counter({(fence, name): each[name] for name in ("enters", "exits")})
    return found


def rejected(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in events if each.get("event") == "rejected"]


def send(site: OneSite, messages: Sequence[Any]) -> None:
    """Publish messages in their order."""
    for topic, some in groupby(messages, key=lambda message: message["topic"]):
        site.mqtt_client.send(topic, [message["text"] for message in some])
