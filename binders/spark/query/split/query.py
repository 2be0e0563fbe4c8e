"""The query of a part of a split: from the messages that it reads to those that it writes.

Each query has exactly one stateful operator, ``applyInPandasWithState`` over groups by shard:

- partitioner: the rows of the user's class, one group, :class:`~jars_and_apps.key_split.router.Router`
- combiner: frames, groups by the shard in their head, :class:`~jars_and_apps.key_split.combiner.Combiner`
- reducer: the same, :class:`~jars_and_apps.key_split.reducer.Reducer`
- whole: the rows, given to workers and repartitioned if the partitioner is not ``shuffle``; then the partial
  states of each partition, in frames for each shard; groups by shard,
  :class:`~jars_and_apps.key_split.collector.Collector`

Seen with Spark 4.3.0, over Connect and on a standalone cluster: a state of one BINARY comes back as
``bytes``; ``mapInArrow``, ``repartitionById`` and ``mapInArrow`` may stand before the stateful operator;
tasks have the ids of the query and of the batch as local properties; the messages are scanned once.
"""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from struct import Struct
from typing import Any

import numpy as np
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, StructField, StructType

import jars_and_apps.key_split
from binders.spark.query.spec import ORIGIN_SETTING, QuerySpec
from binders.spark.query.split.groups import group_keys
from binders.spark.query.split.rerouting import RoutedRouter
from binders.spark.query.split.steps import ORDER, WORKER, Load, Operator, combining, routing, stateful_step
from binders.spark.query.split.user_class import Rows, instance_of, rows_of
from binders.spark.query.user_code import JobFault
from jars_and_apps.key_split import frames
from jars_and_apps.key_split.aggregation import Aggregation
from jars_and_apps.key_split.baselines.policy import shipped, shipped_text
from jars_and_apps.key_split.collector import Collector
from jars_and_apps.key_split.combiner import Combiner
from jars_and_apps.key_split.partitioners.protocol import Partitioner, Setting
from jars_and_apps.key_split.partitioners.table import PARTITIONERS
from jars_and_apps.key_split.reducer import Reducer
from jars_and_apps.key_split.settings import CombinerSetting, ReducerSetting, RouterSetting
from jars_and_apps.key_split.slides import Windows
from speck.core.split.partitioners import PARTITIONERS as PARTITIONERS_OF_SPLITS
from speck.core.split.parts import Part, Role, split_topic

_MESSAGES = "topic string, value binary"
_STATE = "state binary"
_SHARD, _GROUP = "_shard", "_group"
_SHARDED = "shard int, value binary"  # of combine
_SHARDS_A_TASK = 4  # of a split in one job: tasks of even size, whatever the shards' hashes


def split_query(entry: Callable[..., Any], messages: DataFrame, spec: QuerySpec) -> DataFrame:
    """The messages of a job that is part of a split: topic (``NULL``: the sink's own) and value.

    Raises :class:`~binders.spark.query.user_code.JobFault`, errors of the job's code, and PySpark's.
    """
    part = Part.of_split(spec.split)
    instance = instance_of(entry, spec)
    if part.partitioner and part.partitioner not in PARTITIONERS:
        known = ", ".join(PARTITIONERS)
        raise JobFault(f"partitioner {part.partitioner!r} is not there (expected one of {known})")
    _carry_code()
    if part.role is Role.PARTITIONER:
        succeeds = spec.settings.get(ORIGIN_SETTING, "0") != "0"
        rows = rows_of(instance, messages, spec.source_options.get("controlTopic"))
        return _partitioner(part, rows, succeeds=succeeds)
    tasks = int(spec.settings.get("spark.sql.shuffle.partitions", "1"))
    aggregation = Aggregation(instance)
    if part.role is Role.WHOLE:
        return _whole(part, aggregation, rows_of(instance, messages), tasks)
    if part.role is Role.COMBINER:
        text = messages.withColumn("value", F.col("value").cast("string"))  # for its schema alone
        load = _combiner(part, aggregation, rows_of(instance, text).columns())
    else:
        load = _reducer(part, aggregation)
    sharded = messages.select(_shard_in("value", tasks).alias(_SHARD), "value")
    return _stateful(part, sharded, group_keys(tasks, tasks), load)


def _carry_code() -> None:
    """Have this package and the operators pickled by value, with the job's functions."""
    for package in (sys.modules[__package__], jars_and_apps.key_split):
        cloudpickle.register_pickle_by_value(package)  # type: ignore[no-untyped-call]
    copyreg.pickle(Struct, _struct)  # it has no pickled form of its own


def _struct(value: Struct) -> tuple[type[Struct], tuple[str]]:
    return Struct, (value.format,)


def partitioner_of(name: str) -> type[Partitioner]:
    """The class of a partitioner, here and at a site."""
    return PARTITIONERS[name].partitioner


