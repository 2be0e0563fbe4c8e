"""Triggers of Spark jobs: an interval of micro-batches, or real time, with each message as it arrives."""

from __future__ import annotations

REAL_TIME = "real-time"


def parse_trigger(text: str) -> str:
    """The trigger in its stored form: ``real-time``, or an interval of Spark.  Raises ``ValueError``."""
    if text == REAL_TIME:
        return text
    from speck.core.units import spark_interval  # exact numbers take 1 MB, of which an agent needs none

    try:
        return spark_interval(text)
    except ValueError as error:
        raise ValueError(f"{str(error).removesuffix(')')}; or {REAL_TIME!r})") from error


def trigger_fault(text: str) -> str | None:
    """The fault of a trigger, as a predicate; ``None`` if it is valid."""
    try:
        parse_trigger(text)
    except ValueError as error:
        return str(error)
    return None


def interval_seconds(trigger: str | None) -> float:
    """The interval of a trigger in its stored form (s); 0 without one, and in real time."""
    if trigger is None or trigger == REAL_TIME:
        return 0.0
    number, _, unit = trigger.partition(" ")
    return float(number) / (1000 if unit.startswith("milli") else 1)
