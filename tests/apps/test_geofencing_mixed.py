"""The composition for sites of different kinds, as shipped: the events at each site are those expected."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from binders.flink.local.cluster import CONNECTOR as FLINK_CONNECTOR
from binders.spark.local.commands import CONNECTOR as SPARK_CONNECTOR
from speck.client import Client
from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.benches.spark import MqttFriend
from testbed.faults.rig import FLINK_CODE
from testbed.faults.served import Served
from testbed.faults.servers import insist
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.servers.standalone import StandaloneServer
from tests.support.requirements import needs
from tests.support.trials import trial

pytest.importorskip("shapely", reason="needs the extra `fences`")

from jars_and_apps.geofencing import feeder, generate
from tests.apps.test_geofencing_jobs import compared_with

PYTHON = ROOT / ".pyflink" / "bin" / "python"
PATIENCE = 300.0  # s
EDGES = "ABC"

pytestmark = [pytest.mark.engine, needs(SPARK_CONNECTOR, FLINK_CONNECTOR, ROOT / FLINK_CODE)]

Friends = Mapping[str, MqttFriend]


@contextmanager
def four_sites(directory: Path) -> Iterator[tuple[Client, Friends]]:
    """Engines as in ``pipelines/sites_mixed.yaml``, a coordinator, and all that passes the brokers."""
    with ExitStack() as stack:
        entries, friends = {}, {}
        for name in (*EDGES, "D"):
            place = directory / name
            broker = stack.enter_context(MosquittoServer(place / "broker"))
            friends[name] = MqttFriend(broker.port, "#")
            stack.callback(friends[name].close)
            entries[name] = {"broker_address": broker.address, "engines": _engines(name, place, stack)}
        (directory / "sites.yaml").write_text(yaml.safe_dump({"sites": entries}), encoding="utf-8")
        log = directory / "serve.log"
        served = Served(directory / "store", directory / "sites.yaml", ROOT, log, further={"period": 2})
        stack.callback(served.kill)
        client = served.client()
        assert client is not None, log.read_text()
        yield client, friends


def _engines(name: str, place: Path, stack: ExitStack) -> list[dict[str, Any]]:
    if name in "AB":
        spark = stack.enter_context(SparkServer(place / "spark"))
        return [{"spe_address": spark.address, "checkpoint_dir": str(place / "checkpoints")}]
    flink = stack.enter_context(FlinkServer(place / "flink", python=str(PYTHON), slots=8))
    savepoints = {"spe_address": flink.address, "savepoint_dir": flink.cluster.savepoints.as_uri()}
    if name == "C":
        return [savepoints]
    standalone = stack.enter_context(StandaloneServer(place / "standalone"))
    return [{"spe_address": standalone.address, **standalone.engine}, savepoints]


@trial("the same functions on Spark and Flink in tests/apps/test_geofencing_jobs.py")
def test_the_events_at_every_site_are_those_of_the_reference(tmp_path: Path) -> None:
    if not PYTHON.exists():
        pytest.skip("needs PyFlink (make pyflink)")
    generate.write(tmp_path, movers=20, fences=40, minutes=5, seed=5)
    fences, stream = (list(feeder.messages_of(tmp_path / name)) for name in ("fences.jsonl", "stream.jsonl"))
    with four_sites(tmp_path) as (client, friends):
        text = (ROOT / "pipelines" / "fences_mixed.yaml").read_bytes()
        operation = deployed(client, text)
        assert operation["state"] == "succeeded", operation
        drawn = 0
        # Fences of the beginning, and on the way: the sites have them before positions of their time come.
        for of_fences, some in groupby([*fences, *stream], key=lambda message: message["site"] == "D"):
            drawn += send(friends, list(some)) * of_fences
            for name in EDGES:
                eventually(lambda name=name: lines(friends[name], "geo/fences"), at_least(drawn), PATIENCE)
        records = lines(friends["D"], "admitted")
        assert not any("rejected" in each for each in records)
        for name, own in {"D": stream, **{edge: at(edge, stream) for edge in EDGES}}.items():
            counts = eventually(
                lambda name=name, own=own: compared_with(lines(friends[name], "events"), records, own),
                lambda found: not found["missing"],
                PATIENCE,
            )
            assert counts.pop("awaited") > 20, name
            assert counts == {"missing": 0, "extra": 0, "twice": 0, "wrong": 0}, name
        deleted = client.delete_composition("geofencing", wait=PATIENCE)
        assert deleted["state"] == "succeeded", deleted


def deployed(client: Client, text: bytes) -> dict[str, Any]:
    """The end of an apply, repeated while engines that start do not answer yet."""
    for _ in range(5):
        begun = insist(lambda: client.apply(text, "geofencing"))
        *_, operation = client.follow(begun["id"])
        if operation["state"] != "waiting":
            break
    return operation


def send(friends: Friends, messages: Sequence[Mapping[str, Any]]) -> int:
    """Publish messages in their order, each to the broker of its site; returns their number."""
    for (name, topic), some in groupby(messages, key=lambda each: (each["site"], each["topic"])):
        friends[name].send(topic, [each["text"] for each in some])
    return len(messages)


def at_least(count: int) -> Callable[[Sequence[object]], bool]:
    """A condition: there are as many values, or more."""
    return lambda found: len(found) >= count


def lines(friend: MqttFriend, topic: str) -> list[dict[str, Any]]:
    """The objects that came on a topic."""
    came = [text for name, text in list(friend.received) if name == topic]
    return [json.loads(line) for text in came for line in text.split("\n")]


def at(site: str, stream: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The messages of a site."""
    return [each for each in stream if each["site"] == site]
