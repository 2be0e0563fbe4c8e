"""Quantities with units: bytes, bits per second, times, intervals, rates, shares."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

_NUMBER = re.compile(r"(?P<number>\d{1,15}(?:\.\d{1,9})?)\s*(?P<unit>[A-Za-zµμ/%]*)\Z")


@dataclass(frozen=True)
class Unit:
    """A kind of quantity: the sizes of its units in the base unit, a valid example, and the base unit's name.

    A bare number is in the unit ``""``; a kind without that unit takes none but 0.  ``base`` is the name of
    the base unit.
    """

    sizes: Mapping[str, Fraction]
    example: str
    base: str = ""

    @property
    def has_bare(self) -> bool:
        """True if a number without a unit is a quantity."""
        return "" in self.sizes

    def parse(self, value: str | int | float) -> Fraction:
        """The quantity in the base unit.  Raises ``ValueError``."""
        if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError(self._fault())
        if isinstance(value, int | float):
            if value and not self.has_bare:
                raise ValueError(f"has no unit (expected, for example, {self.example})")
            return self._in_range(Fraction(value) * self.sizes.get("", 0))
        match = _NUMBER.match(value.strip())
        if match is None or match["unit"] not in self.sizes:
            raise ValueError(self._fault())
        return self._in_range(Fraction(match["number"]) * self.sizes[match["unit"]])

    def _in_range(self, quantity: Fraction) -> Fraction:
        if quantity < 0 or quantity >= 2**63:
            raise ValueError(self._fault())
        return quantity

    def _fault(self) -> str:
        return f"is not a valid quantity (expected, for example, {self.example})"


def _decimal(name: str) -> dict[str, Fraction]:
    return {f"{prefix}{name}": Fraction(1000**power) for power, prefix in enumerate(("", "k", "M", "G", "T"))}


BYTES = Unit(
    {"": Fraction(1), "KB": Fraction(1000), **_decimal("B")}
    | {f"{prefix}iB": Fraction(1024**power) for power, prefix in enumerate(("K", "M", "G", "T"), 1)},
    "1 GiB",
)
BIT_RATE = Unit({"": Fraction(1), **_decimal("bit/s"), **_decimal("bps")}, "10 Mbit/s")
_MILLISECONDS = {
    ("us", "microsecond", "microseconds"): Fraction(1, 1000),
    ("ms", "msec", "millisecond", "milliseconds"): Fraction(1),
    ("s", "sec", "second", "seconds"): Fraction(1000),
    ("m", "min", "minute", "minutes"): Fraction(60_000),
    ("h", "hour", "hours"): Fraction(3_600_000),
}
MILLISECONDS = Unit(
    {"": Fraction(1)} | {name: size for names, size in _MILLISECONDS.items() for name in names}, "20 ms", "ms"
)
# Without a unit it would not be clear whether 20 is a time in s, as of a timeout, or in us, as of a cost.
SECONDS = Unit(
    dict.fromkeys(("d", "day", "days"), Fraction(86_400))
    | dict.fromkeys(("ns", "nanosecond", "nanoseconds"), Fraction(1, 10**9))
    | dict.fromkeys(("µs", "μs"), Fraction(1, 10**6))
    | {name: size / 1000 for names, size in _MILLISECONDS.items() for name in names},
    "5 minutes",
    "s",
)
PER_SECOND = Unit(
    {"": Fraction(1), "/s": Fraction(1), "/min": Fraction(1, 60), "/h": Fraction(1, 3600)}, "500/s"
)
COST = replace(SECONDS, example="20 us")
SHARE = Unit({"": Fraction(1), "%": Fraction(1, 100)}, "70%")
NUMBER = Unit({"": Fraction(1)}, "1.5")


def spark_interval(text: str) -> str:
    """An interval in the one form that Spark's parser accepts, equal for equal times.

    ``500 ms`` becomes ``500 milliseconds`` (Spark has no unit ``ms``), ``2000 ms`` and ``2s`` become
    ``2 seconds``.  Raises ``ValueError``.
    """
    fault = "is not an interval (expected, for example, '2 seconds' or '500 ms')"
    try:
        span = MILLISECONDS.parse(text)
    except ValueError as error:
        raise ValueError(fault) from error
    if text.strip().replace(".", "").isdigit() or span < 1 or span.denominator != 1:
        raise ValueError(f"{fault[:-1]}, at least 1 ms; omit it to run as fast as possible)")
    whole = int(span)
    return f"{whole // 1000} seconds" if whole % 1000 == 0 else f"{whole} milliseconds"
