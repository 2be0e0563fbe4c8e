"""``speck graph --engine`` and ``--features``, and ``GET /jobs/NAME/engine-plan``."""

from __future__ import annotations

import csv
import io
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import networkx as nx
import pytest
import requests

from binders.flink.plan import engine_plan as flink_plan
from speck.binder import Capability
from speck.cli.draw.engine_plan import dot, draw_plan, labels, plan_text
from speck.core.engine_plan import EnginePlan, OperatorClass, PlanEdge, PlanNode, ShipStrategy
from speck.errors import InvalidInput, OutcomeUnknown, SpeckError
from speck.placement.features import FEATURES
from speck.placement.plan_graph import to_networkx
from testbed import ROOT
from testbed.doubles.engine import PASSING, InMemoryEngine
from testbed.doubles.samples import flink_stream
from testbed.servers.rest import RestServer, yaml_of
from tests.fixtures.speck_command import Speck

JOIN = EnginePlan.of(
    [
        PlanNode(id="s1", kind=OperatorClass.SOURCE, name="in", parallelism=1, task="t1"),
        PlanNode(id="s2", kind=OperatorClass.SOURCE, name="in", task="t2"),
        PlanNode(id="j", kind=OperatorClass.JOIN, name='the "join"', parallelism=4, task="t3"),
        PlanNode(id="k", kind=OperatorClass.SINK, name="out & $x$", parallelism=4, task="t3"),
    ],
    [
        PlanEdge(source="s1", target="j", strategy=ShipStrategy.HASH, described="HASH"),
        PlanEdge(source="s2", target="j", strategy=ShipStrategy.BROADCAST, described="BROADCAST"),
        PlanEdge(source="j", target="k", strategy=ShipStrategy.FORWARD, chained=True),
    ],
    {"t1": "in", "t3": "join -> out"},
    ["A part is not reported."],
)
DRAWN = """\
in  x1
  in 1        source --> [hash] the "join"

t2
  in 2        source --> [broadcast] the "join"

join -> out  x4
  the "join"  join   --> out & $x$
  out & $x$   sink
"""


@pytest.fixture
def running(rest: RestServer) -> RestServer:
    """Jobs ``a``, whose plan is a join, and ``b``, which passes messages on."""
    rest.coordinator.sampler.loop.start = lambda: None  # type: ignore[method-assign]
    rest.client.apply(yaml_of("a t0 t1", "b t1 t2").encode(), "two", wait=60)
    rest.world.plans["a"] = JOIN
    return rest


def measure(rest: RestServer, name: str) -> None:
    """Let a job have been measured within the last minute."""
    for snapshot in rest.services.coordinator.deployments.snapshots():
        for job, handle in snapshot.deployed():
            for sample in (
                flink_stream([100] * 6, 1e-3, begin=time.time() - 60) if job.job_name == name else ()
            ):
                rest.services.profiles.measures.record(job, handle, sample)


# -- a plan


def test_the_plan_as_text(running: RestServer, speck: Speck) -> None:
    shown = speck("graph", "--engine", "a")
    assert (shown.code, shown.out) == (0, DRAWN)
    assert shown.err == "A part is not reported.\nsc://e1:15002: attempt 1 of a\n"


def test_the_plan_as_data(running: RestServer, speck: Speck) -> None:
    for option in (["--json"], ["--format", "json"], ["--json", "--format", "json"]):
        data = speck("graph", "--engine", "a", *option).data
        assert EnginePlan.from_dict(data) == JOIN
        assert (data["job_name"], data["engine"], data["attempt"]) == ("a", "spark", 1)
        assert abs(data["observed_at"] - time.time()) < 60
        assert data["features"].keys() == {each.name for each in FEATURES}
    assert requests.get(f"{running.url}/jobs/a/engine-plan", timeout=30).json()["nodes"] == data["nodes"]


def test_the_plan_in_graphml(running: RestServer, speck: Speck) -> None:
    text = speck("graph", "--engine", "a", "--format", "graphml").out
    found = nx.parse_graphml(text)
    assert {name: found.nodes[name] for name in found} == {
        each.id: {
            name: value
            for name, value in (
                ("kind", each.kind.value),
                ("name", each.name),
                ("description", each.description),
                ("parallelism", each.parallelism),
                ("task", each.task),
            )
            if value is not None
        }
        for each in JOIN.nodes
    }
    edges = {(source, target, data["strategy"]) for source, target, data in found.edges(data=True)}
    assert edges == {(each.source, each.target, each.strategy.value) for each in JOIN.edges}


def test_the_plan_for_graphviz(running: RestServer, speck: Speck) -> None:
    lines = speck("graph", "--engine", "a", "--format", "dot").out.splitlines()
    assert (lines[0], lines[-1]) == ("digraph plan {", "}")
    assert r'  "j" [label="the \"join\"\njoin x4"];' in lines
    assert '  "s2" -> "j" [label="broadcast"];' in lines
    assert dot(EnginePlan()).count("\n") == 3


