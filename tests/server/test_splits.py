"""Splits by keys through the REST interface and the command line, over engines in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import requests

from speck.client import RequestRefused
from speck.core.job import Job
from speck.errors import Rejected
from testbed.servers.rest import RestServer, yaml_of
from tests.fixtures.speck_command import Speck

E1, E2 = "{spe_address: sc://e1:15002}", "{spe_address: sc://e2:15002, weight: 2}"
PARTS = ["hot.partitioner", "hot.combiner-0", "hot.combiner-1", "hot.reducer"]


def hot(*combiners: str, more: str = "") -> str:
    places = ", ".join(combiners or (E1, E2))
    return yaml_of(f"hot readings out key_split: {{combiners: [{places}], window: 1 minute{more}}}")


def get(rest: RestServer, path: str) -> Any:
    answer = requests.get(rest.url + path, timeout=30)
    assert answer.ok, answer.text
    return answer.json()


def apply(rest: RestServer, text: str) -> dict[str, Any]:
    operation: dict[str, Any] = rest.client.apply(text.encode(), "demo", wait=30)
    return operation


def apply_atomic(rest: RestServer, text: str) -> dict[str, Any]:
    operation: dict[str, Any] = rest.client.apply(text.encode(), "demo", wait=30, atomic=True)
    return operation


def test_a_split_is_planned_as_its_jobs(rest: RestServer) -> None:
    plan = rest.client.plan(hot().encode(), "demo")
    actions = {each["job"]: each for each in plan["actions"]}
    assert sorted(actions) == sorted(PARTS)
    assert actions["hot.combiner-1"]["split"]["number"] == 1
    assert actions["hot.partitioner"]["split"]["weight.1"] == 2.0
    jobs = {each["job_name"]: each for each in plan["jobs"]}
    assert jobs["hot.partitioner"]["writes"] == ["speck/split/hot/rows/0", "speck/split/hot/rows/1"]
    assert "writes" not in jobs["hot.reducer"]
    assert rest.world.changes() == []


def test_the_same_file_again_touches_nothing(rest: RestServer) -> None:
    assert apply(rest, hot())["state"] == "succeeded"
    before = rest.world.changes()
    again = apply(rest, hot())
    assert {each["state"] for each in again["actions"]} == {"kept"}
    assert rest.world.changes() == before
    assert len(get(rest, "/compositions/demo/revisions")) == 1
    shown = {each["job_name"]: each["job"] for each in get(rest, "/jobs")}
    stored = rest.coordinator.store.revision("demo", 1).jobs
    for name, fields in shown.items():
        assert Job.from_dict({key: value for key, value in fields.items() if key != "writes"}) == stored[name]


def test_a_combiner_moves_and_one_is_added_while_the_others_run(rest: RestServer) -> None:
    apply(rest, hot())
    moved = apply(rest, hot(E1.replace("e1", "e3"), E2))
    states = {each["job"]: (each["kind"], each["state"]) for each in moved["actions"]}
    assert states == dict.fromkeys(PARTS, ("keep", "kept")) | {"hot.combiner-0": ("move", "done")}
    more = apply(rest, hot(E1.replace("e1", "e3"), E2, E1))
    changed = {each["job"]: each["kind"] for each in more["actions"] if each["kind"] != "keep"}
    assert changed == {"hot.combiner-2": "start", "hot.partitioner": "update"}
    assert more["state"] == "succeeded"
    assert rest.world.where()["hot.combiner-0"] == "sc://e3:15002"


def test_fewer_combiners_are_refused_before_anything_is_touched(rest: RestServer) -> None:
    apply(rest, hot())
    before = rest.world.changes()
    for more in ("", "  upgrade: stateless\n"):
        with pytest.raises(RequestRefused, match="the split has fewer combiners: 1 instead of 2"):
            apply(rest, hot(E1) + more)
    assert rest.world.changes() == before
    assert apply(rest, hot(E1).replace("hot", "warm"))["state"] == "succeeded"
    assert sorted(rest.world.where()) == ["warm.combiner-0", "warm.partitioner", "warm.reducer"]


@pytest.mark.parametrize(
    ("failing", "states"),
    [("hot.combiner-2", ("failed", "skipped")), ("hot.partitioner", ("done", "failed"))],
)
def test_an_atomic_change_takes_a_combiner_back_that_is_not_written_to(
    rest: RestServer, failing: str, states: tuple[str, str]
) -> None:
    """The partitioner changes when the combiner was started, since a split does not get fewer combiners."""
    apply(rest, hot())
    rest.world.fail("submit", Rejected("no such class", address="sc://e1:15002"), name=failing)
    failed = apply_atomic(rest, hot(E1, E2, E1))
    actions = {each["job"]: each["state"] for each in failed["actions"]}
    assert (actions["hot.combiner-2"], actions["hot.partitioner"]) == states
    assert failed["error"] == ""
    back = rest.coordinator.operations.live(failed["replaced_by"])
    assert back is not None
    assert back.wait(30)
    assert back.state == "succeeded"
    assert sorted(rest.world.where()) == sorted(PARTS)
    assert get(rest, "/splits/hot")["workers"] == 2
    assert apply_atomic(rest, hot(E1, E2, E1))["state"] == "succeeded"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"atomic": True}, "if job 'cold' fails (expected them in a change of their own"),
        (
            {"wave": ["1"]},
            "if a wave does not settle (expected this change without waves)",
        ),
    ],
    ids=["atomic", "waves"],
)
def test_a_combiner_that_could_not_be_taken_back_is_refused(
    rest: RestServer, options: dict[str, Any], words: str
) -> None:
    apply(rest, hot())
    before = rest.world.changes()
    more = hot(E1, E2, E1) + yaml_of("cold readings away").partition("jobs:\n")[2]
    with pytest.raises(RequestRefused) as refused:
        rest.client.apply(more.encode(), "demo", wait=30, **options)
    reason = f"the split gets further combiners (3 instead of 2), which cannot be reverted {words}"
    assert reason in str(refused.value)
    assert rest.world.changes() == before
    assert apply(rest, more)["state"] == "succeeded"


def test_a_split_is_deleted_with_its_composition(rest: RestServer) -> None:
    apply(rest, hot())
    assert rest.client.delete_composition("demo", wait=30)["state"] == "succeeded"
    assert rest.world.where() == {}
    assert get(rest, "/splits") == []


def test_a_split_within_one_job(rest: RestServer) -> None:
    text = yaml_of("hot readings out key_split: {combiners: 4, window: 1 minute}")
    assert apply(rest, text)["state"] == "succeeded"
    (split,) = get(rest, "/splits")
    assert (split["in_one_job"], split["partitioner"], split["workers"]) == (True, "shuffle", 4)
    assert [each["role"] for each in split["parts"]] == ["whole"]


def test_splits_are_shown_with_their_jobs(rest: RestServer) -> None:
    apply(rest, hot(more=", slide: 20 s, lateness: 5 s, options: {tolerance: 0.1}"))
    split = get(rest, "/splits/hot")
    assert [each["name"] for each in get(rest, "/splits")] == ["hot"]
    assert {name: value for name, value in split.items() if name != "parts"} == {
        "name": "hot",
        "composition": "demo",
        "in_one_job": False,
        "partitioner": "balanced",
        "options": {"tolerance": 0.1},
        "workers": 2,
        "window_seconds": 60.0,
        "slide_seconds": 20.0,
        "lateness_seconds": 5.0,
        "weights": "fixed",
        "metrics_window_seconds": 60.0,
        "metrics_slide_seconds": 10.0,
        "metrics": None,
    }
    assert [each["job_name"] for each in split["parts"]] == PARTS
    assert [each["weight"] for each in split["parts"]] == [None, 1.0, 2.0, None]
    assert {each["up_to_date"] for each in split["parts"]} == {True}
    missing = requests.get(f"{rest.url}/splits/hat", timeout=30)
    assert missing.status_code == 404
    assert "there is no split 'hat' (did you mean 'hot'?)" in missing.json()["detail"]


def test_the_command_shows_them(speck: Speck, tmp_path: Path) -> None:
    path = tmp_path / "demo.yaml"
    path.write_text(hot())
    assert speck("split", "show").out.split() == (
        ["SPLIT", "COMPOSITION", "PARTITIONER", "COMBINERS", "WINDOW", "SLIDE", "JOBS"]
    )
    planned = speck("plan", str(path)).out.splitlines()
    assert planned[1].startswith("    hot: split by balanced into partitioner (")
    assert speck("apply", str(path)).code == 0
    (row,) = speck("split", "show").out.splitlines()[1:]
    assert row.split()[:4] == ["hot", "demo", "balanced", "2"]
    shown = speck("split", "show", "hot").out.splitlines()
    assert shown[0] == ("hot of demo: over 2 combiners by balanced, windows of 60 s by 60 s, late after 0 s")
    assert [line.split()[0] for line in shown[2:]] == PARTS
    assert speck("split", "show", "hat").code != 0
