"""Control messages through the functions that run a partitioner at a site, without Spark."""

from __future__ import annotations

import json

import pandas as pd
import pyarrow as pa

import binders.spark.query.split.query as split_query
from binders.spark.query.split.steps import ORDER, stateful_step
from speck.core.split import Part

SECOND = 1_000_000  # us
SCHEMA = pa.schema(
    {
        **{"key": pa.utf8(), "time": pa.int64(), "_hash": pa.int64(), "_arrival": pa.int64()},
        **{"number": pa.int64(), "_control": pa.binary(), ORDER: pa.int64()},
    }
)


class GroupMemory:
    """The state of a group, as Spark has it."""

    getOption: tuple[bytes] | None = None  # noqa: N815

    def update(self, value: tuple[bytes]) -> None:
        self.getOption = value


def test_control_messages_reach_the_partitioner_of_a_query() -> None:
    """Among rows or alone; all other columns are null then, whole numbers among them."""
    described = {"of": "hot", "role": "partitioner", "window_us": 10 * SECOND, "slide_us": 10 * SECOND}
    routing = {"workers": 2, "partitioner": "balanced", "lateness_us": 0, "seed": 1, "measured": True}
    load = split_query._router(Part.of_split({**described, **routing}))
    step = stateful_step(load, {0: 0}, SCHEMA, frozenset(), "speck/split/hot/")
    work = [{"rows": count, "busy": 1.0, "wall": 1.0} for count in (300, 100)]
    messages = [json.dumps({"end": end, "workers": work}).encode() for end in (1.0, 2.0)]
    nulls = {"key": None, "time": None, "number": None, "_hash": 42, "_arrival": 10**15}
    controls = [{**nulls, "_control": each, ORDER: place} for place, each in enumerate(messages)]
    full = {"key": "a", "time": SECOND, "number": 3, "_hash": 1, "_arrival": 10**15}
    plain = [{**full, "_control": None, ORDER: 7}, {**full, "number": 2**60, "_control": None, ORDER: 8}]
    state, reports = GroupMemory(), []
    for taken in (plain + controls[:1], controls[1:], plain):
        table = pa.Table.from_pylist(taken, SCHEMA)
        frame = table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
        (found,) = step((0,), iter([frame]), state)
        reports.append(json.loads(found.value.iloc[-1].removeprefix(b"\xff")))
    assert [each["rows"] for each in reports] == [2, 0, 2]
    assert [each["observed"] for each in reports] == [0, 1, 2]
    assert [each["weights"] for each in reports] == [[0.5, 0.5], [0.75, 0.25], [0.75, 0.25]]
    assert [each["faults"] for each in reports] == [{}] * 3
