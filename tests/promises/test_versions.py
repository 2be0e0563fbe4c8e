"""A server and an agent of two versions, as amid an upgrade: nothing is lost, and nothing is doubled.

The other version is that of an earlier commit, from the history of this repository.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from speck.testing.waiting import eventually
from testbed.servers.base import NotInstalled
from testbed.servers.rest import write_work, yaml_of
from testbed.servers.versions import (
    ENGINES,
    PATIENCE,
    SITE,
    THIS,
    Version,
    VersionedServer,
    VersionedSite,
    earlier,
)
from tests.support.trials import trial

pytestmark = pytest.mark.slow("a server and an agent, each started several times")

NAME = "0.1.9"  # of the earlier version
PLENTY = 3 << 19  # bytes: a file of a job that is sent in parts
# Before files were sent in parts, and before the positions of a pair counted its writes.
COMMITS = ("530e11a4", pytest.param("8de30862^", marks=trial("530e11a4")))

FIRST, SECOND = ENGINES
CHAIN = ("clean raw cleaned", "count cleaned counts")


@pytest.fixture(name="other", scope="module", params=COMMITS)
def other_fixture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Version:
    try:
        return earlier(request.param, NAME, tmp_path_factory.mktemp("earlier"))
    except NotInstalled as reason:
        pytest.skip(str(reason))


class Bed:
    """A server and the site that has joined it."""

    def __init__(self, directory: Path, server: Version, agent: Version) -> None:
        (directory / "server").mkdir()
        write_work(directory / "server")
        with (directory / "server" / "work.py").open("a") as file:
            file.write("#" * PLENTY)
        self.server = VersionedServer(directory / "server", server)
        self.site = VersionedSite(directory / "site", agent)

    def __enter__(self) -> Bed:
        self.server.start()
        self.site.join(self.server.client.invite_site(SITE)["code"], self.server.agents)
        self.site.start()
        self.await_agent()
        return self

    def __exit__(self, *_: object) -> None:
        self.site.kill()
        self.server.kill()

    def await_agent(self) -> None:
        """Wait until the agent of the present version is connected."""
        version = self.site.version.name
        eventually(
            self.server.agent,
            lambda found: found.get("connected") is True and found.get("version") == version,
            PATIENCE,
        )

    def apply(self, *jobs: str, **engines: str) -> None:
        """Apply the composition with these jobs, each at the first engine or that of its name."""
        text = yaml_of(*jobs)
        for name, engine in engines.items():
            before, after = text.split(f"job_name: {name}\n")
            text = f"{before}job_name: {name}\n{after.replace(FIRST, engine, 1)}"
        operation = self.server.client.apply(text.encode(), "work", wait=60)
        assert operation["state"] == "succeeded", operation

    def await_all(self, expected: Mapping[str, tuple[str, int]]) -> None:
        """Wait until exactly these jobs run at the site, and the server sees it."""
        self.site.await_running(expected)
        eventually(
            lambda: {each["job_name"]: each["state"] for each in self.server.client.jobs()},
            lambda found: found == dict.fromkeys(expected, "running"),
            PATIENCE,
        )


# Servers are upgraded before the agents of their sites.
@pytest.fixture(name="bed", params=["agent", pytest.param("server", marks=trial("[agent]"))])
def bed_fixture(request: pytest.FixtureRequest, tmp_path: Path, other: Version) -> Iterator[Bed]:
    versions = {"server": THIS, "agent": THIS, request.param: other}
    with Bed(tmp_path, **versions) as bed:
        yield bed


def test_a_site_works_with_a_server_of_another_version(bed: Bed) -> None:
    """Jobs are started, moved and stopped; the engine, the server and the agent are started again."""
    bed.apply(*CHAIN)
    bed.await_all({"clean": (FIRST, 1), "count": (FIRST, 1)})
    bed.apply(*CHAIN, clean=SECOND)
    bed.await_all({"clean": (SECOND, 2), "count": (FIRST, 1)})
    bed.apply(CHAIN[0], clean=SECOND)
    bed.await_all({"clean": (SECOND, 2)})
    bed.server.stop()
    bed.site.lose(SECOND)  # the agent starts the attempt again, on its own
    bed.site.await_running({"clean": (SECOND, 2)})
    bed.server.start()
    bed.await_agent()
    bed.await_all({"clean": (SECOND, 2)})
    bed.apply(*CHAIN, clean=SECOND)
    _, number = eventually(bed.site.running, lambda found: "count" in found, PATIENCE)["count"]
    assert number > 1  # the stop of the first attempt is remembered
    bed.await_all({"clean": (SECOND, 2), "count": (FIRST, number)})
    # Each is upgraded: the later version has what the earlier one has stored.
    bed.site.kill()
    bed.server.stop()
    bed.site.version = bed.server.version = THIS
    bed.server.start()
    bed.site.start()
    bed.await_agent()
    bed.await_all({"clean": (SECOND, 2), "count": (FIRST, number)})
    assert [each["message"] for each in bed.server.client.doctor() if each["finding"] == "agent"] == []


@trial("test_a_site_works_with_a_server_of_another_version")
def test_a_site_is_put_back_to_an_earlier_version(tmp_path: Path, other: Version) -> None:
    """An agent whose upgrade was taken back by hand reads what the later one has stored."""
    with Bed(tmp_path, THIS, THIS) as bed:
        bed.apply(*CHAIN)
        bed.site.kill()
        bed.site.version = other
        bed.site.start()
        bed.await_agent()
        bed.await_all({"clean": (FIRST, 1), "count": (FIRST, 1)})
        (finding,) = [each for each in bed.server.client.doctor() if each["finding"] == "agent"]
        assert finding["message"] == f"its agent has version {NAME}, the server {THIS.name}"
