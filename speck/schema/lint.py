"""Warnings about a composition: valid, but probably mistakes, such as topics that no job writes or reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from speck.core.draft import FREE
from speck.core.graph import Endpoint, Graph, Members, source_of
from speck.core.job import client_id, fence_topic
from speck.core.split import Role, part_of
from speck.core.topic import OWN_TOPICS, is_filter, matches
from speck.errors import Fault
from speck.schema.edges import Edges
from speck.schema.fault_report import FaultReport, Suggestions, listed


def lint(graph: Graph, sources: Mapping[str, Mapping[str, Any]], edges: Edges | None = None) -> list[Fault]:
    """The warnings about a composition by line; ``sources`` are the jobs' data, by job name.

    Declared ``edges`` are no mistakes.  Nor are topics with an entry under ``topics``, which says what comes
    from outside, unless a similar topic is open too, or the same one is used at another broker.
    """
    edges = edges or Edges()
    faults: list[Fault] = []
    flows = graph.with_parked
    brokers_written, brokers_read = _brokers(flows.writers), _brokers(graph.readers)
    written = Suggestions(dict.fromkeys([*(each.topic for each in flows.writers), *edges.typed]))
    read = Suggestions(dict.fromkeys([*(each.topic for each in graph.readers), *edges.typed]))
    unwritten, unread = _but(flows.sources, edges.is_source), _but(graph.sinks, edges.is_sink)
    slips = _slips((end for end in unwritten if end.topic not in brokers_written), unread, written)
    meant = {end.topic for end in slips.values()}
    unread = {end: names for end, names in unread.items() if end.topic not in meant}

    def unwritten_text(end: Endpoint) -> str:
        near = slips.get(end.topic)
        return _unwritten(end, brokers_written, written) if near is None else _slip(near, graph.sinks[near])

    doubtful = _doubtful(unwritten, brokers_written, edges, slips)
    for topic, message, readers in _by_topic(doubtful, unwritten_text):
        _add(faults, sources, readers, "source_topic", topic, f"{message}{_others(readers, 'read')}")
    doubtful = _doubtful(unread, brokers_read, edges)
    for topic, message, writers in _by_topic(doubtful, lambda end: _unread(end, brokers_read, read)):
        _add(faults, sources, writers, "sink_topic", topic, f"{message}{_others(writers, 'written')}")
    faults.extend(_fence_readers(graph, sources))
    faults.extend(_part_readers(graph, sources))
    return sorted(faults, key=lambda fault: fault.line or 0)


def _slips(unwritten: Iterable[Endpoint], unread: Members, written: Suggestions) -> dict[str, Endpoint]:
    """The topics that no job writes, each with the one that no job reads of which it is probably a slip."""
    ends = {end.topic: end for end in unread}
    found: dict[str, Endpoint] = {}
    for topic in dict.fromkeys(end.topic for end in unwritten if not is_filter(end.topic)):
        near = next((each for each in written.near(topic) if each in ends), None)
        if near is not None:
            found[topic] = ends.pop(near)
    return found


def _slip(near: Endpoint, writers: Collection[str]) -> str:
    meant = f"did you mean {near.topic!r}, which job {min(writers)!r} writes and no job here reads?"
    return f"is written by no job here: an external source, or a mistake ({meant})"


def _doubtful(
    ends: Members, elsewhere: Mapping[str, list[str]], edges: Edges, slips: Collection[str] = ()
) -> Members:
    """The open ends that may be mistakes; ``elsewhere`` are the brokers where jobs use their topics."""

    def is_intended(end: Endpoint) -> bool:
        return edges.is_described(end.topic) and end.topic not in elsewhere and end.broker != FREE

    return {end: names for end, names in ends.items() if end.topic in slips or not is_intended(end)}


def _but(ends: Members, is_declared: Callable[[str], bool]) -> Members:
    return {endpoint: names for endpoint, names in ends.items() if not is_declared(endpoint.topic)}


def _brokers(endpoints: Iterable[Endpoint]) -> dict[str, list[str]]:
    """The brokers of each topic."""
    found: dict[str, list[str]] = {}
    for endpoint in endpoints:
        found.setdefault(endpoint.topic, []).append(endpoint.broker)
    return found


def _unwritten(endpoint: Endpoint, elsewhere: Mapping[str, list[str]], names: Suggestions) -> str:
    if brokers := elsewhere.get(endpoint.topic):
        return f"is written at {listed(brokers)} but read at {endpoint.broker}: no data flows between them"
    return f"is written by no job here: an external source, or a mistake{_near(names, endpoint.topic)}"


def _unread(endpoint: Endpoint, elsewhere: Mapping[str, list[str]], names: Suggestions) -> str:
    if brokers := elsewhere.get(endpoint.topic):
        return f"is read at {listed(brokers)} but written at {endpoint.broker}: no data flows between them"
    if endpoint.broker == FREE:
        return "is read by no job here, and SpecK chooses its broker (an external reader needs sink_broker)"
    return f"is read by no job here: an external sink, or a mistake{_near(names, endpoint.topic)}"


def _near(names: Suggestions, topic: str) -> str:
    near = [] if is_filter(topic) else names.near(topic)
    return f" (did you mean {' or '.join(repr(each) for each in near)}?)" if near else ""


def _by_topic(ends: Members, worded: Callable[[Endpoint], str]) -> Iterator[tuple[str, str, list[str]]]:
    """Topics, messages and the names of their jobs; equal messages about a topic at several brokers once."""
    found: dict[tuple[str, str], list[str]] = {}
    for endpoint, names in ends.items():
        found.setdefault((endpoint.topic, worded(endpoint)), []).extend(names)
    for (topic, message), members in found.items():
        yield topic, message, sorted(members)


def _add(
    faults: list[Fault],
    sources: Mapping[str, Mapping[str, Any]],
    names: list[str],
    field: str,
    topic: str,
    message: str,
) -> None:
    data = sources[names[0]]
    written = None if field in data else repr(topic)  # the topic of a query stands under `topics`
    FaultReport(faults, data, job=names[0]).add(field, message, shown=written)


def _others(names: list[str], verb: str) -> str:
    more = len(names) - 1
    return f" ({verb} by {more} more job{'s' if more > 1 else ''})" if more else ""


def _fence_readers(graph: Graph, sources: Mapping[str, Mapping[str, Any]]) -> Iterator[Fault]:
    for name, job in graph.jobs.items():
        if is_filter(job.source_topic) and matches(job.source_topic, fence_topic(client_id(name))):
            found: list[Fault] = []
            message = "matches SpecK's own fence messages (expected a filter that excludes speck/fence/)"
            FaultReport(found, sources[name], job=name).add("source_topic", message)
            yield from found


def _part_readers(graph: Graph, sources: Mapping[str, Mapping[str, Any]]) -> Iterator[Fault]:
    """A warning for each job that reads messages between parts of a split or a query, and is none of them."""
    for name, job in graph.jobs.items():
        topics = [job.source_topic, *(each.topic for each in graph.matched.get(source_of(job), ()))]
        own = [topic for topic in topics if topic.startswith(OWN_TOPICS)]
        if not own:
            continue
        part = part_of(job)
        inside = part.role in (Role.COMBINER, Role.REDUCER) if part else job.query.get("role") == "rest"
        if not inside:
            found: list[Fault] = []
            excluded = next(each for each in OWN_TOPICS if own[0].startswith(each))
            message = f"matches messages of SpecK itself (expected a topic that excludes {excluded})"
            FaultReport(found, sources[name], job=name).add("source_topic", message)
            yield from found
