"""Deleted compositions: their history, and the way back."""

from __future__ import annotations

from pathlib import Path

from testbed.servers.rest import RestServer, yaml_of
from tests.fixtures.speck_command import Speck


def test_a_deleted_composition_is_listed_and_brought_back(
    speck: Speck, rest: RestServer, tmp_path: Path
) -> None:
    (path := tmp_path / "two.yaml").write_text(yaml_of("a t0 t1", "b t1 t2"))
    assert speck("apply", str(path), "-m", "the first").code == 0
    assert speck("history", "--deleted", "--json").data == []
    assert speck("delete", "two", "--yes", "-m", "enough", "--author", "ann").code == 0
    head, row = speck("history", "--deleted").out.splitlines()
    assert head.split() == ["COMPOSITION", "REVISION", "DELETED", "BY", "MESSAGE"]
    assert (row.split()[:2], row.split()[-2:]) == (["two", "1"], ["ann", "enough"])
    assert "the first" in speck("history", "two").out
    assert "composition 'two' is deleted (its history is kept" in speck("delete", "two").err
    said = speck("rollback", "two")
    assert said.code == 0
    assert "warning: composition 'two' is deleted; its jobs start as new jobs: their" in said.err
    assert "2 to start" in said.out
    assert sorted(rest.world.where()) == ["a", "b"]
    assert [each["restored"] for each in speck("history", "two", "--json").data] == [None, 1]
    assert speck("history", "--deleted", "--json").data == []


def test_a_history_needs_a_name_or_the_deleted_ones(speck: Speck) -> None:
    for arguments in ((), ("two", "--deleted")):
        assert "expected the name of a composition, or --deleted" in speck("history", *arguments).err
