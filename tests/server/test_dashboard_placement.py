"""The dashboard's advice about placement: figures, reasons, acceptance, and what a reader sees of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from speck.client import Client
from speck.server.tokens import Owner, Role, Tokens, digest
from testbed.benches.placement import ROAD_TRAFFIC, Profiler, engine_at, inventory, kinds
from testbed.doubles.world import World
from testbed.servers.chromium import Page
from testbed.servers.rest import RestServer, rest_server

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.engine

VIEW = "#/placement/traffic"
PICTURES = os.environ.get("SPECK_PICTURES")  # a directory for pictures of the page, to be looked at


@pytest.fixture(name="at")
def at_fixture(tmp_path: Path, chrome: Chrome) -> Iterator[tuple[RestServer, Page]]:
    """A server whose composition runs in the cloud, and the browser."""
    world = World()
    with rest_server(tmp_path, inventory(), world=world, registry=kinds(world), inputs=Profiler()) as rest:
        proposed = rest.client.place(ROAD_TRAFFIC.encode(), "traffic", policy="cloud")
        assert rest.client.accept(proposed["id"], wait=60)["state"] == "succeeded"
        page = Page(chrome, rest.url)
        page.media(prefers_color_scheme="light")
        page.complaints()
        yield rest, page
        chrome.get("about:blank")


def picture(page: Page, name: str) -> None:
    if PICTURES:
        height = page.run("return document.documentElement.scrollHeight")
        page.size(1440, min(6000, height))
        page.chrome.save_screenshot(f"{PICTURES}/{name}.png")


def advise(page: Page, *, compared: bool = False) -> None:
    """Request advice; to compare it with all policies takes seconds of processor time."""
    page.open(VIEW)
    if compared:
        page.click("form .check input")
    page.click("form button", "Advise")
    page.one("#advice-title", "policy speck")


def test_advice_shows_figures_reasons_and_policies(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    advise(page, compared=True)
    proposal = rest.client.placements()[0]
    text = page.text()
    for words in (
        "Age of results, mean",
        "Sustained multiplier",
        "break-even after",
        "Policies compared",
        "light-offload",
        "7 measured",
        proposal["id"],
    ):
        assert words in text, words
    assert len(page.all(".star svg")) == 2
    assert len(page.all(".way")) == 2 * 2 * 4  # now and after, up and down, four sites
    verdicts = {row["job"]: row for row in proposal["verdicts"]}
    assert verdicts["clean-a"]["why"] in text
    assert "6 to move" in page.one(".plan [aria-label^='Graph of the plan']").get_attribute("aria-label")
    picture(page, "placement")
    assert page.complaints() == []


def test_acceptance_is_confirmed_and_carried_out(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    advise(page)
    before = rest.world.changes()
    page.click(".plan button.main", "Accept 6 changes")
    page.one("dialog", "Accept the placement of traffic?")
    assert rest.world.changes() == before
    page.click("dialog button.main", "Accept")
    page.until(lambda: page.run("return location.hash").startswith("#/operations/"), "its operation")
    page.until(lambda: rest.client.operations(1, "traffic")[0]["state"] == "succeeded", "its end")
    assert rest.world.running("clean-a")[0].job.spe_address == engine_at("A")
    page.open(VIEW)
    page.click("form button", "Advise")
    page.one(".notice", "No better placement was found")
    assert page.complaints() == []


def test_a_stale_placement_is_refused_on_the_page(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    advise(page)
    identifier = rest.client.placements()[0]["id"]
    assert rest.client.accept(identifier, wait=60)["state"] == "succeeded"
    page.click(".plan button.main", "Accept 6 changes")
    page.click("dialog button.main", "Accept")
    assert "already accepted" in page.one("dialog .trouble").text


def test_a_reader_sees_advice_and_is_offered_no_acceptance(tmp_path: Path, chrome: Chrome) -> None:
    owners = [Owner(role.value, role, digest(role.value.encode())) for role in Role]
    world = World()
    with rest_server(
        tmp_path, inventory(), Tokens(owners), world=world, registry=kinds(world), inputs=Profiler()
    ) as rest:
        writer = Client(rest.url, "write")
        proposed = writer.place(ROAD_TRAFFIC.encode(), "traffic", policy="cloud")
        assert writer.accept(proposed["id"], wait=60)["state"] == "succeeded"
        advised = writer.advise("traffic")
        page = Page(chrome, rest.url).open()
        page.run("sessionStorage.setItem('speck-token', 'read')")
        page.open(VIEW)
        page.one(".reader", "Requesting advice")
        page.click(".kept summary")
        page.click(".kept button", advised["id"])
        page.one("#advice-title", advised["id"])
        page.one(".plan .reader", "Applying a plan")
        assert not page.all(".plan button.main")
        chrome.get("about:blank")