@pytest.mark.slow("draws by Matplotlib")
@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_plan_as_a_picture(running: RestServer, speck: Speck, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"plan.{suffix}"
    assert speck("graph", "--engine", "a", "-o", str(path)).out == ""
    first = path.read_bytes()
    draw_plan(JOIN, path)
    assert path.read_bytes() == first  # the same plan makes the same file
    if suffix == "svg":
        ElementTree.fromstring(first)  # noqa: S314 - our own
        text = first.decode()
        assert all(f"<!-- {name} -->" in text for name in ("broadcast", "join  x4", "in 1", "in 2"))


def test_pictures_that_cannot_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match=r"unknown suffix \(expected \.svg or \.png\)"):
        draw_plan(JOIN, tmp_path / "plan.gif")
    with pytest.raises(InvalidInput, match="cannot be written: No such file or directory"):
        draw_plan(JOIN, tmp_path / "nowhere" / "plan.svg")
    many = EnginePlan.of([replace(JOIN.nodes[0], id=str(number)) for number in range(501)], [])
    with pytest.raises(InvalidInput, match="would have 501 operators"):
        draw_plan(many, tmp_path / "plan.svg")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setitem(sys.modules, "speck.cli.draw.plan_picture", None)
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(SpeckError, match=r"pip install 'speck\[graph\]'"):
        draw_plan(JOIN, tmp_path / "plan.svg")
    with pytest.raises(SpeckError, match=r"pip install 'speck\[graph\]'"):
        to_networkx(JOIN)


