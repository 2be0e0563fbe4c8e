"""Builds and starts a query: the job's code between SpecK's source and sink.

The same for a Connect session and a classic one, so that a job runs unchanged on both.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from pyspark.errors import AnalysisException
from pyspark.sql.dataframe import DataFrame
from pyspark.sql.types import BinaryType, StringType

from binders.spark.query.local_time import use_timezone
from binders.spark.query.real_time import BATCH, check_plan
from binders.spark.query.spec import CHECKPOINT_SETTING, FILE_MANAGER_SETTING, TIMEZONE_SETTING, QuerySpec
from binders.spark.query.text import first_line
from binders.spark.query.user_code import (
    JobFault,
    JobFunction,
    call,
    load,
    message_metadata,
    output_mode,
    value_type,
)
from speck.core.trigger import REAL_TIME

# Spark's analysed plan has one node a line behind marks of its depth, and a tilde before a streaming one.
_STREAMING_NODE = re.compile(r"^[ \t:+\-|]*~(\w+)", re.MULTILINE)
_ANALYZED = re.compile(r"== Analyzed Logical Plan ==(.*?)== Optimized Logical Plan ==", re.DOTALL)

# In the physical plan a node may have the number of its code stage before it: "*(2) Project [...]".
_PYTHON_NODE = re.compile(r"^[ \t:+\-|*()\d]*(\w*(?:Python|InPandas|InArrow|PySpark)\w*)", re.MULTILINE)

_SOURCE = "StreamingRelationV2"

# Writes the files of a checkpoint by renaming; Spark's default took more than twice as long a batch.
_RENAMING = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_MODES = ("append", "update", "complete")
# Of a query that is started for Spark's check of its output mode, and reads nothing.
_TRIAL_SETTINGS = {"spark.sql.streaming.forceDeleteTempCheckpointLocation": "true"}

# The nodes that preserve the order of the messages.  Any other node may shuffle the rows.
_IN_ORDER = frozenset(
    (
        *("Project", "Filter", "Generate", "SubqueryAlias", "EventTimeWatermark", _SOURCE),
        *("MapPartitions", "MapInPandas", "MapInArrow", "PythonMapInPandas", "PythonMapInArrow"),
        *("DeserializeToObject", "SerializeFromObject", "View", "CollectMetrics", "UnresolvedHint"),
    )
)


def start_query(session: Any, spec: QuerySpec) -> Any:
    """Start the specified query in a session of either kind; returns the session's kind of query.

    Raises :class:`~binders.spark.query.user_code.JobFault`, errors of the job's code, and PySpark's.
    """
    entry, result = _build(session, spec)
    nodes = set(_streaming_nodes(_plans(result)))
    mode = _mode(spec, entry, nodes)
    # A replayed batch must give each message the same stamp: the sink sorts rows that may come in another
    # order when they are replayed.
    order = "input" if nodes and nodes <= _IN_ORDER else "value"
    if spec.trigger == REAL_TIME:
        _check_real_time(_plans(result))
    try:
        return _write(result, mode, order, spec)
    except AnalysisException:
        rehearse(session, spec)  # its error names the output mode that fits, if it is that
        raise


def _mode(spec: QuerySpec, entry: JobFunction, nodes: Set[str]) -> str:
    """The output mode of a query with these streaming nodes.

    Raises :class:`JobFault` for one that Spark refuses when the query starts (its guide to structured
    streaming, "Output Modes"): it is then named before an old copy is stopped.
    """
    if spec.trigger == REAL_TIME:
        return "update"  # the only one in Spark's real-time mode; without an aggregation it writes each row
    aggregates = "Aggregate" in nodes
    mode = spec.output_mode or output_mode(entry) or ("update" if aggregates else "append")
    if mode == "complete" and not aggregates:
        raise JobFault(
            "output_mode 'complete' needs an aggregation, which the job does not have (expected append)"
        )
    if mode == "append" and aggregates and "EventTimeWatermark" not in nodes:
        raise JobFault(
            "output_mode 'append' needs a watermark, since results of an aggregation are final after one "
            "(expected withWatermark in the code, or update)"
        )
    return mode


@dataclass(frozen=True)
class Rehearsal:
    """A query's plan: the nodes that run Python functions, and the number of times it reads the messages."""

    python_nodes: frozenset[str]
    sources: int
    result: DataFrame


def rehearse(session: Any, spec: QuerySpec) -> Rehearsal:
    """Build the specified query; nothing reads its messages.  Raises as :func:`start_query`."""
    configure(session, _TRIAL_SETTINGS)
    entry, result = _build(session, replace(spec, source_options=_unconnected(spec.source_options)))
    plans = _plans(result)
    nodes = set(_streaming_nodes(plans))
    mode = _mode(spec, entry, nodes)
    if spec.trigger == REAL_TIME:
        _check_real_time(plans)
    elif not nodes <= _IN_ORDER:  # those have no state, and any output mode
        _check_mode(result, mode)
    return Rehearsal(_python_nodes(plans), _streaming_nodes(plans).count(_SOURCE), result)


