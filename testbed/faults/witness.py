"""The actual deployment, read from engines and brokers themselves and never from SpecK."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import requests

from binders.spark.connect.grpc_client import ConnectClient, endpoint_of
from binders.spark.connect.probe import ServerProbe
from testbed.servers.spark import SparkServer

_PATIENCE = 30.0
_ENDED = frozenset({"FINISHED", "FAILED", "CANCELED"})
_JAR = re.compile(r"(?P<hash>[0-9a-f]{64})\.jar\Z")


@dataclass(frozen=True)
class Running:
    """A job that an engine runs: its id there, and if all of its tasks are running."""

    id: str
    name: str
    up: bool


class Engine(Protocol):
    """An engine as a witness sees it."""

    @property
    def address(self) -> str:
        """As in an inventory."""

    def running(self) -> list[Running]:
        """All jobs that have not ended."""

    def unused_files(self) -> list[str]:
        """Files that were brought for jobs, and that no job which runs has."""

    def clear(self) -> None:
        """Stop all jobs, and delete all files that were brought."""


@dataclass
class FlinkWitness:
    """A Flink cluster."""

    address: str
    _session: requests.Session = field(default_factory=requests.Session)

    def running(self) -> list[Running]:
        """See :class:`Engine`."""
        return [
            Running(job["jid"], job["name"], job["tasks"]["running"] == job["tasks"]["total"] > 0)
            for job in self._ask("GET", "jobs/overview")["jobs"]
            if job["state"] not in _ENDED
        ]

    def unused_files(self) -> list[str]:
        """See :class:`Engine`."""
        jars = [each["name"] for each in self._ask("GET", "jars")["files"]]
        used = {self._code(each.id) for each in self.running()} if jars else set()
        return [jar for jar in jars if (match := _JAR.match(jar)) is None or match["hash"] not in used]

    def clear(self) -> None:
        """See :class:`Engine`."""
        for job in self.running():
            self._ask("PATCH", f"jobs/{job.id}?mode=cancel")
        for jar in self._ask("GET", "jars")["files"]:
            self._ask("DELETE", f"jars/{jar['id']}")

    def _code(self, job: str) -> str:
        config = self._ask("GET", f"jobs/{job}/config")
        return str(config.get("execution-config", {}).get("user-config", {}).get("speck.code", ""))

    def _ask(self, method: str, path: str) -> Any:
        answer = self._session.request(method, f"{self.address.rstrip('/')}/{path}", timeout=_PATIENCE)
        if not answer.ok:
            raise RuntimeError(f"{method} {path} at {self.address}: {answer.status_code} {answer.text[:500]}")
        return json.loads(answer.content or b"{}")


@dataclass(frozen=True)
class SparkWitness:
    """A Spark Connect server with a local master, whose queries are threads of one process."""

    server: SparkServer

    @property
    def address(self) -> str:
        """See :class:`Engine`."""
        return self.server.address

    def running(self) -> list[Running]:
        """See :class:`Engine`; a query that has a thread is running."""
        client = ConnectClient(self.address, endpoint_of(self.address))
        try:
            queries = ServerProbe(self.address, client).running() or ()
            return [Running("", query.name, True) for query in queries]
        finally:
            client.close()

    def unused_files(self) -> list[str]:
        """See :class:`Engine`; a job's code is in its plan, and no file is brought."""
        return []

    def clear(self) -> None:
        """See :class:`Engine`; a session can be ended by those only who know its id."""
        self.server.kill()
        self.server.start()


@dataclass(frozen=True)
class BrokerState:
    """Persistent sessions with the filters they are subscribed to, and the topics of retained messages."""

    sessions: Mapping[str, tuple[str, ...]]
    retained: frozenset[str]


@dataclass(frozen=True)
class MosquittoWitness:
    """A Mosquitto 2 with persistence: it writes down all that it holds when it is asked to by a signal."""

    address: str
    pid: int
    database: Path

    def read(self) -> BrokerState:
        """The broker's sessions and messages now."""
        before = self._written()
        os.kill(self.pid, signal.SIGUSR1)
        deadline = time.monotonic() + _PATIENCE
        while self._written() == before:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.address} did not write {self.database} in {_PATIENCE:g} s")
            time.sleep(0.01)
        return parse_database(self.database.read_bytes())

    def _written(self) -> tuple[int, int]:
        try:
            found = self.database.stat()
        except FileNotFoundError:
            return 0, 0
        return found.st_ino, found.st_mtime_ns


# mosquitto.db, version 6 (src/persist.h of Mosquitto 2.0): a header of 15 + 4 + 4 bytes, then chunks, each
# with its kind and its length in network order.
_HEADER = 23
_CHUNK = struct.Struct("!II")
_MESSAGE, _RETAINED, _SUBSCRIPTION, _CLIENT = 2, 4, 5, 6


def parse_database(data: bytes) -> BrokerState:
    """The contents of a persistence file of Mosquitto 2."""
    sessions: dict[str, list[str]] = {}
    topics: dict[bytes, str] = {}
    retained: set[str] = set()
    for kind, body in _chunks(data):
        if kind == _CLIENT:
            (length,) = struct.unpack_from("!H", body, 14)
            sessions.setdefault(body[24 : 24 + length].decode(), [])
        elif kind == _SUBSCRIPTION:
            client, topic = struct.unpack_from("!HH", body, 4)
            name = body[12 : 12 + client].decode()
            sessions.setdefault(name, []).append(body[12 + client : 12 + client + topic].decode())
        elif kind == _MESSAGE:
            source, user, topic = struct.unpack_from("!HHH", body, 22)
            topics[body[:8]] = body[32 + source + user : 32 + source + user + topic].decode()
        elif kind == _RETAINED:
            retained.add(topics[body[:8]])
    return BrokerState({name: tuple(sorted(each)) for name, each in sessions.items()}, frozenset(retained))


def _chunks(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = _HEADER
    while at < len(data):
        kind, length = _CHUNK.unpack_from(data, at)
        yield kind, data[at + _CHUNK.size : at + _CHUNK.size + length]
        at += _CHUNK.size + length
