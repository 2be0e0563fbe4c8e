"""The graph of a composition: topics tie jobs.

A job reads a topic filter at one broker and writes a topic at one broker; there is an edge from who writes to
who reads where broker and topic fit.  Edges are not listed pair by pair: many jobs that write a topic which
many read would make a square of them.  Jobs hang on endpoints instead, and all costs are linear in the jobs
(and, for a wildcard, in the topics that it matches).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple, TypeVar

from speck.core.job import Job
from speck.core.topic import is_filter
from speck.errors import Fault, InvalidInput

Key = TypeVar("Key")
Value = TypeVar("Value")


class Endpoint(NamedTuple):
    """A topic, or a topic filter, at a broker."""

    broker: str
    topic: str


Members = Mapping[Endpoint, tuple[str, ...]]


@dataclass(frozen=True)
class Graph:
    """Who feeds whom.  Jobs are named in alphabetical order, wherever the file has them.

    ``writers`` and ``readers`` hold the names of the jobs at each endpoint written to or read from;
    ``matched`` the endpoints written to that each endpoint read from takes in (no entry for none).
    """

    jobs: Mapping[str, Job]
    writers: Members
    readers: Members
    matched: Mapping[Endpoint, tuple[Endpoint, ...]]
    _taken: Mapping[Endpoint, tuple[Endpoint, ...]] = field(repr=False)

    @classmethod
    def of(cls, jobs: Iterable[Job]) -> Graph:
        """The graph of these jobs (of names that differ)."""
        named = {job.job_name: job for job in sorted(jobs, key=lambda job: job.job_name)}
        writers = _grouped((sink_of(job), name) for name, job in named.items())
        readers = _grouped((source_of(job), name) for name, job in named.items())
        matched = dict(_matches(writers, readers))
        taken = _grouped((written, read) for read, all_written in matched.items() for written in all_written)
        return cls(named, writers, readers, matched, taken)

    def writers_of(self, job: Job) -> tuple[str, ...]:
        """The jobs that feed this one, by name."""
        source = source_of(job)
        return _flat(self.writers[written] for written in self.matched.get(source, ()))

    def readers_of(self, job: Job) -> tuple[str, ...]:
        """The jobs that this one feeds, by name."""
        sink = sink_of(job)
        return _flat(self.readers[read] for read in self._taken.get(sink, ()))

    @property
    def sources(self) -> Members:
        """The endpoints read from to which no job here writes, with the jobs that read them."""
        return {read: names for read, names in self.readers.items() if read not in self.matched}

    @property
    def sinks(self) -> Members:
        """The endpoints written to from which no job here reads, with the jobs that write them."""
        return {written: names for written, names in self.writers.items() if written not in self._taken}

    def cycle(self) -> list[str] | None:
        """The jobs of one cycle in the order of the data, the first name first; ``None``: there is none."""
        try:
            self._sorter().prepare()
        except CycleError as error:
            return _turned([node for node in error.args[1][1:] if isinstance(node, str)])
        return None

    def order(self) -> list[str]:
        """All jobs, each after those that feed it.  Raises :class:`InvalidInput` for a cycle."""
        try:
            return [node for node in self._sorter().static_order() if isinstance(node, str)]
        except CycleError as error:
            names = _turned([node for node in error.args[1][1:] if isinstance(node, str)])
            raise InvalidInput([cycle_fault(names)], "composition") from error

    def _sorter(self) -> TopologicalSorter[str | Endpoint | tuple[str, Endpoint]]:
        # An endpoint read from is a node of its own kind: the same topic may be written and read.
        sorter: TopologicalSorter[str | Endpoint | tuple[str, Endpoint]] = TopologicalSorter()
        for name, job in self.jobs.items():
            sorter.add(name, ("read", source_of(job)))
            sorter.add(sink_of(job), name)
        for read, all_written in self.matched.items():
            sorter.add(("read", read), *all_written)
        return sorter


def source_of(job: Job) -> Endpoint:
    """Where a job reads."""
    return Endpoint(job.source_broker, job.source_topic)


def sink_of(job: Job) -> Endpoint:
    """Where a job writes."""
    return Endpoint(job.sink_broker, job.sink_topic)


def cycle_fault(names: list[str]) -> Fault:
    """The fault of a cycle, its jobs in the order of the data."""
    path = " -> ".join([*names, names[0]])
    message = f"the jobs form a cycle through their topics: {path} (expected data to flow one way)"
    return Fault(message, job=names[0])


def _turned(names: list[str]) -> list[str]:
    first = names.index(min(names))
    return names[first:] + names[:first]


def _flat(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted(name for group in groups for name in group))


def _grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, tuple[Value, ...]]:
    groups: dict[Key, list[Value]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return {key: tuple(values) for key, values in groups.items()}


def _matches(writers: Members, readers: Members) -> Iterator[tuple[Endpoint, tuple[Endpoint, ...]]]:
    """For each endpoint read from, those written to that it takes in, unless there is none."""
    with_wildcards = [read for read in readers if is_filter(read.topic)]
    brokers = {read.broker for read in with_wildcards}
    tree = _TopicTree(written for written in writers if written.broker in brokers)
    for read in readers:
        if not is_filter(read.topic):
            if read in writers:
                yield read, (read,)
        elif found := tuple(sorted(tree.matching(read))):
            yield read, found


class _TopicTree:
    """The topics written to, level by level under their broker, so that a filter walks only where it fits."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._brokers: dict[str, _Level] = defaultdict(_Level)
        for endpoint in endpoints:
            level = self._brokers[endpoint.broker]
            for word in endpoint.topic.split("/"):
                level = level.below.setdefault(word, _Level())
            level.endpoint = endpoint

    def matching(self, read: Endpoint) -> Iterator[Endpoint]:
        """The endpoints that a filter takes in; ``$`` topics only when named (MQTT 5.0, section 4.7.2)."""
        levels = [self._brokers[read.broker]]
        for depth, word in enumerate(read.topic.split("/")):
            if word == "#":
                yield from _all_under(levels, hidden=depth == 0)
                return
            levels = [below for level in levels for below in level.fitting(word, hidden=depth == 0)]
        yield from (level.endpoint for level in levels if level.endpoint is not None)


@dataclass(slots=True)
class _Level:
    endpoint: Endpoint | None = None
    below: dict[str, _Level] = field(default_factory=dict)

    def fitting(self, word: str, hidden: bool) -> Iterator[_Level]:
        if word != "+":
            found = self.below.get(word)
            return iter(() if found is None else (found,))
        return (level for name, level in self.below.items() if not (hidden and name.startswith("$")))


def _all_under(levels: list[_Level], hidden: bool) -> Iterator[Endpoint]:
    pending = [below for level in levels for below in level.fitting("+", True)] if hidden else list(levels)
    while pending:
        level = pending.pop()
        if level.endpoint is not None:
            yield level.endpoint
        pending.extend(level.below.values())
