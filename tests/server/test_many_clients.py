"""A thousand clients at once, reading while compositions are applied.

``SPECK_CLIENTS`` is their number, ``SPECK_ROUNDS`` how many requests each makes in each of the two waves.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import requests

from testbed import ROOT
from testbed.servers.rest import yaml_of
from testbed.servers.served_process import Served, served

CLIENTS = int(os.environ.get("SPECK_CLIENTS", "1000"))
ROUNDS = int(os.environ.get("SPECK_ROUNDS", "1"))
PATHS = ("/jobs", "/compositions", "/healthz", "/compositions/base", "/events?limit=10")
SLACK = 16 * 1024 * 1024  # bytes by which memory may differ between two waves


def apply(url: str, name: str, *jobs: str) -> str:
    """Apply a composition; answers the state of the operation when it has ended."""
    answer = requests.post(
        f"{url}/compositions?name={name}&wait=300",
        data=yaml_of(*jobs),
        headers={"Content-Type": "application/yaml"},
        timeout=600,
    )
    return str(answer.json().get("state", answer.text))


async def read(url: str, number: int, all_there: asyncio.Barrier, seen: Counter[str]) -> None:
    """One client on one connection."""
    host, _, port = urlsplit(url).netloc.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    await all_there.wait()
    for step in range(ROUNDS):
        path = PATHS[(number + step) % len(PATHS)]
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        status, *fields = head.decode().split("\r\n")
        lengths = [field.split(":")[1] for field in fields if field.lower().startswith("content-length:")]
        await reader.readexactly(int(lengths[0]))
        seen[status] += 1
    writer.close()
    await writer.wait_closed()


async def read_all(url: str) -> Counter[str]:
    """All clients; how often each status line was seen."""
    seen: Counter[str] = Counter()
    all_there = asyncio.Barrier(CLIENTS)
    await asyncio.gather(*(read(url, number, all_there, seen) for number in range(CLIENTS)))
    return seen


@contextmanager
def applied_meanwhile(url: str) -> Iterator[list[str]]:
    """Applies one composition after the other, for as long as the block lasts; yields how each went."""
    over = threading.Event()
    states: list[str] = []

    def work() -> None:
        while not over.is_set():
            number = len(states) % 5
            states.append(apply(url, f"c{number}", f"c{number} t{len(states)} u{number}"))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield states
    finally:
        over.set()
        thread.join()


def memory(server: Served) -> int:
    """The server's own share of memory (PSS), bytes."""
    return int(psutil.Process(server.process.pid).memory_full_info().pss)


@pytest.mark.slow("more than a thousand connections")
def test_more_clients_than_open_files_neither_stop_the_server_nor_fill_its_log(tmp_path: Path) -> None:
    """Half of the files are left for the store, engines and brokers; further clients wait for their turn."""
    (tmp_path / "work.py").write_text("def work(messages):\n    return messages\n")
    files = 64
    limit = ("prlimit", f"--nofile={files}:{files}")
    serve = (sys.executable, "-m", "testbed.servers.double_serve", "serve", "--port=0", "--data-dir=store")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SPECK_")}
    environment["PYTHONPATH"] = str(ROOT)
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            (*limit, *serve), cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        address = urlsplit(url)
        assert address.port is not None
        place = "127.0.0.1", address.port
        clients = [socket.create_connection(place, timeout=60) for _ in range(files + 20)]
        before = psutil.Process(process.pid).cpu_times().user
        time.sleep(2)
        assert psutil.Process(process.pid).num_fds() < files
        assert psutil.Process(process.pid).cpu_times().user - before < 1
        for each in clients:
            each.close()
        answer = requests.get(url + "/healthz", timeout=60)
        assert answer.json() == {"status": "ok"}
        assert apply(url, "base", "b in out") == "succeeded"
    finally:
        process.terminate()
        assert process.wait(60) == 0
        process.stdout.close()
    assert len((tmp_path / "log").read_text().splitlines()) < 20


@pytest.mark.slow("a thousand clients")
def test_a_thousand_clients_read_while_compositions_are_applied(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 2 * CLIENTS), hard), hard))
    with served(tmp_path) as server:
        assert apply(server.url, "base", *(f"b{n} in{n} out{n}" for n in range(10))) == "succeeded"
        before = memory(server)
        after = []
        for _ in range(2):
            with applied_meanwhile(server.url) as states:
                seen = asyncio.run(read_all(server.url))
            assert seen == {"HTTP/1.1 200 OK": CLIENTS * ROUNDS}
            assert set(states) == {"succeeded"}
            after.append(memory(server))
        print(f"memory before {before:,}, after each wave {after}, {len(states)} applies in the last")
        assert after[1] < after[0] + SLACK
        server.process.terminate()
        assert server.process.wait(120) == 0
