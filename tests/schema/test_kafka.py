"""Brokers of Kafka in inventories and compositions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from speck.binder import QueryRunner, Registry, installed
from speck.core.draft import Draft
from speck.core.inventory import Engine, Inventory
from speck.core.job import Composition, Job, form_fingerprint
from speck.errors import InvalidInput
from speck.placement.advice import advise
from speck.placement.model import Surroundings, model_of
from speck.placement.policies import Budget, policy
from speck.placement.profile import Inputs
from speck.placement.sites import site_table
from speck.schema.address import BadAddress, canonical
from speck.schema.compositions import load_composition
from speck.schema.inventory import load_inventory
from speck.schema.logins import inventory_warnings
from testbed import ROOT
from testbed.benches.job_text import FLINK_CODE

SITES = """\
sites:
  A:
    spe_address: http://127.0.0.1:8081
    broker_address: tcp://127.0.0.1:1884
  B:
    spe_address: sc://127.0.0.1:15002
    broker_address: tcp://127.0.0.1:1885
  C:
    spe_address: sc://127.0.0.1:15003
    broker_address: kafka://K1
  D:
    spe_address: spark://127.0.0.1:7077
    broker_address: tcp://127.0.0.1:1886
    checkpoint_dir: file:///states
"""
JOB = {
    "job_name": "a",
    "site": "C",
    "source_topic": "in",
    "sink_topic": "out",
    "entry_class": "upper",
    "job_path": "spark/simple.py",
}


@pytest.fixture(name="inventory", scope="module")
def inventory_fixture() -> Inventory:
    return load_inventory(SITES)


def jobs(inventory: Inventory, topics: str = "", **fields: Any) -> dict[str, Job]:
    text = "jobs:\n- " + "\n  ".join(f"{name}: {value}" for name, value in (JOB | fields).items())
    text += f"\ntopics: {topics}\n" if topics else "\n"
    root = ROOT / "testbed" / "programs"
    loaded = load_composition(text, inventory=inventory, registry=installed(), root=root, default_name="x")
    return dict(loaded.composition.jobs)


def test_addresses_have_their_port(inventory: Inventory) -> None:
    assert inventory.sites["C"].broker_address == "kafka://k1:9092"
    assert jobs(inventory)["a"].source_broker == "kafka://k1:9092"
    assert jobs(inventory, sink_broker="A")["a"].sink_broker == "tcp://127.0.0.1:1884"


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("kafka://", "no host"),
        ("kafka://a:0", "port 0"),
        ("kafka://a/topic", "path"),
        ("kafka://a,", "no host"),
        ("kafka://a,a:9092", "a host twice"),
        ("tcp://a,b", "several hosts"),
        ("kafka://me:secret@a", "user name or password"),
    ],
)
def test_other_addresses_are_refused(address: str, fault: str) -> None:
    with pytest.raises(BadAddress, match=fault):
        canonical(address)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"source_topic": "a/b"}, r"source_topic 'a/b' is not a Kafka topic .*kafka://k1:9092"),
        ({"source_topic": "'#'"}, r"source_topic '#' is not a Kafka topic .*no wildcards"),
        ({"sink_topic": "__x"}, r"sink_topic '__x' is reserved"),
        ({"sink_topic": "speck.control"}, r"sink_topic 'speck.control' is reserved"),
        ({"sink_topic": "a" * 250}, r"sink_topic 'a.*is not a Kafka topic"),
        ({"on_error": "park", "park_topic": "p/q"}, r"park_topic 'p/q' is not a Kafka topic"),
        ({"retain": "true"}, r"retain true does not fit broker kafka://k1:9092, which retains no messages"),
        ({"start": "soon"}, r"start 'soon' is not a place in a topic"),
        ({"start": "'2126-01-01T00:00Z'"}, r"start '2126.*' is in the future"),
        ({"start": "'2026-01-01T00:00'"}, r"start '2026.*' has no time zone"),
        (
            {"start": "earliest", "source_broker": "A"},
            r"start 'earliest' does not fit broker tcp://.* of mqtt",
        ),
        (
            {"start": "earliest", "site": "any", "engine": "spark"},
            r"start 'earliest' does not fit a source that SpecK places",
        ),
        (
            {"site": "D", "sink_broker": "C"},
            r"sink_broker is kafka://k1:9092.*spark-standalone does not reach",
        ),
        (
            {"site": "any", "engine": "spark", "sink_topic": "a/b"},
            r"sink_topic 'a/b' is not a Kafka topic .*kafka://k1:9092",
        ),
    ],
)
def test_what_kafka_cannot_do_is_refused(fields: dict[str, str], fault: str, inventory: Inventory) -> None:
    with pytest.raises(InvalidInput, match=fault):
        jobs(inventory, **fields)


def turned(inventory: Inventory) -> Inventory:
    """The same sites, Spark standalone before Spark Connect."""
    return replace(inventory, sites=dict(reversed(inventory.sites.items())))


ANYWHERE = {"site": "any", "engine": "spark", "source_broker": "A", "sink_broker": "A"}
NOT_REACHED = "is kafka://k1:9092, a broker of kafka, which spark-standalone does not reach (expected another"
NO_REAL_TIME = (
    "trigger 'real-time' is not supported by the binder of 'spark-standalone' (expected an interval"
)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"sink_broker": "C"}, f"sink_broker {NOT_REACHED}"),
        ({"source_broker": "C"}, f"source_broker {NOT_REACHED}"),
        ({"trigger": "real-time"}, NO_REAL_TIME),
    ],
    ids=["sink", "source", "real time"],
)
@pytest.mark.parametrize("order", [replace, turned], ids=["connect first", "standalone first"])
def test_a_movable_job_does_not_come_to_an_engine_that_cannot_run_it(
    fields: dict[str, str], fault: str, order: Callable[[Inventory], Inventory], inventory: Inventory
) -> None:
    sites = order(inventory)
    draft = Draft.of(Composition("x", jobs(sites, **(ANYWHERE | fields))), sites, installed())
    assert set(draft.candidates["a"]) == {"B", "C"}
    reasons = {each.site: each.reason for each in draft.refused}
    assert reasons["A"] == "has no engine of kind 'spark'"
    assert reasons["D"].startswith(f"cannot run it: {fault}")
    named = {**ANYWHERE, **fields, "site": "null"}
    assert set(jobs(sites, **named, sites="[C, B]")["a"].sites) == {"B", "C"}
    with pytest.raises(InvalidInput) as raised:
        jobs(sites, **named, sites="[D, B]")
    assert [each.message for each in raised.value.faults] == [f"sites.0 'D' {reasons['D']}"]
    with pytest.raises(InvalidInput) as raised:
        jobs(sites, **named, sites="[D]")
    (found,) = raised.value.faults
    assert found.message.startswith(fault)


def test_a_job_that_spark_standalone_can_run_comes_to_it(inventory: Inventory) -> None:
    for fields in ({}, {"trigger": "2 seconds"}, {"on_error": "skip", "retain": "true"}):
        draft = Draft.of(Composition("x", jobs(inventory, **(ANYWHERE | fields))), inventory, installed())
        assert set(draft.candidates["a"]) == {"B", "C", "D"}


def test_a_job_gets_the_engine_of_a_site_that_can_run_it(inventory: Inventory) -> None:
    """Also where it runs at another one there in its present form."""
    standalone, connect = "spark://127.0.0.1:7077", "sc://127.0.0.1:15004"
    d = inventory.sites["D"]
    both = replace(d, engines=(*d.engines, Engine(spe_address=connect)))
    sites = replace(inventory, sites={**inventory.sites, "D": both})
    (job,) = jobs(sites, **ANYWHERE).values()
    running = {"a": replace(job, spe_address=standalone, site="D")}
    for trigger, address in ((None, standalone), ("real-time", connect)):
        draft = Draft.of(Composition("x", {"a": replace(job, trigger=trigger)}), sites, installed(), running)
        assert (draft.candidates["a"]["D"], draft.sites) == (address, {"a": "D"})


def test_a_topic_that_may_come_to_kafka_needs_an_engine_that_reaches_it(inventory: Inventory) -> None:
    free = jobs(inventory, site="any", engine="spark", source_broker="A")
    draft = Draft.of(Composition("x", free), inventory, installed())
    assert set(draft.candidates["a"]) == {"B", "C"}


def _homes(inventory: Inventory, sites: str, cloud: str = "C") -> tuple[set[str], str]:
    """The sites that may hold a free topic of a job at these sites, and the one that a policy chooses."""
    tiers = {
        name: replace(each, tier="cloud" if name == cloud else "edge")
        for name, each in inventory.sites.items()
    }
    known = replace(inventory, sites=tiers)
    free = jobs(known, site="null", sites=sites, engine="spark", source_broker="A")
    draft = Draft.of(Composition("x", free), known, installed())
    table = site_table(known, Inputs(), ())
    model = model_of(draft, Surroundings(table=table, inputs=Inputs()))
    found = advise(model, policy("search"), Budget()).placement
    (channel,) = (each for each in model.problem.channels if each.name == "free out")
    return {model.table.name(home) for home in channel.homes}, model.homes(found)["out"]


def test_a_free_topic_has_its_home_where_all_of_its_jobs_reach_it(inventory: Inventory) -> None:
    homes, chosen = _homes(inventory, "[D]")  # Spark standalone
    assert chosen in homes == {"A", "B", "D"}
    # Spark Connect reaches Kafka, too, but the names of topics are checked for the brokers of these sites.
    assert _homes(inventory, "[B]")[0] == {"A", "B", "D"}
    assert _homes(inventory, "[C]")[0] == {"C"}
    assert _homes(inventory, "[B, C]")[0] == {"A", "B", "C", "D"}


def test_jobs_without_a_kind_of_brokers_in_common_have_one_that_all_reach(inventory: Inventory) -> None:
    (writer,) = jobs(inventory, site="null", sites="[C]", engine="spark", source_broker="A").values()
    fields = {"job_name": "b", "source_topic": "out", "sink_topic": "end", "sink_broker": "A"}
    (reader,) = jobs(
        inventory, **fields, site="null", sites="[D]", engine="spark", source_broker="A"
    ).values()
    reader = replace(reader, source_broker="", placed=(*reader.placed, "source_broker"))
    draft = Draft.of(Composition("x", {"a": writer, "b": reader}), inventory, installed())
    assert draft.brokers == {"out": ("A", "B", "D")}


def test_a_topic_that_has_come_to_kafka_stays_there_where_its_jobs_reach_it(inventory: Inventory) -> None:
    for sites, homes in (("[B]", {"out": "C"}), ("[D]", {})):
        free = jobs(inventory, site="null", sites=sites, engine="spark", source_broker="A")
        at = {"[B]": "sc://127.0.0.1:15002", "[D]": "spark://127.0.0.1:7077"}[sites]
        running = {"a": replace(free["a"], site=sites[1], spe_address=at, sink_broker="kafka://k1:9092")}
        draft = Draft.of(Composition("x", free), inventory, installed(), running)
        assert draft.homes == homes
        assert ("C" in draft.brokers["out"]) is bool(homes)


PARKING = {"on_error": "park", "park_topic": "parked"}


def test_partitions_are_those_of_the_topics_of_a_job(inventory: Inventory) -> None:
    topics = "{in: {partitions: 4}, out: {description: results, partitions: 2}, parked: {partitions: 1}}"
    found = jobs(inventory, topics, **PARKING)["a"]
    assert found.partitions == {"in": 4, "out": 2, "parked": 1}
    assert Job.from_dict(found.to_dict()) == found
    without = jobs(inventory, "{out: results}", **PARKING)["a"]
    assert "partitions" not in without.to_dict()
    # No engine is touched: the partitions of a topic are no property of a copy of the job.
    assert form_fingerprint(found) == form_fingerprint(without)


@pytest.mark.parametrize(
    ("topics", "fields", "fault"),
    [
        ("{out: {partitions: 0}}", {}, r"topics: 'out': partitions 0 is not a whole number from 1 to 1,000"),
        ("{out: {partitions: four}}", {}, r"topics: 'out': partitions 'four' is not a whole number"),
        (
            "{resutls: {partitions: 2}}",
            {"sink_topic": "results"},
            r"topics: 'resutls' has partitions, but .* reads or writes .* \(did you mean 'results'\?\)",
        ),
        (
            "{out: {partitions: 2}}",
            {"sink_broker": "A"},
            r"sink_topic 'out' has partitions, which broker tcp://127.0.0.1:1884 of mqtt does not have",
        ),
        (
            "{in: {partitions: 2}}",
            {"site": "any", "engine": "spark"},
            r"source_topic 'in' has partitions, which broker tcp://127.0.0.1:1884 of mqtt does not have",
        ),
    ],
)
def test_partitions_that_no_topic_can_have_are_refused(
    topics: str, fields: dict[str, str], fault: str, inventory: Inventory
) -> None:
    with pytest.raises(InvalidInput, match=fault):
        jobs(inventory, topics, **fields)


TABLE = "{schema: {time: timestamp not null, k: string}, event_time: time, watermark: 5 s, partitions: %s}"
WINDOWS = (
    "SELECT k, COUNT(*) AS n FROM TUMBLE(readings, time, INTERVAL '1' HOUR) "
    "GROUP BY window_start, window_end, k"
)
JOINED = (
    "SELECT r.k AS k FROM TUMBLE(readings, time, INTERVAL '1' HOUR) r JOIN "
    "TUMBLE(others, time, INTERVAL '1' HOUR) o ON r.k = o.k AND r.window_start = o.window_start "
    "AND r.window_end = o.window_end"
)


def query(inventory: Inventory, sql: str, partitions: int, **fields: str) -> dict[str, Job]:
    """The jobs of a query over a topic at a Kafka broker, and one at a broker with MQTT."""
    job = {"job_name": "q", "sink_topic": "out", "sql": f'"{sql}"', **fields}
    lines = "\n  ".join(f"{name}: {value}" for name, value in job.items())
    other = TABLE.replace(", partitions: %s", ", at: A")
    readings = TABLE.replace("{schema", "{at: C, schema") % partitions
    text = f"topics:\n  readings: {readings}\n  others: {other}\njobs:\n- {lines}\n"
    runner = QueryRunner(Path(__file__), "io.speck.Run")  # any file: what runs queries may not be built
    kinds = [replace(each, queries=runner) for each in installed().engines]
    registry = Registry(tuple(kinds), installed().brokers)
    loaded = load_composition(text, inventory=inventory, registry=registry, root=ROOT, default_name="x")
    return dict(loaded.composition.jobs)


@pytest.mark.parametrize(
    ("sql", "fields", "what"),
    [
        (WINDOWS, {"site": "C", "sink_broker": "A"}, "has windows over"),
        (WINDOWS, {"cut": "columns", "rest": "A"}, "has windows over"),
        (JOINED, {"cut": "columns", "rest": "A"}, "joins"),
        ("SELECT k FROM readings", {"cut": "columns", "rest": "A"}, "has a 'rest' over"),
    ],
)
def test_windows_over_several_partitions_are_refused(
    sql: str, fields: dict[str, str], what: str, inventory: Inventory
) -> None:
    """Each partition is read by itself, so that rows of the others would be late."""
    with pytest.raises(InvalidInput) as raised:
        query(inventory, sql, 4, **fields)
    assert f"job 'q': sql: the query {what} table 'readings', whose topic 'readings' has 4 partitions" in str(
        raised.value
    )
    assert "expected partitions: 1" in str(raised.value)
    assert query(inventory, sql, 1, **fields)


def test_a_query_without_windows_reads_several_partitions(inventory: Inventory) -> None:
    found = query(inventory, "SELECT k FROM readings", 4, site="C", sink_broker="A")
    assert found["q"].partitions == {"readings": 4}


def test_a_start_is_stored_in_utc(inventory: Inventory) -> None:
    for given in ("'2026-01-01T01:00+01:00'", "'2026-01-01T00:00:00Z'"):
        assert jobs(inventory, start=given)["a"].start == "2026-01-01T00:00:00Z"
    assert jobs(inventory, start="earliest", sink_broker="A")["a"].start == "earliest"
    assert jobs(inventory, start="latest", source_broker="A")["a"].start == "latest"
    assert "start" not in jobs(inventory)["a"].to_dict()


def test_the_same_is_accepted_at_an_mqtt_broker(inventory: Inventory) -> None:
    assert jobs(inventory, site="B", source_topic="a/#", sink_topic="__x", retain="true")


def loaded(scheme: str, login: str, block: str = "broker_login") -> Inventory:
    site = f"  E:\n    spe_address: sc://e\n    broker_address: {scheme}://e\n    {block}: {login}\n"
    return load_inventory(SITES + site)


@pytest.mark.parametrize("block", ["broker_login", "job_login"])
@pytest.mark.parametrize(
    ("scheme", "login", "fault"),
    [
        ("kafka", "{username: me}", r"username.*is given without password"),
        ("kafka", "{password: '${X}'}", r"password.*is given without username"),
        ("kafka", "{username: me, password: '${X}', sasl: gssapi}", r"sasl.*(is 'gssapi'|scram-sha-512)"),
        ("kafkas", "{sasl: plain}", r"sasl.*is given without username"),
        ("kafka", "{ca_file: /ca.pem}", r"ca_file.*no effect on kafka://.*expected kafkas://HOST:PORT"),
        ("tcp", "{username: me, password: '${X}', sasl: plain}", r"sasl.*is for Kafka brokers only"),
    ],
)
def test_a_login_that_cannot_be_is_refused(scheme: str, login: str, fault: str, block: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        loaded(scheme, login, block)


def test_a_token_and_the_sasl_of_an_engine_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"token.*is not supported by Kafka brokers"):
        loaded("kafka", "{token: '${X}'}")
    with pytest.raises(InvalidInput, match=r"sasl.*is not supported by engines"):
        loaded("tcp", "{sasl: plain}", "engine_login")


def test_a_login_is_loaded_and_its_default_ports_are_written_out() -> None:
    found = loaded("kafkas", "{username: me, password: '${X}', sasl: plain, ca_file: /ca.pem}").sites["E"]
    assert found.broker_address == "kafkas://e:9093"
    assert (found.broker_login.sasl, found.login_of_jobs().sasl) == ("plain", "plain")
    assert any(
        "is sent to kafka://e:9092 unencrypted" in each
        for each in inventory_warnings(loaded("kafka", "{username: me, password: '${X}'}"))
    )


@pytest.mark.skipif(not (ROOT / FLINK_CODE).exists(), reason="needs the Flink programs (make jars)")
def test_the_shipped_composition_is_valid(inventory: Inventory) -> None:
    text = Path(ROOT / "pipelines" / "mixed_brokers.yaml").read_text("utf-8")
    loaded = load_composition(text, inventory=inventory, registry=installed(), root=ROOT, default_name="x")
    found = loaded.composition.jobs
    assert {found["clean-a"].sink_broker, found["stats"].source_broker} == {"kafka://k1:9092"}
    assert not loaded.warnings
