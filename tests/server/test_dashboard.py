"""The dashboard's changes and views, in a real browser, over the real server and engines in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.by import By

from speck.client import Client
from speck.core.inventory import Inventory
from speck.core.live_inventory import LiveInventory
from speck.errors import Rejected
from speck.server.api import live
from speck.server.tokens import Owner, Role, TokenFile, Tokens, add_owner, digest
from speck.testing.wire_trouble import Relay
from testbed.servers.chromium import Page
from testbed.servers.rest import RestServer, rest_server
from tests.support.dashboards import (
    SITES,
    THREE,
    composition,
    confirm,
    dashboard,
    deploy,
    enter,
    fail,
    observe,
    paste,
    script,
)

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytestmark = pytest.mark.engine

MARKUP = "<img src=x onerror='window.broken=1'>"


# --- what is changed


def test_a_pasted_composition_is_planned_confirmed_and_runs(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    page.open()
    page.sees("Nothing is deployed yet")
    page.click("a", "Change")
    paste(page, THREE)
    page.sees("3 start")
    for name in ("clean", "count", "join"):
        page.job_is(name, "verdict-start")
    assert rest.world.where() == {}
    confirm(page, "Apply 3 changes")
    page.sees("succeeded")
    assert rest.world.where() == {
        "clean": "sc://a.example:15002",
        "count": "sc://a.example:15002",
        "join": "sc://b.example:15002",
    }
    observe(rest)
    page.click("nav a", "Graph")
    for name in ("clean", "count", "join"):
        page.job_is(name, "running")
    page.sees("demo\nrevision 1 · 3 jobs at 2 sites")
    assert page.complaints() == []


def test_an_edit_shows_each_verdict_and_touches_only_what_changed(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, composition("keep A raw t1", "update A raw t2", "move A raw t3", "stop A raw t4"))
    before = len(rest.world.changes())
    page.open("#/change")
    paste(
        page,
        composition("keep A raw t1", "update A raw t2 parallelism: 2", "move B raw t3", "start B raw t5"),
    )
    for name in ("keep", "update", "move", "stop", "start"):
        page.job_is(name, f"verdict-{name}")
    page.one(".changes", "parallelism")
    page.one(".changes del", "none")
    page.one(".changes ins", "2")
    shown = page.one(".plan").text
    assert "sc://a.example:15002" in shown
    assert "sc://b.example:15002" in shown
    page.sees("1 job is unchanged")
    confirm(page, "Apply 4 changes")
    page.sees("succeeded")
    assert rest.world.where() == {
        "keep": "sc://a.example:15002",
        "update": "sc://a.example:15002",
        "move": "sc://b.example:15002",
        "start": "sc://b.example:15002",
    }
    assert "keep" not in {name for _, _, name in rest.world.changes()[before:]}
    assert page.complaints() == []


def test_changed_code_is_shown_by_its_lines(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, composition("one A raw t1"))
    (rest.root / "work.py").write_text("def work(messages):\n    return messages or None\n")
    page.open("#/change")
    paste(page, composition("one A raw t1"))
    page.sees("work.py: `work` changed (1 line)")
    page.one(".code-change .removed", "-    return messages")
    page.one(".code-change .added", "+    return messages or None")
    assert "code_hash" not in page.one(".plan").text
    confirm(page, "Apply 1 change")
    page.sees("succeeded")
    page.open("#/history/demo")
    page.one(".action", "work.py: `work` changed (1 line)")
    page.one(".code-change .added", "+    return messages or None")
    assert page.complaints() == []


def test_code_is_added_to_a_pasted_composition(at: tuple[RestServer, Page], tmp_path: Path) -> None:
    rest, page = at
    (code := tmp_path / "sent.py").write_text("def work(messages):\n    return messages\n")
    (other := tmp_path / "other.py").write_text("")
    page.open("#/change")
    paste(page, composition("one A raw t1").replace("work.py", "jobs/sent.py"))
    page.one(".trouble", "jobs/sent.py")
    page.all("input[type=file]")[1].send_keys(f"{code}\n{other}")
    page.one(".code-file", "jobs/sent.py")
    page.one(".code-file", "does not match any job_path")
    code.write_text("rubbish(")  # what was added goes
    page.click("form button", "Plan")
    page.sees("1 start")
    confirm(page, "Apply 1 change")
    page.sees("succeeded")
    assert set(rest.world.where()) == {"one"}
    (refused,) = page.complaints()
    assert "422" in refused
    page.open("#/change")
    page.one("textarea")
    assert page.all(".code-file") == []


def test_a_plan_that_somebody_overtook_is_refused(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    page.open("#/change")
    paste(page, THREE)
    page.sees("3 start")
    deploy(rest, composition("other A raw t1"))
    confirm(page, "Apply 3 changes")
    page.sees("The composition changed after this plan was made")
    assert set(rest.world.where()) == {"other"}


def test_faults_of_a_file_lead_to_their_line(at: tuple[RestServer, Page], tmp_path: Path) -> None:
    _, page = at
    (file := tmp_path / "picked.yaml").write_text(THREE.partition("\n")[2])
    page.open("#/change")
    page.one("textarea")
    picked = page.all("input[type=file]")[0]
    picked.send_keys(str(file))
    page.click("form button", "Plan")
    page.one("h2", "Plan for picked")
    file.write_text(THREE.replace("site: B", "site: Nowhere"))
    picked.send_keys(str(file))  # the same one again
    page.until(lambda: not page.all(".plan"), "the plan of before to go")
    page.click("form button", "Plan")
    page.sees("Nowhere")
    page.click(".trouble button", "line 16")
    chosen = (
        "const a = document.querySelector('textarea'); return a.value.slice(a.selectionStart, a.selectionEnd)"
    )
    assert page.run(chosen) == "  site: Nowhere"


def test_a_loss_marks_its_job_and_a_repetition_does_not(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE)
    losses = rest.services.queries.losses
    losses.record_sample(
        "demo", "clean", "copy", {"lostMessages": 390, "redeliveryGivenUp": 390, "duplicatesDropped": 7}
    )
    losses.record_sample("demo", "count", "copy", {"duplicatesDropped": 12})
    page.open()
    page.job_is("clean", "lost messages")
    page.job_is("count", "running")
    assert "clean" in page.one(".wrong .chip", "running, lost messages").text
    assert "count" not in page.one(".wrong").text
    page.click("[data-job=clean]")
    page.one(".job-panel .notice", "390 messages discarded: the broker did not deliver them again")
    page.one(".job-panel .facts", "7 messages dropped as duplicates")
    page.click("nav a", "Events")
    page.one(".log .badge.tone-bad", "lost")
    page.one(".log .badge.tone-still", "repeated")
    assert page.complaints() == []


def test_a_job_of_a_split_shows_it(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, composition("hot A raw t1 key_split: {combiners: [A, B], window: 1 minute}"))
    watch = rest.services.queries.splits
    watch.refresh()
    watch.round()
    watch.round()
    fields = '"rows": 90, "busy": 0.1, "wall": 0.1, "faults": {"late": 3}, "loads": [60, 30], "hot": 4'
    report = f'{{{fields}, "true_hot": 1, "shared_keys": 2, "weights": [0.5, 0.5]}}'
    for address in rest.world.brokers:
        rest.world.publish(address, "speck/split/hot/report/partitioner", b"\xff" + report.encode())
    watch.round()
    now = watch.clock()
    watch.clock = lambda: now + 10
    watch.round()
    page.open()
    page.click("[data-job='hot.combiner-0']")
    page.click(".split-fold summary")
    page.one(".split-fold", "balanced, fixed weights, 2 combiners")
    page.one(".split-fold", "4 hot, 1 of them split, 2 shared")
    page.one(".split-fold", "3 late rows, 0 bad rows, 0 lost frames")
    page.one(".split-fold", "share 50.0%")
    assert page.complaints() == []


def test_a_failure_is_shown_where_it_is(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    rest.world.fail("submit", Rejected("a.example has no such class", address="a"), name="count", times=None)
    page.open("#/change")
    paste(page, THREE)
    confirm(page, "Apply 3 changes")
    page.sees("a.example has no such class")
    page.one(".action .badge", "failed")
    page.click("nav a", "Graph")
    observe(rest)
    page.one(".strip", "failed")
    page.job_is("clean", "running")
    page.click("[data-job=count]")
    page.one(".job-panel .notice", "a.example has no such class")


def test_a_rollback_brings_the_former_form_back(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, composition("one A raw t1"), "the first")
    deploy(rest, composition("one A raw t1 parallelism: 3", "two B raw t2"), "more of it")
    page.open("#/history/demo")
    page.one(".revisions li", "more of it")
    page.one(".action", "parallelism")
    page.one(".action", "two")
    page.click(".revisions li button", "Roll back")
    page.job_is("two", "verdict-stop")
    page.job_is("one", "verdict-update")
    confirm(page, "Apply 2 changes")
    page.sees("succeeded")
    assert set(rest.world.where()) == {"one"}
    page.click("nav a", "History")
    page.one(".revisions li", "rollback to revision 1")


def test_a_composition_is_deleted_after_saying_what_stops(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE)
    page.open()
    page.click("h1 a", "Delete")
    page.sees("3 stop")
    for name in ("clean", "count", "join"):
        page.job_is(name, "verdict-stop")
    page.click(".plan .panel-head button", "Delete")
    page.one(
        "dialog .destroys li", "join is permanently stopped; its state and unprocessed messages are deleted"
    )
    deploy(rest, composition("clean A raw clean"))
    page.click("dialog button", "Delete")
    page.sees("The composition changed after this plan was made")
    assert set(rest.world.where()) == {"clean"}
    page.click("dialog button", "Back")
    page.click("button", "Plan again")
    page.sees("1 stop")
    confirm(page, "Delete", "Delete")
    # The page tells of the apply before, too, that it has succeeded.
    page.until(lambda: not rest.world.where(), "the end of all jobs")
    page.click("nav a", "Graph")
    page.sees("Nothing is deployed yet")


# --- what is seen


def test_operations_of_before_the_start_are_listed_as_far_back_as_they_go(
    tmp_path: Path, chrome: Chrome
) -> None:
    with dashboard(tmp_path, chrome) as (rest, _):
        for number in range(26):
            deploy(rest, composition(f"one A raw t{number}"), f"edit {number}.")
    with dashboard(tmp_path, chrome) as (rest, page):
        deploy(rest, composition("two B raw t1", name="other"), "the newest")
        page.open("#/operations")
        page.one(".cards li", "the newest")
        page.one(".cards li", "edit 25.")
        assert len(page.all(".cards li")) == 24
        page.click("button", "Show older operations")
        page.one(".cards li", "edit 0.")
        assert len(page.all(".cards li")) == 27
        page.until(lambda: not page.all("main .row button"), "nothing older to be offered")
        deploy(rest, composition("two B raw t2", name="other"), "newer still")
        page.one(".cards li", "newer still")
        assert len(page.all(".cards li")) == 28
        page.all(".cards a")[-1].click()
        page.one(".action", "new in the composition")


def test_a_page_beyond_the_limit_asks_now_and_then_until_there_is_room(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE, "the first")
    live = rest.app.extensions["live"]
    live.most = 0
    page.open()
    page.one(".live", "every 5 s")
    assert "0 clients are connected, which is the limit" in str(page.one(".live").get_attribute("title"))
    page.job_is("clean", "running")
    page.until(
        lambda: [each.text for each in page.all(".site-name")] == ["A", "B"], "jobs to lie at their sites"
    )
    fail(rest, "clean", "out of memory")
    page.job_is("clean", "failed")
    page.click("nav a", "Sites")
    page.one(".cards li", "Uplink: 10 Mbit/s, 20 ms one way")
    page.click("nav a", "Operations")
    page.click(".cards a", "apply of demo, revision 1")
    page.one(".action", "new in the composition")
    page.click("nav a", "Events")
    page.until(lambda: page.all(".log li"), "the events to be listed")
    lines = len(page.all(".log li"))
    live.most = 1
    page.run("window.dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")  # back at it
    page.one(".live", "live")
    assert len(page.all(".log li")) == lines  # none is told twice
    said = page.one("[aria-live]").get_attribute("textContent")
    assert "connection lost" not in str(said)


def test_what_changes_is_shown_without_a_reload(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE)
    page.open()
    page.job_is("clean", "running")
    page.run("window.same = true")
    fail(rest, "clean", "out of memory")
    page.job_is("clean", "failed")
    page.until(
        lambda: "clean failed" in page.one("[aria-live]").get_attribute("textContent"), "it to be said"
    )
    page.click("[data-job=clean]")
    page.one(".job-panel", "out of memory")
    deploy(rest, composition("clean A raw clean", "count A clean counts", "late B clean-b all"))
    page.job_is("late", "running")
    page.until(lambda: not page.all("[data-job=join]"), "the stopped job to go")
    deploy(rest, composition("other A raw t1", name="another"))
    page.run("location.hash = '#/graph/demo'")
    page.click("[data-job=late]")
    page.one(".job-panel", "late")
    rest.client.delete_composition("demo", wait=60)
    page.sees("Composition demo not found")
    page.run("location.hash = '#/history/demo'")
    page.sees("Deleted compositions")
    assert page.run("return window.same") is True


def test_a_connection_that_died_while_the_computer_slept_is_made_anew(
    at: tuple[RestServer, Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "BEAT", 0.2)
    rest, page = at
    deploy(rest, THREE)
    with Relay(rest.port) as relay:
        through = Page(page.chrome, f"http://127.0.0.1:{relay.port}")
        through.open()
        through.job_is("clean", "running")
        relay.delay = 60.0
        assert relay.delayed.wait(60)  # what was told now has not come, and nobody says so
        relay.delay = 0
        fail(rest, "clean", "out of memory")
        through.run("const real = Date.now; Date.now = () => real() + 3_600_000")
        through.job_is("clean", "failed")
        why = through.ask("return (await import('/dashboard/world.js')).world.why")
        assert why == "reconnecting"  # and not that nothing was heard for long
        # Ages are told by the server's clock, also while it is the reader's that is wrong.
        observed = through.one(".jobs tbody tr", "clean").find_elements(By.TAG_NAME, "td")[-1].text
        assert "min" not in observed
        assert " h " not in observed


def test_who_comes_back_several_times_at_once_follows_once(
    at: tuple[RestServer, Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "BEAT", 0.1)  # who went away is noticed at the next word
    rest, page = at
    page.open()
    page.one(".live", "live")
    page.run(script("watch_following"))
    reported = page.run("return window.asked()")
    back = "dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }));"
    page.run(3 * back)
    page.until(lambda: page.run("return window.asked()") >= reported + 3, "it to ask again")
    deploy(rest, composition("late B raw all"))
    page.job_is("late", "running")
    following = rest.app.extensions["live"]
    following.most = 2
    page.until(lambda: following.enter() and following.leave() is None, "room for a second one")


def test_a_stream_that_falls_silent_is_given_up(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    with Relay(rest.port, delay=0) as relay:
        through = Page(page.chrome, f"http://127.0.0.1:{relay.port}")
        through.open("#/change")
        through.one(".live", "live")
        relay.delay = 60.0
        ask = (
            "const { stream } = await import('/dashboard/rest.js');"
            "await stream('/live', '', () => {}, new AbortController().signal, 300);"
        )
        assert "AbortError" in through.ask(ask)


def test_another_store_behind_the_same_address_is_shown_as_it_is(tmp_path: Path, chrome: Chrome) -> None:
    with rest_server(tmp_path / "other", SITES) as other:
        deploy(other, composition("one B raw t2"), "of the other store")
    with rest_server(tmp_path / "one", SITES) as rest:
        page = Page(chrome, rest.url)
        deploy(rest, composition("one A raw t1"), "of the one store")
        page.open("#/history/demo")
        page.one(".revisions li", "of the one store")
        page.run("window.same = true")
    with rest_server(tmp_path / "other", SITES, port=rest.port, world=other.world):
        page.one(".revisions li", "of the other store")
        page.click("nav a", "Operations")
        page.one(".cards li", "of the other store")
        assert "of the one store" not in page.text()
        assert page.run("return window.same") is True
        chrome.get("about:blank")


def test_sites_tell_what_is_in_reach_and_how_much_room_there_is(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE)
    rest.world.down("sc://b.example:15002")
    inventory = rest.coordinator.inventory
    assert isinstance(inventory, LiveInventory)
    inventory.replace(Inventory({**inventory.sites, "B": replace(inventory.sites["B"], agent=True)}))
    page.open("#/sites")
    page.one(".cards li", "2 of 8 slots used")
    page.one(".cards li .notice", "sc://b.example:15002 cannot be reached")
    page.one(".cards li .notice", "Agent away: the jobs here continue, and changes wait.")


def test_the_log_tells_who_and_why(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE, "because of the rain")
    page.open("#/events")
    page.one(".log li", "because of the rain")
    page.one("input[type=search]").send_keys("join")
    page.until(lambda: all("join" in each.text for each in page.all(".log li")), "the log to be filtered")
    assert page.all(".log li")


def test_the_jobs_of_a_split_share_a_frame_at_each_site(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    block = "key_split: {combiners: [A, B, B], window: 1 minute}"
    deploy(rest, composition(f"hot A readings out {block}"))
    page.open()
    page.until(lambda: page.run("return document.querySelectorAll('.split').length") == 2, "a frame a site")
    titles = page.run("return [...document.querySelectorAll('.split text')].map(t => t.textContent)")
    assert titles == ["hot: split"] * 2
    assert sorted(map(sorted, page.run(script("split_frames")))) == [
        ["hot.combiner-0", "hot.partitioner", "hot.reducer"],
        ["hot.combiner-1", "hot.combiner-2"],
    ]
    # A job that is none of the split's is in no frame, wherever it lies.
    deploy(rest, composition(f"hot A readings out {block}", "other B more others", "near A out last"))
    page.job_is("near", "running")
    framed = [name for names in page.run(script("split_frames")) for name in names]
    assert len(framed) == 5
    assert all(name.startswith("hot.") for name in framed)


def test_markup_in_names_is_text(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    quoted = MARKUP.replace("'", "''")
    deploy(
        rest,
        composition(
            "one A raw mark",
            f"two A raw other labels: {{why: '{quoted}'}}; arguments: {{pattern: '{quoted}'}}",
        ).replace("sink_topic: mark", f"sink_topic: '{quoted}'"),
        MARKUP,
    )
    fail(rest, "two", MARKUP)
    page.open()
    page.job_is("two", "failed")
    page.click("[data-job=two]")
    page.one(".job-panel .words", MARKUP)
    page.one(".job-panel .facts", MARKUP)
    for view in ("#/history/demo", "#/events", "#/operations"):
        page.open(view)
        page.sees(MARKUP)
    assert page.run("return window.broken ?? null") is None
    assert page.all("img[src=x]") == []
    assert page.complaints() == []


def test_only_what_changed_is_drawn_again(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    jobs = [f"job-{number} {'AB'[number % 2]} t{number} t{number + 2}" for number in range(12)]
    deploy(rest, composition(*jobs))
    page.open()
    for number in range(12):
        page.job_is(f"job-{number}", "0/s in")  # what its engine tells has come
    page.run(script("watch_drawing"))
    fail(rest, "job-3")
    page.job_is("job-3", "failed")
    assert page.run("return [...window.drawn].filter(Boolean)") == ["job-3"]


# --- who may see it


def test_the_token_is_asked_for_and_kept_in_the_tab(tmp_path: Path, chrome: Chrome) -> None:
    with dashboard(tmp_path, chrome, "right") as (_, page):
        page.open()
        page.one("dialog", "Sign in")
        enter(page, "wrong")
        page.sees("Invalid token")
        enter(page, "right")
        page.sees("Nothing is deployed yet")
        page.sees("live")
        session, local, where, cookies = page.run(
            "return [sessionStorage, localStorage].map(JSON.stringify).concat(location.href, document.cookie)"
        )
        assert "right" in session
        assert "right" not in local + where + cookies
        page.open("#/change")
        paste(page, THREE)
        page.sees("3 start")
        page.run("sessionStorage.clear()")


def test_who_may_only_read_is_offered_nothing_that_is_refused(tmp_path: Path, chrome: Chrome) -> None:
    owners = (("anna", Role.WRITE), ("screen", Role.READ))
    tokens = Tokens([Owner(name, role, digest(name.encode())) for name, role in owners])
    with dashboard(tmp_path, chrome, tokens) as (rest, page):
        writer = Client(rest.url, "anna")
        for text in (THREE, composition("clean A raw clean")):
            assert writer.apply(text.encode(), "demo", wait=60)["state"] == "succeeded"
        page.open()
        enter(page, "screen")
        page.one(".head", "read-only")
        page.complaints()  # of the request without a token
        page.job_is("clean", "clean")
        assert [each.text for each in page.all("a.button, .title a")] == []
        page.open("#/history/demo")
        page.one(".reader", "A rollback requires a token with write access; that of screen is read-only.")
        page.one(".revisions li", "current")
        assert page.all(".revisions button") == []
        for view in ("#/delete/demo", "#/change"):
            page.open(view)
            page.one(".reader", "requires a token with write access")
            assert page.all("main form, .plan, textarea") == []
        page.click(".reader button", "Use another token")
        enter(page, "anna")
        page.one("textarea")
        page.one(".head a", "Change")
        assert page.complaints() == []
        page.run("sessionStorage.clear()")


def test_a_token_that_gets_another_role_or_is_withdrawn_is_noticed(
    tmp_path: Path, chrome: Chrome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "CHECK", 0.1)
    path = tmp_path / "tokens"
    add_owner(path, Owner("anna", Role.WRITE, digest(b"anna")))
    with dashboard(tmp_path, chrome, TokenFile(path)) as (_, page):
        page.open("#/change")
        enter(page, "anna")
        page.one("textarea")
        path.write_text(path.read_text().replace("write", "read"))
        page.one(".reader", "that of anna is read-only")
        path.write_text(path.read_text().replace("read", "write"))
        page.one("textarea")
        path.write_text(path.read_text().replace("anna", "ben").replace(digest(b"anna"), digest(b"ben")))
        page.one("dialog", "Invalid token")
        enter(page, "ben")
        page.one(".live", "live")
        page.run("sessionStorage.clear()")


def test_a_browser_that_keeps_nothing_shows_the_page_all_the_same(at: tuple[RestServer, Page]) -> None:
    rest, page = at
    deploy(rest, THREE)
    with page.before_all(
        "const refuse = { get() { throw new DOMException('denied', 'SecurityError'); } };"
        "for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, refuse);"
    ):
        page.open()
        page.job_is("clean", "running")
        page.click("#face")
        assert page.complaints() == []


def test_the_page_keeps_others_out(at: tuple[RestServer, Page]) -> None:
    _, page = at
    page.open("#/change")
    page.one("h1")
    page.complaints()
    page.run(
        "const made = document.createElement('script'); made.textContent = 'window.let = 1';"
        "document.head.append(made)"
    )
    page.run("const i = new Image(); i.src = 'http://127.0.0.2:9/x.png'; document.body.append(i)")
    assert page.run("return window.let ?? null") is None
    said: list[str] = []

    def refused() -> bool:
        said.extend(each for each in page.complaints() if "Content Security Policy" in each)
        return len(said) >= 2

    page.until(refused, "the policy to speak")
    source = page.run("return document.documentElement.outerHTML")
    assert " style=" not in page.run("return (async () => (await fetch('/')).text())()")
    assert "https://" not in source
