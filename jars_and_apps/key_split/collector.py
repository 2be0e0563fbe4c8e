"""The collector: merges the partial states of all partitions of one job."""

from __future__ import annotations

from typing import Self

import pyarrow as pa

from jars_and_apps.key_split.settings import Output, ReducerSetting


def combine(setting: ReducerSetting, rows: pa.RecordBatch, shards: int) -> pa.RecordBatch:
    """The partial states of one partition's rows of a micro-batch, for each shard one frame and more.

    ``rows`` as the Router takes them, all of the partition at once.  The answer has the columns ``shard``
    (int32) and ``value`` (binary); no row if there was no good row and no bad one.
    """
    raise NotImplementedError


class Collector:
    """One shard of the stateful operator of a split in one job.

    ``step`` takes the frames of ``combine`` of one micro-batch and all partitions: a batch with the column
    ``value`` (binary), in any order.  It returns finished windows for the sink topic; ``report`` is for
    ``report/0``.
    """

    @classmethod
    def begin(cls, setting: ReducerSetting) -> Self:
        """A collector that has seen no row."""
        raise NotImplementedError

    @classmethod
    def load(cls, setting: ReducerSetting, data: bytes) -> Self:
        """The collector whose state was dumped; ValueError for another window or slide, or damage."""
        raise NotImplementedError

    def dump(self) -> bytes:
        """The state, as Arrow IPC."""
        raise NotImplementedError

    def step(self, batch: pa.RecordBatch) -> list[Output]:
        """Take the frames of the next batch."""
        raise NotImplementedError

    def report(self, busy: float, wall: float) -> Output:
        """The report of the last step, which took so many seconds of processor and of wall time."""
        raise NotImplementedError
