"""The kinds of engine that can be compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from benchmarks.deploy import flink, spark
from benchmarks.deploy.chain import Chain, Place, Program
from benchmarks.deploy.ways import ROOT
from binders.flink.local.server import FLINK_CLUSTER
from binders.spark.local.connect_server import CONNECT_SERVER
from speck.binder import LocalServer


class ClosableWay(Protocol):
    """A :class:`~benchmarks.deploy.ways.Way` that holds something."""

    def deploy(self, chain: Chain) -> None: ...
    def modify(self, chain: Chain) -> None: ...
    def delete(self, chain: Chain) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Kind:
    """A kind of engine: its server, what its jobs run, and the ways to compare with.

    ``paper`` has the paper's way in one form or several, by name.
    """

    server: LocalServer
    heap: str
    program: Program
    sizes: Sequence[int]
    modified: Sequence[int]
    concurrencies: Sequence[int]  # that the floor is tried with
    paper: Mapping[str, Callable[[Sequence[Place]], ClosableWay]]
    floor: Callable[[int, Sequence[Place]], ClosableWay]
    await_quiet: Callable[[Sequence[str], int], None]


KINDS = {
    "flink": Kind(
        server=FLINK_CLUSTER,
        heap="192m",
        program=Program("flink", "jars_and_apps/flink/speck-flink-jobs.jar", "io.speck.flink.jobs.Forward"),
        sizes=(1, 10, 25, 50, 100),
        modified=(1, 10, 50, 100),
        concurrencies=(8, 16, 32),
        # Flink's own advice is to have the connector in the job's jar; a prototype would have had it there.
        paper={
            "paper": lambda places: flink.Paper(),
            "complete": lambda places: flink.Paper(ROOT / "jars_and_apps/flink/speck-flink-jobs-all.jar"),
        },
        floor=flink.Floor,
        await_quiet=flink.await_quiet,
    ),
    "spark": Kind(
        server=CONNECT_SERVER,
        heap="600m",
        program=Program("spark", "benchmarks/load/pass_through.py", "pass_through"),
        sizes=(1, 6, 12, 24),
        modified=(1, 10, 24),
        concurrencies=(6, 12),  # each is a process with pyspark in it
        paper={"paper": spark.Paper},
        floor=spark.Floor,
        await_quiet=spark.await_quiet,
    ),
}
