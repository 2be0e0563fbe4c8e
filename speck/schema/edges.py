"""The blocks ``sources``, ``sinks`` and ``topics``: the declared edges of a composition, and shared topics.

A composition with ``sources`` (or ``sinks``) declares all topics that come from (or go to) outside: another
one that no job writes (or reads) is a fault, since it is a slip.  With either block, a topic that several
jobs write is a fault too, unless ``sinks`` or ``topics`` declare it as shared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from speck.core.graph import Endpoint, Graph, Members
from speck.core.job import Job
from speck.core.topic import OWN_TOPICS, filter_fault, is_filter, matches, name_fault
from speck.errors import Fault
from speck.schema.fault_report import FaultReport, Suggestions, kind_of_value, listed, quoted
from speck.schema.schemas import TopicSchema, TypedTopicSchema
from speck.schema.validation import report_wrong_shape, validate_fields
from speck.schema.yaml.lines import line_of

_BLOCKS = ("sources", "sinks", "topics")

Sources = Mapping[str, Mapping[str, Any]]  # the data of the jobs, by name


@dataclass(frozen=True)
class Edges:
    """The declared topics with their descriptions; ``None``: the file has no such block.

    ``shared`` are the topics that several jobs may write; ``typed`` the fields of those under ``topics``;
    ``data`` is the document; ``faulty`` are the topics of that block with a fault.
    """

    sources: Mapping[str, str] | None = None
    sinks: Mapping[str, str] | None = None
    shared: frozenset[str] = frozenset()
    typed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    faulty: frozenset[str] = frozenset()

    @property
    def described(self) -> dict[str, Mapping[str, str]]:
        """The blocks ``sources`` and ``sinks``, those that the file has."""
        blocks = {"sources": self.sources, "sinks": self.sinks}
        return {name: topics for name, topics in blocks.items() if topics}

    @property
    def partitions(self) -> dict[str, int]:
        """The declared partitions of topics."""
        return {topic: each["partitions"] for topic, each in self.typed.items() if "partitions" in each}

    @property
    def are_declared(self) -> bool:
        """True if the edges of the composition are declared."""
        return self.sources is not None or self.sinks is not None

    def is_source(self, topic: str) -> bool:
        """True if a topic, or a filter, takes in a declared source."""
        return _is_declared(topic, self.sources or ())

    def is_described(self, topic: str) -> bool:
        """True if the block ``topics`` has a topic, or a filter that takes it in."""
        return _is_declared(topic, self.typed)

    def is_sink(self, topic: str) -> bool:
        """True if a topic is a declared sink."""
        return _is_declared(topic, self.sinks or ())


def _is_declared(topic: str, declared: Collection[str]) -> bool:
    return topic in declared or any(matches(each, topic) or matches(topic, each) for each in declared)


def declared_edges(data: Mapping[str, Any], report: FaultReport) -> Edges:
    """The edges that a document declares.  Adds the faults of the blocks to ``report``."""
    faulty = set[str]()
    blocks = {name: _block(name, data, report, faulty) for name in _BLOCKS if data.get(name) is not None}
    shared = {topic for block in blocks.values() for topic, values in block.items() if values.get("shared")}
    described = {
        name: {topic: str(values.get("description", "")) for topic, values in block.items()}
        for name, block in blocks.items()
    }
    return Edges(
        described.get("sources"),
        described.get("sinks"),
        frozenset(shared),
        blocks.get("topics", {}),
        data,
        frozenset(faulty),
    )


def _block(
    name: str, data: Mapping[str, Any], report: FaultReport, faulty: set[str]
) -> dict[str, dict[str, Any]]:
    """The valid fields of each topic of a block; adds the topics of ``topics`` with a fault to ``faulty``."""
    entries = data[name]
    if not isinstance(entries, Mapping):
        report_wrong_shape(report, name, f"a mapping, as '{name}: {{TOPIC: a description}}'")
        return {}
    found = {}
    for key, value in entries.items():
        topic, before = str(key), len(report.faults)
        line = line_of(entries, key)
        typed = isinstance(value, Mapping) and not {"schema", "as", "event_time"}.isdisjoint(value)
        check = filter_fault if name == "sources" or typed else name_fault
        if (fault := check(topic)) is not None:
            report.faults.append(
                Fault(f"{name}: {quoted(topic)} {fault}", field=name, value=topic, line=line)
            )
        elif isinstance(value, Mapping):
            inner = FaultReport(report.faults, value, subject=f"{name}: {quoted(topic)}: ")
            schema = TypedTopicSchema() if name == "topics" else TopicSchema()
            found[topic] = validate_fields(schema, value, inner)
        elif value is None or isinstance(value, str):
            found[topic] = {"description": value or ""}
        else:
            right = "expected a description, or a mapping with 'description:' and 'shared:'"
            message = f"{name}: {quoted(topic)} is {kind_of_value(value)} ({right})"
            report.faults.append(Fault(message, field=name, value=value, line=line))
        if name == "topics" and len(report.faults) > before:
            faulty.add(topic)
    return found


def edge_faults(graph: Graph, edges: Edges, jobs: Sources) -> list[Fault]:
    """The faults of a graph: undeclared ends, slips in the blocks, topics that are not shared."""
    faults: list[Fault] = []
    explained = set[str]()  # topics of which an undeclared one is probably a slip: one fault for both
    for end in _ends(graph, edges):
        undeclared = {
            each: names
            for each, names in end.open.items()
            if each.topic not in explained and not _is_declared(each.topic, end.declared)
        }
        explained |= _add_undeclared(faults, end, undeclared, jobs)
        faults += _unused(edges, end, explained)
    if edges.are_declared:
        _add_shared(faults, graph, edges, jobs)
    return faults


@dataclass(frozen=True)
class _End:
    """A declared end of the graph: its block, its field of jobs, and the endpoints that are open there.

    ``used`` is what jobs do with its topics, ``users`` where; ``missing`` and ``others`` are the same for the
    other side, where an open endpoint may be one of the ``others``, misspelt.
    """

    block: str
    field: str
    declared: Mapping[str, str]
    open: Members
    used: str
    users: Members
    missing: str
    others: Members

    def message(self, endpoint: Endpoint, near: Sequence[str]) -> str:
        """The fault of an undeclared endpoint; ``near`` are the topics that it may be, misspelt."""
        topic = endpoint.topic
        if elsewhere := [each.broker for each in self.others if each.topic == topic]:
            return (
                f"is {self.missing} at {listed(elsewhere)} and not at {endpoint.broker}: no data flows there"
            )
        meant = f"did you mean {' or '.join(map(repr, near))}? Otherwise " if near else ""
        return f"is {self.missing} by no job here and not declared ({meant}expected it under '{self.block}:')"


def _ends(graph: Graph, edges: Edges) -> Iterator[_End]:
    flows, read = graph.with_parked, graph.readers
    written = flows.writers
    if edges.sources is not None:
        yield _End("sources", "source_topic", edges.sources, flows.sources, "read", read, "written", written)
    if edges.sinks is not None:
        yield _End("sinks", "sink_topic", edges.sinks, graph.sinks, "written", written, "read", read)


def _add_undeclared(faults: list[Fault], end: _End, undeclared: Members, jobs: Sources) -> set[str]:
    """Add the faults of undeclared endpoints, and return the topics that they are most similar to."""
    nearest = set[str]()
    suggestions = Suggestions(dict.fromkeys([*end.declared, *(each.topic for each in end.others)]))
    for endpoint, names in undeclared.items():
        if not endpoint.topic.startswith(OWN_TOPICS):
            first = min(names)
            near = [] if is_filter(endpoint.topic) else suggestions.near(endpoint.topic)
            nearest |= set(near[:1])
            FaultReport(faults, jobs[first], job=first).add(end.field, end.message(endpoint, near))
    return nearest


def _unused(edges: Edges, end: _End, explained: Collection[str]) -> Iterator[Fault]:
    """A fault for each declared topic that no job uses, but those that are ``explained`` by another fault."""
    used = {each.topic for each in end.users}
    suggestions = Suggestions(used)
    for topic in end.declared:
        if topic in explained or _is_declared(topic, used):
            continue
        near = suggestions.near(topic)
        right = (
            f"did you mean {' or '.join(map(repr, near))}?"
            if near
            else f"expected a topic that is {end.used} here"
        )
        message = f"{end.block}: {quoted(topic)} is {end.used} by no job here ({right})"
        yield Fault(message, field=end.block, value=topic, line=line_of(edges.data[end.block], topic))


def _add_shared(faults: list[Fault], graph: Graph, edges: Edges, jobs: Sources) -> None:
    """Add a fault for each topic that several jobs write; the parts of a split or a query are one job."""
    for endpoint, names in graph.writers.items():
        owners = {_owner(graph.jobs[name]): name for name in sorted(names)}
        if len(owners) > 1 and endpoint.topic not in edges.shared:
            message = (
                f"is written by {len(owners)} jobs: {listed(list(owners))} (expected one writer, or "
                f"'shared: true' for it under 'topics:' or 'sinks:' where several are meant)"
            )
            name = list(owners.values())[1]
            FaultReport(faults, jobs[name], job=name).add("sink_topic", message)


def _owner(job: Job) -> str:
    return str(job.split.get("of") or job.query.get("of") or job.job_name)
