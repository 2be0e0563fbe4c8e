"""The options of partitioners: defaults and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Option:
    """An option: its default and its bounds, both inclusive; ``whole`` allows no fraction."""

    about: str
    default: float
    low: float
    high: float
    whole: bool = False

    def check(self, name: str, value: float) -> float:
        """The value; ValueError if it is out of bounds."""
        if not self.low <= value <= self.high or (self.whole and value != int(value)):
            kind = "a whole number" if self.whole else "a number"
            raise ValueError(
                f"option {name!r} is {value!r} (expected {kind} from {self.low:g} to {self.high:g})"
            )
        return value


Options = Mapping[str, Option]


def read(options: Options, given: Mapping[str, float]) -> dict[str, float]:
    """The value of each option, by default where none is given; ValueError for an unknown or a wrong one."""
    if unknown := [name for name in given if name not in options]:
        expected = ", ".join(map(repr, options)) or "none"
        raise ValueError(f"option {unknown[0]!r} is not one of this partitioner (expected {expected})")
    return {name: option.check(name, given.get(name, option.default)) for name, option in options.items()}
