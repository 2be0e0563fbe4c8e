from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from speck.core.draft import Channel, Draft, ExcludedSite
from speck.core.inventory import Engine, Inventory, Site
from speck.core.job import Composition, Job, changed_fields, form_fingerprint
from speck.core.placement import Expects, PlacementOptions
from speck.core.topic import matches
from speck.errors import InvalidInput
from testbed.benches.examples import REGISTRY, job
from tests.support.properties import property_test


def site(name: str, *engines: str) -> Site:
    return Site(
        name=name,
        engines=tuple(Engine(spe_address=each) for each in engines),
        broker_address=f"tcp://{name.lower()}:1883",
    )


INVENTORY = Inventory(
    {
        "A": site("A", "http://a:8081/"),
        "B": site("B", "sc://b:15002"),
        "D": site("D", "sc://d:15002", "http://d:8081/", "http://d:8082/"),
    }
)
ALL = ("spe_address", "source_broker", "sink_broker")


def movable(name: str, source: str, sink: str, *sites: str, **fields: object) -> Job:
    """A job whose place and topics SpecK chooses; those of ``fields`` are given."""
    placed = tuple(each for each in ALL if each not in fields)
    values = {**dict.fromkeys(placed, ""), "sites": sites or ("any",), "placed": placed}
    return job(name, source, sink, **{**values, **fields})


def first(name: str = "first", sink: str = "clean", *sites: str, **fields: object) -> Job:
    """A movable job that reads from outside of the composition."""
    return movable(name, "in", sink, *sites, **{"source_broker": "tcp://a:1883", **fields})


def draft(*jobs: Job, running: Iterable[Job] | None = None, **options: PlacementOptions) -> Draft:
    composition = Composition("test", {each.job_name: each for each in jobs}, **options)
    present = None if running is None else {each.job_name: each for each in running}
    return Draft.of(composition, INVENTORY, REGISTRY, present)


# --- candidates


def test_candidates_are_the_sites_with_an_engine_of_the_kind() -> None:
    found = draft(first())
    assert found.candidates == {"first": {"A": "http://a:8081/", "D": "http://d:8081/"}}
    assert found.refused == (ExcludedSite("first", "B", "has no engine of kind 'flink'"),)


def test_candidates_are_only_those_that_the_file_allows() -> None:
    found = draft(first("first", "clean", "D", "Z"))
    assert found.candidates == {"first": {"D": "http://d:8081/"}}
    assert found.refused == (ExcludedSite("first", "Z", "is not a site of this inventory"),)


def test_a_job_that_runs_keeps_its_engine_at_the_site() -> None:
    found = draft(first(spe_address="http://d:8082/", placed=ALL[::2]))
    assert found.candidates["first"]["D"] == "http://d:8082/"
    assert found.sites == {"first": "D"}


def test_a_job_stays_only_where_the_file_allows_it() -> None:
    running = first(spe_address="http://a:8081/")
    assert draft(first("first", "clean", "D"), running=[running]).sites == {}
    assert draft(first(engine="spark"), running=[running]).sites == {}
    assert draft(first("first", "clean", "A", "D"), running=[running]).sites == {"first": "A"}


def test_a_pinned_job_stays_and_is_placed_once() -> None:
    assert set(draft(first(pin=True)).candidates["first"]) == {"A", "D"}
    found = draft(first(pin=True), running=[first(spe_address="http://a:8081/")])
    assert set(found.candidates["first"]) == {"A"}
    assert ExcludedSite("first", "D", "the job is pinned to A") in found.refused


def test_a_fixed_job_has_its_own_site_alone() -> None:
    found = draft(job("A", spe_address="http://d:8081/"), job("B", "b", spe_address="http://else:8081/"))
    assert found.candidates == {"A": {"D": "http://d:8081/"}, "B": {}}
    assert found.settled({}, {}).jobs == found.jobs


# --- channels


def test_free_topics_are_channels_and_the_others_are_not() -> None:
    found = draft(first(), movable("second", "clean", "out", sink_broker="tcp://d:1883"))
    assert found.channels == {"clean": Channel("clean", ("clean",), ("first",), ("second",))}
    assert (found.reads, found.writes) == ({"second": "clean"}, {"first": "clean"})


