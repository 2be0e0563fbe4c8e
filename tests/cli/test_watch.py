"""``speck watch`` and ``speck top``: changes, and rates."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from subprocess import PIPE
from threading import Thread

import pytest

from speck.cli.watch import transient
from speck.client import RequestRefused
from speck.core.runtime import JobMetrics
from speck.errors import ServerError
from speck.testing.wire_trouble import Relay
from testbed.servers.forked import Forked
from testbed.servers.rest import RestServer, yaml_of
from testbed.servers.terminal import started, terminal
from tests.fixtures.speck_command import Speck

TWO = yaml_of("a t0 t1", "b t1 t2").encode()
QUICK = ("--interval", "0.1")


class Lines:
    """The lines of a process as they come."""

    def __init__(self, process: Forked) -> None:
        self._lines: SimpleQueue[str] = SimpleQueue()
        assert process.stdout is not None
        self._stream = process.stdout
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._stream:
            self._lines.put(line.rstrip("\n"))

    def until(self, words: str) -> str:
        """The next line with these words."""
        while words not in (line := self._lines.get(timeout=60)):
            pass
        return line


@contextmanager
def watching(url: str, *arguments: str) -> Iterator[tuple[Forked, Lines]]:
    with started(url, "watch", *QUICK, *arguments, stdout=PIPE, stderr=PIPE) as process:
        try:
            yield process, Lines(process)
        finally:
            process.kill()


def apply(rest: RestServer) -> None:
    rest.client.apply(TWO, "two", wait=60)
    observe(rest)


def observe(rest: RestServer) -> None:
    """Observe the jobs as the reconciler does, without acting."""
    snapshots = rest.coordinator.deployments.snapshots()
    rest.coordinator.observer.observe(each for snapshot in snapshots for each in snapshot.deployed())


def test_changes_are_lines_in_a_pipe(rest: RestServer) -> None:
    apply(rest)
    with watching(rest.url) as (process, lines):
        assert lines.until("job a").endswith("two  job a: running")
        rest.world.crash("a", "no such street")
        observe(rest)
        assert lines.until("job a").endswith("job a: running -> failed  no such street")
        hold = rest.world.hold("submit")
        rest.client.apply(yaml_of("a t0 t1", "b t1 t2", "c t1 t3").encode(), "two", message="one more")
        assert "running  one more" in lines.until("apply")
        hold.release()
        # The command asks at intervals: it may see the action when it has ended only.
        while "done" not in lines.until("start c"):
            pass
        lines.until("running -> succeeded")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_changes_are_objects_with_json(rest: RestServer) -> None:
    apply(rest)
    rest.client.apply(yaml_of("other t5 t6").encode(), "others", wait=60)
    with watching(rest.url, "two", "--json") as (_, lines):
        seen = [json.loads(lines.until("{")) for _ in range(2)]
    assert [(each["what"], each["name"], each["before"], each["after"]) for each in seen] == [
        ("job", "a", None, "running"),
        ("job", "b", None, "running"),
    ]


def test_an_outage_of_the_server_is_reported_once_at_each_end(rest: RestServer) -> None:
    apply(rest)
    port = int(rest.url.rpartition(":")[2])
    with Relay(port) as relay, watching(f"http://127.0.0.1:{relay.port}") as (process, lines):
        lines.until("job b: running")
        relay.lost.set()  # no more connections are accepted
        relay.close_connections()
        assert process.stderr is not None
        assert "no SpecK server at" in process.stderr.readline()
        rest.client.delete_job("b", wait=60)
        relay.lost.clear()
        lines.until("job b: running -> gone")
        assert process.stderr.readline() == "the server responds again\n"


def test_the_table_is_redrawn_on_a_terminal(rest: RestServer) -> None:
    apply(rest)
    port = int(rest.url.rpartition(":")[2])
    with Relay(port) as relay, terminal(f"http://127.0.0.1:{relay.port}", "watch", "two", *QUICK) as shown:
        shown.shows("COMPOSITION")
        relay.lost.set()
        relay.close_connections()
        shown.shows("no SpecK server at")
        relay.lost.clear()
        rest.client.delete_job("b", wait=60)
        shown.shows("job b: running -> gone")
        shown.interrupt()
        assert shown.end() == 0


def test_an_unknown_composition_is_not_watched(speck: Speck) -> None:
    said = speck("watch", "none")
    assert (said.code, said.err) == (1, "error: there is no composition 'none'\n")
    assert speck("top", "none").code == 1


@pytest.fixture
def flowing(rest: RestServer) -> RestServer:
    """Two jobs: ``a`` receives 5 messages/s and none wait, for ``b`` 30 wait."""
    apply(rest)
    now = time.time()
    rest.world.metrics["a"] = JobMetrics(
        now, input_rate=5.0, output_rate=4.5, waiting=0, batch_duration_ms=250
    )
    rest.world.metrics["b"] = JobMetrics(now, input_rate=2.0, waiting=30)
    return rest


def test_top_shows_rates_sorted(flowing: RestServer, speck: Speck) -> None:
    said = speck("top", "--once")
    assert said.code == 0
    assert [line.split() for line in said.out.splitlines()] == [
        ["JOB", "COMPOSITION", "SITE", "IN/S", "OUT/S", "BACKLOG", "WORK", "S", "READS", "WRITES", "MESSAGE"],
        ["b", "two", "-", "2.0", "-", "30", "-", "t1", "t2", "-"],
        ["a", "two", "-", "5.0", "4.5", "0", "0.250", "t0", "t1", "-"],
    ]
    by_input = speck("top", "two", "--sort", "input", "--json").data
    assert [each["job_name"] for each in by_input["jobs"]] == ["a", "b"]
    assert speck("top", "--sort", "colour").code == 1


def test_top_is_redrawn_on_a_terminal(flowing: RestServer) -> None:
    port = int(flowing.url.rpartition(":")[2])
    with Relay(port) as relay, terminal(f"http://127.0.0.1:{relay.port}", "top", *QUICK) as shown:
        shown.shows("t2")
        relay.lost.set()
        relay.close_connections()
        shown.shows("no SpecK server at")
        relay.lost.clear()
        flowing.client.apply(yaml_of("a t0 t1", "b t1 t2", "late t2 t9").encode(), "two", wait=60)
        shown.shows("late")
        shown.interrupt()
        assert shown.end() == 0


def test_only_transient_errors_are_retried() -> None:
    assert transient(ServerError("no server")) == "no server"
    assert transient(RequestRefused(503, "too many wait", [])) == "too many wait"
    with pytest.raises(RequestRefused, match="no such"):
        transient(RequestRefused(404, "no such job", []))
