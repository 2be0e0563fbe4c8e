"""Loopback ports that are reserved until their server ends: against other processes, and in one."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from binders.mqtt import MQTT
from binders.spark import CONNECT
from speck import local
from speck.binder import Registry
from speck.errors import LocalError
from speck.local import ports, processes
from speck.local.ports import Reservation
from speck.testing.waiting import eventually
from testbed import ROOT

FEW = 40  # so that two draws that know nothing of each other have some ports in common


@pytest.fixture(autouse=True)
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> range:
    """A small range of ports that no other process of the tests has, with locks in a file of its own."""
    start = 10000 + FEW * (os.getpid() % 100)
    found = range(start, start + FEW)
    monkeypatch.setattr(ports, "PORTS", found)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return found


@contextlib.contextmanager
def another_process(count: int) -> Iterator[subprocess.Popen[str]]:
    """A process that draws ports at the first line on its input, writes them, and ends at its next line."""
    script = f"""
        import sys
        from speck.local import ports
        ports.PORTS = {ports.PORTS!r}
        print("ready", flush=True)
        sys.stdin.readline()
        print(*ports.Reservation().draw({count}), flush=True)
        sys.stdin.readline()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def say(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def read(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdout is not None
    return [int(word) for word in process.stdout.readline().split()]


def free() -> int:
    """The number of ports that could be drawn now."""
    found = 0
    with Reservation() as reservation, contextlib.suppress(LocalError):
        while reservation.draw(1):
            found += 1
    return found


@pytest.mark.slow("two processes that import the package")
def test_processes_that_draw_at_once_get_different_ports(few: range) -> None:
    half = FEW // 2
    with another_process(half) as first, another_process(half) as second:
        say(first)
        say(second)
        assert sorted([*read(first), *read(second)]) == list(few)
        assert free() == 0
        first.send_signal(signal.SIGKILL)  # what it drew is free again, however it ends
        first.wait()
        assert free() == half


def test_reservations_of_one_process_exclude_each_other(few: range) -> None:
    with Reservation() as first, Reservation() as second:
        found = first.draw(20)
        assert sorted([*found, *second.draw(20)]) == list(few)
        with pytest.raises(
            LocalError, match=f"no free port on 127.0.0.1 between {few.start} and {few.stop - 1}"
        ):
            first.draw(1)
    assert free() == FEW


def test_a_server_that_inherits_a_reservation_has_it_to_its_end(tmp_path: Path) -> None:
    with Reservation() as reservation:
        found = reservation.draw(5)
        server = processes.start(
            ["sleep", "600"],
            {"PATH": os.environ["PATH"]},
            tmp_path,
            tmp_path / "log",
            "mark",
            inherited=(reservation.fileno(),),
        )
    try:
        with Reservation() as another:
            assert not set(another.draw(FEW - 5, preferred=found)) & set(found)
    finally:
        processes.stop([server])
    assert free() == FEW


def test_preferred_ports_come_first_and_taken_ones_never(few: range) -> None:
    with socket.create_server(("127.0.0.1", few[3])), Reservation() as reservation:
        found = reservation.draw(4, preferred=few[:5], taken={few[1]})
        assert found[:3] == [few[0], few[2], few[4]]
        assert found[3] not in few[:5]
        assert few[3] not in reservation.draw(34, taken={few[1]})


def test_a_port_that_is_in_use_stays_free_for_a_later_draw(few: range) -> None:
    with Reservation() as first:
        with socket.create_server(("127.0.0.1", few[0])):
            first.draw(1, preferred=few[:1])
        with Reservation() as second:
            assert second.draw(1, preferred=few[:1]) == [few[0]]


def test_ports_of_before_are_kept_by_several_and_drawn_by_nobody(few: range) -> None:
    with Reservation() as first, Reservation() as second, Reservation() as another:
        first.keep(few[:2])
        second.keep(few[:2])
        assert not set(another.draw(FEW - 2, preferred=few[:2])) & set(few[:2])


def test_a_file_that_is_not_a_users_own_is_named(tmp_path: Path) -> None:
    ports.lock_file().symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LocalError, match=r"ports cannot be reserved in .*speck-ports-\d+: .*expected a file"):
        Reservation()
    assert not (tmp_path / "elsewhere").exists()


# --- sites ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class SlowServer:
    """A server that binds its port never, and counts as started at once."""

    ports = 10

    def address(self, ports: Sequence[int]) -> str:
        return f"sc://127.0.0.1:{ports[0]}"

    def command(
        self, ports: Sequence[int], directory: Path, heap: str
    ) -> tuple[list[str], Mapping[str, str]]:
        return ["sleep", "600"], dict(os.environ)

    def ready(self, ports: Sequence[int]) -> bool:
        return True

    def inventory(self, ports: Sequence[int], directory: Path, heap: str) -> Mapping[str, Any]:
        return {}


REGISTRY = Registry.of(
    [dataclasses.replace(CONNECT, local=SlowServer()), dataclasses.replace(MQTT, local=SlowServer())]
)


def test_sites_side_by_side_have_different_ports(tmp_path: Path, few: range) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    try:
        sites = [local.up(each, 1, registry=REGISTRY) for each in (first, second)]
        drawn = [port for each in sites for server in each.servers for port in server.ports]
        assert sorted(drawn) == list(few)
        with pytest.raises(LocalError, match="no free port"):
            local.up(third, 1, registry=REGISTRY)
        before = local.status(first)
        local.restart(first, "A", "broker", registry=REGISTRY)  # keeps its ports, which nobody gets meanwhile
        assert [each.ports for each in local.status(first).servers] == [each.ports for each in before.servers]
        assert free() == 0
        local.down(first)
        assert free() == 20
        assert local.up(third, 1, registry=REGISTRY).running
    finally:
        for each in (first, second, third):
            local.down(each)
    assert eventually(free, lambda found: found == FEW)
