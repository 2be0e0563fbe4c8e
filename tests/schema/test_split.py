"""The block key_split: its expansion into jobs, and each of its faults with line and words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from binders.common.aggregation import aggregation_faults
from binders.common.signature import parameters_of
from binders.spark import policy_fault
from jars_and_apps.key_split.baselines.policy import FEATURES, Policy, packed
from speck.binder import Registry
from speck.core.graph import Graph
from speck.core.inventory import Engine, Inventory, Site
from speck.core.job import Job
from speck.core.split import MOST_COMBINERS, MOST_POLICY, Part, Role, groups, part_of, shown_job
from speck.errors import InvalidInput
from speck.schema.compositions import Loaded, load_composition, load_job
from testbed.benches.examples import FLINK, MQTT, SPARK, make_jar, one_site

CODE = """
class Mean:
    def __init__(self, towns: str = "", workload: int = 1): ...
    def rows(self, messages): ...
    def add(self, columns): ...
    def merge(self, one, other): ...
    def finish(self, state): ...


class Odd:
    def rows(self, messages, more): ...
    def add(self, columns, *, fast): ...
    def finish(self, state): ...
    def encode(self, state): ...


def clean(messages): ...
"""

REGISTRY = Registry.of(
    [
        replace(
            SPARK,
            check_code=lambda path, entry: None,
            parameters=lambda path, entry: parameters_of(path.read_bytes(), entry),
            aggregation=lambda path, entry: aggregation_faults(path.read_bytes(), entry),
            policy_fault=policy_fault,
        ),
        FLINK,
        MQTT,
    ]
)
INVENTORY = Inventory(
    {
        **{
            name: one_site(name, f"sc://{name.lower()}:15002", f"tcp://{name.lower()}:1883")
            for name in ("Aarhus", "B", "D")
        },
        "F": one_site("F", "http://f:8081/", "tcp://f:1883"),
        "M": Site(
            name="M",
            engines=tuple(Engine(spe_address=each) for each in ("sc://m:1", "sc://m:2")),
            broker_address="tcp://m:1883",
        ),
    }
)

JOB = """\
jobs:
- job_name: hot
  site: D
  source_topic: readings
  sink_topic: hot-towns
  job_path: towns.py
  entry_class: Mean
