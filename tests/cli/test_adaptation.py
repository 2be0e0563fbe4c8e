"""``speck adapt``, against the real application."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.benches.decisions import BAN, HOLDING, STEPPED, deciding_server
from testbed.servers.rest import RestServer
from tests.fixtures.speck_command import Speck


@pytest.fixture(name="rest")
def rest_fixture(tmp_path: Path) -> Iterator[RestServer]:
    with deciding_server(tmp_path) as rest:
        yield rest


def test_every_decision_has_its_reason_holding_included(speck: Speck) -> None:
    said = speck("adapt", "traffic")
    assert said.code == 0
    assert said.out.startswith("traffic (revision 1): watching; mode auto; 1 of 6 steps in the last hour")
    for words in (HOLDING.reason, STEPPED.reason, "clean-a, local-a D -> A", "31%", BAN.reason, "1 of 3"):
        assert words in said.out
    assert said.out.index(HOLDING.reason) < said.out.index(STEPPED.reason)  # the newest first


def test_without_a_name_a_row_for_each(speck: Speck) -> None:
    said = speck("adapt")
    row = next(line for line in said.out.splitlines() if line.startswith("traffic"))
    assert HOLDING.reason in row
    assert speck("adapt", "--json").data["compositions"][0]["composition"] == "traffic"


def test_a_server_without_the_loop_says_so(speck: Speck, rest: RestServer) -> None:
    rest.services.adaptation.period = 0.0
    assert "adaptation is turned off at the server" in speck("adapt").out


def test_pause_and_resume(speck: Speck) -> None:
    assert ": paused; " in speck("adapt", "--pause", "1h").out
    assert "paused until" in speck("adapt", "traffic").out
    assert ": watching; " in speck("adapt", "--resume").out


WRONG_ARGUMENTS: list[tuple[tuple[str, ...], str]] = [
    (("--pause", "1h", "--resume"), "exclude each other"),
    (("--pause", "soon"), "'soon' is not a time"),
    (("--pause", "2000h"), "expected 1s to 720h"),
    (("trafic", "--pause", "1h"), "'trafic'"),
]


def test_wrong_arguments_change_nothing(speck: Speck) -> None:
    for arguments, words in WRONG_ARGUMENTS:
        said = speck("adapt", *arguments)
        assert said.code != 0
        assert words in " ".join(said.err.split())
        assert speck("adapt", "traffic", "--json").data["state"] == "watching"
