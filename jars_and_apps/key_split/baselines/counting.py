"""The base of partitioners that go by what they have counted."""

from __future__ import annotations

from typing import Self

from jars_and_apps.key_split.baselines.loads import Loads
from jars_and_apps.key_split.partitioners.counts import Counts
from jars_and_apps.key_split.partitioners.protocol import Arrays, MetricsWindow, Setting


class Counting:
    """Counts the rows of each key and of each worker over a window, and takes no measurements."""

    def __init__(self, setting: Setting, counts: Counts, loads: Loads) -> None:
        self._setting, self._counts, self._loads = setting, counts, loads

    @classmethod
    def begin(cls, setting: Setting) -> Self:
        """A partitioner that has seen no row."""
        return cls(setting, Counts(setting), Loads(setting))

    @classmethod
    def load(cls, setting: Setting, arrays: Arrays) -> Self:
        """The partitioner whose state was dumped."""
        return cls(setting, Counts.load(setting, arrays), Loads.load(setting, arrays))

    def dump(self) -> Arrays:
        """Keys, and the rows of each worker by slide."""
        return {**self._counts.dump(), **self._loads.dump()}

    def advance(self, slides: int) -> None:
        """Advance event time by this number of slides."""
        self._counts.advance(slides)
        self._loads.advance(slides)

    def observe(self, window: MetricsWindow) -> None:
        """Take no notice of what was measured."""
