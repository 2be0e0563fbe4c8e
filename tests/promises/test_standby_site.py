"""Real servers replace each other amid a change of jobs at a site, whose agent is a process, too."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from speck.client import Client
from speck.testing.waiting import eventually
from testbed.faults.partitions import CUTS, PATIENCE, tended
from testbed.servers.base import NotInstalled
from testbed.servers.double_site import GO
from testbed.servers.pair import NAMES, ServedPair
from testbed.servers.rest import write_work, yaml_of
from testbed.servers.versions import ENGINES, SITE, THIS, VersionedSite, earlier
from tests.support.trials import trial

pytestmark = pytest.mark.slow("a pair of servers and their witness, started several times")

FIRST, SECOND = ENGINES
JOBS = yaml_of("slow raw cleaned", "count cleaned counts")
MOVED = JOBS.replace(FIRST, SECOND, 1)
TRIAL = trial("test_a_primary_ends_amid_a_change[start-killed]")


class Bed:
    """A pair and a site that has joined it; ``client`` has the addresses of both servers."""

    def __init__(self, pair: ServedPair, site: VersionedSite) -> None:
        self.pair, self.site = pair, site
        self.client = Client(",".join(map(pair.url, NAMES)))

    def await_contact(self, name: str) -> None:
        """Wait until a server is the primary, and the site is connected to it."""

        def contact() -> str:
            if self.pair.health(name) is None:
                return ""
            found = [each["agent"] for each in Client(self.pair.url(name)).sites() if each["name"] == SITE]
            return name if found and found[0]["connected"] else ""

        tended(self.pair, contact)

    def end(self, name: str, how: str) -> None:
        """Kill a server, suspend it, or cut it off from the other one and from the witness."""
        self.pair.down.add(name)
        if how == "cut off":
            self.pair.cables.cut(*CUTS["primary alone"][0])
        else:
            self.pair.send(name, signal.SIGKILL if how == "killed" else signal.SIGSTOP)

    def bring_back(self, name: str) -> None:
        """Start a server again after :meth:`end`; it is the standby then, in step."""
        self.pair.cables.mend()
        self.pair.send(name, signal.SIGCONT)
        self.pair.down.clear()
        assert tended(self.pair, self.pair.in_sync) != name

    def ended(self, operation: Mapping[str, Any]) -> str:
        """The outcome of an operation, also if another server resumes it."""
        found = eventually(
            lambda: self.client.operation(operation["id"])["state"],
            lambda state: state not in ("planned", "pending", "running"),
            PATIENCE,
        )
        return str(found)


@contextmanager
def served(directory: Path, trees: Mapping[str, Path] | None = None) -> Iterator[Bed]:
    """A pair with ``a`` as the primary, and a site that is connected to it."""
    write_work(directory)
    module = "testbed.servers.double_serve"
    site = VersionedSite(directory / "site", THIS)
    with ServedPair(directory, ["--period", "2"], module, agents=True, trees=trees or {}) as pair:
        try:
            assert tended(pair, pair.in_sync) == "a"
            site.join(Client(pair.url("a")).invite_site(SITE)["code"], pair.agent_ports["a"])
            site.reach(*pair.agent_ports.values())
            site.start()
            bed = Bed(pair, site)
            bed.await_contact("a")
            yield bed
        finally:
            site.kill()


@pytest.mark.parametrize(
    ("change", "how"),
    [
        ("start", "killed"),
        *(
            pytest.param(change, how, marks=TRIAL)
            for change, how in (
                ("move", "killed"),
                ("start", "suspended"),
                ("move", "suspended"),
                ("move", "cut off"),
            )
        ),
    ],
)
def test_a_primary_ends_amid_a_change(tmp_path: Path, change: str, how: str) -> None:
    """The request that was under way is asked for by its id, and each job runs once; twice over."""
    with served(tmp_path) as bed:
        expected = {"slow": (FIRST, 1), "count": (FIRST, 1)}
        if change == "move":
            bed.site.submit_slow()
            assert bed.ended(bed.client.apply(JOBS.encode(), "work")) == "succeeded"
            bed.site.await_running(expected)
            (bed.site.directory / GO).unlink()
            expected["slow"] = SECOND, 2
        operation = bed.client.apply((MOVED if change == "move" else JOBS).encode(), "work")
        bed.site.await_submission("slow")
        bed.end("a", how)
        bed.await_contact("b")
        bed.site.submit_slow()
        assert bed.ended(operation) in ("succeeded", "waiting")  # the reconciler does the rest of the latter
        bed.site.await_running(expected)
        bed.bring_back("a")
        bed.site.await_running(expected)
        if how != "killed":
            assert "the server exits (after a restart it is a standby)" in bed.pair.log("a")
        # The former primary, which was replaced, has all of it.
        bed.end("b", "killed")
        bed.await_contact("a")
        assert bed.ended(bed.client.apply(yaml_of("slow raw cleaned").encode(), "work")) == "succeeded"
        bed.site.await_running({"slow": (FIRST, 3)} if change == "move" else {"slow": (FIRST, 1)})


@trial("test_a_primary_ends_amid_a_change[start-killed]")
@pytest.mark.parametrize("commit", ["530e11a4", "8de30862^"])
def test_a_standby_of_an_earlier_version_takes_over_and_is_replaced(tmp_path: Path, commit: str) -> None:
    try:
        other = earlier(commit, "0.1.9", tmp_path)
    except NotInstalled as reason:
        pytest.skip(str(reason))
    with served(tmp_path, {"b": other.tree}) as bed:
        bed.site.submit_slow()
        assert bed.ended(bed.client.apply(JOBS.encode(), "work")) == "succeeded"
        (finding,) = [each["message"] for each in bed.client.doctor() if each["where"] == "standby"]
        assert finding == f"the version of the standby is an earlier one, that of this server {THIS.name}"
        bed.end("a", "killed")
        bed.await_contact("b")
        bed.site.await_running({"slow": (FIRST, 1), "count": (FIRST, 1)})
        assert bed.ended(bed.client.apply(MOVED.encode(), "work")) == "succeeded"
        bed.bring_back("a")
        bed.end("b", "killed")
        bed.await_contact("a")
        bed.site.await_running({"slow": (SECOND, 2), "count": (FIRST, 1)})
        assert {each["revision"] for each in bed.client.compositions()} == {2}
        bed.bring_back("b")
        assert bed.ended(bed.client.apply(JOBS.encode(), "work")) == "succeeded"
        bed.site.await_running({"slow": (FIRST, 3), "count": (FIRST, 1)})
