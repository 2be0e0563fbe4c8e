"""An aggregation tried on a sample of messages in a local Spark: its keys, and what its methods cost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from binders.spark.query.spec import QuerySpec
from binders.spark.query.split.steps import batch_of
from binders.spark.query.split.user_class import instance_of, rows_of
from binders.spark.query.text import first_line
from binders.spark.query.user_code import JobFault, explain, load
from jars_and_apps.key_split.aggregation import Aggregation, State
from jars_and_apps.key_split.groups import Groups, group
from jars_and_apps.key_split.rows import Rows, arrays, read
from speck.core.job import Scalar
from speck.core.split.advice import SplitSample
from speck.errors import Rejected

DAY_US = 86_400_000_000  # the slide where the job has none
# Without an appender, Spark takes its own configuration.
_NO_LOG = """\
rootLogger.level = off
rootLogger.appenderRef.none.ref = none
appender.none.type = Null
appender.none.name = none
"""
_SECONDS = 0.1  # of processor, for each measurement
_MOST_RUNS = 50  # repetitions of a measurement
_MERGES = 200  # states that are merged to measure it


def sample_split(
    path: Path, entry_class: str, arguments: Mapping[str, Scalar], lines: Sequence[str], slide_us: int | None
) -> SplitSample:
    """See :attr:`speck.binder.EngineKind.sample_split`; starts a local Spark."""
    with TemporaryDirectory(prefix="speck-sample-") as folder:
        session = _local_session(Path(folder))
        try:
            return sample_in(session, path, entry_class, arguments, lines, slide_us)
        finally:
            session.stop()


def _local_session(folder: Path) -> SparkSession:
    """A Spark in this process that logs nothing.  Raises :class:`~speck.errors.Rejected` without Java."""
    logging = folder / "log4j2.properties"
    logging.write_text(_NO_LOG, encoding="utf-8")
    builder = (
        SparkSession.builder.master("local[1]")
        .appName("speck split advise")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={logging.as_uri()}")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    try:
        return builder.getOrCreate()
    except (PySparkException, OSError) as error:
        reason = first_line(str(error)) or type(error).__name__
        raise Rejected(f"Spark does not start here: {reason} (expected Java 17 or later)") from error


def sample_in(
    session: SparkSession,
    path: Path,
    entry_class: str,
    arguments: Mapping[str, Scalar],
    lines: Sequence[str],
    slide_us: int | None,
) -> SplitSample:
    """The sample, in a Spark that runs.  Raises :class:`~speck.errors.Rejected` for code that fails."""
    try:
        spec = _spec(path, entry_class, arguments)
        instance = instance_of(load(spec), spec)
        rows, dropped = _rows(instance, _messages(session, lines))
        if not len(rows):
            raise JobFault(_no_rows(len(lines), dropped))
        return _measured(Aggregation(instance), rows, len(lines), dropped, slide_us or DAY_US)
    except ModuleNotFoundError as error:
        need = f"needs the package {error.name!r}, which is not installed here (pip install {error.name})"
        raise Rejected(f"class {entry_class!r} {need}: {explain(error, str(path))}") from error
    except JobFault as error:
        raise Rejected(str(error)) from error
    except PySparkException as error:
        raise Rejected(f"rows() of {entry_class!r} fails: {explain(error, str(path))}") from error
    except Exception as error:  # of the user's code, whatever it is
        raise Rejected(f"class {entry_class!r} fails: {explain(error, str(path))}") from error


def _spec(path: Path, entry_class: str, arguments: Mapping[str, Scalar]) -> QuerySpec:
    none: dict[str, str] = {}
    return QuerySpec(
        job_name="sample",
        path=str(path),
        entry=entry_class,
        checkpoint="",
        source_format="",
        sink_format="",
        source_options=none,
        sink_options=none,
        arguments=arguments,
    )


def _messages(session: SparkSession, lines: Sequence[str]) -> DataFrame:
    now = datetime.now(UTC)
    messages = [("sample", line, now) for line in lines]
    return session.createDataFrame(messages, "topic string, value string, timestamp timestamp")


def _rows(instance: Any, messages: DataFrame) -> tuple[Rows, int]:
    """The rows that count, and the number of bad ones."""
    found = rows_of(instance, messages)
    batch = batch_of(found.frame.toArrow().combine_chunks().to_batches(), found.timestamps)
    if batch is None:
        raise JobFault(_no_rows(messages.count(), 0))
    rows, dropped, _ = read(batch)
    return rows, dropped


def _no_rows(lines: int, dropped: int) -> str:
    return (
        f"no row of the sample counts ({lines:,} messages, {dropped:,} bad rows; expected messages for which "
        "rows() has a key, a time since 1970, and where, if it has that)"
    )


def _measured(
    aggregation: Aggregation, rows: Rows, messages: int, dropped: int, slide_us: int
) -> SplitSample:
    groups = group(rows, rows.times // slide_us, np.zeros(len(rows), np.int64), piece=None)
    columns, starts = arrays(groups.rows), groups.starts[:-1]
    states = aggregation.add_all(columns, starts)
    encoded = [aggregation.encode(state) for state in states]
    aggregation.finish(aggregation.decode(encoded[0]))
    adding = _seconds(lambda: aggregation.add_all(columns, starts))
    firsts = {name: values[starts] for name, values in columns.items()}
    calling = _seconds(lambda: aggregation.add_all(firsts, np.arange(len(states))))
    halves = _halves(aggregation, groups, columns)
    merging = _seconds(lambda: [_merged(aggregation, *pair) for pair in halves])
    return SplitSample(
        messages=messages,
        keys=_counts(groups),
        groups=len(states),
        dropped=dropped,
        add_us=1e6 * adding / len(rows),
        merge_us=1e6 * merging / len(halves),
        state_bytes=float(np.mean([len(each) for each in encoded])),
        key_rows=rows_of_a_call(adding, calling, len(rows), len(states)),
    )


def rows_of_a_call(adding: float, calling: float, rows: int, calls: int) -> float:
    """The rows that take as long as a call, of the times of all rows, and of one row a call."""
    row = (adding - calling) / (rows - calls) if rows > calls else 0.0
    return max(0.0, calling / calls / row - 1) if row > 0 else 0.0


def _halves(
    aggregation: Aggregation, groups: Groups, columns: Mapping[str, Any]
) -> list[tuple[bytes, State]]:
    """The states of two halves of the largest groups: one as it is stored, one as it comes; never none."""
    bounds = [pair for pair in pairwise(groups.starts.tolist()) if pair[1] - pair[0] > 1]
    bounds = sorted(bounds, key=lambda pair: pair[0] - pair[1])[:_MERGES] or [(0, 1)]
    found = []
    for first, end in bounds:
        middle = max(first + 1, (first + end) // 2)
        one = _state(aggregation, columns, slice(first, middle))
        found.append(
            (aggregation.encode(one), _state(aggregation, columns, slice(min(middle, end - 1), end)))
        )
    return found


def _state(aggregation: Aggregation, columns: Mapping[str, Any], rows: slice) -> State:
    part = {name: values[rows] for name, values in columns.items()}
    return aggregation.add_all(part, np.zeros(1, np.int64))[0]


def _merged(aggregation: Aggregation, stored: bytes, state: State) -> bytes:
    return aggregation.encode(aggregation.merge(aggregation.decode(stored), state))


def _counts(groups: Groups) -> dict[str, int]:
    found: Counter[str] = Counter()
    for key, count in zip(groups.keys.to_pylist(), groups.counts.tolist(), strict=True):
        found[key] += count
    return dict(found)


def _seconds(run: Callable[[], object]) -> float:
    """The processor time of a run, the mean of several."""
    began, runs = time.process_time(), 0
    while runs < _MOST_RUNS and time.process_time() - began < _SECONDS:
        run()
        runs += 1
    return (time.process_time() - began) / runs
