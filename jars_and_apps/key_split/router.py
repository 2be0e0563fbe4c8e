"""The router: gives rows to combiners, by a partitioner, in numbered frames."""

from __future__ import annotations

from typing import Self

import pyarrow as pa

from jars_and_apps.key_split.settings import Output, RouterSetting


class Router:
    """The partitioner's job, one instance for all rows of the source.

    ``step`` takes the rows of one micro-batch, also one without rows, with these columns, in any order:

    - ``key``: utf8, null or over 1 KiB is a bad row
    - ``time``: int64, microseconds since 1970, null is a bad row
    - ``_hash``: int64 or uint64, Spark's ``xxhash64(key)``
    - ``_arrival``: int64, microseconds since 1970, the message's time; a ``time`` over a day after it is a
      bad row
    - ``_control`` (optional): binary or utf8, not null for control messages, whose other columns are ignored
    - ``times`` (optional): integer, the rows that a row stands for; null, below 0 or over 10,000 is a bad row
    - the user's: numbers, booleans, utf8, binary, timestamps (given to ``add`` as datetime64); names without
      ``_``

    It returns frames for ``rows/W``.  ``report`` is the message about the last step, for
    ``report/partitioner``.
    """

    @classmethod
    def begin(cls, setting: RouterSetting) -> Self:
        """A router that has seen no row."""
        raise NotImplementedError

    @classmethod
    def load(cls, setting: RouterSetting, data: bytes) -> Self:
        """The router whose state was dumped; another partitioner, weights, seed or more workers begin anew.

        ValueError for fewer workers, another window, slide or number of shards, or a damaged state.
        """
        raise NotImplementedError

    def dump(self) -> bytes:
        """The state, as Arrow IPC."""
        raise NotImplementedError

    def step(self, batch: pa.RecordBatch) -> list[Output]:
        """Give the rows of the next batch to the workers."""
        raise NotImplementedError

    def report(self, busy: float, wall: float) -> Output:
        """The report of the last step, which took so many seconds of processor and of wall time."""
        raise NotImplementedError
