"""Spark Connect used by hand: the paper's way, a client for one job after the other, and the floor.

Both make the calls that a client has to make (a session, a stream from source to sink, a query) and nothing
more, in processes of their own: a client of pyspark does not survive a fork.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from benchmarks.deploy.chain import Chain, Place

_PATIENCE = 120.0  # s
_CALLS = "benchmarks.deploy.spark_calls"


class _Client:
    """A process with pyspark in it, which carries out one order after the other: a line of JSON each."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", _CALLS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def do(self, request: Mapping[str, Any]) -> None:
        """Carry out an order.  Raises :class:`RuntimeError` with what the client said."""
        assert self._process.stdin is not None and self._process.stdout is not None
        _say(self._process.stdin, json.dumps(request))
        answer = self._process.stdout.readline().strip()
        if answer != "done":
            raise RuntimeError(f"{request}: {answer or 'the client ended'}")

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(_PATIENCE)
        self._process.stdout.close()


def _say(pipe: IO[str], text: str) -> None:
    pipe.write(text + "\n")
    pipe.flush()


class _Requests:
    """Makes the spec of each job's query: a session of its own, a checkpoint that outlives it."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="speck-deploy-")
        self.places = places
        self.sessions: dict[str, tuple[str, str]] = {}

    def start(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The order to start a job."""
        name = job["job_name"]
        session = str(uuid.uuid4())
        self.sessions[name] = job["spe_address"], session
        return {
            "do": "start",
            "remote": _remote(job["spe_address"], session),
            "name": name,
            "checkpoint": str(Path(self._directory.name) / name),
            "source": {
                "brokerUrl": job["source_broker"],
                "topic": job["source_topic"],
                "clientId": f"speck-{name}",
            },
            "sink": {"brokerUrl": job["sink_broker"], "topic": job["sink_topic"], "job": name},
        }

    def stop(self, name: str) -> dict[str, Any]:
        """The order to stop a job."""
        address, session = self.sessions[name]
        return {"do": "stop", "remote": _remote(address, session)}

    def forget(self) -> None:
        """All jobs were stopped: the next ones start over."""
        self.sessions.clear()
        self._directory.cleanup()
        self._directory = tempfile.TemporaryDirectory(prefix="speck-deploy-")

    def close(self) -> None:
        """Remove the checkpoints."""
        self._directory.cleanup()


def _remote(address: str, session: str) -> str:
    return f"sc://{urlsplit(address).netloc}/;user_id=benchmark;session_id={session}"


class Paper:
    """One job after the other, a new client for each, as a shell script would do it."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._requests = _Requests(places)

    def deploy(self, chain: Chain) -> None:
        """See :class:`~benchmarks.deploy.ways.Way`."""
        for job in chain.jobs():
            self._do(self._requests.start(job))

    def modify(self, chain: Chain) -> None:
        """See :class:`~benchmarks.deploy.ways.Way`."""
        for job in chain.jobs()[: chain.modified]:
            self._do(self._requests.stop(job["job_name"]))
            self._do(self._requests.start(job))

    def delete(self, chain: Chain) -> None:
        """See :class:`~benchmarks.deploy.ways.Way`."""
        for name in list(self._requests.sessions):
            self._do(self._requests.stop(name))
        self._requests.forget()

    def close(self) -> None:
        """Leave nothing."""
        self._requests.close()

    def _do(self, request: Mapping[str, Any]) -> None:
        client = _Client()
        try:
            client.do(request)
        finally:
            client.close()


class Floor:
    """The least that can be done: clients that are up already, side by side."""

    def __init__(self, concurrency: int, places: Sequence[Place]) -> None:
        self._requests = _Requests(places)
        self._clients = [_Client() for _ in range(concurrency)]
        self._pool = ThreadPoolExecutor(concurrency)

    def deploy(self, chain: Chain) -> None:
        """See :class:`~benchmarks.deploy.ways.Way`."""
        self._all([[self._requests.start(job)] for job in chain.jobs()])

    def modify(self, chain: Chain) -> None:
        """See :class:`~benchmarks.deploy.ways.Way`."""
        jobs = chain.jobs()[: chain.modified]
        self._all([[self._requests.stop(job["job_name"]), self._requests.start(job)] for job in jobs])

    def delete(self, chain: Chain) -> None:
        """See :class:`~benchmarks.deploy.ways.Way`."""
        self._all([[self._requests.stop(name)] for name in self._requests.sessions])
        self._requests.forget()

    def close(self) -> None:
        """End the clients."""
        self._pool.shutdown()
        for client in self._clients:
            client.close()
        self._requests.close()

    def _all(self, series: Sequence[Sequence[Mapping[str, Any]]]) -> None:
        idle = list(self._clients)

        def carry_out(requests: Sequence[Mapping[str, Any]]) -> None:
            client = idle.pop()  # as many threads as clients: there is one
            try:
                for request in requests:
                    client.do(request)
            finally:
                idle.append(client)

        for future in [self._pool.submit(carry_out, requests) for requests in series]:
            future.result()


def await_quiet(addresses: Sequence[str], jobs: int) -> None:
    """Nothing to wait for: a client is answered when its query runs, or has ended."""
