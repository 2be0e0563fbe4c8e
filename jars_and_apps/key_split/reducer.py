"""The reducer: merges the windows of keys whose rows went to several combiners."""

from __future__ import annotations

from typing import Self

import pyarrow as pa

from jars_and_apps.key_split.settings import Output, ReducerSetting


class Reducer:
    """One shard of the reducer.

    ``step`` takes the combiners' frames of one micro-batch as Combiner's does.  It returns finished windows
    for the sink topic; ``report`` is for ``report/reducer``.
    """

    @classmethod
    def begin(cls, setting: ReducerSetting) -> Self:
        """A reducer that has seen no frame."""
        raise NotImplementedError

    @classmethod
    def load(cls, setting: ReducerSetting, data: bytes) -> Self:
        """The reducer whose state was dumped; ValueError for another window or slide, or a damaged state."""
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
