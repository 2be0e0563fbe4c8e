"""The reading of mappings without a fault: the same fields and faults as by marshmallow, sooner."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from speck.errors import Fault
from speck.schema.fault_report import FaultReport
from speck.schema.fields import StrictSchema
from speck.schema.inventory_schemas import LinkSchema
from speck.schema.schemas import JobSchema, PlacementSchema
from speck.schema.validation import validate_fields
from tests.support.properties import property_test

WHOLE: dict[str, Any] = {
    "job_name": "clean",
    "source_topic": "a/#/b",
    "sink_topic": "b",
    "entry_class": "clean",
    "job_path": "clean.py",
    "parallelism": 0,
    "upgrade": "stateful",
    "rubbish": 1,
    "site": None,
    "with": "other",
}
SOUND: dict[str, Any] = {
    "job_name": "clean",
    "source_topic": "a",
    "sink_topic": "b",
    "entry_class": "clean",
    "job_path": "clean.py",
}
VALUES = {
    "job_name": ["clean", "c d", "", 7],
    "source_topic": ["a/+", "a/#/b", "\x07", "", None, ["a"]],
    "sink_topic": ["b", "b/+", True],
    "entry_class": ["clean", "a.b", "0", "x" * 2000],
    "job_path": ["clean.py", " ", "x" * 5000, {"a": 1}],
    "site": ["A", None, ""],
    "labels": [{"a": "b"}, {"a": 1}, [], None],
    "parallelism": [1, 0, "2", True],
    "sites": [["A", "B"], ["A", "A"], [], "A"],
    "expects": [{"rate": 5}, {"rate": "x"}, {"rubbish": 1}, {"rate": None}, 3],
    "with": ["other", "", 4],
    "rubbish": [1, None],
}


class _ByMarshmallow:
    def sound(self, data: object) -> None:
        """Leave the mapping to marshmallow, whatever it contains."""


class Jobs(_ByMarshmallow, JobSchema):
    """The schema of jobs, read by marshmallow alone."""


class Links(_ByMarshmallow, LinkSchema):
    """The schema of links, read by marshmallow alone."""


def read(schema: StrictSchema, data: dict[str, Any]) -> tuple[dict[str, Any], list[Fault]]:
    faults: list[Fault] = []
    return validate_fields(schema, data, FaultReport(faults, data, job="x")), faults


@pytest.mark.parametrize("absent", [*combinations(WHOLE, 1), *combinations(WHOLE, 2), tuple(WHOLE)])
def test_the_same_is_read_and_reported(absent: tuple[str, ...]) -> None:
    data = {name: value for name, value in WHOLE.items() if name not in absent}
    assert read(JobSchema(), data) == read(Jobs(), data)


@property_test
@given(some.fixed_dictionaries({}, optional={name: some.sampled_from(each) for name, each in VALUES.items()}))
def test_any_values_are_read_and_reported_alike(data: dict[str, Any]) -> None:
    assert read(JobSchema(), data) == read(Jobs(), data)
    assert read(JobSchema(), SOUND | data) == read(Jobs(), SOUND | data)


@pytest.mark.parametrize("more", [{}, {"bandwidth": "1 Mbit/s"}, {"rubbish": 1}, {"to": None}])
def test_fields_get_their_own_names(more: dict[str, Any]) -> None:
    data = {"from": "A", "to": "B"} | more
    assert read(LinkSchema(), data) == read(Links(), data)


def test_sound_mappings_are_read_without_marshmallow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobSchema, "load", None)
    assert read(JobSchema(), SOUND | {"site": None}) == (SOUND, [])


def test_what_is_no_mapping_is_not_sound() -> None:
    assert PlacementSchema().sound([]) is None


def test_many_combinations_of_fields_take_bounded_memory() -> None:
    schema, names = JobSchema(), sorted(JobSchema().load_fields.keys() - SOUND.keys())
    for pair in combinations(names, 2):
        schema.sound(SOUND | dict.fromkeys(pair, "x"))
    assert 1 < schema.present.cache_info().currsize <= 32
