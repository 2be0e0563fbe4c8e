from __future__ import annotations

import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from speck.core.graph import Endpoint, Graph
from speck.core.job import Job
from speck.core.topic import filter_fault, matches, name_fault
from speck.errors import InvalidInput
from testbed.benches.examples import job
from tests.support.properties import property_test


def chain(*names: str) -> list[Job]:
    return [job(name, f"t{index}", f"t{index + 1}") for index, name in enumerate(names)]


def test_a_topic_ties_every_writer_to_every_reader() -> None:
    jobs = [job("a", "x", "t"), job("b", "y", "t"), job("c", "t", "u"), job("d", "t", "v")]
    graph = Graph.of(jobs)
    assert graph.writers_of(jobs[2]) == ("a", "b")
    assert graph.readers_of(jobs[0]) == ("c", "d")
    assert graph.writers_of(jobs[0]) == graph.readers_of(jobs[3]) == ()


def test_the_same_topic_at_another_broker_ties_nothing() -> None:
    jobs = [job("a", "x", "t", sink_broker="tcp://cloud:1883"), job("b", "t", "u")]
    graph = Graph.of(jobs)
    assert graph.readers_of(jobs[0]) == ()
    assert graph.sources == {
        Endpoint("tcp://edge:1883", "x"): ("a",),
        Endpoint("tcp://edge:1883", "t"): ("b",),
    }
    assert graph.sinks == {
        Endpoint("tcp://cloud:1883", "t"): ("a",),
        Endpoint("tcp://edge:1883", "u"): ("b",),
    }


def test_a_filter_takes_in_what_it_matches() -> None:
    jobs = [job("a", "x", "road/a/raw"), job("b", "x", "road/b/raw"), job("all", "road/+/raw", "sum")]
    jobs += [job("rest", "road/#", "more"), job("hash", "elsewhere/#", "last")]
    graph = Graph.of(jobs)
    assert graph.writers_of(jobs[2]) == graph.writers_of(jobs[3]) == ("a", "b")
    assert graph.readers_of(jobs[0]) == ("all", "rest")
    assert graph.writers_of(jobs[4]) == ()


def test_a_parking_topic_is_written_to_beside_the_results() -> None:
    parks = job("a", "x", "t", sink_broker="tcp://cloud:1883", park_topic="bad/a")
    jobs = [parks, job("repairs", "bad/+", "x"), job("elsewhere", "bad/a", source_broker="tcp://cloud:1883")]
    graph = Graph.of(jobs)
    assert graph.readers_of(parks) == graph.writers_of(jobs[1]) == ()
    assert graph.cycle() is None
    flows = graph.with_parked
    assert flows.readers_of(parks) == flows.writers_of(parks) == ("repairs",)
    assert flows.writers_of(jobs[1]) == ("a",)
    assert flows.sources == {Endpoint("tcp://cloud:1883", "bad/a"): ("elsewhere",)}
    plain = Graph.of(jobs[1:])
    assert plain.with_parked is plain


def test_jobs_come_after_those_that_feed_them() -> None:
    assert Graph.of(reversed(chain("d", "c", "b", "a"))).order() == ["d", "c", "b", "a"]


def test_order_does_not_depend_on_the_file() -> None:
    jobs = [*chain("a", "b", "c"), job("z", "t1", "u"), job("y", "u", "v")]
    assert Graph.of(jobs).order() == Graph.of(reversed(jobs)).order()


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        pytest.param(chain("a", "b", "c"), None, id="chain"),
        pytest.param([job("a", "t", "t")], ["a"], id="itself"),
        pytest.param([job("b", "t", "u"), job("a", "u", "t")], ["a", "b"], id="two"),
        pytest.param(
            [job("c", "t1", "t2"), job("a", "t2", "t3"), job("b", "t3", "t1")], ["a", "b", "c"], id="three"
        ),
        pytest.param([job("a", "#", "t")], ["a"], id="filter of everything"),
        pytest.param([job("a", "x", "t"), *chain("b", "c")], None, id="no cycle beside a chain"),
        pytest.param([job("a", "t", "u"), job("b", "t", "u"), job("c", "u", "v")], None, id="diamond"),
    ],
)
def test_cycle(jobs: list[Job], expected: list[str] | None) -> None:
    assert Graph.of(jobs).cycle() == expected


topics = some.sampled_from(["a", "b", "c", "d", "b/c", "b/+", "b/#", "+/c"])
wired = some.tuples(topics, topics.filter(lambda topic: not name_fault(topic)))


