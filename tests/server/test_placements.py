"""Placements over REST."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from speck.coordinator.retained_plans import LIFETIME
from speck.server.tokens import Owner, Role, Tokens, digest
from testbed.benches.placement import NOW, ROAD_TRAFFIC, Profiler, inventory, kinds
from testbed.doubles.world import World
from testbed.servers.rest import RestServer, rest_server, yaml_of

TOKENS = Tokens([Owner(role.value, role, digest(role.value.encode())) for role in Role])


@dataclass
class Bench:
    """A server with tokens ``read`` and ``write``; ``now`` is its clock."""

    rest: RestServer
    now: float = NOW

    def ask(self, method: str, path: str, role: str = "write", **query: Any) -> requests.Response:
        body = query.pop("body", None)
        headers = {"Authorization": f"Bearer {role}", "Content-Type": "application/yaml"}
        url = self.rest.url + path
        return requests.request(method, url, params=query, data=body, headers=headers, timeout=30)

    def advise(self, **query: Any) -> dict[str, Any]:
        answer = self.ask("POST", "/placements", composition="traffic", **query)
        assert answer.status_code == 200, answer.text
        data: dict[str, Any] = answer.json()
        return data


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path) -> Iterator[Bench]:
    world = World()
    bench = Bench(None)  # type: ignore[arg-type]
    with rest_server(
        tmp_path,
        inventory(),
        TOKENS,
        world=world,
        registry=kinds(world),
        inputs=Profiler(),
        clock=lambda: bench.now,
    ) as bench.rest:
        proposed = bench.ask("POST", "/placements", policy="cloud", body=ROAD_TRAFFIC).json()
        accepted = bench.ask("POST", f"/placements/{proposed['id']}/accept", wait=30)
        assert accepted.json()["state"] == "succeeded"
        yield bench


def test_reader_sees_proposals_and_accepts_none(bench: Bench) -> None:
    assert bench.ask("POST", "/placements", "read", composition="traffic").status_code == 403
    proposed = bench.advise()
    assert proposed["plan"]["counts"]["move"] == 6
    listed = bench.ask("GET", "/placements", "read").json()
    assert [each["state"] for each in listed] == ["open", "accepted"]
    assert bench.ask("GET", f"/placements/{proposed['id']}", "read").json() == proposed
    calls = bench.rest.world.changes()
    refused = bench.ask("POST", f"/placements/{proposed['id']}/accept", "read")
    assert refused.status_code == 403
    assert bench.rest.world.changes() == calls
    assert bench.ask("POST", "/jobs/clean-a/pin", "read").status_code == 403


def test_lines_of_code_in_proposals_are_for_the_role_write(bench: Bench) -> None:
    """A reader sees the changed functions, as in the differences between revisions."""
    text = yaml_of("solo in out")
    work = bench.rest.root / "work.py"
    assert bench.ask("POST", "/compositions", name="solo", wait=30, body=text).json()["state"] == "succeeded"
    work.write_text("def work(messages):\n    secret_line = 7\n    return messages\n")
    proposed = bench.ask("POST", "/placements", composition="solo", body=text)
    assert "secret_line" in proposed.text
    for path in ("/placements", f"/placements/{proposed.json()['id']}"):
        assert "secret_line" in bench.ask("GET", path).text
        seen = bench.ask("GET", path, "read").text
        assert "`work` changed (1 line)" in seen
        assert "secret_line" not in seen
    accepted = bench.ask("POST", f"/placements/{proposed.json()['id']}/accept", wait=30).json()
    assert accepted["state"] == "succeeded"
    shown = ("diff", "revisions", "revisions/2")
    paths = (f"/operations/{accepted['id']}", "/jobs/solo", *(f"/compositions/solo/{each}" for each in shown))
    for path in (*paths, "/operations", "/events", "/jobs", "/compositions", "/placements"):
        found = bench.ask("GET", path, "read")
        assert found.ok and "secret_line" not in found.text, path


def test_accepted_proposal_is_an_operation(bench: Bench) -> None:
    proposed = bench.advise()
    answer = bench.ask("POST", f"/placements/{proposed['id']}/accept", wait=30)
    assert (answer.status_code, answer.json()["state"]) == (200, "succeeded")
    assert answer.json()["author"] == "write"
    assert answer.json()["message"] == f"placement {proposed['id']}, policy {proposed['policy']}"
    again = bench.ask("POST", f"/placements/{proposed['id']}/accept")
    assert again.status_code == 409
    shown = bench.ask("GET", f"/placements/{proposed['id']}").json()
    assert (shown["state"], shown["operation"]) == ("accepted", answer.json()["id"])


def test_stale_expired_and_unknown_proposals(bench: Bench) -> None:
    proposed = bench.advise()
    assert bench.ask("POST", "/jobs/clean-a/pin", wait=30).json()["state"] == "succeeded"
    calls = bench.rest.world.changes()
    assert bench.ask("POST", f"/placements/{proposed['id']}/accept").status_code == 409
    fresh = bench.advise()
    bench.now += LIFETIME + 1
    gone = bench.ask("POST", f"/placements/{fresh['id']}/accept")
    assert gone.status_code == 410
    assert gone.json()["detail"].startswith(f"placement '{fresh['id']}' has expired")
    assert bench.ask("POST", "/placements/0badcafe/accept").status_code == 404
    assert bench.rest.world.changes() == calls


def test_busy_solver_is_503_with_retry_after(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speck.coordinator.placing.placer.SECONDS", 0.01)
    with bench.rest.coordinator.placer.exclusive():
        answer = bench.ask("POST", "/placements", composition="traffic")
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) > 0


def test_apply_places_new_jobs_or_all(bench: Bench) -> None:
    unchanged = bench.ask("POST", "/compositions", dry_run="true", body=ROAD_TRAFFIC)
    assert unchanged.json()["counts"]["keep"] == 7
    assert unchanged.json()["figures"] is None
    moved = bench.ask("POST", "/compositions", dry_run="true", place="all", body=ROAD_TRAFFIC)
    assert moved.json()["counts"]["move"] == 6
    figures = moved.json()["figures"]
    assert 0 < figures["after"]["wan"] < figures["now"]["wan"]
    wrong = bench.ask("POST", "/compositions", dry_run="true", place="some", body=ROAD_TRAFFIC)
    assert wrong.status_code == 422


def test_policies_are_listed(bench: Bench) -> None:
    found = {each["name"]: each for each in bench.ask("GET", "/policies", "read").json()}
    assert found["amnis"]["about"].startswith("each job where most of its input is")
    assert [name for name, each in found.items() if not each["comparison"]] == ["speck", "search"]
