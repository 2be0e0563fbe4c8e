"""Jobs made without a file, for tests of what lies behind the schema."""

from __future__ import annotations

from typing import Any

from speck.model import Composition, Job


def make_job(name: str, reads: str = "in", writes: str = "out", **fields: Any) -> Job:
    """A job at engine ``sc://e1`` and broker ``tcp://b1`` unless said otherwise."""
    defaults: dict[str, Any] = {
        "spe_address": "sc://e1:1",
        "source_broker": "tcp://b1:1883",
        "sink_broker": "tcp://b1:1883",
        "entry_class": "work",
        "job_path": "jobs.py",
        "engine": "spark",
        "code_hash": "00" * 32,
    }
    return Job(job_name=name, source_topic=reads, sink_topic=writes, **(defaults | fields))


def composition(*jobs: Job, name: str = "traffic") -> Composition:
    """A composition of these jobs."""
    return Composition(name, {job.job_name: job for job in jobs})


def chain(*names: str, **fields: Any) -> list[Job]:
    """Jobs that each read what the one before writes: topics t0, t1, ..."""
    return [make_job(name, f"t{index}", f"t{index + 1}", **fields) for index, name in enumerate(names)]
