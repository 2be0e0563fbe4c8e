"""The epoch of a coordinator with a standby, as an agent stores it; and the addresses of both."""

from __future__ import annotations

import errno
import io
from contextlib import closing
from pathlib import Path

import pytest

from speck.agent.agent import Agent
from speck.agent.site_file import SiteFile
from speck.agent.status import forget_epoch
from speck.core.inventory import Secret
from speck.errors import InvalidInput
from speck.standby.follower import Follower
from speck.store import Store
from speck.store.maintenance.backup import archive, restore
from speck.store.maintenance.repair import check_directory
from speck.store.opening import raised_epoch
from testbed.benches.double import BROKER, ENGINE
from testbed.benches.examples import one_site
from testbed.benches.pair import InMemoryPair
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World


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
    refused = "the server has epoch 1, and the site was connected to epoch 2 (expected 2 or higher"
    assert agent_in(tmp_path)._refusal(1).startswith(refused)
    assert agent_in(tmp_path)._refusal(0).startswith("the server has epoch 0")
    assert agent_in(tmp_path).dialler.known_epoch() == 2  # which the coordinator shows
    assert agent_in(tmp_path)._refusal(3) == ""


def test_an_epoch_that_cannot_be_stored_is_refused_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a former server would be accepted after a loss of power."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    agent = agent_in(tmp_path)
    assert agent._refusal(2) == ""
    with monkeypatch.context() as patched:
        patched.setattr("speck.agent.agent.write_state", full)
        for _ in range(2):
            reason = "its epoch 3 cannot be stored at the site: No space left on device"
            assert agent._refusal(3) == reason
        assert agent._refusal(2) == ""
        assert agent.dialler.known_epoch() == 2
    assert agent._refusal(3) == ""
    assert agent_in(tmp_path)._refusal(2) != ""


def test_any_epoch_is_accepted_after_joining_again(tmp_path: Path) -> None:
    agent_in(tmp_path)._refusal(7)
    forget_epoch(tmp_path)
    assert agent_in(tmp_path)._refusal(0) == ""


def test_the_server_that_ends_a_pair_is_accepted(tmp_path: Path) -> None:
    """Also if it was the primary since its last write, and every time it is started again."""
    pair, agent = InMemoryPair(tmp_path / "pair"), agent_in(tmp_path / "agent")
    pair.join()
    pair.close()
    assert agent._refusal(5) == ""
    with Store(tmp_path / "pair" / "primary") as store:
        first = store.epoch
    assert agent._refusal(first) == ""
    assert agent._refusal(6) != ""  # the other server of the pair
    with Store(tmp_path / "pair" / "primary") as store:
        assert store.epoch == first
    with Store(tmp_path / "pair" / "standby") as store:
        assert agent._refusal(store.epoch) == ""


def test_a_server_with_a_restored_store_is_accepted(tmp_path: Path) -> None:
    """However old the backup is, also if it is restored twice; alone, or in a pair with a new witness."""
    pair, agent = InMemoryPair(tmp_path / "pair"), agent_in(tmp_path / "agent")
    backup = b"".join(archive(pair.store.database.all(), pair.store.directory, 1.0, "1"))
    pair.close()
    assert agent._refusal(40) == ""
    for number in range(2):
        restore(io.BytesIO(backup), "b", tmp_path / str(number))
        with closing(Follower(tmp_path / str(number))) as follower:
            assert follower.epoch == 0  # the witness has lost nothing
            assert agent._refusal(follower.claimed_from) == ""
        with Store(tmp_path / str(number)) as store:
            assert agent._refusal(store.epoch) == ""
        assert check_directory(tmp_path / str(number)) == []


def test_a_pair_with_a_backup_from_before_it_is_accepted(tmp_path: Path) -> None:
    agent = agent_in(tmp_path / "agent")
    with Store(tmp_path / "store") as store:
        backup = b"".join(archive(store.database.all(), store.directory, 1.0, "1"))
    agent._refusal(7)
    restore(io.BytesIO(backup), "b", tmp_path / "restored")
    with closing(Follower(tmp_path / "restored")) as follower:
        assert agent._refusal(follower.claimed_from) == ""
    with Store(tmp_path / "restored") as store:
        assert store.epoch == 0  # it may be a trial, after which the former store is served again


def test_an_epoch_is_raised_also_by_a_clock_that_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speck.store.opening.time.time", lambda: 5000.9)
    assert raised_epoch(7) == 5000
    assert raised_epoch(5000) > 5000


def test_a_coordinator_with_a_standby_has_two_addresses() -> None:
    assert described("wss://a:1, wss://b:2").addresses == ("wss://a:1", "wss://b:2")
    with pytest.raises(InvalidInput, match="coordinator 'http://b:2' is not an address"):
        described("wss://a:1,http://b:2")