def _unconnected(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a source that reaches no broker, whatever a version of the connector does with them."""
    broker = options.get("brokerUrl", "")
    return {**options, "brokerUrl": f"{urlsplit(broker).scheme}://127.0.0.1:9"} if broker else {**options}


def _check_mode(result: DataFrame, mode: str) -> None:
    """Raise :class:`JobFault` with the output modes that fit, if Spark refuses this one for the query.

    Spark checks it when a query starts (``UnsupportedOperationChecker``), before it reads anything.
    """
    refusal = _refusal(result, mode)
    if refusal is None:
        return
    fits = [each for each in _MODES if each != mode and _refusal(result, each) is None]
    if not fits:
        raise refusal
    expected = " or ".join(f"output_mode: {each}" for each in fits)
    raise JobFault(
        f"Spark refuses output_mode {mode!r} for this query (expected {expected}): {first_line(str(refusal))}"
    ) from refusal


def _refusal(result: DataFrame, mode: str) -> AnalysisException | None:
    """Spark's error for an output mode of a query; ``None`` if it accepts the mode."""
    try:
        query = result.writeStream.format("noop").outputMode(mode).start()
    except AnalysisException as error:
        return error
    with contextlib.suppress(Exception):  # it fails on its own: the source refuses all queries but the job's
        query.stop()
    return None


def _check_real_time(plans: str) -> None:
    check_plan(plans, _streaming_nodes(plans), _SOURCE, _python_nodes(plans))


def _python_nodes(plans: str) -> frozenset[str]:
    _, _, physical = plans.partition("== Physical Plan ==")
    return frozenset(_PYTHON_NODE.findall(physical))


def configure(session: Any, settings: Mapping[str, str]) -> None:
    """Set Spark's settings of a session of either kind; over Connect by one request, if PySpark can."""
    set_all = getattr(session.conf, "_set_all", None)
    if set_all is not None:
        set_all(dict(settings), silent=False)
        return
    for name, value in settings.items():
        session.conf.set(name, value)


def _build(session: Any, spec: QuerySpec) -> tuple[Any, DataFrame]:
    """The job's entry, and the DataFrame that it returns for the messages."""
    # The source refuses all queries with another checkpoint: those that the job's code starts.
    configure(session, {**_file_manager(session), **spec.settings, CHECKPOINT_SETTING: spec.checkpoint})
    if (zone := spec.settings.get(TIMEZONE_SETTING)) is not None:
        use_timezone(zone)
    entry = load(spec)
    messages = session.readStream.format(spec.source_format).options(**_source_options(entry, spec)).load()
    if spec.split:
        # Imported here: jobs that are not split need neither numpy nor pyarrow beside a driver.
        from binders.spark.query.split.query import split_query

        return entry, split_query(entry, messages, spec)
    return entry, _checked(call(entry, messages, spec))


def _file_manager(session: Any) -> dict[str, str]:
    """The setting of a faster manager of checkpoint files than the default, unless the server has one set.

    It is one of Spark's, since the connector of the server may be older and without one.
    """
    return {} if session.conf.get(FILE_MANAGER_SETTING, None) else {FILE_MANAGER_SETTING: _RENAMING}


def _source_options(entry: JobFunction, spec: QuerySpec) -> dict[str, str]:
    options = dict(spec.source_options)
    if message_metadata(entry):
        options["metadata"] = "true"
    if value_type(entry) == "text":
        return options
    if spec.split:
        raise JobFault(
            "its value_type 'binary' does not fit key_split (expected a cast of 'value' to binary)"
        )
    return options | {"valueType": "binary"}


def _checked(result: object) -> DataFrame:
    if not isinstance(result, DataFrame):
        raise JobFault(f"the job returned a {type(result).__name__} (expected a DataFrame)")
    if not result.isStreaming:
        raise JobFault(
            "the job returned a DataFrame that is not streaming (expected one made from its messages)"
        )
    types = {column.name: column.dataType for column in result.schema.fields}
    if "value" not in types:
        raise JobFault(f"the job's DataFrame has no column 'value' (it has {', '.join(types) or 'none'})")
    if not isinstance(types["value"], StringType | BinaryType):
        kind = types["value"].simpleString()
        raise JobFault(f"the job's column 'value' has type {kind} (expected string or binary)")
    return result.select(*(name for name in ("key", "value") if name in types))


def _plans(result: DataFrame) -> str:
    """The plans as Spark prints them, logical and physical."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        result.explain(extended=True)
    return printed.getvalue()


def _streaming_nodes(plans: str) -> list[str]:
    plan = _ANALYZED.search(plans)
    return [] if plan is None else _STREAMING_NODE.findall(plan[1])


def _write(result: DataFrame, mode: str, order: str, spec: QuerySpec) -> Any:
    writer = result.writeStream.format(spec.sink_format).options(**spec.sink_options)
    writer = writer.option("order", order)
    writer = writer.queryName(spec.job_name).outputMode(mode)
    writer = writer.option("checkpointLocation", spec.checkpoint)
    if spec.trigger == REAL_TIME:
        writer = writer.trigger(realTime=BATCH)  # type: ignore[call-overload]  # of a stub of 4.0
    elif spec.trigger is not None:
        writer = writer.trigger(processingTime=spec.trigger)
    return writer.start()
