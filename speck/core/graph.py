"""The graph of a composition: topics tie jobs.

A job reads a topic filter at one broker and writes a topic at one broker (a part of a split several topics);
there is an edge from a writer to each reader at the same broker whose filter matches the topic.  Edges are
not stored pair by pair, which would be quadratic for many writers and readers of one topic: jobs are attached
to endpoints instead, and all costs are linear in the jobs (and, for a wildcard, in the topics that it
matches).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import NamedTuple, TypeVar

from speck.core.job import Job
from speck.core.split import written_topics
from speck.core.topic import is_filter
from speck.errors import Fault, InvalidInput

Key = TypeVar("Key")
Value = TypeVar("Value")


class Endpoint(NamedTuple):
    """A topic, or a topic filter, at a broker."""

    broker: str
    topic: str


Members = Mapping[Endpoint, tuple[str, ...]]
Outputs = Callable[[Job], Iterable[Endpoint]]


def source_of(job: Job) -> Endpoint:
    """The endpoint that a job reads from."""
    return Endpoint(job.source_broker, job.source_topic)


def sinks_of(job: Job) -> tuple[Endpoint, ...]:
    """The endpoints that a job writes its results to; several for a part of a split."""
    return tuple(Endpoint(job.sink_broker, topic) for topic in written_topics(job))


def outputs_of(job: Job) -> tuple[Endpoint, ...]:
    """The endpoints that a job writes to: its sinks, and its parking topic."""
    if job.park_topic is None:
        return sinks_of(job)
    return tuple(dict.fromkeys((*sinks_of(job), Endpoint(job.source_broker, job.park_topic))))


@dataclass(frozen=True)
class Graph:
    """The jobs and the endpoints that connect them; names are in alphabetical order.

    ``writers`` and ``readers`` are the names of the jobs that write to or read from each endpoint.
    ``matched`` are the written endpoints that match each endpoint read from (no entry if none does).
    Parking topics are written to in :attr:`with_parked` alone.
    """

    jobs: Mapping[str, Job]
    writers: Members
    readers: Members
    matched: Mapping[Endpoint, tuple[Endpoint, ...]]
    _matching: Mapping[Endpoint, tuple[Endpoint, ...]] = field(repr=False)
    _outputs: Outputs = field(repr=False)

    @classmethod
    def of(cls, jobs: Iterable[Job], outputs: Outputs = sinks_of) -> Graph:
        """The graph of these jobs, whose names must be distinct, with these ``outputs`` of each."""
        named = {job.job_name: job for job in sorted(jobs, key=lambda job: job.job_name)}
        writers = _grouped((sink, name) for name, job in named.items() for sink in outputs(job))
        readers = _grouped((source_of(job), name) for name, job in named.items())
        matched = dict(_matches(writers, readers))
        matching = _grouped(
            (written, read) for read, all_written in matched.items() for written in all_written
        )
        return cls(named, writers, readers, matched, matching, outputs)

    @cached_property
    def with_parked(self) -> Graph:
        """The graph of the same jobs in which their parking topics are written to as well.

        It may have cycles: a job may repair parked messages, and write them back to where they came from.
        """
        if all(job.park_topic is None for job in self.jobs.values()):
            return self
        return Graph.of(self.jobs.values(), outputs_of)

    def writers_of(self, job: Job) -> tuple[str, ...]:
        """The names of the jobs that feed this one."""
        source = source_of(job)
        return _flat(self.writers[written] for written in self.matched.get(source, ()))

    def readers_at(self, written: Endpoint) -> tuple[str, ...]:
        """The names of the jobs that read what is written to an endpoint."""
        return _flat(self.readers[read] for read in self._matching.get(written, ()))

    def readers_of(self, job: Job) -> tuple[str, ...]:
        """The names of the jobs that this one feeds."""
        fed = dict.fromkeys(read for sink in self._outputs(job) for read in self._matching.get(sink, ()))
        return _flat(self.readers[read] for read in fed)

    @property
    def sources(self) -> Members:
        """The endpoints read from that no job here writes to, with their readers."""
        return {read: names for read, names in self.readers.items() if read not in self.matched}

    @property
    def sinks(self) -> Members:
        """The endpoints written to that no job here reads from, with their writers."""
        return {written: names for written, names in self.writers.items() if written not in self._matching}

    def cycle(self) -> list[str] | None:
        """The jobs of one cycle along the data flow, from the first name; ``None`` if there is no cycle."""
        if not self._has_cycle():
            return None
        try:
            self._sorter().prepare()
        except CycleError as error:
            return _rotated([node for node in error.args[1][1:] if isinstance(node, str)])
        return None

    def cycles(self, most: int) -> Iterator[list[str]]:
        """The first ``most`` cycles that share no job, each as :meth:`cycle` gives it."""
        graph = self
        for _ in range(most):
            names = graph.cycle()
            if names is None:
                return
            yield names
            others = [job for name, job in graph.jobs.items() if name not in names]
            graph = Graph.of(others, self._outputs)

    def _has_cycle(self) -> bool:
        """True if the data flow leads back to an endpoint (A. B. Kahn, 1962).

        A topic is one node here, written or read, and a job an edge: a third of the nodes of :meth:`order`,
        and by far most compositions have no cycle to be named.
        """
        after: dict[Endpoint, list[Endpoint]] = defaultdict(list)
        for job in self.jobs.values():
            after[source_of(job)] += self._outputs(job)
        for read, all_written in self.matched.items():
            for written in all_written:
                if written != read:
                    after[written].append(read)
        before = Counter(chain.from_iterable(after.values()))
        ready = [each for each in after if each not in before]
        for each in ready:
            for following in after.get(each, ()):
                before[following] -= 1
                if not before[following]:
                    ready.append(following)
        return any(before.values())

    def order(self) -> list[str]:
        """All jobs, each after those that feed it.  Raises :class:`InvalidInput` for a cycle."""
        try:
            return [node for node in self._sorter().static_order() if isinstance(node, str)]
        except CycleError as error:
            names = _rotated([node for node in error.args[1][1:] if isinstance(node, str)])
            raise InvalidInput([cycle_fault(names)], "composition") from error

    def _sorter(self) -> TopologicalSorter[str | Endpoint | tuple[str, Endpoint]]:
        # Endpoints read from are nodes of another kind: the same topic may be written and read.
        sorter: TopologicalSorter[str | Endpoint | tuple[str, Endpoint]] = TopologicalSorter()
        for name, job in self.jobs.items():
            sorter.add(name, ("read", source_of(job)))
            for sink in self._outputs(job):
                sorter.add(sink, name)
        for read, all_written in self.matched.items():
            sorter.add(("read", read), *all_written)
        return sorter


def cycle_fault(names: list[str]) -> Fault:
    """The fault of a cycle of jobs, named along the data flow."""
    path = " -> ".join([*names, names[0]])
    message = f"the jobs form a cycle through their topics: {path} (expected data to flow one way)"
    return Fault(message, job=names[0])


def _rotated(names: list[str]) -> list[str]:
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
    """Each endpoint read from with the written endpoints that match it, where any does."""
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
    """A trie of the written topics by broker and level, of which a filter visits only matching branches."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._brokers: dict[str, _Level] = defaultdict(_Level)
        for endpoint in endpoints:
            level = self._brokers[endpoint.broker]
            for word in endpoint.topic.split("/"):
                level = level.below.setdefault(word, _Level())
            level.endpoint = endpoint

    def matching(self, read: Endpoint) -> Iterator[Endpoint]:
        """The endpoints that match a filter; ``$`` topics only if named (MQTT 5.0, section 4.7.2)."""
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
