"""Bytes on disk for each job of a deployed composition: ``python -m benchmarks.store [--json] [--jobs N]``.

A composition is applied through the real coordinator to engines in memory, the store is closed, and the
files of its directory are added up: revision, jobs, attempts with their handles, operation, audit log and
LevelDB's own files, all of it.  Beside it, in the same run, stands the prototype's way: a LevelDB with one
JSON document a job.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import uuid
from dataclasses import replace
from pathlib import Path

import plyvel

from benchmarks.common import Figure
from speck.binder import Registry
from speck.coordinator import build
from speck.core.inventory import Engine, Inventory, Site
from speck.core.job import Composition, Job
from speck.core.runtime import Attempt, Handle
from speck.core.settings import Settings
from speck.store import Store
from testbed.benches import user
from testbed.benches.jobs_by_hand import code_hash, write_code
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from testbed.results import add_output_options, published
from testbed.termination import run

RUNS = 5


def composition(count: int, seed: int) -> Composition:
    """Jobs as a city would have them: sites of ten jobs, a few programs, addresses of real length."""
    dice = random.Random(seed)
    jobs = {}
    for number in range(count):
        site = number // 10
        address = f"172.16.{site // 250}.{site % 250}"
        name = f"{dice.choice(['clean', 'forward', 'local-stats', 'count'])}-{number}"
        jobs[name] = Job(
            job_name=name,
            spe_address=f"sc://{address}:15002",
            source_broker=f"tcp://{address}:1883",
            source_topic=f"sensors/{number}",
            sink_broker=f"tcp://{address}:1883",
            sink_topic=f"clean/{number}",
            entry_class=dice.choice(["clean", "forward", "local_stats"]),
            job_path="jobs.py",
            engine="spark",
            site=f"site-{site}",
            code_hash=code_hash("jobs.py"),
        )
    return Composition("city", jobs)


def inventory_of(jobs: Composition) -> Inventory:
    """The sites of the jobs, as they name their engines and brokers."""
    sites = {
        job.site: Site(
            name=job.site,
            engines=(Engine(spe_address=job.spe_address),),
            broker_address=job.source_broker,
        )
        for job in jobs.jobs.values()
        if job.site is not None
    }
    return Inventory(sites)


def size(directory: Path) -> int:
    """Bytes of all files below a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


class EngineInMemory(InMemoryEngine):
    """The double, with handles as long as those of :mod:`binders.spark.connect.engine`."""

    def _handle(self, attempt: Attempt) -> Handle:
        details = {
            "job": attempt.job_name,
            "query": str(uuid.uuid4()),
            "run": str(uuid.uuid4()),
            "checkpoint": f"file:///var/lib/speck/checkpoints/{attempt.job_name}/{attempt.id}",
        }
        return Handle(self.address, str(uuid.UUID(attempt.id)), details)


def kinds() -> Registry:
    """A kind of engine and of broker, in memory."""
    world = World()
    doubles = double_kinds(world)
    engine = replace(doubles.engines[0], connect=lambda address, inventory: EngineInMemory(world, address))
    return Registry((engine,), doubles.brokers)


def deployed(jobs: Composition, directory: Path) -> float:
    """Bytes a job in SpecK's store, after an apply of the whole composition."""
    with Store(directory) as store:
        settings = Settings(roots=(write_code(directory),), period=0)
        coordinator = build(store, kinds(), inventory_of(jobs), settings).coordinator
        operation, _ = user.apply(coordinator, jobs)
        operation.wait(600)
        assert operation.state == "succeeded", operation.to_dict()
        coordinator.close()
    return size(directory) / len(jobs.jobs)


def plain(jobs: Composition, directory: Path) -> float:
    """Bytes a job in a LevelDB with one JSON document a job and nothing else."""
    with plyvel.DB(str(directory), create_if_missing=True) as database:
        for name, job in jobs.jobs.items():
            database.put(name.encode(), json.dumps(job.to_dict()).encode(), sync=True)
    return size(directory) / len(jobs.jobs)


def measure(count: int, runs: int) -> dict[str, Figure]:
    """Both, ``runs`` times, each time with another composition."""
    ours, theirs = [], []
    for number in range(runs):
        jobs = composition(count, number)
        with tempfile.TemporaryDirectory() as directory:
            ours.append(deployed(jobs, Path(directory) / "speck"))
            theirs.append(plain(jobs, Path(directory) / "plain"))
        print(f"run {number + 1} of {runs}: {ours[-1]:.0f} bytes a job", file=sys.stderr)
    return {"bytes_per_job": Figure.of(ours), "plain_json_bytes_per_job": Figure.of(theirs)}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store", description=__doc__)
    add_output_options(parser)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    found = measure(options.jobs, options.runs)
    if published(
        options, "store", {"jobs": options.jobs} | {k: v for n, f in found.items() for k, v in f.named(n)}
    ):
        return
    for name, figure in found.items():
        print(f"{name:<28} {figure}")


if __name__ == "__main__":
    run(main)
