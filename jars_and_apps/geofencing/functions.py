"""The jobs ``admit``, ``locate`` and ``track`` with functions of a user: a class with some of four methods.

:mod:`jars_and_apps.geofencing.bundle` puts the class into an archive with this package, which the jobs run
from.  docs/geofencing.md has an example.  The results of the methods must depend on their arguments alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .fences import LARGEST_FENCE, Position, Unfit, compact, feature_of, position_in
from .fences import admit as plain_admit
from .fences import locate as plain_locate
from .visits import tracked

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

METHODS: Mapping[str, int] = {"accept": 1, "fence": 1, "update": 2, "answer": 2}  # their arguments

Message = tuple[str, bytes, int]  # topic, value, and time of receipt in ms


def fence_of(functions: Any, message: Message) -> bytes:
    """The value of a message with the geometry that the method ``fence`` makes of its Feature.

    One that deletes a fence, or that ``admit`` refuses anyway, is left as it is.  Raises what the method
    raises, and :class:`TypeError` for a result that is no geometry.
    """
    value = message[1]
    try:
        feature = feature_of(value) if 0 < len(value) <= LARGEST_FENCE else {}
    except Unfit:
        return value
    if feature.get("geometry") is None:
        return value
    made = functions.fence(feature)
    geometry = getattr(made, "__geo_interface__", made)
    if not isinstance(geometry, Mapping):
        raise TypeError(f"{_name(functions)}.fence returned {made!r:.60} (expected a geometry of GeoJSON)")
    return compact({**feature, "geometry": geometry}).encode()


def accepted(functions: Any, messages: Sequence[Message]) -> list[bytes]:
    """The values of messages without the positions that the method ``accept`` leaves out.

    Lines that are no positions, and records of fences, are kept.  A value is empty if nothing remains.
    """
    lines = [[] if _is_fence(topic) else value.split(b"\n") for topic, value, _ in messages]
    found = [
        (number, line, position)
        for number, ((_, _, received), own) in enumerate(zip(messages, lines, strict=True))
        for line, text in enumerate(own)
        if (position := _position(text, received)) is not None
    ]
    if found:
        mask = _mask(functions, [position for _, _, position in found])
        for (number, line, _), keep in zip(found, mask, strict=True):
            if not keep:
                lines[number][line] = b""
    return [
        value if _is_fence(topic) else b"\n".join(filter(None, own))
        for (topic, value, _), own in zip(messages, lines, strict=True)
    ]


def _is_fence(topic: str) -> bool:
    return topic.rpartition("/")[2] == "fences"


def _position(line: bytes, received: int) -> tuple[Position, Any] | None:
    """A position with its properties; ``None`` for another line, a clock among them."""
    try:
        feature = feature_of(line) if line else {}
        found = position_in(feature, received)
    except Unfit:
        return None
    return (found, feature["properties"]) if found.mover else None


def _mask(functions: Any, positions: Sequence[tuple[Position, Any]]) -> list[bool]:
    import numpy as np
    import pandas as pd

    frame = pd.DataFrame([position for position, _ in positions], columns=Position._fields)
    made = functions.accept(frame.assign(properties=[properties for _, properties in positions]))
    mask = np.asarray(made)
    if mask.dtype != bool or mask.shape != (len(positions),):
        right = f"expected {len(positions)} of bool, one for each position"
        raise TypeError(f"{_name(functions)}.accept returned {mask.shape} of {mask.dtype} ({right})")
    return list(mask.tolist())


def _name(functions: Any) -> str:
    return type(functions).__name__


# --- the jobs


def admit(functions: type, messages: DataFrame, lead: float) -> DataFrame:
    """The job ``admit``, with the geometries of the method ``fence``."""
    made = functions()
    if hasattr(made, "fence"):
        messages = _changed(messages, lambda given: [fence_of(made, each) for each in given])
    return plain_admit(messages, lead)


def locate(functions: type, messages: DataFrame, site: str, lateness: float) -> DataFrame:
    """The job ``locate``, without the positions that the method ``accept`` leaves out."""
    made = functions()
    if hasattr(made, "accept"):
        changed = _changed(messages, lambda given: accepted(made, given))
        messages = changed.where("length(value) > 0")
    return plain_locate(messages, site, lateness)


def track(functions: type, messages: DataFrame, sites: str, shards: int, forget: float) -> DataFrame:
    """The job ``track``, with the methods ``update`` and ``answer``."""
    return tracked(messages, sites, shards, forget, functions())


def _changed(messages: DataFrame, change: Callable[[Sequence[Message]], Sequence[bytes]]) -> DataFrame:
    """Messages with other values, before any shuffle: there ``on_error`` treats the messages that fail."""
    from pyspark.sql import functions as sf

    def values(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            rows = zip(frame["topic"], frame["value"], frame["micros"], strict=True)
            given = [(str(topic), bytes(value), int(at) // 1000) for topic, value, at in rows]
            yield frame.assign(value=change(given))

    # As a number, the time does not depend on the session's zone.
    rows = messages.select("topic", "value", sf.unix_micros("timestamp").alias("micros"))
    made = rows.mapInPandas(values, "topic STRING, value BINARY, micros BIGINT")
    return made.select("topic", "value", sf.timestamp_micros("micros").alias("timestamp"))
