"""Jobs built without a file, for tests below the schema."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from speck.core.job import Composition, Job

CODE = {"jobs.py": "def work(messages): return messages\n", "other.py": "def work(messages): return None\n"}


def code_hash(name: str) -> str:
    """The hash of one of the files that :func:`write_code` writes."""
    return hashlib.sha256(CODE[name].encode()).hexdigest()


def write_code(root: Path) -> Path:
    """Write the files that the jobs name; returns the root."""
    for name, text in CODE.items():
        (root / name).write_text(text)
    return root


def make_job(name: str, reads: str = "in", writes: str = "out", **fields: Any) -> Job:
    """A job at engine ``sc://e1`` and broker ``tcp://b1``, unless ``fields`` name others."""
    defaults: dict[str, Any] = {
        "spe_address": "sc://e1:1",
        "source_broker": "tcp://b1:1883",
        "sink_broker": "tcp://b1:1883",
        "entry_class": "work",
        "job_path": "jobs.py",
        "engine": "spark",
        "code_hash": code_hash(fields.get("job_path", "jobs.py")),
    }
    return Job(job_name=name, source_topic=reads, sink_topic=writes, **(defaults | fields))


def composition(*jobs: Job, name: str = "traffic") -> Composition:
    """A composition of these jobs."""
    return Composition(name, {job.job_name: job for job in jobs})


def chain(*names: str, **fields: Any) -> list[Job]:
    """Jobs that each read the output of the one before: topics t0, t1, ..."""
    return [make_job(name, f"t{index}", f"t{index + 1}", **fields) for index, name in enumerate(names)]