def test_a_plan_with_a_cycle_is_drawn(tmp_path: Path) -> None:
    back = PlanEdge(source="k", target="j", strategy=ShipStrategy.CUSTOM)
    cycle = EnginePlan.of(JOIN.nodes, (*JOIN.edges, back))
    assert "out & $x$   sink   --> [custom]" in plan_text(cycle)
    draw_plan(cycle, tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").stat().st_size > 1000


def test_a_plan_that_is_not_there_yet(running: RestServer, speck: Speck) -> None:
    running.world.plans["a"] = EnginePlan(notes=("Later.",))
    shown = speck("graph", "--engine", "a")
    assert (shown.code, shown.out.strip()) == (0, "")
    assert "Later." in shown.err


# -- the reasons why there is none


def test_an_unknown_job(running: RestServer, speck: Speck) -> None:
    shown = speck("graph", "--engine", "c")
    assert (shown.code, shown.out) == (1, "")
    assert shown.err.startswith("error: there is no job 'c'")


def test_a_job_that_does_not_run(rest: RestServer, speck: Speck) -> None:
    rest.world.down("sc://e1:15002")
    rest.client.apply(yaml_of("a t0 t1").encode(), "one", wait=60)
    assert speck("graph", "--engine", "a").err == (
        "error: job 'a' has no plan: it does not run at any engine (start it first)\n"
    )
    assert requests.get(f"{rest.url}/jobs/a/engine-plan", timeout=30).status_code == 409


def test_an_engine_that_does_not_answer(running: RestServer, speck: Speck) -> None:
    running.world.fail("engine_plan", OutcomeUnknown("sc://e1:15002 did not answer", address="sc://e1:15002"))
    assert speck("graph", "--engine", "a").err == "error: sc://e1:15002 did not answer\n"


def test_a_binder_without_plans(running: RestServer, speck: Speck, monkeypatch: pytest.MonkeyPatch) -> None:
    less = InMemoryEngine.capabilities - {Capability.PLANS}
    monkeypatch.setattr(InMemoryEngine, "capabilities", less)
    shown = speck("graph", "--engine", "a")
    assert shown.err == "error: job 'a': the binder for spark does not report the engine's plan\n"
    assert shown.code == 1


# -- features


def test_features_are_a_row_for_each_job(running: RestServer, speck: Speck) -> None:
    measure(running, "b")
    shown = speck("graph", "--features", "--format", "csv")
    a, b = csv.DictReader(io.StringIO(shown.out))
    assert list(a) == ["job_name", "engine", *(each.name for each in FEATURES)]
    assert {name: a[name] for name in ("job_name", "joins", "join_selectivity", "sources", "exchanges")} == {
        "job_name": "a",
        "joins": "1.0",
        "join_selectivity": "",  # not measured
        "sources": "2.0",
        "exchanges": "2.0",
    }
    assert (b["filters"], float(b["filter_selectivity"])) == ("1.0", pytest.approx(0.5))
    assert float(b["rate_in"]) == pytest.approx(100, rel=0.01)
    assert float(b["cost"]) == pytest.approx(1e-3, rel=0.05)


def test_selectivities_of_tasks_are_those_of_vertices(running: RestServer, speck: Speck) -> None:
    kinds = (OperatorClass.SOURCE, OperatorClass.FLAT_MAP, OperatorClass.FILTER)
    pairs = zip(PASSING.nodes, kinds, strict=True)
    nodes = [replace(node, kind=kind, task=node.id) for node, kind in pairs]
    running.world.plans["b"] = EnginePlan.of(nodes, PASSING.edges, {"1": "source", "3": "count"})
    measure(running, "b")
    found = speck("graph", "--features", "b", "--json").data["jobs"][0]["features"]
    assert (found["filters"], found["filter_selectivity"], found["selectivity"]) == (1, 0.5, 0.5)


def test_features_as_a_table_and_with_their_units(running: RestServer, speck: Speck) -> None:
    head, row = speck("graph", "--features", "b").out.splitlines()
    assert head.split()[:4] == ["JOB", "HOSTS", "SOURCES", "FILTERS"]
    assert row.split()[:6] == ["b", "1", "1", "1", "-", "0"]
    data = speck("graph", "--features", "b", "--json").data
    assert data["features"][0] == {
        "name": "hosts",
        "unit": "count",
        "meaning": "sites that the job runs at: 1 for each job",
    }
    assert [each["job_name"] for each in data["jobs"]] == ["b"]
    assert data["jobs"][0]["features"]["operators"] == 3


def test_jobs_without_a_plan_are_named(running: RestServer, speck: Speck) -> None:
    shown = speck("graph", "--features", "a", "c", "--json")
    assert shown.code == 1
    assert [each["job_name"] for each in shown.data["jobs"]] == ["a"]
    assert [each["job_name"] for each in shown.data["faults"]] == ["c"]
    assert shown.err.startswith("job 'c' has no features: there is no job 'c'")


# -- options that do not go together


EXCLUSIVE: list[tuple[tuple[str, ...], str]] = [
    ((), "expected one FILE, --engine JOB or --features: none was given"),
    (("a.yaml", "b.yaml"), "expected one FILE, --engine JOB or --features: 2 were given"),
    (("nowhere.yaml",), "File 'nowhere.yaml' does not exist"),
    (
        ("a.yaml", "--format", "dot"),
        "--format is for --engine and --features (expected --json for a file)",
    ),
    (("--engine", "a", "a.yaml"), "--engine a takes no file ('a.yaml' was given)"),
    (("--engine", "a", "--features"), "--engine and --features exclude each other"),
    (("--engine", "a", "--format", "csv"), "--engine has no format csv (expected json, graphml, dot)"),
    (("--engine", "a", "--json", "--format", "dot"), "--json and --format dot exclude each other"),
    (("--engine", "a", "-o", "x.svg", "--json"), "--output draws a picture"),
    (("--engine", "a", "--unfold"), "--unfold is for a FILE, not for --engine"),
    (("--engine", "a", "--set", "A=1"), "--set is for a FILE, not for --engine"),
    (("--features", "--env", "setup.cfg"), "--env is for a FILE, not for --features"),
    (("--features", "--format", "graphml"), "--features has no format graphml (expected json, csv)"),
    (("--features", "-o", "x.svg"), "--output draws a graph: --features prints a table"),
    (("--features", "--unfold"), "--unfold is for a FILE, not for --features"),
    (("--engine", "a", "-o", "x.gif"), "picture 'x.gif' has an unknown suffix"),
    (("--engine", "a", "--format", "xml"), "'xml' is not one of"),
]


def test_options_that_exclude_each_other(running: RestServer, speck: Speck) -> None:
    for arguments, fault in EXCLUSIVE:
        shown = speck("graph", *arguments)
        assert shown.code == 1
        assert fault in shown.err
        assert shown.out == "" or "--json" in arguments


def test_operators_of_one_name_are_numbered() -> None:
    assert labels(JOIN) == {"s1": "in 1", "s2": "in 2", "j": 'the "join"', "k": "out & $x$"}


# -- the documentation

PAGE = (ROOT / "docs" / "engine-plans.md").read_text(encoding="utf-8")


def test_each_class_strategy_and_feature_is_on_the_page() -> None:
    for name in (*OperatorClass, *ShipStrategy):
        assert f"\n| `{name}` |" in PAGE
    rows = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
    for feature in FEATURES:
        (units,) = (row[1] for row in rows if f"`{feature.name}`" in row[0])
        assert units == feature.unit


def test_the_example_is_what_the_command_prints() -> None:
    recorded = json.loads((ROOT / "tests/binders/flink/plans.json").read_text(encoding="utf-8"))
    drawn = plan_text(flink_plan(recorded["nexmark-q5-hottest"]))
    assert f"```text\n{drawn}\n```" in PAGE
