"""Movable jobs, free topics and the block ``placement`` in a composition's file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from speck.core.draft import Draft
from speck.core.inventory import Engine, Inventory, Site
from speck.core.job import changed_fields
from speck.core.placement import Expects, PlacementOptions
from speck.errors import InvalidInput
from speck.schema.compositions import Loaded, load_composition, load_job
from testbed.benches.examples import REGISTRY, make_jar
from tests.support.properties import property_test


def site(name: str, *engines: Engine) -> Site:
    return Site(name=name, engines=engines, broker_address=f"tcp://{name.lower()}:1883")


def flink(host: str, **fields: Any) -> Engine:
    return Engine(spe_address=f"http://{host}:8081/", **fields)


INVENTORY = Inventory(
    {
        "A": site("A", flink("a")),
        "B": site("B", Engine(spe_address="sc://b:15002")),
        "D": site("D", flink("d"), Engine(spe_address="sc://d:15002")),
    }
)

CODE = "entry_class: clean, job_path: clean.py, engine: spark"
JAR = "entry_class: package.ExampleJob, job_path: jars/test-1.jar"


@pytest.fixture(scope="module", name="root")
def root_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("files")
    make_jar(root / "jars" / "test-1.jar", "package.ExampleJob")
    (root / "clean.py").write_text("def clean(messages): ...\n")
    (root / "clean.zip").touch()
    return root


def read(root: Path, text: str, inventory: Inventory = INVENTORY) -> Loaded:
    return load_composition(text, inventory=inventory, registry=REGISTRY, root=root, default_name="test")


def faults(root: Path, text: str, inventory: Inventory = INVENTORY) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        read(root, text, inventory)
    return [str(fault) for fault in caught.value.faults]


WHOLE = f"""\
name: traffic
placement:
  mode: off
  policy: search
  weights: {{latency: 0.6, wan: 0}}
  utilisation: 60%
  max_age: 2 s
  max_wan: 4 Mbit/s
  stamps: compact
  min_gain: 10%
  cooldown: 10 minutes
  horizon: 2 hours
  steps_per_hour: 3
  group: 4
jobs:
- job_name: first
  site: any
  source_broker: A
  source_topic: sensors/1
  sink_topic: clean/a
  {JAR.replace(", ", chr(10) + "  ")}
  expects: {{rate: 500/s, bytes: 110 B, cost: 20 us, selectivity: 0.98, state: 0 B}}
- job_name: second
  sites: [B, D]
  with: third
  apart: first
  pin: true
  source_topic: clean/+
  sink_topic: results
  {CODE.replace(", ", chr(10) + "  ")}
- {{job_name: third, site: any, source_topic: clean/a, sink_broker: "tcp://far", sink_topic: out, {CODE}}}
"""


def test_all_that_a_file_says_of_placement(root: Path) -> None:
    found = read(root, WHOLE).composition
    assert found.placement == PlacementOptions(
        mode="off",
        policy="search",
        latency=0.6,
        wan=0.0,
        utilisation=0.6,
        max_age=2.0,
        max_wan=500_000.0,
        stamps="compact",
        min_gain=0.1,
        cooldown=600.0,
        horizon=7200.0,
        steps_per_hour=3,
        group=4,
    )
    first, second, third = found.jobs.values()
    assert (first.sites, first.placed, first.engine) == (("any",), ("spe_address", "sink_broker"), "flink")
    assert (first.spe_address, first.source_broker, first.sink_broker) == ("", "tcp://a:1883", "")
    assert first.expects == Expects(rate=500.0, bytes=110.0, cost=2e-5, selectivity=0.98, state=0.0)
    assert (second.sites, second.with_job, second.apart, second.pin) == (
        ("B", "D"),
        "third",
        ("first",),
        True,
    )
    assert second.placed == ("spe_address", "source_broker", "sink_broker")
    assert (third.sites, third.placed) == (("any",), ("spe_address", "source_broker"))


def test_a_file_without_placement_has_none(root: Path) -> None:
    text = f"jobs: [{{job_name: a, site: D, source_topic: in, sink_topic: out, {CODE}}}]"
    found = read(root, text).composition
    assert found.placement is None
    assert not found.jobs["a"].movable


def test_the_graph_of_free_topics_is_linted_and_has_no_cycle(root: Path) -> None:
    warnings = [str(each) for each in read(root, WHOLE).warnings]
    assert warnings == [
        "line 19: job 'first': source_topic 'sensors/1' is written by no job here: an external source, "
        "or a mistake",
        "line 30: job 'second': sink_topic 'results' is read by no job here, and SpecK chooses its broker "
        "(an external reader needs sink_broker)",
        "line 34: job 'third': sink_topic 'out' is read by no job here: an external sink, or a mistake",
    ]
    circle = f"""jobs:
