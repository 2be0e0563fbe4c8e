"""Plans: places that do not answer, and texts that are sent once."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from flask import request

from speck.binder.asking import ask
from speck.errors import Rejected
from testbed.servers.rest import RestServer, yaml_of
from tests.fixtures.speck_command import Speck


@pytest.fixture
def two(tmp_path: Path) -> Path:
    path = tmp_path / "two.yaml"
    path.write_text(yaml_of("a t0 t1", "b t1 t2"))
    return path


def test_places_that_do_not_answer_are_in_the_plan(speck: Speck, rest: RestServer, two: Path) -> None:
    assert speck("apply", str(two)).code == 0
    assert rest.client.plan(two.read_bytes(), "two")["unreachable"] == []
    rest.world.down("sc://e2:15002")
    rest.world.down("tcp://b2:1883")
    text = yaml_of("a t0 t1", "b t1 t2", "c t2 t3", "d t3 t4").split("- job_name: c")
    rest_of = (
        text[1]
        .replace("sc://e1:15002", "sc://e2:15002")
        .replace("sink_broker: tcp://b1", "sink_broker: tcp://b2")
    )
    two.write_text("- job_name: c".join([text[0], rest_of]))
    said = speck("plan", str(two))
    assert said.code == 2
    assert "  engine sc://e2:15002 is unreachable; c, d wait for it: " in said.out
    assert "  broker tcp://b2:1883 is unreachable; c, d wait for it: " in said.out
    (broker, engine) = speck("plan", str(two), "--json").data["unreachable"]
    assert [(each["kind"], each["jobs"]) for each in (broker, engine)] == [
        ("broker", ["c", "d"]),
        ("engine", ["c", "d"]),
    ]
    rest.client.delete_composition("two", wait=30)


def test_the_steps_of_a_plan_are_shown_on_request(speck: Speck, two: Path) -> None:
    assert "WAITS FOR" not in speck("plan", str(two)).out
    said = speck("plan", str(two), "--steps")
    assert said.code == 2
    assert [line.split() for line in said.out.splitlines()[-6:]] == [
        ["STEP", "ACTION", "TARGET", "WAITS", "FOR"],
        ["1", "check", "broker", "tcp://b1:1883", "-"],
        ["2", "prepare", "a", "1"],
        ["3", "prepare", "b", "1"],
        ["4", "start", "a", "2,", "3"],
        ["5", "start", "b", "3"],
    ]
    steps = speck("plan", str(two), "--steps", "--json").data["steps"]
    assert steps[3] == {"number": 4, "kind": "act", "subject": "a", "needs": [2, 3]}


def test_an_engine_that_answers_and_refuses_is_in_the_plan(speck: Speck, rest: RestServer, two: Path) -> None:
    refusal = Rejected("sc://e1:15002 accepts no jobs", address="sc://e1:15002")
    rest.world.fail("capacity", refusal, times=None)
    said = speck("plan", str(two))
    assert (
        "  engine sc://e1:15002 cannot be used; a, b wait for it: sc://e1:15002 accepts no jobs" in said.out
    )
    (place,) = speck("plan", str(two), "--json").data["unreachable"]
    assert place["refuses"]


def test_a_deletion_and_a_rollback_show_them_too(speck: Speck, rest: RestServer, two: Path) -> None:
    assert speck("apply", str(two)).code == 0
    rest.world.down("tcp://b1:1883")
    assert "broker tcp://b1:1883 is unreachable; a, b wait for it" in speck("delete", "two", "--dry-run").out
    site = ("--leave-behind", "tcp://b1:1883")
    assert "does not answer" not in speck("delete", "two", "--dry-run", *site).out
    rest.world.up("tcp://b1:1883")


def test_a_silent_place_does_not_delay_the_plan(
    speck: Speck, rest: RestServer, two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.coordinator.planning.reachability.ask", partial(ask, patience=0.2))
    hold = rest.world.hold("capacity")
    said = speck("plan", str(two))
    hold.release()
    assert "engine sc://e1:15002 is unreachable; a, b wait for it: no answer within 0.2 s" in said.out


def bodies(rest: RestServer) -> list[int]:
    """The lengths of the bodies of requests to change compositions, from now on."""
    found: list[int] = []

    def note() -> None:
        if request.path == "/compositions" and request.method == "POST":
            found.append(request.content_length or 0)

    rest.app.before_request_funcs.setdefault(None, []).append(note)
    return found


def test_an_apply_sends_its_text_once(speck: Speck, rest: RestServer, two: Path) -> None:
    sent = bodies(rest)
    assert speck("apply", str(two)).code == 0
    assert sent == [two.stat().st_size, 0]
    assert sorted(rest.world.where()) == ["a", "b"]


def test_an_apply_plans_its_text_again_at_a_server_that_has_forgotten_the_plan(
    speck: Speck, rest: RestServer, two: Path
) -> None:
    plans, asked = rest.services.retained_plans, list[str]()

    def forget() -> None:
        if plan := request.args.get("plan"):
            asked.append(plan)
            if len(asked) == 1:
                plans._retained.clear()

    sent = bodies(rest)
    rest.app.before_request_funcs.setdefault(None, []).append(forget)
    assert speck("apply", str(two)).code == 0
    assert sent == [two.stat().st_size, 0, two.stat().st_size, 0]
    assert len(set(asked)) == 2
    assert sorted(rest.world.where()) == ["a", "b"]
