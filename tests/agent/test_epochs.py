"""The epoch of a coordinator with a standby, as an agent stores it; and the addresses of both."""

from __future__ import annotations

from pathlib import Path

import pytest

from speck.agent.agent import Agent
from speck.agent.site_file import SiteFile
from speck.core.inventory import Secret
from speck.errors import InvalidInput
from testbed.benches.examples import one_site
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from tests.binder.test_contract_double import BROKER, ENGINE


def described(coordinator: str) -> SiteFile:
    return SiteFile(site=one_site("A", ENGINE, BROKER), coordinator=coordinator, token=Secret("file:t"))


def agent_in(directory: Path) -> Agent:
    return Agent(described("ws://127.0.0.1:1,ws://127.0.0.1:2"), directory, double_kinds(World()), "machine")


def test_the_highest_epoch_is_stored_and_a_lower_one_refused(tmp_path: Path) -> None:
    first = agent_in(tmp_path)
    assert [first._refusal(each) for each in (0, 2, 2)] == ["", "", ""]
    again = agent_in(tmp_path)
    again._note_contact("")
    again._note_contact("the connection broke")
    refused = "the server is that of epoch 1, and that of epoch 2 was in contact"
    assert agent_in(tmp_path)._refusal(1) == refused
    assert agent_in(tmp_path)._refusal(0).startswith("the server is that of epoch 0")
    assert agent_in(tmp_path)._refusal(3) == ""


def test_a_coordinator_with_a_standby_has_two_addresses() -> None:
    assert described("wss://a:1, wss://b:2").addresses == ("wss://a:1", "wss://b:2")
    with pytest.raises(InvalidInput, match="coordinator 'http://b:2' is not an address"):
        described("wss://a:1,http://b:2")
