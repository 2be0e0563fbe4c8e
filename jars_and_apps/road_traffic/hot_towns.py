"""Percentiles of the speeds of all vehicles by town: an aggregation whose keys are hot, for ``key_split``.

The messages are readings, CityPulse lines as of :mod:`jobs`.  The file imports no module of its own, as a
job's file must; its methods need PySpark and ``fastdigest`` at the site.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastdigest import TDigest
    from pyspark.sql import Column, DataFrame

CENTROIDS = 200  # of a digest: 3.3 KB, and ranks within 0.002 after 50 merges one by one
ELSEWHERE = "*"

_SPEED, _TIME, _VEHICLES, _SEGMENT, _FIELDS = 2, 5, 6, 8, 9


def towns_of(text: str) -> dict[str, str]:
    """The town of each road segment in ``TOWN: SEGMENT SEGMENT ...; TOWN: ...``; ``*`` is every other one.

    Raises :class:`ValueError` for a part without a colon.
    """
    found: dict[str, str] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        town, colon, segments = part.partition(":")
        if not colon:
            raise ValueError(f"towns: {part!r} names no segments (expected TOWN: SEGMENT SEGMENT ...)")
        found |= dict.fromkeys(segments.split(), town.strip())
    return found


class SpeedPercentiles:
    """Percentiles of speed (km/h) by town, one row a vehicle: ``vehicles``, ``p10``, ``p50``, ``p90``.

    ``towns`` is as of :func:`towns_of`; a segment that it does not name, and that no ``*`` takes, is a key of
    its own.  ``workload`` repeats the work of ``add``, for measurements.
    """

    def __init__(self, towns: str = "", workload: int = 1) -> None:
        self.towns = towns_of(towns)
        self.workload = workload

    def rows(self, messages: DataFrame) -> dict[str, Column]:
        """``key STRING, time TIMESTAMP, speed DOUBLE (km/h), where BOOLEAN, times INT`` (vehicles)."""
        from pyspark.sql import functions as sf

        # Every column is evaluated for other messages too: none may fail.
        fields = sf.split(messages["value"], ",")
        speed = sf.get(fields, sf.lit(_SPEED)).try_cast("double")
        vehicles = sf.get(fields, sf.lit(_VEHICLES)).try_cast("int")
        reading = (sf.size(fields) >= _FIELDS) & (sf.get(fields, sf.lit(0)) == "OK")
        return {
            "key": self._town(sf.get(fields, sf.lit(_SEGMENT))),
            # A local time, taken as UTC: a session's own zone may skip or repeat an hour.
            "time": sf.concat(sf.get(fields, sf.lit(_TIME)), sf.lit("Z")).try_cast("timestamp"),
            "speed": speed,
            "where": reading & speed.isNotNull() & vehicles.isNotNull(),
            "times": vehicles,
        }

    def _town(self, segment: Column) -> Column:
        from pyspark.sql import functions as sf

        named = [sf.lit(each) for pair in self.towns.items() if pair[0] != ELSEWHERE for each in pair]
        other = sf.lit(self.towns[ELSEWHERE]) if ELSEWHERE in self.towns else segment
        return sf.coalesce(sf.try_element_at(sf.create_map(*named), segment), other) if named else other

    def add(self, columns: Mapping[str, Any]) -> TDigest:
        """The digest of the speeds of the rows."""
        from fastdigest import TDigest

        for _ in range(self.workload):
            digest = TDigest.from_values(columns["speed"].tolist(), max_centroids=CENTROIDS)
        return digest

    def merge(self, one: TDigest, other: TDigest) -> TDigest:
        """The digest of both."""
        return one.merge(other)

    def finish(self, state: TDigest) -> dict[str, float]:
        """The number of vehicles, and percentiles of their speeds."""
        percentiles = {f"p{each}": round(state.percentile(each), 2) for each in (10, 50, 90)}
        return {"vehicles": state.n_values, **percentiles}

    def encode(self, state: TDigest) -> bytes:
        """The bytes of a digest."""
        return bytes(state.to_bytes())

    def decode(self, data: bytes) -> TDigest:
        """The digest of some bytes."""
        from fastdigest import TDigest

        return TDigest.from_bytes(data)
