"""The needs of a job in which kinds of one engine differ, as Spark Connect and Spark standalone do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Needs(NamedTuple):
    """The needs of one job of its engine.

    ``brokers`` are those of the job, and the ones that it may get: the field of each, and its address.
    """

    engine: str
    brokers: tuple[tuple[str, str], ...] = ()
    trigger: str | None = None
    output_mode: str | None = None
    on_error: str = "fail"
    retain: bool = False


class Misfit(NamedTuple):
    """A field of a job that does not fit a kind of engine: its value, as in a message, and a predicate.

    ``cause`` is that of a predicate with an address, without it.
    """

    field: str
    value: str
    predicate: str
    cause: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join(filter(None, (self.field, self.value, self.predicate)))


def of_each_scheme(addresses: Iterable[str]) -> tuple[str, ...]:
    """The first address of each scheme, by which kinds of brokers differ."""
    found: dict[str, str] = {}
    for each in addresses:
        found.setdefault(each.partition(":")[0], each)
    return tuple(found.values())
