"""Whether everybody can read the dashboard: little width, both faces, keyboard, screen reader, many jobs."""

from __future__ import annotations

import pytest
from selenium.webdriver import Keys

from tests.chromium import Page
from tests.dashboards import THREE, composition, deploy, script
from tests.rest_server import RestServer


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
    page.click(".jobs button", "count")
    page.one(".job-panel h2", "count")


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


@pytest.mark.parametrize("face", ["light", "dark"])
def test_text_stands_out_from_its_ground(at: tuple[RestServer, Page], face: str) -> None:
    _, page = at
    page.media(prefers_color_scheme=face)
    page.open("#/change")
    page.one("h1")
    grounds = {
        "ink": ("ground", "surface", "raised"),
        "quiet": ("ground", "surface", "raised"),
        "accent": ("surface",),
        "accent-ink": ("accent",),
    }
    grounds |= {
        tone: ("surface", f"{tone}-soft") for tone in ("good", "busy", "warn", "bad", "move", "still")
    }
    pairs = [(text, ground) for text, found in grounds.items() for ground in found]
    faint = page.run(script("contrast"), [list(pair) for pair in pairs])
    assert [each for each in faint if each[2] < 4.5] == []  # WCAG 2.2, 1.4.3
    assert len(faint) == len(pairs)


def test_all_can_be_reached_by_keyboard(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, composition("first A raw t1", "second A t1 t2"))
    page.open()
    page.job_is("first", "running")
    press(page, Keys.TAB)
    assert page.focus().text == "To the content"
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


def press(page: Page, key: str) -> None:
    page.focus().send_keys(key)


def test_what_the_graph_shows_stands_in_words_too(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE)
    page.open()
    page.job_is("clean", "running")
    assert page.job("clean").get_attribute("aria-label").startswith("clean, running, site A")
    assert len(page.all("main")) == len(page.all("nav")) == len(page.all("h1")) == 1
    rows = [each.text for each in page.all(".jobs tbody tr")]
    assert [row.split()[0] for row in rows] == ["clean", "count", "join"]
    assert page.run(script("unnamed")) == []


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
@pytest.mark.parametrize(("sites", "jobs"), [(1, 1), (4, 17), (1, 40), (25, 500)])
def test_nothing_lies_upon_anything_else(
    at: tuple[RestServer, Page], sites: int, jobs: int, down: bool
) -> None:
    _, page = at
    page.open("#/change")
    assert page.ask(script("layout"), sites, jobs, down) == {
        "jobs": jobs,
        "overlaps": [],
        "outside": [],
        "odd": [],
    }


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("toward", ["out", "in"])
def test_no_line_to_another_site_passes_over_a_job(
    at: tuple[RestServer, Page], toward: str, down: bool
) -> None:
    _, page = at
    page.open("#/change")
    assert page.ask(script("crossings"), 7, toward, down) == {"edges": 28, "crossed": []}
