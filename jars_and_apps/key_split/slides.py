"""Slides and windows of event time, all as numbers of slides since 1970."""

from __future__ import annotations

from dataclasses import dataclass

NEVER = -(2**62)
"""A slide before all others: nothing is closed, seen or shared yet."""


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