def test_a_filter_joins_the_topics_that_it_takes_in() -> None:
    found = draft(
        first("a", "clean/a"),
        first("b", "clean/b"),
        first("c", "raw/c"),
        movable("all", "clean/+", "all"),
        movable("one", "clean/a", "one"),
    )
    assert found.topics == {
        "clean/a": "clean/a",
        "clean/b": "clean/a",
        "raw/c": "raw/c",
        "all": "all",
        "one": "one",
    }
    assert found.channels["clean/a"] == Channel("clean/a", ("clean/a", "clean/b"), ("a", "b"), ("all", "one"))


PARKS = movable("second", "clean", "out", park_topic="bad")
REPAIRS = movable("third", "bad", "clean", engine="spark")


def test_what_is_parked_is_at_the_home_of_the_source() -> None:
    found = draft(first(), PARKS, REPAIRS)
    assert found.channels["clean"] == Channel(
        "clean", ("bad", "clean"), ("first", "third"), ("second", "third")
    )
    assert draft(first(), PARKS).topics == {"clean": "clean", "out": "out"}  # which nobody reads
    sites = {"first": "A", "second": "D", "third": "B"}
    for home in "AB":  # and after a move
        jobs = found.settled(sites, {"clean": home, "out": "D"}).jobs
        assert jobs["third"].source_broker == jobs["second"].source_broker == f"tcp://{home.lower()}:1883"
        again = draft(first(), PARKS, REPAIRS, running=jobs.values())
        assert again.homes == {"clean": home, "out": "D"}


def test_what_is_parked_by_jobs_without_a_writer_has_no_home() -> None:
    parks = movable("fourth", "gone", "more", park_topic="bad")
    found = draft(parks, replace(REPAIRS, park_topic="worse"), movable("last", "worse", "end"))
    assert (found.reads, set(found.channels)) == ({}, {"clean", "end", "more"})


LEVELS = some.lists(some.sampled_from("abc"), min_size=1, max_size=3).map("/".join)
FILTERS = some.lists(some.sampled_from("abc+"), min_size=1, max_size=3).map("/".join) | LEVELS.map(
    "{}/#".format
)


@property_test
@given(some.sets(LEVELS, min_size=1, max_size=8), some.lists(FILTERS, max_size=5))
def test_topics_share_a_home_exactly_when_filters_join_them(topics: set[str], filters: list[str]) -> None:
    writers = [first(f"w{index}", topic) for index, topic in enumerate(sorted(topics))]
    readers = [movable(f"r{index}", each, f"out/{index}") for index, each in enumerate(filters)]
    found = draft(*writers, *readers).topics
    for topic in topics:
        reached, before = {topic}, set[str]()
        while reached != before:  # the closure, step by step
            before = set(reached)
            for each in filters:
                taken = {other for other in topics if matches(each, other)}
                reached |= taken if taken & reached else set()
        assert {other for other in topics if found[other] == found[topic]} == reached


# --- jobs together and apart


def test_jobs_with_each_other_are_groups_transitively() -> None:
    found = draft(
        first("a"),
        first("b", with_job="a"),
        first("c", with_job="b"),
        first("d"),
        first("e", apart=("d", "a")),
    )
    assert found.groups == (("a", "b", "c"),)
    assert found.pairs == (("a", "e"), ("d", "e"))


# --- settling


def chain() -> list[Job]:
    return [first(), movable("second", "clean", "out", engine="spark")]


def test_settling_fills_what_is_placed() -> None:
    done = draft(*chain()).settled({"first": "A", "second": "B"}, {"clean": "D", "out": "B"})
    one, two = done.jobs["first"], done.jobs["second"]
    assert (one.site, one.spe_address) == ("A", "http://a:8081/")
    assert (one.source_broker, one.sink_broker) == ("tcp://a:1883", "tcp://d:1883")
    assert (two.site, two.spe_address) == ("B", "sc://b:15002")
    assert (two.source_broker, two.sink_broker) == ("tcp://d:1883", "tcp://b:1883")


