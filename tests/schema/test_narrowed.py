"""Schemas of the fields that a mapping has: the same fields, the same faults, and a bound on their number."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from speck.errors import Fault
from speck.schema.fault_report import FaultReport
from speck.schema.schemas import JobSchema
from speck.schema.validation import validate_fields

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
}


class Whole(JobSchema):
    """The schema with all of its fields, whatever is read."""

    def narrowed(self, data: object) -> JobSchema:
        return self


def read(schema: JobSchema, data: dict[str, Any]) -> tuple[dict[str, Any], list[Fault]]:
    faults: list[Fault] = []
    return validate_fields(schema, data, FaultReport(faults, data, job="x")), faults


@pytest.mark.parametrize("absent", [*combinations(WHOLE, 1), *combinations(WHOLE, 2), tuple(WHOLE)])
def test_the_same_is_read_and_reported(absent: tuple[str, ...]) -> None:
    data = {name: value for name, value in WHOLE.items() if name not in absent}
    assert read(JobSchema(), data) == read(Whole(), data)


def test_many_combinations_of_fields_make_few_schemas() -> None:
    schema, names = JobSchema(), list(JobSchema().load_fields)
    made = {id(schema.narrowed(dict.fromkeys(some))) for some in combinations(names, 2)}
    assert len(made) <= 33
    assert id(schema) in made
