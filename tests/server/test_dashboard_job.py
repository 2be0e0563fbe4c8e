"""One job on the dashboard: its last hour, its log, each error once; and the list of all compositions."""

from __future__ import annotations

import json
import time

import pytest

from speck.binder import Backlog
from speck.core.runtime import JobMetrics
from speck.observe.rates import Rates
from testbed.servers.chromium import Page
from testbed.servers.rest import RestServer
from tests.support.dashboards import THREE, at_fixture, composition, deploy, fail  # noqa: F401

pytestmark = pytest.mark.engine

DARK_PIXELS = """
const canvas = arguments[0];
const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
const colours = new Set();
for (let at = 0; at < data.length; at += 4) {
  if (data[at + 3] > 200) colours.add(`${data[at]},${data[at + 1]},${data[at + 2]}`);
}
return colours.size;
"""


def an_hour_passes(rest: RestServer, job: str) -> None:
    """The rates of the last hour, without waiting for it; its engine goes on reporting the last ones."""
    rest.world.metrics[job] = JobMetrics(
        time.time(), input_rate=159.0, output_rate=50.0, waiting=590, batch_duration_ms=200.0
    )
    curves = rest.coordinator.sampler.curves
    assert curves is not None
    end, clock = curves.clock(), curves.clock
    for minute in range(60):
        curves.clock = lambda minute=minute: end - 60 * (59 - minute)  # type: ignore[misc]
        rates = Rates(0.0, 100.0 + minute, 50.0 if minute != 30 else None, minute * 10, 0.2)
        curves.add(job, rates)
    curves.clock = clock


def test_the_last_hour_of_a_job_is_drawn_and_said(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE)
    an_hour_passes(rest, "clean")
    page.open()
    page.click("[data-job=clean]")
    page.until(lambda: len(page.all(".curve canvas")) == 3, "three curves")
    said = [each.get_attribute("aria-label") for each in page.all(".curve [role=img]")]
    assert said == [
        "In: 159/s now, between 100/s and 159/s; Out: 50/s now, between 50/s and 50/s, in the last hour",
        "Backlog: 590 now, between 0 and 590, in the last hour",
        "Batch: 200 ms now, between 200 ms and 200 ms, in the last hour",
    ]
    for canvas in page.all(".curve canvas"):
        assert page.run(DARK_PIXELS, canvas) > 2
    page.click("[data-job=count]")
    page.one(".curves", "Curves of the last hour appear after two minutes.")
    assert page.complaints() == []


def test_messages_at_the_broker_are_shown_with_the_age_of_the_oldest(
    at: tuple[RestServer, Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    rest, page = at
    deploy(rest, THREE)
    monkeypatch.setattr(rest.coordinator.sampler, "backlog", lambda _: Backlog(421, seconds=723.0))
    page.open()
    page.click("[data-job=clean]")
    page.one(".job-panel .numbers", "421 (oldest: 12 min)")


def test_the_log_of_a_job_is_read_on_request(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE)
    page.open()
    page.click("[data-job=clean]")
    page.click(".job-panel button", "Read the log")
    page.one(".job-panel .log", "attempt 1 of clean running")
    rest.world.down("sc://a.example:15002")
    page.click(".job-panel button", "Read the log again")
    page.one(".job-panel .trouble", "a.example")


def test_the_plan_of_a_job_at_its_engine_is_read_on_request(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE)
    page.open()
    page.click("[data-job=clean]")
    page.click(".job-panel button", "Read the engine’s plan")
    page.one(".engine-plan tbody tr:nth-child(3)", "writer")
    assert [each.text.split() for each in page.all(".engine-plan tbody tr")] == [
        ["messages", "source", "1", "clean"],
        ["clean", "filter", "1", "writer"],
        ["writer", "sink", "1"],
    ]
    assert page.complaints() == []
    rest.world.down("sc://a.example:15002")
    page.click(".job-panel button", "Read the engine’s plan again")
    page.one(".job-panel .trouble", "a.example")


def test_an_error_is_shown_once(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE)
    fail(rest, "clean", "no such street")
    page.open()
    page.click("[data-job=clean]")
    page.one(".job-panel", "no such street")
    assert page.one(".job-panel").text.count("no such street") == 1


def test_all_compositions_are_listed(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE)
    fail(rest, "clean", "no such street")
    deploy(rest, composition("other A raw t1", name="another"))
    page.open()
    page.click("nav a", "Compositions")
    page.one("#compositions-title", "Compositions")
    page.one("tbody tr", "another")
    assert [each.text.split()[0] for each in page.all("tbody tr")] == ["another", "demo"]
    page.one("tbody tr:nth-child(2) .badge.tone-bad", "1")
    page.click("tbody a", "another")
    page.one("h1", "another")
    assert page.complaints() == []


CHANGED_VALUES = (
    "const { changedValues } = await import('/dashboard/words.js'); return changedValues(given[0]);"
)


def test_of_a_mapping_and_of_a_query_only_what_differs_is_shown(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    for limit in (1, 2):
        deploy(rest, composition(f"clean A raw t1 arguments: {{limit: {limit}, unit: C}}"))
    page.open("#/history/demo")
    page.one(".changes dt", "arguments.limit")
    assert [each.text for each in page.all(".changes dt")] == ["arguments.limit"]
    shown = [page.one(f".changes {kind}").text.split() for kind in ("del", "ins")]
    assert shown == [["before:", "1"], ["after:", "2"]]  # the words are for screen readers
    before, after = ({"program": json.dumps({"format": "json", "where": each})} for each in (None, ["gt"]))
    assert page.ask(CHANGED_VALUES, {"field": "query", "before": before, "after": after}) == [
        {"field": "query.where", "before": None, "after": ["gt"]}
    ]
    assert page.complaints() == []
