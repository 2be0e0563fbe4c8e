"""Outcomes of revisions and atomic applies at the command line."""

from __future__ import annotations

from pathlib import Path

from speck.errors import Rejected
from testbed.servers.rest import RestServer, yaml_of
from tests.fixtures.speck_command import Speck


def test_an_atomic_apply_is_followed_back(speck: Speck, rest: RestServer, tmp_path: Path) -> None:
    (path := tmp_path / "two.yaml").write_text(yaml_of("a t0 t1"))
    assert speck("apply", str(path)).code == 0
    path.write_text(yaml_of("a t0 t1 trigger: 2 seconds", "b t8 t9"))
    rest.world.fail("submit", Rejected("no such street", address="sc://e1:15002"), name="b")
    said = speck("apply", str(path), "--atomic")
    assert said.code == 1
    assert "replaced by operation" in said.out
    assert "two was rolled back to the previous revision; see speck history" in said.err
    (copy,) = rest.world.running()
    assert (copy.job.job_name, copy.job.trigger) == ("a", None)
    first, second, third = speck("history", "two").out.splitlines()[1:]
    assert (" applied " in first, " rolled back by 3 " in second, " applied " in third) == (True, True, True)
    assert [each["outcome"] for each in speck("history", "two", "--json").data] == [
        "applied",
        "rolled back",
        "applied",
    ]
    refused = speck("apply", str(path), "--atomic", "--place", "all")
    assert "--atomic is not available with --place all" in refused.err