"""
SITES = "    combiners: [Aarhus, B, {site: D, weight: 4}]\n"
BLOCK = "  key_split:\n" + SITES + "    window: 15 minutes\n    slide: 5 minutes\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("root")
    (directory / "towns.py").write_text(CODE)
    make_jar(directory / "test-1.jar", "package.ExampleJob")
    (directory / "large.npz").write_bytes(bytes(MOST_POLICY + 1))
    return directory


def read(root: Path, text: str) -> Loaded:
    return load_composition(text, inventory=INVENTORY, registry=REGISTRY, root=root, default_name="test")


def jobs_of(root: Path, block: str = BLOCK, job: str = JOB) -> dict[str, Job]:
    return dict(read(root, job + block).composition.jobs)


def faults_of(root: Path, block: str = BLOCK, job: str = JOB) -> list[str]:
    with pytest.raises(InvalidInput) as raised:
        read(root, job + block)
    return [f"{each.line}: {each.message}" for each in raised.value.faults]


def part(job: Job) -> Part:
    found = part_of(job)
    assert found is not None
    return found


# --- expansion


def test_a_policy_is_part_of_the_partitioner_alone(root: Path) -> None:
    by_name = BLOCK + "    partitioner: saspartitioner\n    policy: zipf-1.5\n"
    jobs = jobs_of(root, by_name)
    routing = part(jobs["hot.partitioner"])
    assert (routing.policy, routing.policy_data, routing.metered) == ("zipf-1.5", "", True)
    assert "policy" not in jobs["hot.combiner-0"].split
    closed_form = part(jobs_of(root, by_name.replace("    policy: zipf-1.5\n", ""))["hot.partitioner"])
    assert (closed_form.policy, closed_form.metered) == ("", False)
    adaptive = BLOCK + "    partitioner: saspartitioner-adaptive\n"
    assert part(jobs_of(root, adaptive)["hot.partitioner"]).metered


def test_the_file_of_a_policy_travels_with_the_job(root: Path) -> None:
    block = BLOCK + "    partitioner: saspartitioner\n    policy: own.npz\n"
    found = []
    for value in (0.0, 1.0):
        layers = ((np.full((FEATURES, 1), value), np.zeros(1)),)
        (root / "own.npz").write_bytes(packed({"name": "own", "ranks": [0.5]}, layers))
        found.append(jobs_of(root, block)["hot.partitioner"])
    assert [part(each).policy for each in found] == ["own.npz"] * 2
    assert [Policy.of_text(part(each).policy_data).name for each in found] == ["own"] * 2
    assert found[0].split != found[1].split


def test_a_split_over_sites_becomes_its_jobs(root: Path) -> None:
    jobs = jobs_of(root)
    assert list(jobs) == [
        "hot.partitioner",
        "hot.combiner-0",
        "hot.combiner-1",
        "hot.combiner-2",
        "hot.reducer",
    ]
    first = jobs["hot.partitioner"]
    assert (first.spe_address, first.source_broker, first.source_topic) == (
        "sc://d:15002",
        "tcp://d:1883",
        "readings",
    )
    assert part(first) == Part(
        of="hot",
        role=Role.PARTITIONER,
        window_us=900_000_000,
        slide_us=300_000_000,
        workers=3,
        partitioner="balanced",
        seed=part(first).seed,
        weights=(1.0, 1.0, 4.0),
        shards=(1, 1, 1),
    )
    second = jobs["hot.combiner-1"]
    assert (second.spe_address, second.site, second.source_topic) == (
        "sc://b:15002",
        "B",
        "speck/split/hot/rows/1",
    )
    assert second.source_broker == first.sink_broker == "tcp://d:1883"
    assert shown_job(second)["writes"] == ["hot-towns", "speck/split/hot/partials"]
    last = jobs["hot.reducer"]
    assert (last.source_topic, last.sink_topic) == ("speck/split/hot/partials", "hot-towns")
    assert "writes" not in shown_job(last)
    assert {each.trigger for each in jobs.values()} == {"1 seconds"}


def test_the_topics_of_a_split_tie_its_jobs(root: Path) -> None:
    jobs = jobs_of(root)
    graph = Graph.of(jobs.values())
    assert graph.readers_of(jobs["hot.partitioner"]) == ("hot.combiner-0", "hot.combiner-1", "hot.combiner-2")
    assert graph.writers_of(jobs["hot.combiner-1"]) == ("hot.partitioner",)
    assert graph.readers_of(jobs["hot.combiner-1"]) == ("hot.reducer",)
    assert len(graph.writers_of(jobs["hot.reducer"])) == 3
    assert [each.topic for each in graph.sinks] == ["hot-towns"]
    assert graph.order()[0] == "hot.partitioner"
    assert graph.order()[-1] == "hot.reducer"


def test_a_split_in_one_job_keeps_its_name_and_its_topics(root: Path) -> None:
    block = "  key_split: {combiners: 4, window: 1 minute, lateness: 10 seconds}\n"
    (job,) = jobs_of(root, block, JOB + "  parallelism: 2\n").values()
    assert (job.job_name, job.sink_topic, job.parallelism, job.trigger) == ("hot", "hot-towns", 2, None)
    found = part(job)
    assert (found.role, found.workers, found.partitioner) == (Role.WHOLE, 4, "shuffle")
    assert (found.window_us, found.slide_us, found.lateness_us) == (60_000_000, 60_000_000, 10_000_000)


def test_each_part_has_what_its_own_work_depends_on(root: Path) -> None:
    before, after = jobs_of(root), jobs_of(root, BLOCK.replace("Aarhus, B,", "Aarhus, B, B,"))
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"hot.partitioner", "hot.combiner-2"}  # the third combiner is another place now
    longer = jobs_of(root, BLOCK + "    lateness: 1 minute\n    options: {tolerance: 0.1}\n")
    assert {name for name in before if before[name] != longer[name]} == {"hot.partitioner"}


def test_places_with_addresses_arguments_and_shards(root: Path) -> None:
    block = """\
  key_split:
    combiners:
    - {spe_address: "sc://x:1", parallelism: 2, arguments: {workload: 4}}
    - {site: M, spe_address: "sc://m:2"}
    - {spe_address: B}
    window: 5 minutes
    reducer: {parallelism: 3, arguments: {workload: 2}}
    weights: measured
    metrics: {slide: 5 s}
    seed: 7
