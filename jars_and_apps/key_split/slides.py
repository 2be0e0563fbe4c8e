"""Slides and windows of event time, all as numbers of slides since 1970."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

NEVER = -(2**62)
"""A slide before all others: nothing is closed, seen or shared yet."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_US = 253_402_300_800_000_000


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of ``window_us`` by ``slide_us``, rows being up to ``lateness_us`` late (all microseconds).

    Slide s has the times s * slide_us <= time < (s + 1) * slide_us.  A window is named by its end e, the
    slide after its last one: it has the slides e - slides to e - 1.  It is closed once ``closed`` is e or
    more.
    """

    window_us: int
    slide_us: int
    lateness_us: int = 0

    def __post_init__(self) -> None:
        if self.slide_us <= 0 or self.window_us <= 0 or self.window_us % self.slide_us:
            raise ValueError(
                f"window of {self.window_us} us by {self.slide_us} (expected a multiple of it, above 0)"
            )

    @property
    def slides(self) -> int:
        """The slides of a window."""
        return self.window_us // self.slide_us

    def closed(self, newest_us: int) -> int:
        """The end of the last window that is closed once a row of this time was seen."""
        return (newest_us - self.lateness_us) // self.slide_us

    def ends(self, slides: Iterable[int], after: int, until: int) -> Iterator[int]:
        """The ends of the windows that have one of these slides, above ``after`` up to ``until``, rising."""
        last = after
        for slide in sorted(slides):
            first = max(slide + 1, last + 1)
            yield from range(first, min(slide + self.slides, until) + 1)
            last = max(last, slide + self.slides)

    def times(self, end: int) -> tuple[str, str]:
        """The start and end of a window, in UTC (ISO 8601)."""
        return _iso((end - self.slides) * self.slide_us), _iso(end * self.slide_us)

    def has(self, slides: NDArray[np.int64]) -> bool:
        """True if these slides are within the years 1970 to 9999."""
        return not len(slides) or (
            slides.min() >= 0 and slides.max() < _LAST_US // self.slide_us - self.slides
        )


def _iso(time_us: int) -> str:
    moment = _EPOCH + timedelta(microseconds=time_us)
    return moment.isoformat().removesuffix("+00:00") + "Z"
