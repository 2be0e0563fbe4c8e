"""The combiner: aggregates the rows of its frames, and finishes the windows that are its alone."""

from __future__ import annotations

from typing import Self

import pyarrow as pa

from jars_and_apps.key_split.settings import CombinerSetting, Output


class Combiner:
    """One shard of a combiner.

    ``step`` takes the frames of one micro-batch, in any order, repeated or damaged ones among them: a batch
    with the column ``value`` (binary), all with this shard in their head (``frames.SHARD``).  It returns
    finished windows for the sink topic and frames for ``partials``; ``report`` is for ``report/W``.
    """

    @classmethod
    def begin(cls, setting: CombinerSetting) -> Self:
        """A combiner that has seen no frame."""
        raise NotImplementedError

    @classmethod
    def load(cls, setting: CombinerSetting, data: bytes) -> Self:
        """The combiner whose state was dumped; ValueError for another window or slide, or a damaged state."""
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