@property_test
@given(some.lists(wired, min_size=1, max_size=6))
def test_a_cycle_is_named_where_there_is_no_order(pairs: list[tuple[str, str]]) -> None:
    graph = Graph.of(job(f"j{index}", *pair) for index, pair in enumerate(pairs))
    cycle = graph.cycle()
    assert graph._has_cycle() is (cycle is not None)
    if cycle is None:
        assert len(graph.order()) == len(pairs)
        return
    with pytest.raises(InvalidInput, match="form a cycle"):
        graph.order()
    for name, following in pairwise([*cycle, cycle[0]]):
        assert following in graph.readers_of(graph.jobs[name])


def test_order_of_a_cycle_names_its_jobs() -> None:
    with pytest.raises(InvalidInput, match="a -> b -> a"):
        Graph.of([job("b", "t", "u"), job("a", "u", "t")]).order()


def test_many_writers_and_readers_of_one_topic_make_no_square() -> None:
    jobs = [job(f"w{n}", "in", "hub") for n in range(5_000)] + [
        job(f"r{n}", "hub", "out") for n in range(5_000)
    ]
    graph = Graph.of(jobs)
    assert sum(map(len, graph.writers.values())) + sum(map(len, graph.readers.values())) == 20_000
    order = graph.order()
    assert all(name.startswith("w") for name in order[:5_000])
    assert len(order) == 10_000


def test_a_chain_of_many_jobs_is_ordered_without_recursion() -> None:
    jobs = chain(*(f"j{n:06d}" for n in range(5 * sys.getrecursionlimit())))
    graph = Graph.of(jobs)
    assert graph.cycle() is None
    assert graph.order() == [each.job_name for each in jobs]


# --- topics (MQTT 5.0, section 4.7) ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic_filter", "topic", "expected"),
    [
        # the specification's own examples
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/#", "sport", True),
        ("#", "sport/tennis", True),
        ("sport/tennis/+", "sport/tennis/player1", True),
        ("sport/tennis/+", "sport/tennis/player1/ranking", False),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("#", "$SYS/load", False),
        ("+/monitor/Clients", "$SYS/monitor/Clients", False),
        ("$SYS/#", "$SYS/load", True),
        ("$SYS/monitor/+", "$SYS/monitor/Clients", True),
        ("ACCOUNTS", "Accounts", False),
    ],
)
def test_matching(topic_filter: str, topic: str, expected: bool) -> None:
    assert matches(topic_filter, topic) is expected
    jobs = [job("writer", "x", topic), job("reader", topic_filter, "y")]
    assert ("writer" in Graph.of(jobs).writers_of(jobs[1])) is expected


words = some.lists(some.sampled_from(["a", "b", "", "$s"]), min_size=1, max_size=3).map("/".join)
filters = some.lists(some.sampled_from(["a", "b", "", "+", "$s"]), min_size=1, max_size=3).flatmap(
    lambda levels: some.sampled_from(["/".join(levels), "/".join([*levels, "#"])])
)


@property_test
@given(some.lists(words, min_size=1, max_size=6, unique=True), filters)
def test_the_walk_finds_what_pairwise_matching_finds(topics: list[str], topic_filter: str) -> None:
    reader = job("reader", topic_filter, "never/read/by/anyone")
    writers = [job(f"w{index}", "never/written/by/anyone", topic) for index, topic in enumerate(topics)]
    expected = tuple(f"w{index}" for index, topic in enumerate(topics) if matches(topic_filter, topic))
    found = Graph.of([reader, *writers]).writers_of(reader)
    assert tuple(name for name in found if name != "reader") == expected


@pytest.mark.parametrize("topic", ["a", "a/b", "/", "a b", "é/ü", "#", "a/#", "+", "+/a/+", "$SYS/x", "a//b"])
def test_good_filter(topic: str) -> None:
    assert filter_fault(topic) is None


@pytest.mark.parametrize(
    "topic", ["", "a/#/b", "a#", "#/a", "##", "a+", "a/b+/c", "a\0", "a\ud800", "$share/g/t", "x" * 65_536]
)
def test_bad_filter(topic: str) -> None:
    assert filter_fault(topic) is not None


@pytest.mark.parametrize("topic", ["a", "a/b", "/a", "é" * 32_767])
def test_good_name(topic: str) -> None:
    assert name_fault(topic) is None


@pytest.mark.parametrize("topic", ["", "a/+", "#", "a\0b", "$SYS/x", "speck/fence/a", "é" * 32_768])
def test_bad_name(topic: str) -> None:
    assert name_fault(topic) is not None
