"""Flink with its own connector for Kafka, and nothing around it but a script that starts its jobs again."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from binders.flink.rest.client import FlinkRest
from testbed.rivals.hops import Hop
from testbed.servers.base import RealServer
from testbed.servers.flink import FlinkServer
from testbed.waiting import await_that

_CHECKPOINTS = {
    "execution.checkpointing.interval": "1 s",  # as SpecK's jobs have
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
}


class BareFlink(RealServer):
    """Flink in one process with a job for each hop, which is submitted again after each start.

    By default there are no checkpoints, so that a job reads its topic from the beginning.  ``best`` are the
    documented settings for exactly one delivery: transactions, and checkpoints, from the newest of which a
    job continues.
    """

    def __init__(self, directory: Path, hops: Sequence[Hop], jar: Path, *, best: bool = False) -> None:
        """Prepare it; ``jar`` has the class ``io.speck.stock.Stock``."""
        super().__init__(directory)
        self._hops, self._jar, self._best = hops, jar, best
        conf = _CHECKPOINTS if best else {}
        self._flink = FlinkServer(directory / "flink", heap="128m", slots=16, small=True, conf=conf)
        self._ids: list[list[str]] = [[] for _ in hops]  # by hop, those of its jobs so far

    @property
    def pids(self) -> list[int]:
        """See :class:`RealServer`."""
        return self._flink.pids

    @property
    def log(self) -> str:
        """See :class:`RealServer`."""
        return self._flink.log

    def start(self) -> Self:
        """Start the engine and its jobs, and wait until they run."""
        self._flink.start()
        with closing(FlinkRest(self._flink.address)) as rest:
            jar = rest.upload(self._jar, self._jar.name)
            started = [rest.run(jar, self._request(number)) for number in range(len(self._hops))]
            await_that(
                lambda: [rest.job_state(job) for job in started],
                lambda states: all(state == "RUNNING" for state in states),
            )
        return self

    def kill(self) -> None:
        """End the engine by SIGKILL."""
        self._flink.kill()

    def stop(self) -> None:
        """End the engine."""
        self._flink.stop()

    def _request(self, number: int) -> dict[str, Any]:
        hop, ids = self._hops[number], self._ids[number]
        arguments = {
            "job-name": f"hop-{number}",
            "source-broker": hop.source.broker,
            "source-topic": hop.source.topic,
            "sink-broker": hop.sink.broker,
            "sink-topic": hop.sink.topic,
        }
        if self._best:
            arguments["guarantee"] = "exactly_once"
        checkpoint = newest_checkpoint(self._flink.cluster.checkpoints, ids)
        ids.append(uuid.uuid4().hex)
        return {
            "entryClass": "io.speck.stock.Stock",
            "jobId": ids[-1],
            "parallelism": 1,
            "programArgsList": [part for name, value in arguments.items() for part in (f"--{name}", value)],
            **({} if checkpoint is None else {"savepointPath": checkpoint.as_uri()}),
        }


def newest_checkpoint(folder: Path, jobs: Iterable[str]) -> Path | None:
    """The newest complete checkpoint of any of these jobs, by their ids; ``None`` without one."""
    complete = [file for job in jobs for file in (folder / job).glob("chk-*/_metadata")]
    return max(complete, key=lambda file: file.stat().st_mtime_ns).parent if complete else None
