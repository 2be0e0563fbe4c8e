"""Declared edges: ``sources``, ``sinks`` and ``topics`` of a composition."""

from __future__ import annotations

from pathlib import Path

import pytest

from speck.core.inventory import Inventory
from speck.errors import InvalidInput
from speck.schema.compositions import Loaded, load_composition
from testbed.benches.examples import REGISTRY
from testbed.servers.rest import yaml_of

JOBS = yaml_of("clean sensors/+ clean", "means clean means", "alarms clean alarms")
DECLARED = "sources: {sensors/+: readings}\nsinks: {means: , alarms: {description: for people}}\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work.py").write_text("def work(messages):\n    return messages\n")
    return tmp_path


def read(root: Path, text: str) -> Loaded:
    return load_composition(text, inventory=Inventory(), registry=REGISTRY, root=root, default_name="test")


def faults(root: Path, text: str) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        read(root, text)
    return [str(fault) for fault in caught.value.faults]


def test_declared_edges_are_no_warnings(root: Path) -> None:
    assert len(read(root, JOBS).warnings) == 3
    assert read(root, DECLARED + JOBS).warnings == ()


def test_sources_alone_leave_the_sinks_as_they_are(root: Path) -> None:
    warnings = [str(each) for each in read(root, "sources: {sensors/+: readings}\n" + JOBS).warnings]
    assert ["is read by no job here: an external sink, or a mistake" in each for each in warnings] == [
        True
    ] * 2


def test_each_of_several_topics_may_be_declared_of_a_filter(root: Path) -> None:
    assert len(read(root, "sources: {sensors/1: left, sensors/2: right}\n" + JOBS).warnings) == 2
    assert len(read(root, "sources: {'#': all}\n" + JOBS).warnings) == 2


@pytest.mark.parametrize(
    ("written", "slip", "fault"),
    [
        (
            "means clean means",
            "means claen means",
            "line 12: job 'means': source_topic 'claen' is written by no job here and not declared "
            "(did you mean 'clean'? Otherwise expected it under 'sources:')",
        ),
        (
            "alarms clean alarms",
            "alarms clean allarms",
            "line 21: job 'alarms': sink_topic 'allarms' is read by no job here and not declared "
            "(did you mean 'alarms'? Otherwise expected it under 'sinks:')",
        ),
    ],
    ids=["source", "sink"],
)
def test_an_undeclared_edge_is_a_slip(root: Path, written: str, slip: str, fault: str) -> None:
    jobs = ["clean sensors/+ clean", "means clean means", "alarms clean alarms"]
    found = faults(root, DECLARED + yaml_of(*(slip if each == written else each for each in jobs)))
    assert fault.partition(": ")[2] in [each.partition(": ")[2] for each in found]


def test_a_declared_edge_that_nobody_uses_is_a_slip(root: Path) -> None:
    (fault,) = faults(root, DECLARED.replace("means: ,", "means: , alrams: ,") + JOBS)
    assert fault == "line 2: sinks: 'alrams' is written by no job here (did you mean 'alarms'?)"


def test_a_topic_at_two_brokers_says_so(root: Path) -> None:
    jobs = JOBS.replace("  source_broker: tcp://b1:1883", "  source_broker: tcp://b2:1883")
    jobs = jobs.replace("tcp://b2:1883", "tcp://b1:1883", 1)
    found = faults(root, DECLARED + jobs)
    assert any("'clean' is written at tcp://b1:1883 and not at tcp://b2:1883" in each for each in found)


PARKING = yaml_of(
    "clean sensors/+ clean on_error: park; park_topic: parked",
    "repair parked sensors/repaired",
    "count clean counts on_error: park; park_topic: parked",
)


def test_a_parking_topic_is_written_here(root: Path) -> None:
    """Also by several jobs, and a repaired message may go back to where it came from."""
    text = "sources: {sensors/+: readings}\nsinks: {counts: }\n"
    assert read(root, text + PARKING).warnings == ()
    assert not any("'parked'" in str(each) for each in read(root, PARKING).warnings)
    others = PARKING.replace("source_topic: parked", "source_topic: parkde").replace("repaired", "1")
    (fault,) = faults(root, text + others)
    assert "source_topic 'parkde' is written by no job here and not declared (did you mean 'parked'?" in fault


def test_a_parking_topic_may_be_a_declared_sink(root: Path) -> None:
    jobs = yaml_of("clean sensors/+ clean on_error: park; park_topic: parked")
    assert read(root, "sources: {sensors/+: }\nsinks: {clean: , parked: for people}\n" + jobs).warnings == ()
    assert read(root, "sources: {sensors/+: }\nsinks: {clean: }\n" + jobs).warnings == ()


def test_a_second_writer_is_refused_unless_the_topic_is_shared(root: Path) -> None:
    jobs = JOBS + yaml_of("clean-2 sensors/+ clean").removeprefix("jobs:\n")
    assert len(read(root, jobs).warnings) == 3  # without the blocks, nothing is refused
    (fault,) = faults(root, DECLARED + jobs)
    assert (
        "job 'clean-2': sink_topic 'clean' is written by 2 jobs: clean, clean-2 (expected one writer" in fault
    )
    assert read(root, DECLARED + "topics: {clean: {shared: true}}\n" + jobs).warnings == ()
    both = jobs.replace("sink_topic: alarms", "sink_topic: means")
    text = "sources: {sensors/+: }\nsinks: {means: {shared: true}}\ntopics: {clean: {shared: true}}\n"
    assert read(root, text + both).warnings == ()


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        (
            "sources: [sensors/+]",
            "sources is a list (expected a mapping, as 'sources: {TOPIC: a description}')",
        ),
        ("sinks: {means: 3}", "sinks: 'means' is a number (expected a description, or a mapping"),
        ("sinks: {a/+: all}", "sinks: 'a/+' has a wildcard (expected a topic without"),
        (
            "topics: {clean: {shraed: true}}",
            "topics: 'clean': unknown field 'shraed' (did you mean 'shared'?)",
        ),
        ("topics: {clean: {shared: 1}}", "topics: 'clean': shared 1 is a number (expected true or false)"),
    ],
)
def test_a_block_of_another_form_is_refused(root: Path, block: str, fault: str) -> None:
    found = faults(root, f"{block}\n{JOBS}")
    assert any(fault in each for each in found), found


def test_declared_topics_belong_to_the_composition(root: Path) -> None:
    assert read(root, DECLARED + JOBS).composition.declared == {
        "sources": {"sensors/+": "readings"},
        "sinks": {"means": "", "alarms": "for people"},
    }
    assert read(root, JOBS).composition.declared == {}
