"""The stream of what changes: what is told, to whom, and what it costs when nobody follows."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as some

from speck.core.inventory import Inventory
from speck.errors import StoreError
from speck.server.api import live
from speck.server.api.feed import Feed
from speck.server.api.live import Live, LiveSection, Watcher, lines
from speck.testing.waiting import eventually
from testbed.benches.examples import one_site
from testbed.servers.rest import RestServer, rest_server, yaml_of
from tests.server.requesting import YAML
from tests.support.properties import property_test

SITES = Inventory({"A": one_site("A", "sc://e1:15002", "tcp://b1:1883", slots=4)})

Values = dict[str, dict[str, int]]


def reported(feed: Feed, since: int) -> tuple[bool, dict[tuple[str, str], Any]]:
    news = feed.news(since)
    return news.whole, {(kind, name): data for kind, name, data in map(json.loads, news.items)}


# --- the feed


def test_who_knows_nothing_is_told_everything() -> None:
    feed = Feed()
    feed.put("job", {"a": 1, "b": 2})
    assert reported(feed, 0) == (True, {("job", "a"): 1, ("job", "b"): 2})


def test_who_knows_a_version_is_told_what_changed_after_it() -> None:
    feed = Feed()
    feed.put("job", {"a": 1, "b": 2})
    known = feed.version
    feed.put("job", {"a": 1, "c": 3})
    feed.put("site", {"a": 1})
    assert reported(feed, known) == (False, {("job", "b"): None, ("job", "c"): 3, ("site", "a"): 1})
    assert reported(feed, feed.version) == (False, {})


def test_what_is_as_it_was_is_no_news() -> None:
    feed = Feed()
    feed.put("job", {"a": {"x": 1}})
    known = feed.version
    feed.put("job", {"a": {"x": 1}})
    assert (feed.version, feed.wait(known, 0)) == (known, False)


def test_who_knows_too_little_begins_anew() -> None:
    feed = Feed(most_gone=2)
    feed.put("job", dict.fromkeys("abcd", 1))
    known = feed.version
    for names in ("bcd", "cd", "d"):
        feed.put("job", dict.fromkeys(names, 1))
    assert reported(feed, known) == (True, {("job", "d"): 1})
    assert reported(feed, feed.version + 1)[0]


@property_test
@given(
    some.lists(some.dictionaries(some.sampled_from("abc"), some.integers(0, 2)), max_size=12),
    some.integers(0, 3),
    some.lists(some.booleans(), min_size=12, max_size=12),
)
def test_however_often_one_looks_one_ends_with_what_is(
    states: list[dict[str, int]], most_gone: int, observations: list[bool]
) -> None:
    feed, seen, since = Feed(most_gone=most_gone), dict[tuple[str, str], Any](), 0
    for state, looked in zip(states, observations, strict=False):
        feed.put("job", state)
        if looked or state is states[-1]:
            news = feed.news(since)
            seen = {} if news.whole else seen
            seen |= {(kind, name): data for kind, name, data in map(json.loads, news.items)}
            since = news.version
    if states:
        retained = {key: data for key, data in seen.items() if data is not None}
        assert retained == {("job", name): data for name, data in states[-1].items()}


def test_lines_of_the_log_sort_as_they_came() -> None:
    events = [{"at": at, "kind": kind} for at, kind in ((9.5, "z"), (10.25, "b"), (10.25, "a"), (100.0, "c"))]
    found = lines(events)
    assert [found[name]["kind"] for name in sorted(found)] == ["z", "b", "a", "c"]


# --- the watcher


def test_what_cannot_be_looked_at_is_told_and_keeps_nothing_else() -> None:
    def fail() -> Any:
        raise StoreError("the store is gone")

    feed = Feed()
    watcher = Watcher(
        feed, [LiveSection("jobs", 60, fail), LiveSection("sites", 60, lambda: {"site": {"A": 1}})]
    )
    watcher.start()
    assert watcher.has_read.wait(60)
    watcher.end()
    watcher.join()
    assert reported(feed, 0)[1] == {("trouble-jobs", "jobs"): "the store is gone", ("site", "A"): 1}


def test_a_watcher_that_died_is_not_well(rest: RestServer) -> None:
    def end() -> Any:
        raise SystemExit("a defect")

    live: Live = rest.app.extensions["live"]
    rest.queries.operations.recent = end  # type: ignore[method-assign]
    assert live.enter()
    try:
        eventually(live.faults, bool)
        answer = requests.get(f"{rest.url}/healthz", timeout=60)
        expected = "the live operations thread died: SystemExit('a defect')"
        assert (answer.status_code, answer.json()["detail"]) == (503, expected)
    finally:
        live.leave()
    assert requests.get(f"{rest.url}/healthz", timeout=60).ok  # the next follower begins anew


# --- over HTTP


@contextlib.contextmanager
def following(rest: RestServer, last: str = "") -> Iterator[Iterator[dict[str, Any]]]:
    """The events of a stream, each with its ``id``."""
    headers = {"Last-Event-ID": last} if last else {}
    with requests.get(f"{rest.url}/live", headers=headers, stream=True, timeout=60) as answer:
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        yield _events(answer)


def _events(answer: requests.Response) -> Iterator[dict[str, Any]]:
    identifier = ""
    for line in answer.iter_lines(chunk_size=1):
        if line.startswith(b"id: "):
            identifier = line[4:].decode()
        elif line.startswith(b"data: "):
            yield json.loads(line[6:]) | {"id": identifier}


def gather(events: Iterator[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """Events up to the one that tells of this item; that event, with the item's data as ``found``."""
    for event in events:
        for each, called, data in event["items"]:
            if (each, called) == (kind, name):
                return event | {"found": data}
    raise AssertionError(f"the stream ended without {kind} {name}")