"""
    jobs = jobs_of(root, block, JOB + "  arguments: {towns: all}\n  trigger: 5 seconds\n")
    first = jobs["hot.combiner-0"]
    assert (first.spe_address, first.site, first.parallelism) == ("sc://x:1", None, 2)
    assert first.arguments == {"towns": "all", "workload": 4}
    assert (jobs["hot.combiner-1"].spe_address, jobs["hot.combiner-1"].site) == ("sc://m:2", "M")
    assert (jobs["hot.combiner-2"].spe_address, jobs["hot.combiner-2"].site) == ("sc://b:15002", "B")
    assert part(jobs["hot.partitioner"]).shards == (2, 1, 1)
    assert part(jobs["hot.partitioner"]).seed == 7
    assert part(jobs["hot.partitioner"]).metered
    assert part(jobs["hot.partitioner"]).metrics_window_us == 60_000_000
    assert part(jobs["hot.partitioner"]).metrics_slide_us == 5_000_000
    assert part(first).shards == (3,)
    assert jobs["hot.reducer"].parallelism == 3
    assert jobs["hot.reducer"].arguments == {"towns": "all", "workload": 2}
    assert {each.trigger for each in jobs.values()} == {"5 seconds"}


def test_a_stored_job_is_the_same_job(root: Path) -> None:
    for job in jobs_of(root).values():
        assert Job.from_dict(job.to_dict()) == job
    ((name, members),) = groups(jobs_of(root).values())
    assert name == "hot"
    assert [each.job_name for each in members] == list(jobs_of(root))


def test_no_reader_is_missed_and_none_is_there_by_mistake(root: Path) -> None:
    warned = [each.message for each in read(root, JOB + BLOCK).warnings]
    assert [each for each in warned if "speck/" in each] == []
    other = JOB.replace("jobs:\n", "").replace("job_name: hot", "job_name: spy")
    spied = other.replace("source_topic: readings", "source_topic: speck/split/hot/partials")
    found = [each.message for each in read(root, JOB + BLOCK + spied.replace("hot-towns", "spied")).warnings]
    assert (
        "source_topic 'speck/split/hot/partials' matches messages of SpecK itself "
        "(expected a topic that excludes speck/split/)"
    ) in found


# --- faults

FAULTS: list[tuple[str, str]] = [
    ("window: 1 minute", "combiners is missing (expected a number for one Spark job"),
    ("combiners: 4", "window is missing (expected the length of the windows"),
    ("combiners: []", "combiners [] has 0 entries (expected from 1 to 1,000 sites)"),
    (f"combiners: {MOST_COMBINERS + 1}", "combiners 1001 is not a whole number from 1 to 1,000"),
    ("combiners: many", "combiners 'many' is text (expected a number for one Spark job"),
    ("combiners: true", "combiners true is true or false (expected a number"),
    (
        "combiners: [Arhus]",
        "combiners.0 'Arhus' is not a site of the inventory (did you mean 'Aarhus'?)",
    ),
    ("combiners: [F]", "combiners.0 'F' has no engine of kind 'spark': it has http://f:8081/"),
    ("combiners: [M]", "combiners.0 'M' has several engines: sc://m:1 and sc://m:2 (choose one"),
    ("combiners: [7]", "combiners.0 7 is a number (expected a site's name, or a mapping)"),
    ("combiners: [{weight: 2}]", "combiners.0 has no place (expected site or spe_address)"),
    ("combiners: [{site: Q}]", "combiners.0.site 'Q' is not a site of the inventory (known:"),
    (
        "combiners: [{spe_address: 'http://f:8081/'}]",
        "combiners.0.spe_address 'http://f:8081/' is not an engine of kind 'spark'",
    ),
    ("combiners: [{spe_address: nowhere}]", "combiners.0.spe_address 'nowhere' is neither"),
    (
        "combiners: [{site: B, weigth: 2}]",
        "field 'key_split.combiners.0.weigth' (did you mean 'weight'?)",
    ),
    ("combiners: [{site: B, weight: -1}]", "combiners.0.weight -1 is not a valid quantity"),
    ("combiners: [{site: B, weight: .inf}]", "combiners.0.weight inf is not a valid quantity"),
    ("combiners: [{site: B, weight: 0}]", "combiners have the weight 0 (expected one above 0)"),
    (
        "combiners: [{site: B, arguments: {workload: 02142}}]",
        "combiners.0.arguments do not fit: argument 'workload' of 'Mean' is 02142, which YAML reads as 1122",
    ),
    (
        "combiners: [{site: B, arguments: {worklod: 2}}]",
        "combiners.0.arguments do not fit: 'Mean' takes no argument 'worklod' (did you mean 'workload'?)",
    ),
    (
        "window: 7 minutes\n    slide: 2 minutes",
        "window '7 minutes' is not a whole number",
    ),
    ("window: 0 s", "window '0 s' is not more than 0"),
    ("window: 300", "window 300 has no unit (expected,"),
    (
        "window: 3 hours\n    slide: 1 s",
        "window '3 hours' has 10,800 slides (expected at most",
    ),
    ("window: 500 days", "window '500 days' is too long (expected at most 366 days)"),
    ("window: 1.5 us", "window '1.5 us' is not a whole number of microseconds"),
    (
        "partitioner: balancd",
        "partitioner 'balancd' is not a partitioner (did you mean 'balanced'?)",
    ),
    (
        "partitioner: x",
        "partitioner 'x' is not a partitioner (expected one of balanced, hash, shuffle; for comparison: cam,",
    ),
    (
        "options: {tolerence: 0.1}",
        "options.tolerence 0.1 is not an option of partitioner 'balanced' (did you mean 'tolerance'?)",
    ),
    (
        "partitioner: hash\n    options: {a: 1}",
        "options.a 1 is not an option of partitioner 'hash' (it has none)",
    ),
    ("options: {tolerance: 2}", "options.tolerance 2 is out of range (expected a number from 0 to 1)"),
    ("options: {tolerance: much}", "options.tolerance 'much' is text (expected a number)"),
    ("options: {tolerance: .nan}", "options.tolerance nan is not finite (expected a number)"),
    ("partitioner: dalton-original\n    options: {cap: 1}", "options.cap 1 is out of range (expected 0"),
    ("partitioner: dalton-original\n    options: {cap: 2.5}", "options.cap 2.5 is not a whole number"),
    ("weights: equal", "weights 'equal' is not known (expected fixed or measured)"),
    (
        "partitioner: hash\n    weights: measured",
        "weights 'measured' does not fit partitioner 'hash' (expected fixed, or balanced)",
    ),
    ("metrics: {window: 5 s, slide: 10 s}", "metrics.slide '10 s' does not fit (expected a window of whole"),
    (
        "metrics: {window: 55 s}",
        "metrics.window '55 s' does not fit (expected a window of whole slides: 55 s",
    ),
    ("metrics: {slide: 100 ms}", "metrics.slide '100 ms' is too short (expected at least 1 second)"),
    ("metrics: {window: 2 hours, slide: 1 s}", "metrics.slide '1 s' does not fit (expected at most 360"),
    ("metrics: {slid: 1 s}", "unknown field 'key_split.metrics.slid' (did you mean 'slide'?)"),
    ("reducer: Q", "reducer 'Q' is not a site of the inventory"),
    ("reducer: {site: D, weight: 1}", "unknown field 'key_split.reducer.weight'"),
    (
        "policy: zipf-1.5",
        "policy 'zipf-1.5' does not fit partitioner 'balanced' (expected partitioner: saspartitioner)",
    ),
    (
        "partitioner: saspartitioner\n    policy: zipf-1.6",
        "policy 'zipf-1.6' does not exist (searched in",
    ),
    (
        "partitioner: saspartitioner\n    policy: zipf1.5",
        "(did you mean 'zipf-1.5'?)",
    ),
    (
        "partitioner: saspartitioner\n    policy: towns.py",
        "policy 'towns.py' is not an .npz file (expected a file, or zipf-0.5, zipf-1, zipf-1.5, zipf-2)",
    ),
    ("partitioner: saspartitioner\n    policy: ../x.npz", "policy '../x.npz' is outside of"),
    ("partitioner: saspartitioner\n    policy: large.npz", "policy 'large.npz' is too large for a policy"),
    ("partitioner: saspartitioner\n    policy: 5", "policy 5 is a number"),
    ("windows: 5 s", "unknown field 'key_split.windows' (did you mean 'window'?)"),
    ("output_mode: update", "unknown field 'key_split.output_mode' (the fields are"),
]


@pytest.mark.parametrize(("lines", "fault"), FAULTS)
def test_faults_of_the_block(root: Path, lines: str, fault: str) -> None:
    block = "  key_split:\n    " + lines + "\n"
    alone = lines in ("window: 1 minute", "combiners: 4")
    for name, default in {} if alone else {"combiners": "[B]", "window": "15 minutes"}.items():
        if f"{name}:" not in lines.replace("{window:", ""):
            block += f"    {name}: {default}\n"
    (found,) = faults_of(root, block)
    assert fault in found


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        (
            "partitioner: dalton-original",
            "partitioner 'dalton-original' learns across batches (expected combiners as sites, or one "
            "of balanced, hash, shuffle, cam, dagreedy, drifting-key, two-choices)",
        ),
        (
            "weights: measured",
            "weights 'measured' does not fit one job (expected fixed, or combiners as sites)",
        ),
        (
            "partitioner: dalton-metrics",
            "partitioner 'dalton-metrics' learns across batches (expected combiners as sites, or one ",
        ),
        ("reducer: D", "key_split.reducer 'D' does not fit one job (expected combiners as sites)"),
    ],
)
def test_faults_of_a_split_in_one_job(root: Path, block: str, fault: str) -> None:
    (found,) = faults_of(root, f"  key_split:\n    combiners: 4\n    window: 1 minute\n    {block}\n")
    assert fault in found


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("job_name: hot", f"job_name: {'h' * 81}", "is too long for combiners at sites (expected at most 80"),
        ("site: D", "site: any\n  engine: spark", "site 'any' does not fit combiners at sites"),
        ("site: D", "sites: [Aarhus, B]", "sites ['Aarhus', 'B'] does not fit combiners at sites"),
        ("site: D", "site: D\n  apart: x", "apart 'x' is not a job of this composition"),
        ("site: D", "site: D\n  parallelism: 2", "parallelism 2 does not fit combiners at sites"),
        ("site: D", "site: D\n  output_mode: update", "output_mode 'update' does not fit key_split"),
        ("site: D", "site: D\n  trigger: real-time", "trigger 'real-time' does not fit a job that is split"),
        ("site: D", "site: D\n  retain: true", "retain true does not fit key_split (expected false:"),
        ("site: D", "site: D\n  on_error: skip", "on_error 'skip' does not fit key_split (expected fail:"),
        (
            "source_topic: readings",
            "source_topic: speck/split/x/partials",
            "does not fit key_split",
        ),
        (
            "sink_topic: hot-towns",
            "sink_topic: speck/split/x/y",
            "starts with 'speck/split/'",
        ),
        (
            "sink_topic: hot-towns",
            "sink_topic: speck/control/x",
            "starts with 'speck/control/'",
        ),
        (
            "entry_class: Mean",
            "entry_class: clean",
            "entry_class 'clean' is a function (expected a",
        ),
        ("site: D", "site: F", "key_split does not fit engine 'flink' (expected an engine of Spark"),
    ],
)
def test_faults_of_the_job_of_a_split(root: Path, before: str, after: str, fault: str) -> None:
    found = faults_of(root, BLOCK, JOB.replace(before, after))
    assert any(fault in each for each in found), found


def test_a_jar_is_not_split(root: Path) -> None:
    job = (
        JOB.replace("towns.py", "test-1.jar")
        .replace("Mean", "package.ExampleJob")
        .replace("site: D", "site: F")
    )
    (found,) = faults_of(root, BLOCK, job)
    assert (
        "key_split does not fit engine 'flink' (expected an engine of Spark: key_split runs on Spark)"
        in found
    )


def test_all_faults_of_a_class_are_told_at_once(root: Path) -> None:
    found = faults_of(root, BLOCK, JOB.replace("Mean", "Odd"))
    assert [each.partition(": ")[2] for each in found] == [
        "class 'Odd' has no method 'merge' (expected merge(one, other))",
        "class 'Odd' has 'encode' without 'decode' (expected decode(data) as well: it is the inverse)",
        "method 'rows' of class 'Odd' takes 2 arguments (expected rows(messages))",
        "method 'add' of class 'Odd' takes keywords (expected add(columns))",
    ]


def test_faults_of_job_and_block_are_told_at_once(root: Path) -> None:
    block = "  key_split:\n    combiners: [Q]\n    window: 1 minute\n    slide: 40 s\n    options: {x: 1}\n"
    found = faults_of(root, block, JOB.replace("towns.py", "none.py").replace("readings", "a#"))
    assert len(found) == 5


def test_a_job_with_the_name_of_a_part(root: Path) -> None:
    other = JOB.replace("jobs:\n", "").replace("job_name: hot", "job_name: hot.reducer")
    (found,) = faults_of(root, BLOCK + other)
    assert found == (
        "12: job_name 'hot.reducer' is the name of a part of the split 'hot' "
        "(expected another name: a split names its own jobs)"
    )


def test_the_parts_of_a_split_are_what_other_jobs_name(root: Path) -> None:
    other = JOB.replace("jobs:\n", "").replace("job_name: hot", "job_name: near")
    (found,) = faults_of(root, BLOCK + other + "  with: hot\n")
    assert "with 'hot' is not a job of this composition (expected another job of this composition)" in found


def test_a_single_job_is_split_within_itself_alone(root: Path) -> None:
    data: dict[str, Any] = {
        "job_name": "hot",
        "site": "D",
        "source_topic": "readings",
        "sink_topic": "hot-towns",
        "job_path": "towns.py",
        "entry_class": "Mean",
        "key_split": {"combiners": 2, "window": "1 minute"},
    }
    assert load_job(data, inventory=INVENTORY, registry=REGISTRY, root=root).split["role"] == "whole"
    data["key_split"]["combiners"] = ["B"]
    with pytest.raises(InvalidInput, match="does not fit a single job"):
        load_job(data, inventory=INVENTORY, registry=REGISTRY, root=root)
