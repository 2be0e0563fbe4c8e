"""The dashboard's accessibility: little width, both faces, keyboard, screen reader, many jobs."""

from __future__ import annotations

import json

import pytest
import yaml
from selenium.webdriver.common.keys import Keys

from testbed.servers.chromium import Page
from testbed.servers.rest import RestServer
from tests.support.dashboards import THREE, composition, deploy, fail, paste, press, script

pytestmark = pytest.mark.engine


def test_it_is_readable_on_a_phone(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE)
    for view in ("", "#/sites", "#/history/demo", "#/operations", "#/events", "#/change"):
        page.open(view, 360, 740)
        page.one("h1")
        page.until(lambda: page.run("return document.body.innerText.length") > 80, "the view")
        assert page.run("return document.documentElement.scrollWidth") <= 360, view
    page.open("", 360, 740)
    page.job_is("clean", "running")
    width = page.run("return document.querySelector('[data-job=clean] .card').getBoundingClientRect().width")
    assert width > 120  # px; its name can be read
    assert page.run(script("overlaps"), ".jobs tbody tr > *", ".jobs tbody tr > *") == []
    page.click(".jobs button", "count")
    page.one(".job-panel h2", "count")
    chain = composition(*(f"job-{number} A t{number} t{number + 1}" for number in range(50)))
    rest.client.apply(chain.encode(), "demo", wait=60)  # the site has not room for all of them
    page.job_is("job-49", "site A")
    page.until(lambda: bottom(page, ".frame") - top(page, ".frame") < 740, "the graph to have a frame")
    page.click(".jobs button", "job-49")
    card = "[data-job=job-49] .card"
    page.until(
        lambda: top(page, ".frame") <= top(page, card) < bottom(page, card) <= bottom(page, ".frame"),
        "the chosen job to be in sight",
    )


def test_parts_of_a_split_are_told_apart_and_leave_the_name_of_their_site(
    at: tuple[RestServer, Page],
) -> None:
    rest, page = at
    name = "percentiles-of-speed-by-town-and-hour"
    deploy(rest, composition(f"{name} A readings out key_split: {{combiners: [A, B, B], window: 1 minute}}"))
    page.open()
    page.job_is(f"{name}.combiner-2", "running")
    page.until(lambda: page.run("return document.querySelectorAll('.split').length") == 2, "the frames")
    names = page.run("return [...document.querySelectorAll('.job-name')].map((each) => each.textContent)")
    assert len(set(names)) == len(names) == 5, names
    assert page.run(script("overlaps"), ".split text", ".site-name, .site-note") == []
    assert page.run(script("overlaps"), ".split rect", ".site-name, .site-note") == []


def top(page: Page, what: str) -> float:
    return float(page.run("return document.querySelector(arguments[0]).getBoundingClientRect().top", what))


def bottom(page: Page, what: str) -> float:
    return float(page.run("return document.querySelector(arguments[0]).getBoundingClientRect().bottom", what))


def test_the_face_follows_the_reader_and_the_switch(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE)
    ground = "return getComputedStyle(document.body).backgroundColor"
    page.open()
    light = page.run(ground)
    page.media(prefers_color_scheme="dark")
    page.until(lambda: page.run(ground) != light, "the dark face")
    dark = page.run(ground)
    page.click("#face")  # light, whatever the system says
    page.until(lambda: page.run(ground) == light, "the light face")
    page.open()
    assert page.run(ground) == light  # kept
    page.click("#face")  # dark
    page.media(prefers_color_scheme="light")
    page.until(lambda: page.run(ground) == dark, "the dark face")
    page.click("#face")  # as the system says
    page.until(lambda: page.run(ground) == light, "the light face again")


LONG = "the-longest-name-that-a-job-may-have-" + "x" * 63
VIEWS = (
    *("#/graph/demo", "#/compositions", "#/sites", "#/history/demo", "#/operations", "#/events"),
    *("#/delete/demo", "#/change"),
)


