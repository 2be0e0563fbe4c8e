"""The workers of engines that scale: over REST, on the command line, and in the dashboard's view of sites."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from speck.cli import cli
from speck.client import RequestRefused
from speck.core.inventory import Engine, Hook, Inventory, Scale, Site
from testbed.servers.chromium import Page
from testbed.servers.rest import RestServer, rest_server

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

ADDRESS = "http://e1:8081/"


@contextmanager
def scaled_server(directory: Path) -> Iterator[RestServer]:
    """A site with two workers, of at least three; its hook fails."""
    scale = Scale(
        least=3, most=4, cores=2, slots=2, command=("/bin/sh", "-c", "echo no quota; exit 7", "{count}")
    )
    engine = Engine(spe_address=ADDRESS, scale=scale)
    sites = {
        "A": Site(name="A", engines=(engine,), broker_address="tcp://b1:1883"),
        "B": Site(name="B", engines=(Engine(spe_address="sc://e2:1"),), broker_address="tcp://b2:1883"),
    }
    with rest_server(directory, Inventory(sites)) as rest:
        rest.world.engine(ADDRESS).workers = {"worker-1": 2, "worker-2": 2}
        controller = rest.coordinator.workers
        for _ in range(2):
            controller.round()
            controller.await_rounds()
            for call in list(controller._calls.values()):
                while not call.is_done():
                    pass
        yield rest


def test_rest_and_the_command(tmp_path: Path) -> None:
    with scaled_server(tmp_path) as rest:
        (found,) = rest.client.workers("A")
        assert (found["present"], found["desired"], found["state"]) == (2, 3, "failed")
        assert found["message"] == "the hook /bin/sh exited with 7: no quota"
        assert found["next_try"] > found["observed_at"]
        assert [(each["id"], each["index"], each["free"]) for each in found["workers"]] == [
            ("worker-1", 0, True),
            ("worker-2", 1, True),
        ]
        assert [each["engine"] for each in rest.client.workers()] == [ADDRESS]
        assert rest.client.workers("B") == []
        with pytest.raises(RequestRefused, match="no site 'C'"):
            rest.client.workers("C")
        asked = ["--server", rest.url, "workers"]
        shown = CliRunner().invoke(cli, [*asked, "A"])
        assert shown.exit_code == 0, shown.output
        for words in ("failed", "3 to 4", "no quota", "worker-2", "0 of 2"):
            assert words in shown.output
        assert json.loads(CliRunner().invoke(cli, [*asked, "--json"]).stdout)[0]["engine"] == ADDRESS
        none = CliRunner().invoke(cli, [*asked, "B"])
        assert none.exit_code == 0
        assert "no engine of site B has 'scale' or 'pool' in the inventory" in none.output


def test_the_view_of_sites_shows_them(tmp_path: Path, chrome: Chrome) -> None:
    with scaled_server(tmp_path) as rest:
        page = Page(chrome, rest.url)
        page.open("#/sites")
        page.complaints()
        page.until(lambda: "0 of 2 workers busy" in page.text(), "the workers")
        assert "3 workers desired: the hook /bin/sh exited with 7: no quota" in page.text()
        assert page.complaints() == []
        chrome.get("about:blank")


@contextmanager
def pool_server(directory: Path) -> Iterator[RestServer]:
    """A site with a pool of two engines, of which the second does not run, and no job."""
    first, second = (f"http://e{number}:8081/" for number in (1, 2))
    engines = (
        Engine(spe_address=first, pool="small", cores=2),
        Engine(spe_address=second, pool="small", cores=2, hook=Hook(command=("/bin/true", "{count}"))),
    )
    site = Site(name="A", engines=engines, broker_address="tcp://b1:1883")
    with rest_server(directory, Inventory({"A": site})) as rest:
        rest.world.down(second)
        controller = rest.coordinator.workers
        for _ in range(2):  # the second one decides, by the answers to the first
            controller.round()
            controller.await_rounds()
        yield rest


def test_a_stopped_engine_of_a_pool(tmp_path: Path, chrome: Chrome) -> None:
    with pool_server(tmp_path) as rest:
        for command in ("workers", "sites"):
            shown = CliRunner().invoke(cli, ["--server", rest.url, command])
            assert shown.exit_code == 0, shown.output
            assert "stopped" in shown.output
        page = Page(chrome, rest.url)
        page.open("#/sites")
        page.complaints()
        page.until(lambda: "0 instances fill 0 of 2 engines; 1 running, 1 desired" in page.text(), "the pool")
        page.until(lambda: "stopped" in page.text(), "the engine")
        assert "unreachable" not in page.text()
        assert page.complaints() == []
        chrome.get("about:blank")
