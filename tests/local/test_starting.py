"""Errors about servers that do not come up; the servers are shell scripts."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from binders.mqtt import MQTT
from binders.spark import CONNECT
from speck import local
from speck.binder import LocalServer, Registry
from speck.errors import LocalError
from speck.local.starting import exit_text, log_excerpt
from speck.testing.waiting import eventually


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "exit code 0"),
        (1, "exit code 1"),
        (143, "exit code 143: signal SIGTERM"),
        (137, "exit code 137: signal SIGKILL, which the system sends when memory runs out"),
        (-9, "signal SIGKILL, which the system sends when memory runs out"),
        (-11, "signal SIGSEGV"),
        (128, "exit code 128"),
        (255, "exit code 255"),
    ],
)
def test_how_a_process_ended(code: int, text: str) -> None:
    assert exit_text(code) == text


TRACE = [
    "2026-11-27 12:00:00.000 ERROR ClusterEntrypoint: Could not start cluster entrypoint SmallCluster.",
    "org.apache.flink.runtime.entrypoint.ClusterEntrypointException: Failed to initialize the cluster.",
    "\tat org.apache.flink.runtime.entrypoint.ClusterEntrypoint.startCluster(ClusterEntrypoint.java:255)",
    "Caused by: java.net.BindException: Could not start rest endpoint on any port in port range 15003",
    "\tat io.speck.flink.small.SmallCluster$$Lambda/0x00007f.create(Unknown Source) ~[flink.jar:2.1]",
    "\t... 2 more",
]
NOISE = [f"line {number}" for number in range(20)]


@pytest.mark.parametrize(
    ("lines", "excerpt"),
    [
        ([], []),
        (["one", "two"], ["one", "two"]),
        (NOISE, NOISE[-15:]),
        (TRACE, [TRACE[0], TRACE[1], TRACE[3]]),
        ([*TRACE, *NOISE], [TRACE[3], "...", *NOISE[-15:]]),
        ([f"Caused by: {number}" for number in range(8)] * 3, None),
        (["Error: Address already in use", *NOISE], ["Error: Address already in use", "...", *NOISE[-15:]]),
        (["at noon (local time)", "  at noon"], ["at noon (local time)", "  at noon"]),
    ],
)
def test_the_excerpt_of_a_log(lines: list[str], excerpt: list[str] | None) -> None:
    assert log_excerpt(lines) == excerpt or (excerpt is None and len(log_excerpt(lines)) == 5 + 1 + 15)


# --- servers --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Script:
    """A server that is a shell script; it is ready as long as it runs, unless it is ``slow``."""

    text: str
    slow: bool = False
    occupied: ExitStack | None = None  # keeps a listener at the port of the server

    ports = 1

    def address(self, ports: Sequence[int]) -> str:
        return f"sc://127.0.0.1:{ports[0]}"

    def command(
        self, ports: Sequence[int], directory: Path, heap: str
    ) -> tuple[list[str], Mapping[str, str]]:
        if self.occupied is not None:
            self.occupied.enter_context(socket.create_server(("127.0.0.1", ports[0])))
        return ["/bin/sh", "-c", self.text], dict(os.environ)

    def ready(self, ports: Sequence[int]) -> bool:
        return not self.slow

    def inventory(self, ports: Sequence[int], directory: Path, heap: str) -> Mapping[str, Any]:
        return {}


def registry(engine: LocalServer) -> Registry:
    broker = Script("exec sleep 600")
    return Registry.of([dataclasses.replace(CONNECT, local=engine), dataclasses.replace(MQTT, local=broker)])


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            "echo broken >&2; exit 3",
            r"ended while it was starting \(exit code 3\); the end of its log .*broken",
        ),
        (
            "kill -KILL $$",
            r"ended while it was starting \(signal SIGKILL, which .* memory runs out\); the end .*\(empty\)",
        ),
    ],
)
def test_an_engine_that_ends_is_shown_with_its_exit_code(directory: Path, script: str, words: str) -> None:
    with pytest.raises(LocalError, match=rf"(?s)site A: spark-connect engine sc://\S+ {words}"):
        local.up(directory, 1, registry=registry(Script(script, slow=True)))
    assert not local.status(directory).running


def test_a_port_that_another_process_uses_is_named(directory: Path) -> None:
    with ExitStack() as stack:
        engine = Script("exit 1", slow=True, occupied=stack)
        with pytest.raises(LocalError, match=r"\(exit code 1\); port (\d+) is in use by another process; "):
            local.up(directory, 1, registry=registry(engine))


@dataclasses.dataclass(frozen=True)
class Impostor(Script):
    """Another server answers at its port, once it has ended."""

    note: Path = Path()  # its process id

    def ready(self, ports: Sequence[int]) -> bool:
        pid = int(eventually(lambda: self.note.exists() and self.note.read_text().strip(), bool))
        return eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, bool)


def test_a_server_that_has_ended_is_not_up_if_another_answers_at_its_port(directory: Path) -> None:
    engine = Impostor("echo $$ > pid; exit 4", note=directory / "A" / "spark-connect" / "pid")
    with pytest.raises(LocalError, match=r"ended while it was starting \(exit code 4\)"):
        local.up(directory, 1, registry=registry(engine))


def test_the_log_of_an_earlier_start_is_left_out(directory: Path) -> None:
    local.up(directory, 1, registry=registry(Script("echo of before; exec sleep 600")))
    with pytest.raises(LocalError, match=r"(?s)the end of its log \S+:\n    of now\Z"):
        local.restart(directory, "A", "engine", registry=registry(Script("echo of now; exit 1", slow=True)))
