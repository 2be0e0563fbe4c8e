"""Aggregations for splits by keys, to use or to begin with.

Each is a class as jobs with ``key_split`` name it: ``rows`` gives the Columns of the messages, ``add`` the
state of the rows of one key and slide, ``merge`` that of two states, ``finish`` the fields of the result.
The file imports no module of its own, as a job's file must; only the methods import PySpark and fastdigest.
``workload`` repeats ``add``: a stand-in for costlier work, for measurements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    from fastdigest import TDigest
    from pyspark.sql import Column, DataFrame

Columns = Mapping[str, NDArray[Any]]

CENTROIDS = 200  # of a digest: 3.3 KB, and ranks within 0.002 after 50 merges one by one


class WordCount:
    """Count each word of the messages, in the time of their arrival; a state is a number."""

    def __init__(self, workload: int = 1) -> None:
        self.workload = workload

    def rows(self, messages: DataFrame) -> dict[str, Column]:
        """``key STRING``: one row a word, in lower case; ``time TIMESTAMP``."""
        from pyspark.sql import functions as sf

        words = sf.filter(sf.split(sf.lower(messages["value"]), r"[^\p{L}\p{N}]+"), lambda word: word != "")
        times = messages["timestamp"]
        # Outer, and the messages without a word left out by "where": control messages must remain.
        return {"key": sf.explode_outer(words), "time": times, "where": sf.size(words) > 0}

    def add(self, columns: Columns) -> int:
        """The number of rows."""
        for _ in range(self.workload):
            count = len(columns["time"])
        return count

    def merge(self, one: int, other: int) -> int:
        """The sum of two numbers."""
        return one + other

    def finish(self, state: int) -> dict[str, int]:
        """``count``."""
        return {"count": state}


class CountSumMinMax:
    """Count, sum, least and greatest of a field of JSON messages; a state is a list of the four.

    ``key``, ``time`` and ``value`` are names of fields; the time is ISO 8601, or a number of seconds since
    1970.
    The sum is that of doubles, so its last bits depend on the order; whole numbers below 2**53 are exact.
    """

    def __init__(self, key: str = "key", time: str = "time", value: str = "value", workload: int = 1) -> None:
        self.key, self.time, self.value = key, time, value
        self.workload = workload

    def rows(self, messages: DataFrame) -> dict[str, Column]:
        """``key STRING, time TIMESTAMP, value DOUBLE``; messages without a number do not count."""
        return _json_rows(messages, self.key, self.time, self.value)

    def add(self, columns: Columns) -> list[float]:
        """Count, sum, least and greatest value of the rows."""
        values = columns["value"]
        for _ in range(self.workload):
            state = [len(values), float(values.sum()), float(values.min()), float(values.max())]
        return state

    def merge(self, one: list[float], other: list[float]) -> list[float]:
        """The state of the rows of both."""
        return [one[0] + other[0], one[1] + other[1], min(one[2], other[2]), max(one[3], other[3])]

    def finish(self, state: list[float]) -> dict[str, float]:
        """``count, sum, min, max``."""
        return dict(zip(("count", "sum", "min", "max"), state, strict=True))


class Percentiles:
    """Percentiles of a field of JSON messages, by t-digests: ``p10``, ``p50`` and ``p90``.

    Fields as of :class:`CountSumMinMax`.  Needs the package ``fastdigest`` at the site.  Source: T. Dunning
    and O. Ertl, "Computing Extremely Accurate Quantiles Using t-Digests", 2019.
    """

    def __init__(self, key: str = "key", time: str = "time", value: str = "value", workload: int = 1) -> None:
        self.key, self.time, self.value = key, time, value
        self.workload = workload

    def rows(self, messages: DataFrame) -> dict[str, Column]:
        """``key STRING, time TIMESTAMP, value DOUBLE``; messages without a number do not count."""
        return _json_rows(messages, self.key, self.time, self.value)

    def add(self, columns: Columns) -> TDigest:
        """The digest of the values of the rows."""
        from fastdigest import TDigest

        for _ in range(self.workload):
            digest = TDigest.from_values(columns["value"].tolist(), max_centroids=CENTROIDS)
        return digest

    def merge(self, one: TDigest, other: TDigest) -> TDigest:
        """The digest of both."""
        return one.merge(other)

    def finish(self, state: TDigest) -> dict[str, float]:
        """``count`` and the percentiles."""
        percentiles = {f"p{each}": state.percentile(each) for each in (10, 50, 90)}
        return {"count": state.n_values, **percentiles}

    def encode(self, state: TDigest) -> bytes:
        """The bytes of a digest."""
        return bytes(state.to_bytes())

    def decode(self, data: bytes) -> TDigest:
        """The digest of some bytes."""
        from fastdigest import TDigest

        return TDigest.from_bytes(data)


def _json_rows(messages: DataFrame, key: str, time: str, value: str) -> dict[str, Column]:
    from pyspark.sql import functions as sf

    def field(name: str) -> Column:
        return sf.get_json_object(messages["value"], f"$['{name}']")

    # NaN would make every later sum and extreme NaN.
    number = sf.nullif(field(value).try_cast("double"), sf.lit(float("nan")))
    seconds = sf.timestamp_seconds(field(time).try_cast("double"))
    moment = sf.coalesce(seconds, field(time).try_cast("timestamp"))
    return {"key": field(key), "time": moment, "value": number, "where": number.isNotNull()}
