"""The compositions that are deployed, changed and deleted while the server is killed.

Two jobs in a row at two sites, the first of them with state, and a third one that comes and goes.  The
results show which copies wrote them: a count of the messages so far, and the mark of the version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from testbed.benches.job_text import FLINK_CODE

FIRST = "first"  # the version that is rolled back to
NAME = "kills"
IN, MIDDLE, OUT = "kills/in", "kills/middle", "kills/out"


@dataclass(frozen=True)
class Programs:
    """The code of the jobs on one kind of engine: fields of a job that counts, and of one that marks."""

    engine: str
    counts: Mapping[str, Any]
    marks: Mapping[str, Any]


FLINK = Programs(
    "flink",
    {
        "job_path": FLINK_CODE,
        "entry_class": "io.speck.flink.jobs.CountByKey",
        "arguments": {"field": 1},
    },
    {"job_path": FLINK_CODE, "entry_class": "io.speck.flink.jobs.Forward"},
)

SPARK = Programs(
    "spark",
    {"job_path": "testbed/faults/spark_jobs.py", "entry_class": "counted"},
    {"job_path": "testbed/faults/spark_jobs.py", "entry_class": "marked"},
)


@dataclass(frozen=True)
class JobForm:
    """One job: where it runs, and what it reads at which site's broker, and writes."""

    name: str
    site: str
    reads: tuple[str, str]
    writes: tuple[str, str]
    program: Mapping[str, Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """The job as in a composition."""
        arguments = {**self.program.get("arguments", {}), **self.arguments}
        return {
            **self.program,
            "job_name": self.name,
            "site": self.site,
            "source_broker": self.reads[0],
            "source_topic": self.reads[1],
            "sink_broker": self.writes[0],
            "sink_topic": self.writes[1],
            "arguments": arguments,
        }


@dataclass(frozen=True)
class Version:
    """One version of the composition; ``mark`` is what its last job writes behind each message."""

    name: str
    mark: str
    jobs: Sequence[JobForm]

    def text(self, engine: str) -> bytes:
        """The file that a user would write."""
        jobs = [{**form.data(), "engine": engine} for form in self.jobs]
        return yaml.safe_dump({"name": NAME, "jobs": jobs}).encode()


def versions(programs: Programs) -> dict[str, Version]:
    """All versions by name."""
    counted = JobForm("counted", "A", ("A", IN), ("B", MIDDLE), programs.counts)
    marked = JobForm("marked", "B", ("B", MIDDLE), ("B", OUT), programs.marks, {"site": "first"})
    beside = JobForm("beside", "A", ("A", IN), ("A", "kills/beside"), programs.marks)
    other = ("B", "kills/other")
    found = (
        Version(FIRST, "first", (counted, marked)),
        Version("updated", "second", (counted, replace(marked, arguments={"site": "second"}), beside)),
        Version("moved", "first", (replace(counted, site="B"), replace(marked, site="A"))),
        Version("rewired", "first", (replace(counted, writes=other), replace(marked, reads=other))),
    )
    return {each.name: each for each in found}
