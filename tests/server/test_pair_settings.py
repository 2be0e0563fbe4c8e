"""The settings of the servers of a pair, and the file that makes a folder that of one."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from speck.core.settings import PairSettings, ServerSettings
from speck.errors import InvalidInput, SpeckError, StoreError
from speck.server.pair.standby import Pair, pair_token
from speck.server.process import serve
from speck.standby.node import NAME, node_of, refuse_pair, with_epoch
from testbed.benches.pair import InMemoryPair

URL, WITNESS = "http://127.0.0.1:1", "http://127.0.0.1:2"


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"standby": URL}, "--standby requires --witness and --standby-token"),
        ({"standby_of": URL, "witness": WITNESS}, "--standby-of requires --standby-token"),
        ({"witness": WITNESS}, "--witness requires --standby or --standby-of"),
        ({"standby": URL, "standby_of": URL, "witness": WITNESS, "token": Path("t")}, "exclude each other"),
    ],
)
def test_settings_that_do_not_fit(given: dict[str, object], fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        PairSettings(**given)  # type: ignore[arg-type]


def test_a_url_without_tls_is_refused(tmp_path: Path) -> None:
    settings = PairSettings(standby="http://b.example.org:1", witness=WITNESS, token=Path("t"))
    with pytest.raises(InvalidInput, match=r"--standby http://b.example.org:1 would be reached without TLS"):
        Pair(settings, tmp_path, URL)


def test_a_short_token_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("short")
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(InvalidInput, match="too short"):
        pair_token(tmp_path / "token")


def test_a_server_of_a_pair_is_not_served_alone(tmp_path: Path) -> None:
    refuse_pair(tmp_path)
    node_of(tmp_path)
    with pytest.raises(InvalidInput, match="is that of a pair of servers"):
        serve(replace(ServerSettings(), data_dir=tmp_path, port=0), ready=lambda url, inventory: None)


def test_a_server_that_was_in_a_pair_announces_a_higher_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents would refuse it otherwise."""
    pair = InMemoryPair(tmp_path)
    pair.close()
    epochs: list[int] = []

    def announced(*_: object, epoch: int, **__: object) -> None:
        epochs.append(epoch)
        raise StoreError("enough")

    monkeypatch.setattr("speck.server.process.agents_hub", announced)
    for name in ("primary", "other"):
        with pytest.raises(StoreError, match="enough"):
            serve(replace(ServerSettings(), data_dir=tmp_path / name, port=0), ready=lambda *_: None)
    assert epochs[0] > pair.primary.identity.epoch
    assert epochs[1] == 0


@pytest.mark.parametrize("fault", ["port", "tokens"])
def test_a_server_that_could_not_accept_agents_does_not_become_a_standby(tmp_path: Path, fault: str) -> None:
    (token := tmp_path / "token").write_text("0123456789abcdef")
    token.chmod(0o600)
    pair = PairSettings(standby_of=URL, witness=WITNESS, token=token)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1] if fault == "port" else 0
        settings = replace(
            ServerSettings(),
            data_dir=tmp_path / "store",
            port=0,
            pair=pair,
            agents=f"127.0.0.1:{port}",
            agent_tokens=tmp_path / "none" if fault == "tokens" else None,
        )
        with pytest.raises(SpeckError, match=r"with --agents\)" if port else "none cannot be used"):
            serve(settings, ready=lambda *_: None)


def test_the_file_of_a_pair(tmp_path: Path) -> None:
    node = node_of(tmp_path)
    assert node_of(tmp_path) == node
    assert with_epoch(tmp_path, node, 3) == node_of(tmp_path) == replace(node, epoch=3)
    (tmp_path / NAME).write_text("{}")
    with pytest.raises(InvalidInput, match="cannot be read as the file of a pair"):
        node_of(tmp_path)
