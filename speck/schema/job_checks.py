"""Checks of a job's fields against each other, its engine and its brokers; the faults go to a report."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from speck.binder import BrokerKind, EngineKind
from speck.core.start import EARLIEST, LATEST, parse_start, start_millis
from speck.core.topic import matches
from speck.core.trigger import REAL_TIME, parse_trigger
from speck.schema.fault_report import FaultReport


def check_on_error(fields: Mapping[str, Any], kind: EngineKind | None, report: FaultReport) -> None:
    """Check ``on_error`` and ``park_topic`` against each other, the job's topic and its engine."""
    on_error, topic = fields.get("on_error", "fail"), fields.get("park_topic")
    if on_error == "park" and report.data.get("park_topic") is None:
        report.add(
            "park_topic", "is missing (expected the topic for parked messages, or on_error: skip)", shown=""
        )
    if on_error != "park" and topic is not None:
        report.add("park_topic", f"does not fit on_error {on_error!r} (expected on_error: park)")
    if topic is not None and matches(str(fields.get("source_topic", "")), topic):
        report.add("park_topic", "is among the topics that the job reads (expected another one)")
    on_flink = kind is not None and kind.engine == "flink"
    if on_error != "fail" and on_flink and str(fields.get("job_path", "")).endswith(".py"):
        why = "which runs its functions on batches of messages, so that the one that fails is not known"
        report.add("on_error", f"does not fit a Python program on Flink, {why} (expected fail)")


def check_broker(
    fields: Mapping[str, Any],
    broker: BrokerKind,
    address: str,
    name: str,
    topics: Sequence[str],
    report: FaultReport,
) -> None:
    """Check that the broker at an address, which may be the one called ``name``, fits a job."""
    for topic in topics:
        fault = broker.topic_fault(str(fields[topic])) if broker.topic_fault is not None else None
        if fault is not None:
            report.add(topic, f"{fault}, for broker {address}", cause=("topic", fields[topic], broker.name))
    if name == "sink_broker" and fields.get("retain", False) and not broker.retains:
        predicate = f"does not fit broker {address}, which retains no messages (expected false)"
        report.add("retain", predicate, cause=("retains nothing", broker.name))
    if name == "source_broker" and fields.get("start", LATEST) != LATEST and not broker.replays:
        why = f"of {broker.name}, which keeps no messages that were read"
        predicate = f"does not fit broker {address} {why} (expected latest)"
        report.add("start", predicate, cause=("keeps nothing", broker.name))
    if fields.get("key_split") is not None and not broker.splits:
        right = "expected brokers with MQTT"
        report.add("key_split", f"does not fit broker {address} of {broker.name} ({right})", shown="")


def start_of(fields: Mapping[str, Any], resolved: Mapping[str, Any], report: FaultReport) -> str:
    """The start of a job in its stored form; :data:`LATEST` for one with a fault."""
    if (given := fields.get("start", LATEST)) == LATEST:
        return LATEST
    start = parse_start(given)
    if start != EARLIEST and start_millis(start) > time.time() * 1000:
        report.add("start", "is in the future (expected latest, earliest, or a time that has passed)")
    if "source_broker" in resolved.get("placed", ()):
        report.add("start", "does not fit a source that SpecK places (expected a source_broker, or latest)")
    return start


def trigger_of(fields: Mapping[str, Any], kind: EngineKind | None, report: FaultReport) -> str | None:
    """The trigger of a job in its stored form; ``None`` without one, or at an engine other than Spark."""
    trigger = fields.get("trigger")
    if trigger is None or (kind is not None and kind.engine != "spark"):
        return None
    if trigger == REAL_TIME:
        _check_real_time(fields, report)
    return parse_trigger(trigger)


def _check_real_time(fields: Mapping[str, Any], report: FaultReport) -> None:
    if fields.get("key_split") is not None:
        report.add("trigger", "does not fit a job that is split by keys (expected an interval)")
    if fields.get("output_mode", "update") != "update":
        report.add("output_mode", f"does not fit trigger {REAL_TIME!r} (expected update, or none)")
