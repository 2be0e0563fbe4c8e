"""The decisions of the adaptation loop over REST, its pause, and its part of the live view."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from speck.placement.profile import Known, LinkProfile, Value
from speck.server.api import live
from speck.server.tokens import Owner, Role, Tokens, digest
from speck.store.profiles import MeasuredLink
from testbed.benches.decisions import BAN, GROUP, HOLDING, STEP, deciding_server
from testbed.benches.placement import NOW
from testbed.servers.rest import RestServer

TOKENS = Tokens([Owner(role.value, role, digest(role.value.encode())) for role in Role])


@pytest.fixture(name="rest")
def rest_fixture(tmp_path: Path) -> Iterator[RestServer]:
    with deciding_server(tmp_path, TOKENS) as rest:
        yield rest


def ask(rest: RestServer, method: str, path: str, role: str = "write", **query: Any) -> requests.Response:
    headers = {"Authorization": f"Bearer {role}"}
    return requests.request(method, rest.url + path, params=query, headers=headers, timeout=30)


def test_reader_sees_every_decision_with_its_reason(rest: RestServer) -> None:
    shown = ask(rest, "GET", "/adapt/traffic", "read").json()
    assert (shown["mode"], shown["state"], shown["revision"]) == ("auto", "watching", 1)
    assert [each["decision"] for each in shown["entries"]] == ["hold", "step"]
    assert shown["last"] == shown["entries"][0]
    assert (shown["last"]["reason"], shown["last"]["repeated"]) == (HOLDING.reason, 12)
    (step,) = shown["steps"]
    assert (step["jobs"], step["outcome"], step["good"]) == (list(GROUP), "back", STEP.good)
    assert [(each["target"], each["until"]) for each in shown["bans"]] == [("A", BAN.until)]
    assert shown["steps_last_hour"] == shown["steps_last_day"] == 1


def test_all_compositions_are_listed_without_their_lists(rest: RestServer) -> None:
    data = ask(rest, "GET", "/adapt", "read").json()
    assert (data["enabled"], data["period"]) == (True, 60.0)
    (traffic,) = data["compositions"]
    assert (traffic["composition"], traffic["last"]["decision"]) == ("traffic", "hold")
    assert not {"entries", "steps", "bans"} & traffic.keys()


def test_a_writer_pauses_and_resumes(rest: RestServer) -> None:
    paused = ask(rest, "POST", "/adapt/traffic", pause=3600).json()
    assert (paused["state"], paused["paused_until"]) == ("paused", NOW + 3600)
    resumed = ask(rest, "POST", "/adapt/traffic", resume="true").json()
    assert (resumed["state"], resumed["paused_until"]) == ("watching", None)
    assert [each["reason"] for each in resumed["bans"]] == [BAN.reason]  # a pause forgives nothing


def test_a_reader_pauses_nothing(rest: RestServer) -> None:
    refused = ask(rest, "POST", "/adapt/traffic", "read", pause=3600)
    assert refused.status_code == 403
    assert ask(rest, "GET", "/adapt/traffic").json()["paused_until"] is None


WRONG_REQUESTS: list[tuple[dict[str, Any], str]] = [
    ({}, "pause=SECONDS"),
    ({"pause": 60, "resume": "true"}, "pause=SECONDS"),
    ({"resume": "false"}, "pause=SECONDS"),
    ({"pause": 0}, "greater than or equal to 1"),
    ({"pause": "nan"}, "not permitted"),
    ({"pause": 1e9}, "less than or equal to"),
    ({"pause": "soon"}, "Not a valid number"),
    ({"paus": 60}, "pause"),
]


def test_wrong_requests_change_nothing(rest: RestServer) -> None:
    for query, words in WRONG_REQUESTS:
        answer = ask(rest, "POST", "/adapt/traffic", **query)
        assert answer.status_code == 422
        assert words in answer.text
        assert ask(rest, "GET", "/adapt/traffic").json()["state"] == "watching"


def test_unknown_compositions_are_named(rest: RestServer) -> None:
    for method, query in (("GET", {}), ("POST", {"pause": 60})):
        answer = ask(rest, method, "/adapt/trafic", **query)
        assert answer.status_code == 404
        assert "'trafic'" in answer.json()["detail"]


def test_the_live_view_has_the_last_decision_and_the_links(rest: RestServer) -> None:
    found = followed(rest)
    assert found["placement", "traffic"]["last"]["reason"] == HOLDING.reason
    assert "entries" not in found["placement", "traffic"]
    assert found["link", "A D"]["bandwidth"]["known"] == "declared"


def test_the_live_view_of_many_sites_has_the_measured_links_alone(
    rest: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand sites there are a million."""
    monkeypatch.setattr(live, "LINKED_SITES", 3)
    load = Value(1000.0, Known.MEASURED, NOW, 3)
    measured = LinkProfile(source="B", target="D", round_trip=load, bandwidth=load, load=load)
    with rest.coordinator.deployments.store.transaction() as transaction:
        transaction.put_link("B", "D", MeasuredLink(passive=measured))
        transaction.put_link("B", "gone", MeasuredLink(passive=replace(measured, target="gone")))
    assert [name for kind, name in followed(rest) if kind == "link"] == ["B D"]


def followed(rest: RestServer) -> dict[tuple[str, str], Any]:
    """The items of the first event of the live view, by kind and name."""
    headers = {"Authorization": "Bearer read"}
    with requests.get(rest.url + "/live", headers=headers, stream=True, timeout=30) as answer:
        lines = (line for line in answer.iter_lines() if line.startswith(b"data: "))
        items = json.loads(next(lines)[6:])["items"]
    return {(kind, name): data for kind, name, data in items}