def _partitioner(part: Part, rows: Rows, *, succeeds: bool) -> DataFrame:
    frame = _ordered(rows.frame).select(F.lit(0).alias(_SHARD), "*")
    return _stateful(part, frame, (0,), _router(part, succeeds=succeeds), rows.timestamps)


def _policies(part: Part) -> tuple[str, ...]:
    """The trained policies of a partitioner, as Base64."""
    if PARTITIONERS_OF_SPLITS[part.partitioner].chooses:
        return tuple(map(shipped_text, shipped()))
    if not part.policy:
        return ()
    return (part.policy_data or shipped_text(part.policy),)


def _router(part: Part, *, succeeds: bool = False) -> Load:
    setting = RouterSetting(
        windows=_windows(part),
        name=part.partitioner,
        partitioner=partitioner_of(part.partitioner),
        weights=part.weights,
        seed=part.seed,
        options=part.options,
        policies=_policies(part),
        shards=part.shards,
        measured=part.measured,
        succeeds=succeeds,
    )

    def load(_: int, origin: str, state: bytes | None) -> Operator:
        now = replace(setting, origin=origin)
        return RoutedRouter.begin(now) if state is None else RoutedRouter.load(now, state, partitioner_of)

    return load


def _combiner(part: Part, aggregation: Aggregation, columns: tuple[str, ...] = ()) -> Load:
    setting = CombinerSetting(
        windows=_windows(part),
        aggregation=aggregation,
        worker=part.number,
        reducer_shards=part.shards[0],
        columns=columns,
    )

    def load(shard: int, origin: str, state: bytes | None) -> Operator:
        now = replace(setting, shard=shard, origin=origin)
        return Combiner.begin(now) if state is None else Combiner.load(now, state)

    return load


def _reducer(part: Part, aggregation: Aggregation) -> Load:
    setting = ReducerSetting(_windows(part), aggregation)

    def load(shard: int, _: str, state: bytes | None) -> Operator:
        now = replace(setting, shard=shard)
        return Reducer.begin(now) if state is None else Reducer.load(now, state)

    return load


def _whole(part: Part, aggregation: Aggregation, rows: Rows, tasks: int) -> DataFrame:
    setting = ReducerSetting(_windows(part), aggregation)
    shards = _SHARDS_A_TASK * tasks if tasks > 1 else 1
    frame = rows.frame
    if part.partitioner != "shuffle":
        frame = _given_to_workers(part, _ordered(frame))
    partials = frame.mapInArrow(combining(setting, shards, rows.timestamps), _SHARDED)
    sharded = partials.withColumnRenamed("shard", _SHARD)
    return _stateful(part, sharded, group_keys(shards, tasks), _collector(setting))


def _collector(setting: ReducerSetting) -> Load:
    def load(shard: int, _: str, state: bytes | None) -> Operator:
        now = replace(setting, shard=shard)
        return Collector.begin(now) if state is None else Collector.load(now, state)

    return load


def _given_to_workers(part: Part, frame: DataFrame) -> DataFrame:
    workers = Setting(weights=np.ones(part.workers), seed=part.seed, slides=1, options=part.options)
    schema = StructType([*frame.schema.fields, StructField(WORKER, IntegerType())])
    given = frame.mapInArrow(routing(partitioner_of(part.partitioner), workers), schema)
    return given.repartitionById(part.workers, WORKER).drop(WORKER)


def _ordered(frame: DataFrame) -> DataFrame:
    return frame.withColumn(ORDER, F.xxhash64(*frame.columns))


def _stateful(
    part: Part,
    frame: DataFrame,
    keys: Sequence[int],
    load: Load,
    timestamps: frozenset[str] = frozenset(),
) -> DataFrame:
    """The messages of an operator; ``keys`` are the groups of the shards, whose column goes."""
    group = F.element_at(F.array(*map(F.lit, keys)), F.col(_SHARD) + 1).alias(_GROUP)
    grouped = frame.select(group, *(name for name in frame.columns if name != _SHARD))
    fields = [each for each in grouped.schema.fields if each.name != _GROUP]
    shards = {key: shard for shard, key in enumerate(keys)}
    prefix = split_topic(part.of, "")
    step = stateful_step(load, shards, to_arrow_schema(StructType(fields)), timestamps, prefix)
    return grouped.groupBy(_GROUP).applyInPandasWithState(step, _MESSAGES, _STATE, "append", "NoTimeout")


def _windows(part: Part) -> Windows:
    return Windows(part.window_us, part.slide_us, part.lateness_us)


def _shard_in(frame: str, shards: int) -> Column:
    """The shard in a frame's head; bytes that are no frame go to one of them, where they are counted."""
    head = F.substring(frame, frames.SHARD.start + 1, frames.SHARD.stop - frames.SHARD.start)
    number = F.conv(F.hex(head), 16, 10).cast("int")
    return F.coalesce(F.pmod(number, F.lit(shards)), F.lit(0))
