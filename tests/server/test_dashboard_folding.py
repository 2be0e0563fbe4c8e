"""The dashboard with jobs that one ``for_each`` made: shown as one, and unfolded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from speck.core.inventory import Inventory
from testbed.benches.examples import one_site
from testbed.servers.chromium import Page
from testbed.servers.rest import RestServer, rest_server
from tests.support.dashboards import fail, observe

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.engine

EDGES = [f"s{number:02}" for number in range(24)]


def job(name: str, reads: str, writes: str, **more: object) -> dict[str, object]:
    return {
        "job_name": name,
        "source_topic": reads,
        "sink_topic": writes,
        "entry_class": "work",
        "job_path": "work.py",
        **more,
    }


EACH = {"for_each": {"site": EDGES}}
CITY = json.dumps(
    {
        "name": "city",
        "sources": {"raw": "of the sensors"},
        "sinks": {"counts": "", "reports": "for people"},
        "topics": {"clean": {"shared": True}, "counts": {"shared": True}},
        "jobs": [
            job("clean-${each.site}", "raw", "clean", **EACH),
            job("count-${each.site}", "clean", "counts", **EACH),
            job("forward-${each.site}", "clean", "all/${each.site}", sink_broker="cloud", **EACH),
            job("report", "all/+", "reports", site="cloud"),
        ],
    }
)


@pytest.fixture(name="city")
def city_fixture(tmp_path: Path, chrome: Chrome) -> Iterator[tuple[RestServer, Page]]:
    """A server with 24 sites and a cloud, 73 jobs of four entries, and the browser."""
    names = [*EDGES, "cloud"]
    sites = {name: one_site(name, f"sc://{name}:15002", f"tcp://{name}:1883") for name in names}
    with rest_server(tmp_path, Inventory(sites)) as rest:
        operation = rest.client.apply(CITY.encode(), "city", wait=60)
        assert operation["state"] == "succeeded", operation
        observe(rest)
        page = Page(chrome, rest.url)
        page.complaints()
        yield rest, page
        chrome.get("about:blank")


def drawn(page: Page) -> list[str]:
    script = "return [...document.querySelectorAll('[data-job]')].map((each) => each.dataset.job).sort()"
    return list(page.run(script))


def test_the_jobs_of_an_entry_are_one_in_graph_and_table(city: tuple[RestServer, Page]) -> None:
    rest, page = city
    page.open("#/graph/city")
    page.until(lambda: drawn(page) == ["clean-*", "count-*", "forward-*", "report"], "four jobs")
    page.sees("73 jobs at 25 sites")
    page.sees("24 sites: s00, s01, …")
    rows = page.run(
        "return [...document.querySelectorAll('table.jobs tbody th')].map((e) => e.textContent.trim())"
    )
    assert rows == ["clean-*", "count-*", "forward-*", "report"]
    said = page.run("return document.querySelector('.declared').innerText").split("\n")
    said = [line for line in said if line.strip()]
    assert said == [
        "External sources",
        "raw",
        "of the sensors",
        "External sinks",
        "counts",
        "–",
        "reports",
        "for people",
    ]
    # All lines lead from job to job: the topics that differ by site are one.
    assert page.run("return document.querySelectorAll('.topic').length") == 5
    fail(rest, "count-s07")
    page.job_is("count-*", "failed")
    page.until(lambda: "1 failed, 23 running" in page.run("return document.body.innerText"), "the number")
    assert page.complaints() == []


def test_a_job_of_an_entry_is_found_and_opened(city: tuple[RestServer, Page]) -> None:
    rest, page = city
    fail(rest, "count-s07")
    page.open("#/graph/city")
    page.click("table.jobs button", "count-*")
    page.until(lambda: len(page.run("return [...document.querySelectorAll('.members li')]")) == 24, "24 jobs")
    first = page.run("return document.querySelector('.members li').innerText")
    assert "count-s07" in first
    page.click(".members button", "count-s07")
    page.sees("tcp://s07:1883")
    page.run("document.querySelector('table.jobs').closest('section').querySelector('input').focus()")
    page.chrome.switch_to.active_element.send_keys("clean-s1")
    page.until(
        lambda: len(page.run("return [...document.querySelectorAll('table.jobs tbody tr')]")) == 10,
        "s10 to s19",
    )
    assert page.complaints() == []


def test_the_graph_is_unfolded_and_folded_by_a_click(city: tuple[RestServer, Page]) -> None:
    _, page = city
    page.open("#/graph/city")
    page.click("#fold", "Unfold")
    page.until(lambda: len(drawn(page)) == 73, "all jobs")
    page.open("#/graph/city")
    page.click("#fold", "Fold")  # the choice is kept
    page.until(lambda: len(drawn(page)) == 4, "four jobs")


def test_the_plan_of_a_further_site_is_folded_and_its_text_is_sent_once(
    city: tuple[RestServer, Page],
) -> None:
    rest, page = city
    text = CITY.replace(', "s23"]', "]")
    sent: list[int] = []

    def note() -> None:
        from flask import request

        if request.path == "/compositions" and request.method == "POST":
            sent.append(request.content_length or 0)

    rest.app.before_request_funcs.setdefault(None, []).append(note)
    page.open("#/change")
    page.one("textarea")
    page.run(
        """const area = document.querySelector("textarea");
        area.focus(); area.select(); document.execCommand("insertText", false, arguments[0]);""",
        text,
    )
    page.click("form button", "Plan")
    page.until(lambda: "count-*" in drawn(page), "the folded plan")
    page.sees("1 stop, 23 keep")
    page.click(".plan .panel-head button", "Apply 3 changes")
    page.click("dialog button", "Apply")
    page.sees("succeeded")
    assert sent == [len(text.encode()), 0]
    assert len(rest.world.where()) == 70
