"""The question before a destructive change: on a terminal, with ``--yes``, and where nobody can be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.servers.rest import RestServer, yaml_of
from testbed.servers.terminal import terminal
from tests.fixtures.speck_command import Speck


@pytest.fixture
def two(rest: RestServer, tmp_path: Path) -> Path:
    """The file of a composition that runs."""
    path = tmp_path / "two.yaml"
    path.write_text(yaml_of("a t0 t1", "b t1 t2"))
    rest.client.apply(path.read_bytes(), "two", wait=60)
    return path


STOPS_B = "this permanently stops 1 job (b); no terminal to confirm it, so nothing was changed (use --yes"


def test_a_destructive_apply_without_a_terminal_is_refused(speck: Speck, rest: RestServer, two: Path) -> None:
    two.write_text(yaml_of("a t0 t1"))
    said = speck("apply", str(two))
    assert said.code == 1
    assert STOPS_B in said.err
    assert [line for line in said.err.splitlines() if not line.startswith(("warning: ", "work.py: "))] == [
        f"error: two: {STOPS_B} to proceed without a question; speck plan or --dry-run shows the plan)"
    ]
    assert sorted(rest.world.where()) == ["a", "b"]
    assert len(rest.client.revisions("two")) == 1
    assert speck("apply", str(two), "--yes").code == 0
    assert sorted(rest.world.where()) == ["a"]


def test_a_destructive_rollback_without_a_terminal_is_refused(
    speck: Speck, rest: RestServer, two: Path
) -> None:
    two.write_text(yaml_of("a t0 t1", "b t1 t2", "c t2 t3"))
    assert speck("apply", str(two)).code == 0
    said = speck("rollback", "two", "--json")
    assert (said.code, "this permanently stops 1 job (c)" in said.data["error"]) == (1, True)
    assert sorted(rest.world.where()) == ["a", "b", "c"]
    assert speck("rollback", "two", "-y").code == 0
    assert sorted(rest.world.where()) == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "effect"),
    [(("two",), "permanently stops 2 jobs (a, b)"), (("b", "--job"), "permanently stops 1 job (b)")],
    ids=["composition", "job"],
)
def test_a_deletion_without_a_terminal_is_refused(
    speck: Speck, rest: RestServer, two: Path, arguments: tuple[str, ...], effect: str
) -> None:
    said = speck("delete", *arguments)
    assert (said.code, effect in said.err) == (1, True)
    assert sorted(rest.world.where()) == ["a", "b"]
    assert speck("delete", *arguments, "--yes").code == 0
    assert "b" not in rest.world.where()


def test_a_change_that_destroys_nothing_is_not_asked_about(speck: Speck, rest: RestServer, two: Path) -> None:
    text = (
        yaml_of("a t0 t1 trigger: 2 seconds", "b t1 t2", "c t2 t3").replace("e1", "e2").replace("e2", "e1", 1)
    )
    two.write_text(text)
    plan = rest.client.plan(two.read_bytes(), "two")
    assert ([each["kind"] for each in plan["actions"]], plan["destroys"]) == (["update", "move", "start"], [])
    assert speck("apply", str(two)).code == 0


def test_an_update_that_drops_state_is_destructive(speck: Speck, rest: RestServer, two: Path) -> None:
    two.write_text(yaml_of("a t0 t1 trigger: 2 seconds; upgrade: stateless", "b t1 t2"))
    assert "  a starts without its present state (upgrade: stateless)" in speck("plan", str(two)).out
    refused = speck("apply", str(two))
    assert (refused.code, "this deletes the state of 1 job (a)" in refused.err) == (1, True)
    assert speck("apply", str(two), "--yes").code == 0
    two.write_text(yaml_of("a t0 t1 trigger: 2 seconds; upgrade: stateful", "b t1 t2"))
    assert speck("apply", str(two)).code == 0  # no engine is touched


@pytest.mark.parametrize(("typed", "code", "stays"), [("n\n", 1, True), ("\n", 1, True), ("y\n", 0, False)])
def test_a_user_is_asked_on_a_terminal(
    rest: RestServer, two: Path, typed: str, code: int, stays: bool
) -> None:
    two.write_text(yaml_of("a t0 t1"))
    with terminal(rest.url, "apply", str(two)) as shown:
        shown.shows("- stop    b  no longer in the composition")
        shown.shows("b is permanently stopped after it has processed its backlog; its state is deleted")
        shown.shows("This permanently stops 1 job (b).  Continue? [y/N]")
        shown.type(typed)
        assert shown.end() == code
        assert ("nothing was changed" in shown.words) == stays
    assert ("b" in rest.world.where()) == stays


def test_a_deletion_shows_its_plan_and_asks(rest: RestServer, two: Path) -> None:
    with terminal(rest.url, "delete", "two", "--json") as shown:
        shown.shows("two (from revision 1): 0 to start, 2 to stop")
        shown.shows("This permanently stops 2 jobs (a, b).  Continue? [y/N]")
        rest.client.apply(two.read_bytes() + yaml_of("c t2 t3").split("\n", 1)[1].encode(), "two", wait=60)
        shown.type("y\n")
        assert shown.end() == 1
        assert "is stale" in shown.words
    assert sorted(rest.world.where()) == ["a", "b", "c"]
