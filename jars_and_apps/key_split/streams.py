"""Streams of frames: in order, each once, from one origin at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from jars_and_apps.key_split.frames import BadFrame, Frame, decode
from jars_and_apps.key_split.slides import Windows

RETIRED = 64


@dataclass(slots=True)
class Stream:
    """The position in the frames of one writer; ``retired`` are former origins, whose frames are shut out."""

    origin: str | None = None
    number: int = -1
    retired: list[str] = field(default_factory=list)

    def rank(self, frame: Frame) -> tuple[bool, str, int]:
        """The order of frames: those of the origin so far, then those of another."""
        origin = frame.header.origin
        return origin != self.origin, origin, frame.number

    def has_passed(self, frame: Frame) -> bool:
        """True for a frame that :meth:`lost` would count as repeated or outdated."""
        origin = frame.header.origin
        return origin in self.retired or (origin == self.origin and frame.number <= self.number)

    def lost(self, frame: Frame, faults: Counter[str]) -> int | None:
        """The frames that are missing before this one, which is the next then; None if it came before."""
        if frame.header.origin in self.retired:
            faults["outdated_frames"] += 1
            return None
        if frame.header.origin != self.origin:
            self._begin(frame.header.origin)
        if frame.number <= self.number:
            faults["repeated_frames"] += 1
            return None
        lost, self.number = frame.number - self.number - 1, frame.number
        if lost:
            faults["lost_frames"] += lost
        return lost

    def dump(self) -> dict[str, Any]:
        """The position as JSON."""
        return asdict(self)

    def _begin(self, origin: str) -> None:
        if self.origin is not None:
            self.retired = [*self.retired, self.origin][-RETIRED:]
        self.origin, self.number = origin, -1


def read(
    batch: pa.RecordBatch,
    columns: Mapping[str, pa.DataType],
    windows: Windows,
    check: Callable[[Frame], bool],
    faults: Counter[str],
) -> Iterable[Frame]:
    """The frames of a batch, in its order.

    Those that are damaged, or not for this reader, are counted, and those of other windows than these: they
    were written before all parts began anew.
    """
    for value in batch.column("value"):
        try:
            frame = decode(value.as_py() or b"", columns)
        except BadFrame:
            faults["bad_frames"] += 1
            continue
        if _is_outdated(frame, windows):
            faults["outdated_frames"] += 1
        elif check(frame):
            yield frame
        else:
            faults["bad_frames"] += 1


def _is_outdated(frame: Frame, windows: Windows) -> bool:
    header = frame.header
    known = bool(header.slide_us)
    return known and (header.window_us, header.slide_us) != (windows.window_us, windows.slide_us)
