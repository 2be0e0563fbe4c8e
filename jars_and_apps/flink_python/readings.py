"""Road-traffic jobs in PyFlink: ``Forward`` and ``CountByKey``, as among the Flink programs, and a filter.

A job is a function from the messages of its source topic, as texts, to those of its sink topic; SpecK passes
the job's ``arguments`` by name.  Readings have the format of ``road_traffic/jobs.py``:
``status,avgMeasuredTime,avgSpeed,...``.
"""

from __future__ import annotations

from pyflink.common import Types
from pyflink.datastream import DataStream, KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor


def forward(texts: DataStream, site: str = "") -> DataStream:
    """Pass on every message, with the ``site`` as a last field (none when empty)."""
    return texts.map(lambda text: f"{text},{site}", Types.STRING()) if site else texts


def fast(texts: DataStream, above: float = 50.0) -> DataStream:
    """Pass on the readings with an average speed over ``above`` km/h."""
    return texts.filter(lambda text: speed_of(text) > above)


def count_by_key(texts: DataStream, field: int = 0) -> DataStream:
    """Write ``KEY,COUNT`` for each message; the key is its field of this number, from 1 (0: all of it)."""
    keyed = texts.key_by(lambda text: key_of(text, field), Types.STRING())
    return keyed.process(Count(field), Types.STRING()).uid("count")


def speed_of(reading: str) -> float:
    """The average speed of a reading, km/h; -1 of another text."""
    fields = reading.split(",")
    try:
        return float(fields[2])
    except (IndexError, ValueError):
        return -1.0


def key_of(text: str, field: int) -> str:
    """The field of this number; empty where there are fewer fields."""
    fields = text.split(",") if field else [text]
    return fields[max(field, 1) - 1] if len(fields) >= field else ""


class Count(KeyedProcessFunction):
    """Counts the messages of each key."""

    def __init__(self, field: int) -> None:
        """``field`` as in :func:`count_by_key`."""
        self._field = field

    def open(self, runtime_context: RuntimeContext) -> None:
        """Get the state with the count of the key."""
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context):
        """Count a message and emit the count."""
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield f"{key_of(value, self._field)},{count}"