def test_each_view_stands_out_has_names_and_fits_its_window(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    chain = ("keep A raw t1", f"{LONG} A t1 t2", "move A t2 t3", "stop A t3 t4")
    deploy(rest, composition("keep A raw t1"), "the first")
    deploy(rest, composition(*chain), "w" * 200)
    fail(rest, LONG, "out of memory " * 20)
    rest.world.down("sc://b.example:15002")
    page.open(VIEWS[0])
    page.click(f'[data-job="{LONG}"]')
    page.one(".job-panel", "out of memory")
    for view in VIEWS:
        page.run("location.hash = arguments[0]", view)
        page.one(ENDS[view.split("/")[1]])
        if view == "#/change":
            paste(page, composition("keep A raw t1", f"{LONG} B t1 t2", "move A t2 t9", "start A t3 t4"))
            for name in ("keep", LONG, "move", "stop", "start"):
                page.job_is(name, "verdict-")
            page.click(".plan .panel-head button", "Apply")
            page.one("dialog", "is permanently stopped")
        assert page.nameless() == [], view
        for face in ("light", "dark"):
            page.media(prefers_color_scheme=face)
            drawn = page.run(script("faint"), 4.5)  # WCAG 2.2, 1.4.3
            assert drawn["found"] == [], (view, face)
            assert drawn["looked"] > 10
        for width in (720, 360, 320):  # a window of 1440 at 200% is 720 wide; WCAG 2.2, 1.4.10 asks for 320
            page.size(width, 800)
            page.until(lambda width=width: page.run(WIDEST) <= width, f"{view} to fit {width}")
        page.size(1440, 900)


# What a view shows last.
ENDS = {
    "graph": ".jobs tbody tr",
    "compositions": ".jobs tbody tr",
    "sites": ".cards .notice",
    "history": ".actions .action",
    "operations": ".cards li",
    "events": ".log li",
    "delete": ".verdict-stop",
    "change": "textarea",
}
WIDEST = "return document.documentElement.scrollWidth"


def test_motion_stops_for_who_wants_none(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE)
    page.open("#/operations")
    page.one(".progress")
    moves = "return getComputedStyle(document.querySelector('.progress span')).transitionDuration"
    assert page.run(moves) == "0.25s"
    page.media(prefers_reduced_motion="reduce")
    assert page.run(moves) == "0s"


def test_all_can_be_reached_by_keyboard(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, composition("first A raw t1", "second A t1 t2"))
    page.open()
    page.job_is("first", "running")
    press(page, Keys.TAB)
    assert page.focus().text == "Skip to content"
    press(page, Keys.ENTER)
    assert page.focus().get_attribute("id") == "main"
    while page.focus().get_attribute("data-job") is None:
        press(page, Keys.TAB)
    assert page.focus().get_attribute("data-job") == "first"
    press(page, Keys.ARROW_RIGHT)
    assert page.focus().get_attribute("data-job") == "second"
    press(page, Keys.ENTER)
    page.one(".job-panel h2", "second")
    page.until(lambda: page.focus().text == "second", "the focus to be at the panel")
    press(page, Keys.ESCAPE)
    page.until(lambda: page.focus().get_attribute("data-job") == "second", "the focus to be back")
    assert page.all(".job-panel") == []


def test_a_change_is_planned_confirmed_and_applied_by_keyboard(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    page.open("#/change")
    page.one("textarea")

    def go_to(what: str) -> None:
        """Press the tabulator until the focus is on what has this text or this name of an element."""
        for _ in range(40):
            press(page, Keys.TAB)
            if what in (page.focus().text, page.focus().tag_name):
                return
        raise AssertionError(f"{what} cannot be reached: {page.focus().get_attribute('outerHTML')}")

    go_to("textarea")
    page.focus().send_keys(json.dumps(yaml.safe_load(composition("one A raw t1"))))
    go_to("Plan")
    press(page, Keys.ENTER)
    page.until(lambda: page.focus().text.startswith("Plan for demo"), "the focus to be at the plan")
    go_to("Apply 1 change …")
    press(page, Keys.ENTER)
    page.one("dialog", "Apply to demo?")
    press(page, Keys.ESCAPE)
    page.until(lambda: page.focus().text == "Apply 1 change …", "the focus to be where it was")
    press(page, Keys.ENTER)
    page.until(lambda: page.focus().text == "Back", "the focus to be in the dialog")
    press(page, Keys.ENTER)
    page.until(lambda: page.focus().text == "Apply 1 change …", "the focus to be where it was")
    press(page, Keys.ENTER)
    go_to("Apply")
    press(page, Keys.ENTER)
    page.sees("succeeded")
    assert page.focus().get_attribute("id") == "main"
    assert list(rest.world.where()) == ["one"]


def test_what_the_graph_shows_stands_in_words_too(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE)
    page.open()
    page.job_is("clean", "running")
    assert page.job("clean").get_attribute("aria-label").startswith("clean, running, site A")
    assert len(page.all("main")) == len(page.all("nav")) == len(page.all("h1")) == 1
    rows = [each.text for each in page.all(".jobs tbody tr")]
    assert [row.split()[0] for row in rows] == ["clean", "count", "join"]


# --- the graph


def test_filters_take_in_topics_as_the_standard_says(at: tuple[RestServer, Page]) -> None:
    _, page = at
    page.open("#/change")
    cases = [
        ("a/b", "a/b", True),
        ("a/b", "a/b/c", False),
        ("a/+", "a/b", True),
        ("a/+", "a", False),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("#", "a/b", True),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("+", "", True),
        ("a//b", "a//b", True),
    ]
    ask = (
        "const { fits } = await import('/dashboard/topology.js'); return given[0].map((one) => fits(...one));"
    )
    assert page.ask(ask, [case[:2] for case in cases]) == [fitting for _, _, fitting in cases]


@pytest.mark.parametrize("down", [False, True])
def test_nothing_lies_upon_anything_else(at: tuple[RestServer, Page], down: bool) -> None:
    _, page = at
    page.open("#/change")
    kinds = [("any", 1, 1), ("any", 4, 17), ("any", 1, 40), ("any", 25, 200)]
    kinds += [("fan", 1, 41), ("fan", 3, 41), ("circle", 1, 5), ("circle", 3, 7), ("itself", 2, 4)]
    for kind, sites, jobs in kinds:
        found = page.ask(script("layout"), kind, sites, jobs, down)
        assert found == {"jobs": jobs, "overlaps": [], "outside": [], "odd": []}, (kind, sites, jobs)


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("toward", ["out", "in"])
def test_no_line_to_another_site_passes_over_a_job(
    at: tuple[RestServer, Page], toward: str, down: bool
) -> None:
    _, page = at
    page.open("#/change")
    assert page.ask(script("crossings"), 7, toward, down) == {"edges": 28, "crossed": []}


def test_a_chosen_job_of_a_wide_graph_can_be_read(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(
        rest, composition(*(f"job-{number} A measured/{number} measured/{number + 1}" for number in range(8)))
    )
    page.open()
    page.job_is("job-7", "running")
    box = (
        "const at = (what) => document.querySelector(what).getBoundingClientRect();"
        "const [card, frame] = [at('[data-job=job-7] .card'), at('.frame')];"
        "return [card.width, card.left >= frame.left && card.right <= frame.right]"
    )
    page.until(lambda: page.run(box)[0] < 100, "all eight to be in sight")  # px
    page.click(".jobs button", "job-7")
    page.one(".job-panel h2", "job-7")
    page.until(lambda: page.run(box)[0] > 110, "the job to come near")
    page.until(lambda: page.run(box)[1], "the job to be in sight")
    page.click(".job-panel button", "✕")
    page.until(lambda: page.run(box)[0] < 100, "all to be in sight again")


def test_the_list_of_events_is_as_long_as_the_page(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    for number in range(6):
        deploy(rest, composition(*(f"job-{each} A raw t{number}-{each}" for each in range(6))))
    page.open("#/events")
    page.until(lambda: len(page.all("ol.log li")) > 40, "the events to be listed")
    hidden = "const list = document.querySelector('ol.log'); return list.scrollHeight - list.clientHeight;"
    assert page.run(hidden) <= 0  # no bar of its own
    page.open()
    page.click("[data-job=job-0]")
    page.click(".job-panel button", "Read the log")
    box = page.one("pre.log")
    assert box.value_of_css_property("max-height") != "none"


def test_the_policies_of_placements_fit_a_phone(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE)
    page.open("#/placement/demo", 390, 844)
    page.until(lambda: len(page.all("select option")) > 1, "the policies")
    assert page.run(WIDEST) <= 390


def test_a_phone_shows_the_name_of_the_view_and_whole_notes(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE)
    page.open("#/events", 390, 844)
    page.one("nav [aria-current]")
    right = "return document.querySelector('nav [aria-current]').getBoundingClientRect().right"
    page.until(lambda: page.run(right) <= 390, "the name of the view to be in sight")
    page.open("", 390, 844)
    page.one(".figure dd", "messages not yet processed")
    notes = "[...document.querySelectorAll('.figure dd')]"
    cut = f"return {notes}.filter((each) => each.scrollWidth > each.clientWidth).length"
    page.until(lambda: page.run(cut) == 0, "notes to be whole")
