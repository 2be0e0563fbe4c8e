"""Flink's REST interface called by hand: the paper's way, one job after the other, and the floor.

Both send what SpecK sends to Flink (the same arguments and settings) and nothing more: the same jobs run,
each with a session that its broker keeps and a fence that it looks at.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from benchmarks.deploy.chain import Chain, Place
from benchmarks.deploy.ways import ROOT
from binders.flink.submission.job_config import SETTINGS
from speck.core.job import fence_topic

_POLL = 0.01
_PATIENCE = 60.0


@dataclass
class FlinkRest:
    """One cluster; what it refuses is a :class:`RuntimeError`.

    ``owner`` names those whose jobs are started: each has sessions of its own.
    """

    address: str
    owner: str = "nobody"
    session: requests.Session = field(default_factory=requests.Session)

    def upload(self, jar: Path) -> str:
        """Upload a jar; answers its id."""
        with jar.open("rb") as file:
            files = {"jarfile": (jar.name, file, "application/x-java-archive")}
            answer = self._ask("POST", "jars/upload", files=files)
        return str(answer["filename"]).rpartition("/")[2]

    def drop(self, jar_id: str) -> None:
        """Delete a jar."""
        self._ask("DELETE", f"jars/{jar_id}")

    def run(self, jar_id: str, job: Mapping[str, Any], savepoint: str | None = None) -> str:
        """Start a job; answers its id."""
        wiring = ("source_broker", "source_topic", "sink_broker", "sink_topic")
        options = {"job-name": job["job_name"], **{name.replace("_", "-"): job[name] for name in wiring}}
        session = f"bench-{self.owner}-{job['job_name']}"
        options |= {"session": session, "attempt": 1, "fence-topic": fence_topic(session)}
        options |= job.get("arguments", {})
        body = {
            "entryClass": job["entry_class"],
            "programArgsList": [
                part for name, value in options.items() for part in (f"--{name}", str(value))
            ],
            "jobId": uuid.uuid4().hex,
            "flinkConfiguration": {**SETTINGS, "pipeline.name": job["job_name"]},
        }
        if savepoint is not None:
            body |= {"savepointPath": savepoint, "claimMode": "NO_CLAIM"}
        return str(self._ask("POST", f"jars/{jar_id}/run", json=body)["jobid"])

    def cancel(self, job_id: str) -> None:
        """Cancel a job."""
        self._ask("PATCH", f"jobs/{job_id}?mode=cancel")

    def stop(self, job_id: str, directory: str) -> str:
        """Stop a job with a savepoint in this directory; answers where that is."""
        body = {"targetDirectory": directory, "drain": False}
        request = self._ask("POST", f"jobs/{job_id}/stop", json=body)["request-id"]
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            answer = self._ask("GET", f"jobs/{job_id}/savepoints/{request}")
            if answer["status"]["id"] == "COMPLETED":
                if "location" in answer["operation"]:
                    return str(answer["operation"]["location"])
                raise RuntimeError(f"job {job_id} at {self.address}: {answer['operation']}"[:2000])
            time.sleep(_POLL)
        raise RuntimeError(f"job {job_id} at {self.address} took no savepoint in {_PATIENCE:g} s")

    def states(self) -> list[str]:
        """The states of all jobs that have not ended; RUNNING when all of their tasks are."""
        jobs = self._ask("GET", "jobs/overview")["jobs"]
        return [
            job["state"] if job["tasks"]["running"] == job["tasks"]["total"] else "ON ITS WAY"
            for job in jobs
            if job["state"] not in ("FINISHED", "CANCELED", "FAILED")
        ]

    def jars(self) -> list[str]:
        """The ids of the jars that are there."""
        return [each["id"] for each in self._ask("GET", "jars")["files"]]

    def _ask(self, method: str, path: str, **kwargs: Any) -> Any:
        url = f"{self.address.rstrip('/')}/{path}"
        answer = self.session.request(method, url, timeout=_PATIENCE, **kwargs)
        if not answer.ok:
            raise RuntimeError(f"{method} {url}: HTTP {answer.status_code} {answer.text[-1500:]}")
        return json.loads(answer.content or b"{}")


class Paper:
    """The paper's prototype: one job after the other, its jar uploaded for each, a new connection a call.

    ``jar`` is uploaded in place of the jobs' own.
    """

    def __init__(self, jar: Path | None = None) -> None:
        self._jar = jar
        self._running: dict[str, tuple[str, str, str]] = {}

    def deploy(self, chain: Chain) -> None:
        """See :class:`~benchmarks.deploy.ways.Way`."""
        for job in chain.jobs():
            self._start(job)

    def modify(self, chain: Chain) -> None:
        """See :class:`~benchmarks.deploy.ways.Way`; without state, which the prototype did not carry."""
        for job in chain.jobs()[: chain.modified]:
            self._end(job["job_name"])
            self._start(job)

    def delete(self, chain: Chain) -> None:
        """See :class:`~benchmarks.deploy.ways.Way`."""
        for name in list(self._running):
            self._end(name)

    def close(self) -> None:
        """Nothing is held."""

    def _start(self, job: Mapping[str, Any]) -> None:
        address = job["spe_address"]
        jar_id = FlinkRest(address).upload(self._jar or ROOT / job["job_path"])
        self._running[job["job_name"]] = address, jar_id, FlinkRest(address, "paper").run(jar_id, job)

    def _end(self, name: str) -> None:
        address, jar_id, job_id = self._running.pop(name)
        FlinkRest(address).cancel(job_id)
        FlinkRest(address).drop(jar_id)


class Floor:
    """The least that can be done: each jar once a cluster, and every other call of all jobs side by side."""

    def __init__(self, concurrency: int, places: Sequence[Place]) -> None:
        self._pool = ThreadPoolExecutor(concurrency)
        self._directories = {place.engine: str(place.known["savepoint_dir"]) for place in places}
        self._rest: dict[str, FlinkRest] = {}
        self._jars: dict[str, str] = {}
        self._running: dict[str, tuple[str, str]] = {}

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def deploy(self, chain: Chain) -> None:
        """See :class:`~benchmarks.deploy.ways.Way`."""
        jobs = chain.jobs()
        addresses = list(dict.fromkeys(job["spe_address"] for job in jobs))
        jar = ROOT / chain.program.job_path
        uploads = {address: self._pool.submit(self._upload, address, jar) for address in addresses}
        self._all(lambda job: self._start(job, uploads[job["spe_address"]].result()), jobs)

    def modify(self, chain: Chain) -> None:
        """See :class:`~benchmarks.deploy.ways.Way`."""
        self._all(self._replace, chain.jobs()[: chain.modified])

    def delete(self, chain: Chain) -> None:
        """See :class:`~benchmarks.deploy.ways.Way`."""
        self._all(
            lambda name: self._cluster(self._running[name][0]).cancel(self._running[name][1]), self._running
        )
        self._all(lambda address: self._cluster(address).drop(self._jars[address]), self._jars)
        self._running.clear()
        self._jars.clear()

    def _replace(self, job: Mapping[str, Any]) -> None:
        address, job_id = self._running[job["job_name"]]
        savepoint = self._cluster(address).stop(job_id, self._directories[address])
        self._start(job, self._jars[address], savepoint)

    def _start(self, job: Mapping[str, Any], jar_id: str, savepoint: str | None = None) -> None:
        address = job["spe_address"]
        self._running[job["job_name"]] = address, self._cluster(address).run(jar_id, job, savepoint)

    def _upload(self, address: str, jar: Path) -> str:
        self._jars[address] = self._cluster(address).upload(jar)
        return self._jars[address]

    def _cluster(self, address: str) -> FlinkRest:
        if address not in self._rest:
            cluster = FlinkRest(address, "floor")
            adapter = requests.adapters.HTTPAdapter(pool_maxsize=64)
            cluster.session.mount("http://", adapter)
            self._rest.setdefault(address, cluster)
        return self._rest[address]

    def _all(self, work: Callable[[Any], Any], items: Iterable[Any]) -> None:
        for future in [self._pool.submit(work, item) for item in list(items)]:
            future.result()


def await_quiet(addresses: Sequence[str], desired: int = 0) -> None:
    """Wait until this number of jobs run in all, and none is starting."""
    clusters = [FlinkRest(address) for address in addresses]
    pause = 0.01 + 0.001 * desired  # s; a cluster takes a millisecond of processor time to tell of a job
    deadline = time.monotonic() + _PATIENCE
    while True:
        states = [state for cluster in clusters for state in cluster.states()]
        if len(states) == desired and all(state == "RUNNING" for state in states):
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(states)} jobs, {desired} desired: {sorted(set(states))}")
        time.sleep(pause)
