"""The metrics for Prometheus: by its conventions, complete in the docs, and used rightly in what we ship."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from speck.core.inventory import Engine, Inventory, Scale, Site
from speck.core.runtime import JobMetrics, JobState
from speck.errors import OutcomeUnknown, Rejected
from speck.observe.metrics import OUTCOMES
from speck.placement.profile import Known, LinkProfile, Value
from speck.server.api.exposition import FRESH, MOST_JOBS, _behind, _rates
from speck.store.profiles import MeasuredLink
from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.benches.examples import one_site
from testbed.doubles.agents import Wires
from testbed.doubles.samples import flink_stream
from testbed.servers.rest import RestServer, rest_server, yaml_of
from tests.server.requesting import raw

DASHBOARD = ROOT / "dashboards" / "grafana" / "speck.json"
ALERTS = ROOT / "docs" / "alerts.yaml"
PAGE = ROOT / "docs" / "metrics.md"

ENGINE, BROKER = "sc://e1:15002", "tcp://b1:1883"
TWO = yaml_of("a t0 t1", "b t1 t2 restart: never") + "placement: {mode: auto}\n"
HISTOGRAM = ("_bucket", "_sum", "_count")

Families = Mapping[str, Metric]


def scrape(rest: RestServer) -> str:
    answer = requests.get(f"{rest.url}/metrics", timeout=30)
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return answer.text


def families(text: str) -> Families:
    return {each.name: each for each in text_string_to_metric_families(text)}


def value(rest: RestServer, sample: str, **labels: str) -> float:
    """The value of one series."""
    found = [
        each.value
        for family in families(scrape(rest)).values()
        for each in family.samples
        if each.name == sample and labels.items() <= each.labels.items()
    ]
    assert len(found) == 1, f"{len(found)} series {sample} {labels}"
    return found[0]


def post(rest: RestServer, text: str) -> dict[str, Any]:
    answer = requests.post(
        f"{rest.url}/compositions",
        data=text,
        params={"name": "demo", "wait": "30"},
        headers={"Content-Type": "application/yaml"},
        timeout=60,
    )
    found: dict[str, Any] = answer.json()
    return found


def observe_once(rest: RestServer) -> None:
    """One round of the loop, and the end of what it began."""
    rest.coordinator.reconciler.round()
    eventually(rest.coordinator.operations.running, lambda running: not running)


@pytest.fixture(name="busy", scope="module")
def busy_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    """A server that has been through an apply, a failure, a drift, a healing, and was asked for rates."""
    south = one_site("south", "sc://e2:15002", "tcp://b2:1883")
    sites = Inventory({"north": one_site("north", ENGINE, BROKER), "south": south})
    with rest_server(tmp_path_factory.mktemp("busy"), sites) as rest:
        rest.world.fail("submit", Rejected("no", address=ENGINE), name="b")
        assert post(rest, TWO)["state"] == "failed"
        assert post(rest, TWO)["state"] == "succeeded"
        observe_once(rest)
        rest.world.crash("a")
        observe_once(rest)
        rest.world.metrics["a"] = JobMetrics(
            time.time(),
            input_rate=5.0,
            output_rate=4.0,
            waiting=3,
            batch_duration_ms=200.0,
            details={"lostMessages": 2},
        )
        for _ in range(2):
            observe_once(rest)
        scrape(rest)
        eventually(lambda: "speck_job_losses_total{" in scrape(rest), bool)
        eventually(lambda: "speck_job_waiting_messages{" in scrape(rest), bool)
        rest.world.crash("b", state=JobState.FINISHED)
        observe_once(rest)
        measure(rest, "a")
        adapt(rest)
        yield rest


def adapt(rest: RestServer) -> None:
    """Let the adaptation loop look once at a composition whose mode is ``auto``."""
    known = [Value(value, Known.MEASURED, time.time(), 5) for value in (0.04, 1e6, 2e5)]
    link = LinkProfile(source="north", target="south", round_trip=known[0], bandwidth=known[1], load=known[2])
    with rest.coordinator.store.transaction() as transaction:
        transaction.put_link("north", "south", MeasuredLink(passive=link))
    rest.services.adaptation.round()
    observed = rest.services.adaptation.observations()["demo"]
    observed.regret, observed.realised = 0.1, 0.9


def measure(rest: RestServer, name: str) -> None:
    """Let the engine of a job report the counts of the last minute."""
    (deployed,) = (each.deployed() for each in rest.coordinator.deployments.snapshots())
    job, handle = next(each for each in deployed if each[0].job_name == name)
    for sample in flink_stream([100] * 6, 1e-3, begin=time.time() - 60):
        rest.services.profiles.measures.record(job, handle, sample)


@pytest.fixture(name="reported", scope="module")
def reported_fixture(busy: RestServer, tmp_path_factory: pytest.TempPathFactory) -> Families:
    """The metrics of a busy server, and of one with a split, with workers, and with an agent."""
    found = dict(families(scrape(busy)))
    with rest_server(tmp_path_factory.mktemp("split")) as rest:
        block = f"{{combiners: [{{spe_address: '{ENGINE}'}}], window: 1 minute}}"
        rest.client.apply(yaml_of(f"hot t0 t1 key_split: {block}").encode(), "demo", wait=30)
        watch = rest.coordinator.splits
        watch.refresh()
        watch.round()
        broker = rest.queries.jobs()[0]["job"]["sink_broker"]
        for part, fields in (("0", '"rows":1'), ("partitioner", '"rows":1,"loads":[1],"shared_keys":0')):
            content = f'{{{fields},"busy":0.1,"wall":0.1,"faults":{{}}}}'
            rest.world.publish(broker, f"speck/split/hot/report/{part}", b"\xff" + content.encode())
        watch.clock = lambda: time.time() + 20
        watch.round()
        splits = families(scrape(rest))
    with rest_server(tmp_path_factory.mktemp("workers"), scaled_site()) as rest:
        rest.coordinator.workers.round()
        rest.coordinator.workers.await_rounds()
        workers = families(scrape(rest))
    inventory = Inventory({"A": replace(one_site("A", ENGINE, BROKER), agent=True)})
    with rest_server(tmp_path_factory.mktemp("agents"), inventory) as rest:
        wires = Wires()
        wires.connect("A", time.time())
        rest.services.agents.connections = wires
        agents = families(scrape(rest))
    # Of brokers that count the messages of sessions, which the double of a server does not have.
    behind = _behind([{"composition": "c", "job_name": "a", "behind": 1, "behind_seconds": 2.5}], {})
    return (
        found
        | {each.name: each for each in behind}
        | {name: each for name, each in agents.items() if name.startswith("speck_agent_")}
        | {name: each for name, each in splits.items() if name.startswith("speck_split_")}
        | {name: each for name, each in workers.items() if name.startswith("speck_workers")}
    )


def scaled_site() -> Inventory:
    """A site whose engine has the one worker that it may have."""
    scale = Scale(least=1, most=1, cores=1, command=("false", "{count}"))
    engine = Engine(spe_address="http://e1:8081/", scale=scale)
    return Inventory({"A": Site(name="A", engines=(engine,), broker_address="tcp://b1:1883")})


# --- the answer itself


def test_names_and_units_are_as_prometheus_has_them(busy: RestServer) -> None:
    text = scrape(busy)
    reported = families(text)
    helped = set(re.findall(r"^# HELP (\S+) \S", text, re.MULTILINE))
    for name, family in reported.items():
        assert family.documentation, f"{name} has no help"
        if not name.startswith("speck_"):
            continue
        assert name + ("_total" if family.type == "counter" else "") in helped, name
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", name), name
        assert not re.search(r"_(ms|milliseconds|minutes|kilobytes|mb|percent)\b", name), name
        if family.type == "histogram":
            assert name.endswith("_seconds"), name
    assert len(reported) == len(set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)))


def test_a_histogram_s_parts_agree(reported: Families) -> None:
    found = [each for each in reported.values() if each.type == "histogram"]
    assert len(found) == 4
    for family in found:
        parts: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for sample in family.samples:
            key = tuple(each for label, each in sorted(sample.labels.items()) if label != "le")
            parts[key][sample.name.removeprefix(family.name)].append(sample.value)
        for key, part in parts.items():
            assert part.keys() == {"_bucket", "_count", "_sum"}, (family.name, key)
            assert part["_bucket"] == sorted(part["_bucket"])
            assert part["_bucket"][-1:] == part["_count"]
            assert (part["_sum"][0] > 0) == (part["_count"][0] > 0)
        bounds = [each.labels["le"] for each in family.samples if each.name.endswith("_bucket")]
        assert bounds[-1] == "+Inf"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_no_fault(busy: RestServer) -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=scrape(busy),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_labels_hold_no_text_of_anybody(reported: Families) -> None:
    """A value that may be anything, a message or a path, would make a new series of each."""
    allowed = {
        *("action", "address", "binder", "call", "composition", "drift", "error", "job", "kind", "le"),
        *("method", "outcome", "part", "reason", "route", "site", "state", "status", "version", "wanted"),
        *("decision", "resource", "source", "target", "split", "worker", "engine"),
    }
    mine = [each for name, each in reported.items() if name.startswith("speck_")]
    assert {label for each in mine for sample in each.samples for label in sample.labels} <= allowed


def test_jobs_are_counted_by_site_and_state(busy: RestServer) -> None:
    assert value(busy, "speck_jobs", site="north", wanted="running", state="running") == 1
    assert value(busy, "speck_jobs", site="north", wanted="running", state="finished") == 1
    assert value(busy, "speck_jobs_drifted", drift="finished") == 1
    assert value(busy, "speck_drifts_total", drift="died") == 1


def test_actions_and_operations_are_counted_by_outcome(busy: RestServer) -> None:
    assert value(busy, "speck_actions_total", action="start", outcome="failed") == 1
    assert value(busy, "speck_actions_total", action="start", outcome="done") == 3
    assert value(busy, "speck_action_duration_seconds_count", action="start") == 4
    assert value(busy, "speck_operations_total", kind="apply", outcome="failed") == 1
    assert value(busy, "speck_operations_total", kind="heal", outcome="succeeded") == 1
    assert value(busy, "speck_operations_running", kind="apply") == 0


def test_what_has_not_happened_yet_is_told_as_zero(tmp_path: Path) -> None:
    with rest_server(tmp_path) as rest:
        assert value(rest, "speck_actions_total", action="move", outcome="failed") == 0
        assert value(rest, "speck_operations_total", kind="rollback", outcome="waiting") == 0
        assert value(rest, "speck_drifts_total", drift="running twice") == 0
        post(rest, TWO)
        new = {sample.labels["outcome"] for sample in families(scrape(rest))["speck_actions"].samples}
        assert new == set(OUTCOMES)


def test_calls_are_counted_by_binder_and_method(busy: RestServer) -> None:
    submits = busy.world.counts()["submit"]
    assert value(busy, "speck_call_duration_seconds_count", binder="spark-connect", call="submit") == submits
    assert (
        value(busy, "speck_call_errors_total", binder="spark-connect", call="submit", error="Rejected") == 1
    )
    fences = busy.world.counts()["fence"]
    assert value(busy, "speck_call_duration_seconds_count", binder="mqtt", call="fence") == fences


def test_requests_are_counted_by_route_and_class(tmp_path: Path) -> None:
    with rest_server(tmp_path) as rest:
        for method, path in (
            ("GET", "/jobs/nothing"),
            ("GET", "/jobs/nobody"),
            ("GET", "/no/such/path?at=all"),
            ("DELETE", "/jobs"),
            ("BREW", "/jobs"),
            ("GET", "/jobs"),
            ("GET", "/live"),
        ):
            requests.request(method, f"{rest.url}{path}", timeout=30, stream=True).close()
        head = b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        for sent in (
            b"rubbish\r\n\r\n",
            head + b"Content-Length: 99999999999\r\n\r\n",
            head + b"Transfer-Encoding: gzip\r\n\r\n",
        ):
            assert raw(rest, sent).startswith(b"HTTP/1.")
        counted = {
            (each.labels["method"], each.labels["route"], each.labels["status"]): each.value
            for each in families(scrape(rest))["speck_http_requests"].samples
        }
        assert counted == {
            ("GET", "/jobs/<name>", "4xx"): 2,
            ("GET", "other", "4xx"): 1,
            ("DELETE", "other", "4xx"): 1,
            ("other", "other", "4xx"): 1,
            ("GET", "/jobs", "2xx"): 1,
            ("GET", "/live", "2xx"): 1,
            ("other", "refused", "4xx"): 2,
            ("other", "refused", "5xx"): 1,
        }
        timed = "speck_http_request_duration_seconds_count"
        assert value(rest, timed, route="/jobs/<name>", method="GET") == 2
        assert value(rest, "speck_http_requests_total", route="/metrics", status="2xx") == 2


def test_rates_of_each_job(busy: RestServer) -> None:
    labels = {"composition": "demo", "job": "a", "site": "north"}
    assert value(busy, "speck_job_input_messages_per_second", **labels) == 5
    assert value(busy, "speck_job_output_messages_per_second", **labels) == 4
    assert value(busy, "speck_job_waiting_messages", **labels) == 3
    assert value(busy, "speck_job_work_seconds", **labels) == 0.2


def test_rounds_and_the_store(busy: RestServer) -> None:
    assert value(busy, "speck_round_duration_seconds_count") == 5
    assert time.time() - 600 < value(busy, "speck_round_timestamp_seconds") <= time.time()
    assert value(busy, "speck_store_size_bytes", part="records") > 0
    assert value(busy, "speck_store_size_bytes", part="code") == len((busy.root / "work.py").read_bytes())
    assert value(busy, "speck_store_writable") == 1
    assert value(busy, "process_resident_memory_bytes") > 0


def test_a_site_is_seen_when_it_answers(tmp_path: Path) -> None:
    """Not when it was asked, and not when its own binder says that it is silent."""
    with rest_server(tmp_path, Inventory({"north": one_site("north", ENGINE, BROKER)})) as rest:
        now = [1000.0]
        rest.services.metrics._clock = lambda: now[0]
        post(rest, TWO)
        for address in (ENGINE, BROKER):
            assert value(rest, "speck_seen_timestamp_seconds", site="north", address=address) == 1000
        now[0] = 2000.0
        rest.world.down(ENGINE)
        rest.coordinator.reconciler.round()
        assert value(rest, "speck_seen_timestamp_seconds", address=ENGINE) == 1000
        errors = {"binder": "spark-connect", "call": "statuses", "error": "OutcomeUnknown"}
        assert value(rest, "speck_call_errors_total", **errors) >= 1
        rest.world.up(ENGINE)
        rest.coordinator.reconciler.round()
        assert value(rest, "speck_seen_timestamp_seconds", address=ENGINE) == 2000


def test_rates_that_are_old_are_not_told(tmp_path: Path) -> None:
    with rest_server(tmp_path) as rest:
        post(rest, TWO)
        old = JobMetrics(time.time() - FRESH - 1, input_rate=5.0)
        rest.world.metrics |= {"a": old, "b": JobMetrics(time.time(), input_rate=5.0)}
        scrape(rest)
        eventually(lambda: 'job="b"' in scrape(rest), bool)
        assert 'job="a"' not in scrape(rest)


def test_series_of_single_jobs_are_bounded() -> None:
    reported = {"observed": 9.0, "input_rate": 1.0, "output_rate": 1.0, "waiting": 1, "work_seconds": 1.0}
    jobs = [{"composition": "c", "job_name": f"j{number}", **reported} for number in range(MOST_JOBS + 50)]
    assert [len(family.samples) for family in _rates(jobs, {}, oldest=0.0)] == [MOST_JOBS] * 4


def test_a_round_that_fails_is_counted(tmp_path: Path) -> None:
    with rest_server(tmp_path) as rest:
        rest.coordinator.deployments.store.close()
        with pytest.raises(Exception, match="closed"):
            rest.coordinator.reconciler.round()
        assert rest.services.metrics.registry.get_sample_value("speck_round_failures_total") == 1
        assert rest.services.metrics.registry.get_sample_value("speck_round_timestamp_seconds") == 0


def test_a_call_that_gives_no_answer_is_counted_each_time(tmp_path: Path) -> None:
    with rest_server(tmp_path) as rest:
        rest.world.fail("check", OutcomeUnknown("late", address=ENGINE), name="a", times=2)
        assert post(rest, TWO)["state"] == "succeeded"
        labels = {"binder": "spark-connect", "call": "check"}
        assert value(rest, "speck_call_errors_total", error="OutcomeUnknown", **labels) == 2
        assert value(rest, "speck_call_duration_seconds_count", **labels) == 2 + 2  # two jobs, two tries more


# --- what is shipped with it


def names(reported: Families) -> set[str]:
    """Every name by which a series can be asked for."""
    found = set()
    for name, family in reported.items():
        suffixes = {"counter": ("_total",), "histogram": HISTOGRAM, "info": ("_info",)}.get(
            family.type, ("",)
        )
        found |= {name + suffix for suffix in suffixes}
    return found | {sample.name for family in reported.values() for sample in family.samples}


def asked_for(expression: str) -> set[str]:
    """The names of metrics in an expression: words that are no function, keyword, label or text."""
    bare = re.sub(
        r'"[^"]*"|\{[^}]*\}|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)|\[[^]]*\]',
        "",
        expression,
    )
    return set(re.findall(r"\b(?:speck|process|up)[a-z_]*\b(?!\s*\()", bare))


def labels_of(expression: str) -> set[str]:
    """The labels that an expression names."""
    matched = re.findall(r"[{,]\s*([a-z_]+)\s*(?:=|!=|=~|!~)\s*\"", expression)
    grouped = re.findall(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)", expression)
    return {*matched, *(each.strip() for group in grouped for each in group.split(",") if each.strip())}


def expressions() -> list[str]:
    """Of the dashboard and of the alerts."""
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    panels = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    return panels + [rule["expr"] for rule in rules]


def test_dashboard_and_alerts_ask_for_what_there_is(reported: Families) -> None:
    known = names(reported) | {"up"}
    found = expressions()
    assert len(found) > 20
    for expression in found:
        assert asked_for(expression), f"{expression!r} asks for nothing"
        assert asked_for(expression) <= known, expression
        for name in asked_for(expression) - {"up"}:
            values = values_of(reported, name)
            assert labels_of(expression) <= values.keys() | {"instance"}, f"{name} in {expression}"
            for label, desired in re.findall(r'([a-z_]+)\s*=\s*"([^"]*)"', expression):
                assert desired in values[label], f"{name} in {expression}"


def values_of(reported: Families, name: str) -> dict[str, set[str]]:
    """The labels of a metric, and the values that each has."""
    found: dict[str, set[str]] = defaultdict(set)
    for sample in (each for family in reported.values() for each in family.samples if each.name == name):
        for label, labelled in sample.labels.items():
            found[label].add(labelled)
    return found


def test_dashboard_shows_every_metric_of_speck(reported: Families) -> None:
    asked = {name for expression in expressions() for name in asked_for(expression)}
    bare = {re.sub(r"_(bucket|sum|count|total|info)\Z", "", name) for name in asked}
    assert {name for name in reported if name.startswith("speck_")} <= bare | {"speck_build_info"}


def test_dashboard_can_be_imported() -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    assert [each["name"] for each in dashboard["templating"]["list"]] == ["datasource"]
    panels = dashboard["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    places = [each["gridPos"] for each in panels]
    taken = [
        (x, y)
        for each in places
        for x in range(each["x"], each["x"] + each["w"])
        for y in range(each["y"], each["y"] + each["h"])
    ]
    assert len(set(taken)) == len(taken), "panels lie over each other"
    assert max(x for x, _ in taken) < 24
    for panel in panels:
        if panel["type"] != "row":
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert all(target["refId"] for target in panel["targets"])
            assert panel["description"]


def test_alerts_say_what_to_do() -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}


def row(name: str, family: Metric) -> str:
    """A metric as the page of the docs has it."""
    suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
    labels = {label for sample in family.samples for label in sample.labels} - {"le"}
    listed = ", ".join(f"`{label}`" for label in sorted(labels))
    return f"| `{name}{suffix}` | {family.type} | {listed} | {family.documentation} |"


def test_the_page_of_the_docs_lists_every_metric(reported: Families) -> None:
    desired = [row(name, reported[name]) for name in sorted(reported) if name.startswith("speck_")]
    listed = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `speck_")]
    assert listed == desired