def apply(rest: RestServer, *jobs: str) -> dict[str, Any]:
    answer = requests.post(
        f"{rest.url}/compositions",
        data=yaml_of(*jobs),
        params={"name": "demo", "wait": 60},
        headers=YAML,
        timeout=90,
    )
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_all_is_told_first_and_then_what_changes(tmp_path: Path) -> None:
    with rest_server(tmp_path, SITES) as rest:
        for _ in range(2):  # the second time the job is observed
            apply(rest, "a t0 t1")
        with following(rest) as events:
            first = next(events)
            kinds = {kind for kind, _, _ in first["items"]}
            assert first["whole"] is True
            assert {"job", "composition", "operation", "action", "event", "site"} <= kinds
            reach = gather(chain([first], events), "reach", "A")["found"]
            assert reach["broker"]["reached"] is True
            operation = apply(rest, "a t0 t1", "b t1 t2")
            event = gather(events, "job", "b")
            assert (event["whole"], event["found"]["composition"]) == (False, "demo")
            reported = [each for each in event["items"] if each[0] == "job"]
            assert [name for _, name, _ in reported] == ["b"]
        with following(rest) as events:
            assert gather(events, "action", f"{operation['id']} b")["found"]["state"] == "done"


def test_a_broken_stream_is_taken_up_where_it_was(tmp_path: Path) -> None:
    with rest_server(tmp_path, SITES) as rest:
        for _ in range(2):
            apply(rest, "a t0 t1", "b t1 t2")
        with following(rest) as events:
            last = gather(events, "reach", "A")["id"]
        apply(rest, "a t0 t1")
        with following(rest, last) as events:
            event = next(events)
            assert event["whole"] is False
            seen = {name: data for kind, name, data in event["items"] if kind == "job"}
            while "b" not in seen:
                seen |= {name: data for kind, name, data in next(events)["items"] if kind == "job"}
            assert seen == {"b": None}
        for strange in ("other-3", f"{last}0000", "x", f"{last.split('-')[0]}-²"):
            with following(rest, strange.encode("utf-8").decode("latin-1")) as events:
                assert next(events)["whole"] is True


def test_too_many_are_refused_and_a_place_is_free_again(
    rest: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "BEAT", 0.05)  # who went away is noticed at the next word
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(following(rest)) for _ in range(live.MOST)]  # held, so that none ends
        for each in streams:
            next(each)
        refused = requests.get(f"{rest.url}/live", timeout=60, stream=True)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "10")
        assert refused.headers["Content-Type"] == "application/problem+json"
        assert requests.get(f"{rest.url}/jobs", timeout=60).status_code == 200
    while status_of_live(rest) != 200:
        pass


def status_of_live(rest: RestServer) -> int:
    with requests.get(f"{rest.url}/live", timeout=60, stream=True) as answer:
        return answer.status_code


def test_a_silent_time_is_filled_with_the_time(rest: RestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "BEAT", 0.05)
    with following(rest) as events:
        first = next(events)
        empty = next(each for each in events if not each["items"])
    assert empty["now"] >= first["now"]


def test_nothing_is_looked_at_while_nobody_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "BEAT", 0.05)
    with rest_server(tmp_path, SITES) as rest:
        apply(rest, "a t0 t1")
        assert watchers() == []
        with following(rest) as events:
            gather(events, "reach", "A")
            assert watchers() == ["live operations", "live sites"]
        while watchers():
            time.sleep(0.01)
        asked = rest.world.counts()["capacity"]
        with following(rest) as events:
            next(events)
            while rest.world.counts()["capacity"] == asked:
                time.sleep(0.01)


def watchers() -> list[str]:
    return sorted(each.name for each in threading.enumerate() if each.name.startswith("live "))


def test_a_stream_ends_with_the_server(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        with rest_server(tmp_path) as rest:
            events = stack.enter_context(following(rest))
            next(events)
        for _ in events:
            pass