@pytest.mark.parametrize(
    ("sites", "homes", "message"),
    [
        ({"first": "A"}, {"clean": "A", "out": "A"}, r"is placed at no site \(expected one of B, D\)"),
        ({"first": "A", "second": "A"}, {"clean": "A", "out": "A"}, r"at site 'A' \(expected one of B, D\)"),
        (
            {"first": "A", "second": "B"},
            {"clean": "A"},
            r"topic 'out' has its home at no site \(expected one of",
        ),
        ({"first": "A", "second": "B"}, {"clean": "A", "out": "Z"}, r"has its home at site 'Z'"),
    ],
)
def test_settling_refuses_other_places(sites: dict[str, str], homes: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        draft(*chain()).settled(sites, homes)


def test_a_channel_stays_where_its_writer_sends() -> None:
    running = [
        first(spe_address="http://a:8081/", sink_broker="tcp://d:1883"),
        movable("second", "clean", "out", spe_address="sc://b:15002", source_broker="tcp://d:1883"),
    ]
    assert draft(*chain(), running=running).homes == {"clean": "D"}


def test_a_channel_stays_where_its_readers_wait_when_its_writer_is_another() -> None:
    second = movable("second", "clean", "out", spe_address="sc://b:15002", source_broker="tcp://d:1883")
    former = first("former", spe_address="http://a:8081/", sink_broker="tcp://b:1883")
    assert draft(*chain(), running=[former, second]).homes == {"clean": "D"}
    elsewhere = replace(second, source_topic="raw")
    assert draft(*chain(), running=[former, elsewhere]).homes == {}


ENGINES = {"flink": "AD", "spark": "BD"}
PLACES = some.sampled_from("ABD")


@some.composite
def placements(draw: some.DrawFn) -> tuple[list[Job], Mapping[str, str], Mapping[str, str]]:
    """Jobs that read from each other, with a place for each movable one and a home for each channel."""
    jobs, sites = (
        [first("first", "t/first", expects=Expects(rate=10.0))],
        {"first": draw(some.sampled_from("AD"))},
    )
    for number in range(draw(some.integers(0, 5))):
        engine = draw(some.sampled_from(("flink", "spark")))
        taken = jobs[draw(some.integers(0, len(jobs) - 1))]
        given = {"source_broker": taken.sink_broker} if taken.sink_broker else {}
        if draw(some.booleans()):
            given["sink_broker"] = "tcp://d:1883"
        sites[f"j{number}"] = draw(some.sampled_from(ENGINES[engine]))
        jobs.append(movable(f"j{number}", taken.sink_topic, f"t/{number}", engine=engine, **given))
    if draw(some.booleans()):
        taken = jobs[draw(some.integers(0, len(jobs) - 1))]
        given = {"source_broker": taken.source_broker} if taken.source_broker else {}
        jobs[jobs.index(taken)] = replace(taken, park_topic="bad")
        sites["repair"] = draw(some.sampled_from(ENGINES["spark"]))
        jobs.append(movable("repair", "bad", taken.source_topic + "/again", engine="spark", **given))
    if draw(some.booleans()):
        sites["all"] = "B"
        jobs.append(movable("all", "t/+", "all", engine="spark"))
    jobs.append(job("fixed", "other", "results"))
    homes = {channel: draw(PLACES) for channel in draft(*jobs).channels}
    return jobs, sites, homes


@property_test
@given(placements())
def test_settled_jobs_are_drafted_again_as_they_were(
    placed: tuple[list[Job], Mapping[str, str], Mapping[str, str]],
) -> None:
    jobs, sites, homes = placed
    done = draft(*jobs).settled(sites, homes)
    again = draft(*done.jobs.values())
    assert (again.jobs, again.sites, again.homes) == ({each.job_name: each for each in jobs}, sites, homes)
    assert again.settled(again.sites, again.homes) == done


@property_test
@given(placements())
def test_an_unchanged_file_changes_no_field(
    placed: tuple[list[Job], Mapping[str, str], Mapping[str, str]],
) -> None:
    jobs, sites, homes = placed
    stored = {
        name: Job.from_dict(json.loads(json.dumps(each.to_dict())))
        for name, each in draft(*jobs).settled(sites, homes).jobs.items()
    }
    found = draft(*jobs, running=stored.values())
    after = found.settled(found.sites, found.homes).jobs
    assert [changed_fields(stored[name], after[name]) for name in stored] == [()] * len(stored)


def test_options_are_the_defaults_where_the_composition_has_none() -> None:
    given = PlacementOptions(mode="auto")
    assert draft(first()).options == PlacementOptions()
    assert draft(first(), placement=given).options == given
    found = draft(first(), placement=given)
    assert found.settled({"first": "A"}, {"clean": "A"}).placement == given


def test_what_is_noted_of_placement_is_in_no_form() -> None:
    plain = job("A")
    noted = replace(plain, sites=("any",), pin=True, with_job="B", apart=("C",), placed=ALL)
    assert form_fingerprint(noted) == form_fingerprint(plain)
