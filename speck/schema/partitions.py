"""The partitions that the block ``topics`` declares, and the faults of those that no job uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from speck.core.job import Job
from speck.errors import Fault
from speck.schema.edges import Edges
from speck.schema.fault_report import Suggestions, quoted
from speck.schema.yaml.lines import line_of


def unused_partitions(edges: Edges, jobs: Iterable[Job]) -> Iterator[Fault]:
    """A fault for each topic with partitions that no job reads or writes."""
    used = {topic for job in jobs for _, topic in (*job.read_topics, *job.written_topics)}
    suggestions = Suggestions(used)
    for topic in edges.partitions.keys() - used:
        near = suggestions.near(topic)
        right = (
            f"did you mean {' or '.join(map(repr, near))}?" if near else "expected a topic that a job uses"
        )
        message = f"topics: {quoted(topic)} has partitions, but no job here reads or writes it ({right})"
        yield Fault(message, field="topics", value=topic, line=line_of(edges.data["topics"], topic))
