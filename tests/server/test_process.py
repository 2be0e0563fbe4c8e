"""The start of the server process: what it refuses before it opens its store."""

from __future__ import annotations

from pathlib import Path

import pytest

from speck.core.settings import ServerSettings
from speck.errors import InvalidInput
from speck.server.process import serve

SITES = """sites:
  edge: {spe_address: "ftp://edge:1", broker_address: "tcp://edge:1883"}
  cloud: {spe_address: "sc://cloud:15002", broker_address: "smoke://cloud:1883"}
brokers:
  hub: {broker_address: "pigeon://hub:1"}
"""


def test_addresses_that_no_installed_binder_supports_are_refused(tmp_path: Path) -> None:
    sites, store = tmp_path / "sites.yaml", tmp_path / "store"
    sites.write_text(SITES)
    with pytest.raises(InvalidInput) as caught:
        serve(
            ServerSettings(sites=sites, data_dir=store, port=0),
            ready=lambda url, inventory: pytest.fail("it serves"),
        )
    messages = [each.message for each in caught.value.faults]
    assert [each.partition(" (expected ")[0] for each in messages] == [
        "site 'edge': no installed binder supports spe_address 'ftp://edge:1'",
        "site 'cloud': no installed binder supports broker_address 'smoke://cloud:1883'",
        "broker 'hub': no installed binder supports broker_address 'pigeon://hub:1'",
    ]
    assert "sc://HOST:PORT" in messages[0] and "tcp://HOST:PORT" in messages[1]
    assert all(each.endswith(f" ({sites})") for each in messages)
    assert not store.exists()
