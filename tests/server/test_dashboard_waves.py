"""A change in waves, planned, accepted and followed in a real browser, over engines in memory."""

from __future__ import annotations

import pytest

from speck.coordinator import retained_plans
from testbed.servers.chromium import Page
from testbed.servers.rest import RestServer
from tests.support.dashboards import at_fixture, composition, confirm, deploy, paste  # noqa: F401

pytestmark = pytest.mark.engine

FORMER = composition("one A raw t1", "two B raw t2")
NEWER = composition("one A raw t1 parallelism: 2", "two B raw t2 parallelism: 2")


def plan(page: Page, waves: str, settle: str = "0") -> None:
    """Plan the newer composition in waves."""
    page.open("#/change")
    page.one("textarea")
    fill(page, "Waves", waves)
    fill(page, "Settle time", settle)
    paste(page, NEWER)


def fill(page: Page, label: str, text: str) -> None:
    """Replace the text of a field."""
    page.run(
        """const field = arguments[0].querySelector("input");
        field.focus(); field.select(); document.execCommand("insertText", false, arguments[1]);""",
        page.one("label", label),
        text,
    )


def waves(page: Page) -> list[str]:
    """The waves that the page lists, as they are read."""
    return [" ".join(each.text.split()) for each in page.all(".waves li")]


def forms(rest: RestServer) -> dict[str, int | None]:
    return {each.job.job_name: each.job.parallelism for each in rest.world.running()}


def test_waves_are_planned_confirmed_and_applied(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, FORMER)
    plan(page, "B")
    page.sees("2 update")
    assert waves(page) == ["wave 1: B 1 job to change", "wave 2: A 1 job to change"]
    confirm(page, "Apply 2 changes", "Back")
    hold = rest.world.hold("submit", name="two")
    page.click(".plan .panel-head button", "Apply 2 changes")
    page.one("dialog", "In 2 waves: each begins when all jobs of the previous one have been running for 0 s")
    page.click("dialog button", "Apply")
    assert hold.reached.wait(60)
    page.until(
        lambda: waves(page) == ["↻ in progress wave 1: B", "… pending wave 2: all other sites"], "wave 1"
    )
    assert forms(rest)["one"] is None
    hold.release()
    page.sees("succeeded")
    assert waves(page) == ["✓ done wave 1: B", "✓ done wave 2: all other sites"]
    assert forms(rest) == {"one": 2, "two": 2}
    assert page.complaints() == []


def test_a_wave_that_settles_and_fails_is_shown(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, FORMER)
    plan(page, "1", "3000")
    confirm(page, "Apply 2 changes")
    waits = "waits for wave 1: all its jobs must have been running for 3000 s"
    expected = ["◷ settling wave 1: A", f"… pending wave 2: all other sites {waits}"]
    page.until(lambda: waves(page) == expected, "the first wave to settle")
    view = page.run("return location.hash")
    page.click("nav a", "Graph")
    page.one(".strip", "wave 1 of 2 settles")
    rest.world.crash("one")
    page.open(view)
    page.sees("wave 1 did not settle")
    page.until(lambda: waves(page) == ["✕ failed wave 1: A", "⤼ skipped wave 2: all other sites"], "the end")
    page.sees("another operation replaced it")


def test_waves_that_do_not_exist_are_named_and_a_plan_goes_with_its_waves(
    at: tuple[RestServer, Page],
) -> None:
    rest, page = at
    deploy(rest, FORMER)
    plan(page, "A; Nowhere")
    page.one(".trouble", "names 'Nowhere', which is not a site of the inventory")
    assert page.all(".plan") == []
    fill(page, "Waves", "A")
    page.click("form button", "Plan")
    page.sees("2 update")
    fill(page, "Waves", "A;1")
    page.until(lambda: not page.all(".plan"), "the plan with the former waves to go")
    assert forms(rest) == {"one": None, "two": None}


def test_a_plan_that_the_server_has_forgotten_keeps_its_waves(
    at: tuple[RestServer, Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retained_plans, "PLANS", 2)
    rest, page = at
    deploy(rest, FORMER)
    plan(page, "B")
    page.sees("2 update")
    for _ in range(retained_plans.PLANS):
        rest.client.plan(FORMER.encode(), "demo")
    confirm(page, "Apply 2 changes")
    page.sees("succeeded")
    (operation,) = [each for each in rest.client.operations() if each["revision"] == 2]
    assert (operation["waves"], operation["settle"]) == (["B"], 0.0)
