"""Settings: bounds are checked where a group is made, and options set values in the units of users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from speck.client import Client
from speck.core.settings import (
    HistoryBounds,
    Quotas,
    ServerSettings,
    Settings,
    options,
    with_options,
)
from speck.errors import InvalidInput


@pytest.mark.parametrize(
    ("group", "values", "message"),
    [
        (Settings, {"drain": -1.0}, "--drain is -1 (expected 0 or more SECONDS)"),
        (Settings, {"drain": float("nan")}, "--drain is nan (expected 0 or more SECONDS)"),
        (Settings, {"period": 3601.0}, "--period is 3601 (expected 0 to 3,600 SECONDS)"),
        (Settings, {"state_limit": 1025 << 20}, "--state-limit is 1025 (expected 0 to 1,024 MIB)"),
        (Settings, {"heal_patience": -1.0}, "heal_patience is -1 (expected 0 or more SECONDS)"),
        (Quotas, {"jobs": 0}, "--max-jobs is 0 (expected 1 or more)"),
        (HistoryBounds, {"events": 0}, "--keep-events is 0 (expected 1 to 1,000,000)"),
        (ServerSettings, {"port": 65536}, "--port is 65536 (expected 0 to 65,535)"),
        (ServerSettings, {"rate": -0.5}, "--rate is -0.5 (expected 0 or more REQUESTS)"),
        (ServerSettings, {"tls_key": Path("k")}, "must be given together"),
        (ServerSettings, {"tokens": Path("a"), "token_file": Path("b")}, "exclude each other"),
    ],
)
def test_a_value_out_of_bounds_is_named(group: type[Any], values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        group(**values)
    assert message in str(raised.value)


def test_every_fault_is_named() -> None:
    with pytest.raises(InvalidInput) as raised:
        ServerSettings(port=-1, rate=-1.0, tls_cert=Path("c"))
    assert len(raised.value.faults) == 3


def test_options_set_values_of_nested_groups() -> None:
    given = {"port": 0, "state_limit": 2, "max_jobs": 3, "keep_loop_events": 4, "root": (Path("a"),)}
    settings = with_options(ServerSettings(), given)
    assert (settings.port, settings.coordinator.state_limit) == (0, 2 << 20)
    assert (settings.coordinator.quotas, settings.coordinator.history) == (
        Quotas(jobs=3),
        HistoryBounds(loop_events=4),
    )
    assert settings.coordinator.roots == (Path("a"),)
    assert settings.coordinator.drain == Settings().drain


def test_no_setting_is_there_twice() -> None:
    names = [option.name or name for name, _, option in options(ServerSettings())]
    assert len(names) == len(set(names))
    assert all(option.help.endswith((".", "].")) for _, _, option in options(ServerSettings()))


def test_a_client_looks_for_the_server_where_it_listens_by_default() -> None:
    settings = ServerSettings()
    assert Client().url == f"http://{settings.host}:{settings.port}"
