"""The partitions of the topics of a plan, compared with those of the topics that brokers have.

The messages of one key are in one partition, which depends on their number: with another number, the next
messages of a key would be in another partition, and its order would be lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from speck.binder.pool import BinderPool
from speck.core.job import Job
from speck.errors import BinderError, Fault


@dataclass(frozen=True)
class Partitions:
    """The topics of jobs with declared partitions.  ``left_behind`` are addresses that are not asked."""

    pool: BinderPool
    left_behind: Collection[str]

    def faults(self, jobs: Iterable[Job]) -> list[Fault]:
        """A fault for each topic that a broker has with another number of partitions."""
        return [
            Fault(
                f"topics: {topic!r} has {_count(found)} at {broker} (expected partitions: {found}; with "
                "another number the messages of a key would lose their order: give the topic another name)",
                job=job.job_name,
                field="partitions",
                value=declared,
            )
            for job, broker, topic, declared, found in self._found(jobs)
            if found not in (None, declared)
        ]

    def notes(self, jobs: Iterable[Job]) -> dict[str, str]:
        """A remark on each job that a topic is made for, by job name."""
        notes: dict[str, list[str]] = {}
        for job, broker, topic, declared, found in self._found(jobs):
            if found is None:
                text = f"topic {topic!r} is created at {broker} with {_count(declared)}"
                notes.setdefault(job.job_name, []).append(text)
        return {name: "; ".join(texts) for name, texts in notes.items()}

    def _found(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, str, str, int, int | None]]:
        """Each topic once: a job, the broker, the topic, and the declared and the present partitions."""
        asked: set[tuple[str, str]] = set()
        for job in jobs:
            for broker, topic in (*job.written_topics, *job.read_topics):
                declared = job.partitions.get(topic)
                if declared is None or not broker or broker in self.left_behind or (broker, topic) in asked:
                    continue
                asked.add((broker, topic))
                try:
                    found = self.pool.broker(broker).topic_partitions(topic)
                except BinderError:
                    continue  # the apply asks again before it stops anything
                yield job, broker, topic, declared, found


def _count(partitions: int) -> str:
    return "1 partition" if partitions == 1 else f"{partitions} partitions"