- {{job_name: one, site: any, source_topic: a, sink_topic: b, {CODE}}}
- {{job_name: two, site: any, source_topic: b, sink_topic: a, {CODE}}}
"""
    assert "the jobs form a cycle through their topics: one -> two -> one" in faults(root, circle)[0]


def one(fields: str, more: str = "", kind: str = CODE, top: str = "") -> str:
    """A composition with job ``one`` of these fields in line 2, and more jobs in the lines below."""
    return f"{top}jobs:\n- {{job_name: one, {fields}, {kind}}}\n{more}"


READS = "source_broker: A, source_topic: in"
FREE = f"{READS}, sink_topic: clean"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            one(f"sites: [A, Dd], {FREE}"),
            "line 2: job 'one': sites.1 'Dd' is not a site of the inventory (did you mean 'D'?)",
        ),
        (
            one(f"sites: [A, elsewhere], {FREE}"),
            "sites.1 'elsewhere' is not a site of the inventory (known: A",
        ),
        (one(f"sites: [], {FREE}"), "line 2: job 'one': sites [] is empty (expected one name or more)"),
        (one(f"sites: A, {FREE}"), "sites 'A' is text (expected a list of names)"),
        (one(f"sites: [D, D], {FREE}"), "sites ['D', 'D'] has 'D' twice (expected each name once)"),
        (one(f"sites: [D], site: D, {FREE}"), "site 'D' conflicts with 'sites' (expected one of them)"),
        (
            one(f"sites: [D], spe_address: 'sc://d:15002', {FREE}"),
            "spe_address 'sc://d:15002' conflicts with 'sites' (expected one of them: a place, or places",
        ),
        (one(f"site: any, spe_address: D, {FREE}"), "spe_address 'D' conflicts with 'site'"),
        (
            one(f"sites: [A], {FREE}"),
            "sites ['A'] fits no engine: none of A has one of kind 'spark' (expected a site with one)",
        ),
        (
            one(f"site: any, {FREE}", kind="entry_class: clean, job_path: clean.py"),
            "line 2: job 'one': engine is missing (expected spark or flink, since spark and flink run .py",
        ),
        (
            one(f"site: any, {FREE}", kind="entry_class: clean, job_path: clean.zip"),
            "engine is missing (expected spark or flink, since spark runs .zip files)",
        ),
        (
            one(f"site: any, {FREE}, with: two"),
            "with 'two' is not a job of this composition (expected another job of this comp",
        ),
        (one(f"site: any, {FREE}, with: one"), "with 'one' is the job itself (expected another job)"),
        (one(f"site: any, {FREE}, apart: [two]"), "apart.0 'two' is not a job of this composition"),
        (one(f"site: any, {FREE}, pin: 1"), "pin 1 is a number (expected true or false)"),
        (one(f"site: any, {FREE}, expects: {{rate: -3}}"), "expects.rate -3 is not a valid quantity"),
        (one(f"site: any, {FREE}, expects: {{rate: .nan}}"), "expects.rate nan is not a valid quantity"),
        (
            one(f"site: any, {FREE}, expects: {{cost: 20}}"),
            "expects.cost 20 has no unit (expected, for example, 20 us)",
        ),
        (
            one(f"site: any, {FREE}, expects: {{rte: 1}}"),
            "unknown field 'expects.rte' (did you mean 'rate'?)",
        ),
        (
            one("site: any, source_topic: in, sink_topic: out"),
            "line 2: job 'one': source_topic 'in' is written by no job here (expected source_broker: the",
        ),
        (
            one(
                f"site: any, {FREE}",
                f"- {{job_name: two, site: any, source_topic: clan, sink_topic: o, {CODE}}}",
            ),
            "line 3: job 'two': source_topic 'clan' is written by no job here (expected source_broker: the "
            "broker where its data is born; did you mean 'clean'?)",
        ),
    ],
)
def test_what_is_wrong_with_a_movable_job(root: Path, text: str, message: str) -> None:
    found = faults(root, text)
    assert len(found) == 1
    assert message in found[0]


def test_there_is_no_site_to_choose_from_without_an_inventory(root: Path) -> None:
    text = one("site: any, source_broker: 'tcp://a', source_topic: in, sink_topic: out")
    (found,) = faults(root, text, Inventory())
    no_sites = "no site is known: give --sites FILE to speck serve or speck validate"
    assert f"line 2: job 'one': site 'any' has no site to choose from ({no_sites})" in found


def test_a_name_instead_of_an_address_has_the_same_hint(root: Path) -> None:
    text = one("spe_address: A, source_broker: A, source_topic: in, sink_broker: A, sink_topic: out")
    found = faults(root, text, Inventory())
    assert [" 'A' is neither" in each and "; no site is known: give --sites" in each for each in found] == [
        True,
        True,
        True,
    ]


def test_no_site_has_an_engine_of_the_kind(root: Path) -> None:
    text = one(f"site: any, {FREE}", kind=JAR)
    (found,) = faults(root, text, Inventory({"B": INVENTORY.sites["B"], "A": site("A")}))
    assert "site 'any' fits no engine: no site of the inventory has one of kind 'flink'" in found


def two(fields: str) -> str:
    return f"- {{job_name: two, {fields}, {CODE}}}\n"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            two("site: D, source_topic: clean, sink_topic: out"),
            "line 2: job 'one': sink_topic 'clean' is a channel here and also at broker D "
            "(expected two names: placed at D they would be one)",
        ),
        (
            two("site: D, source_topic: 'clean/#', sink_topic: out"),
            "line 2: job 'one': sink_topic 'clean' is a channel",
        ),
        (
            two("site: D, source_topic: other, sink_topic: clean"),
            "line 2: job 'one': sink_topic 'clean' is a chan",
        ),
        (
            two("site: D, source_broker: 'tcp://far', source_topic: clean, sink_topic: out"),
            "is a channel here and also at broker tcp://far:1883",
        ),
        (
            two("site: any, source_topic: clean, sink_topic: out, on_error: park, park_topic: bad")
            + two("site: D, source_topic: bad, sink_topic: repaired").replace("two", "three"),
            "line 3: job 'two': park_topic 'bad' is a channel here and also at broker D "
            "(expected two names, or source_broker: D for this job)",
        ),
        (
            two("site: D, source_topic: other, sink_topic: x, on_error: park, park_topic: bad")
            + two("site: any, source_topic: bad, sink_topic: y").replace("two", "three"),
            "line 4: job 'three': source_topic 'bad' is written at broker D (expected source_broker: D)",
        ),
        (
            two("site: any, source_topic: clean, sink_topic: out, on_error: park, park_topic: parked")
            + two("site: any, source_topic: parkde, sink_topic: y").replace("two", "three"),
            "line 4: job 'three': source_topic 'parkde' is written by no job here (expected source_broker: "
            "the broker where its data is born; did you mean 'parked'?)",
        ),
        (
            two("site: D, source_topic: other, sink_topic: x/1")
            + two("site: any, source_topic: x/+, sink_topic: y").replace("two", "three"),
            "line 4: job 'three': source_topic 'x/+' is written at broker D (expected source_broker: D)",
        ),
    ],
)
def test_a_channel_has_no_name_in_common_with_a_topic_at_an_address(
    root: Path, more: str, message: str
) -> None:
    found = faults(root, one(f"site: any, {FREE}", more))
    assert len(found) == 1
    assert message in found[0]


def test_a_reader_of_what_is_parked_needs_no_broker(root: Path) -> None:
    parks = two("site: any, source_topic: clean, sink_topic: out, on_error: park, park_topic: bad")
    reads = two("site: any, source_topic: bad, sink_topic: clean").replace("two", "three")
    found = read(root, one(f"site: any, {FREE}, on_error: park, park_topic: bad-at-a", parks + reads))
    assert found.composition.jobs["three"].placed == ("spe_address", "source_broker", "sink_broker")
    assert not any("'bad'" in str(each) for each in found.warnings)


def test_what_nobody_reads_may_be_parked_at_several_brokers(root: Path) -> None:
    parking = "on_error: park, park_topic: bad"
    more = two(f"site: any, source_topic: clean, sink_topic: out, {parking}")
    more += two(f"site: D, source_topic: other, sink_topic: x, {parking}").replace("two", "three")
    assert set(read(root, one(f"site: any, {FREE}, {parking}", more)).composition.jobs) == {
        "one",
        "two",
        "three",
    }


def jobs(*fields: str) -> str:
    lines = [
        f"- {{job_name: j{index}, {each}, sink_topic: t{index}, {READS}, {CODE}}}"
        for index, each in enumerate(fields)
    ]
    return "jobs:\n" + "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            jobs("sites: [B]", "sites: [D], with: j0"),
            "line 3: job 'j1': with 'j0' leaves no site for all of them",
        ),
        (jobs("sites: [B]", "sites: [D], with: j0"), "(j0: B; j1: D; expected one in common)"),
        (jobs("site: D", "sites: [B], with: j0"), "(j0: D; j1: B; expected one in common)"),
        (
            jobs("site: any", "site: any, with: j0", "site: any, with: j1, apart: j0"),
            "line 4: job 'j2': apart 'j0' contradicts 'with' (expected one of both: j0, j1, j2 share a site)",
        ),
        (
            jobs("sites: [D]", "sites: [D], apart: j0"),
            "apart 'j0' leaves no site for one of them (j0: D; j1: D;",
        ),
        (
            jobs("site: any", "site: any, apart: j0", "site: any, apart: [j0, j1]"),
            "line 3: job 'j1': apart 'j0' leaves no site for one of them (j0: B, D; j1: B, D; j2: B, D; ",
        ),
        (
            jobs("sites: [D]", "site: any, with: j0", "sites: [D], apart: j1"),
            "leaves no site for one of them (j0: D; j1: B, D; j2: D; expected more sites)",
        ),
    ],
)
def test_jobs_that_cannot_be_together_or_apart(root: Path, text: str, message: str) -> None:
    found = faults(root, text)
    assert len(found) == 1
    assert message in found[0]


def test_jobs_may_be_together_and_apart_where_there_are_sites(root: Path) -> None:
    text = jobs("site: any", "site: any, with: j0", "site: any, apart: [j0, j1]", "site: D")
    assert list(read(root, text).composition.jobs) == ["j0", "j1", "j2", "j3"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "mode: sometimes",
            "line 2: placement: mode 'sometimes' is not known (expected advise, auto or off)",
        ),
        (
            "policy: spec",
            "line 2: placement: policy 'spec' is not a placement policy (did you mean 'speck'?)",
        ),
        (
            "policy: magic",
            "policy 'magic' is not a placement policy (expected one of: speck, search; for comparison: ",
        ),
        ("polcy: speck", "placement: unknown field 'polcy' (did you mean 'policy'?)"),
        ("weights: {latency: -1}", "placement: weights.latency -1 is not a valid quantity"),
        (
            "weights: {latency: 0, wan: 0, cores: 0}",
            "are all 0 (expected one of latency, wan and cores above 0)",
        ),
        ("weights: {latncy: 1}", "unknown field 'weights.latncy' (did you mean 'latency'?)"),
        (
            "weights: 3",
            "placement: weights 3 is a number (expected a mapping with 'latency:', 'wan:', 'cores:')",
        ),
        ("utilisation: 0.99", "placement: utilisation 0.99 is out of range (expected from 0.4 to 0.95)"),
        ("max_age: 2", "placement: max_age 2 has no unit"),
        ("max_age: 0 s", "placement: max_age '0 s' is not more than 0"),
        (
            "max_wan: 0 bit/s",
            "placement: max_wan '0 bit/s' is not more than 0 (expected, for example, 10 Mbit/s)",
        ),
        ("stamps: binary", "placement: stamps 'binary' is not known (expected text or compact)"),
        ("min_gain: 150%", "placement: min_gain '150%' is out of range (expected from 0 to 1)"),
        ("steps_per_hour: 0", "placement: steps_per_hour 0 is not a whole number from 1 to 60"),
        ("group: 2.5", "placement: group 2.5 is not a whole number from 1 to 100"),
    ],
)
def test_what_is_wrong_with_the_block(root: Path, option: str, message: str) -> None:
    found = faults(root, one(f"site: any, {FREE}", top=f"placement:\n  {option}\n"))
    assert len(found) == 1
    assert message in found[0]


def test_the_block_is_a_mapping(root: Path) -> None:
    (found,) = faults(root, one(f"site: any, {FREE}", top="placement: auto\n"))
    assert "line 1: placement 'auto' is not a mapping" in found


@pytest.mark.parametrize(
    ("directories", "upgrade", "mode", "warned"),
    [
        (("/a", "/b"), "stateful", "auto", True),
        ((None, None), "stateful", "auto", True),
        (("s3://x", "s3://x"), "stateful", "auto", False),
        (("/a", "/b"), "stateless", "auto", False),
        (("/a", "/b"), "stateful", "advise", False),
    ],
)
def test_auto_warns_of_a_state_that_cannot_go_along(
    root: Path, directories: tuple[str, ...], upgrade: str, mode: str, warned: bool
) -> None:
    names = ("A", "D")
    sites = {
        name: site(name, flink(name.lower(), savepoint_dir=directory))
        for name, directory in zip(names, directories, strict=True)
    }
    text = one(f"site: any, {FREE}, upgrade: {upgrade}", kind=JAR, top=f"placement: {{mode: {mode}}}\n")
    warnings = [str(each) for each in read(root, text, Inventory(sites)).warnings]
    shown = "line 3: job 'one': site 'any' has engines without a common savepoint_dir, so the job "
    assert any(shown in each for each in warnings) is warned


@pytest.mark.parametrize(("cores", "warned"), [(4.0, True), (8.0, False), (None, False)])
def test_jobs_that_can_run_nowhere_else_and_need_too_much(
    root: Path, cores: float | None, warned: bool
) -> None:
    sites = {**INVENTORY.sites, "D": replace(INVENTORY.sites["D"], cores=cores, speed=0.5)}
    text = jobs(
        "sites: [D], expects: {rate: 400/s, cost: 2 ms}",
        "site: D, expects: {rate: 400/s, cost: 3 ms}",
        "site: any, expects: {rate: 10000/s, cost: 1 s}",
        "site: D",
    )
    warnings = [str(each) for each in read(root, text, Inventory(sites)).warnings]
    shown = (
        "adds up to a load of 1.00 at site 'D', the only one for j1, j0 (expected at most 0.7 of its cores)"
    )
    assert any("line 3: job 'j1': expects" in each and shown in each for each in warnings) is warned


def test_a_single_job_is_not_placed(root: Path) -> None:
    data = {
        "job_name": "one",
        "site": "any",
        "engine": "spark",
        "source_broker": "A",
        "source_topic": "in",
        "sink_topic": "out",
        "entry_class": "clean",
        "job_path": "clean.py",
    }
    with pytest.raises(InvalidInput, match=r"site 'any' does not fit a single job \(expected a site's name"):
        load_job(data, inventory=INVENTORY, registry=REGISTRY, root=root)


@property_test
@given(some.lists(some.sampled_from("BD"), min_size=2, max_size=2), some.sampled_from("ABD"))
def test_the_same_file_again_changes_nothing(root: Path, places: list[str], home: str) -> None:
    second = (
        f"- {{job_name: two, sites: [B, D], source_topic: clean, sink_broker: D, sink_topic: out, {CODE}}}"
    )
    text = one(f"site: any, {FREE}", second)
    sites = dict(zip(("one", "two"), places, strict=True))
    draft = Draft.of(read(root, text).composition, INVENTORY, REGISTRY)
    stored = draft.settled(sites, {"clean": home})
    again = Draft.of(read(root, text).composition, INVENTORY, REGISTRY, stored.jobs)
    settled = again.settled(again.sites, again.homes)
    assert [changed_fields(stored.jobs[name], settled.jobs[name]) for name in sites] == [(), ()]
