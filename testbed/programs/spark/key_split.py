"""Aggregations for key splitting; a message is ``key,seconds,amount``."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

State = list[int]


class Sums:
    """Count, sum, least and greatest amount (whole numbers)."""

    def rows(self, messages: DataFrame) -> dict[str, Column]:
        """Key, event time and amount of each message."""
        fields = F.split(messages.value, ",")
        return {
            "key": fields[0],
            "time": F.timestamp_seconds(fields[1].cast("double")),
            "amount": fields[2].cast("bigint"),
        }

    def add(self, columns: dict[str, Any]) -> State:
        """The state of the rows of one key and slide."""
        amounts = columns["amount"]
        return [len(amounts), int(amounts.sum()), int(amounts.min()), int(amounts.max())]

    def merge(self, one: State, other: State) -> State:
        """The state of the rows of both."""
        return _merged(one, other)

    def finish(self, state: State) -> dict[str, int]:
        """The fields of a row of the result."""
        return dict(zip(("count", "sum", "least", "greatest"), state, strict=True))


def _merged(one: State, other: State) -> State:
    return [one[0] + other[0], one[1] + other[1], min(one[2], other[2]), max(one[3], other[3])]


class Twice(Sums):
    """Only amounts from 0 on, and each counts as two rows."""

    def rows(self, messages: DataFrame) -> dict[str, Column]:
        """The columns, with those that choose and repeat rows."""
        columns = super().rows(messages)
        return columns | {"where": columns["amount"] >= 0, "times": F.lit(2)}


class Costly(Sums):
    """Takes some 0.3 ms of processor time a row, ``workload`` times."""

    def __init__(self, workload: int = 1) -> None:
        self.workload = workload

    def add(self, columns: dict[str, Any]) -> State:
        """The state of the rows of one key and slide, at leisure."""
        for _ in range(self.workload * len(columns["amount"])):
            sum(range(20_000))
        return super().add(columns)


class Words(Sums):
    """Each word of a message is a row."""

    explode = staticmethod(F.explode)

    def rows(self, messages: DataFrame) -> dict[str, Column]:
        """Key, event time and amount of each word."""
        words = self.explode(F.split(messages.value, " "))
        return {"key": words, "time": messages.timestamp, "amount": F.lit(1)}


class OuterWords(Words):
    """The same, with a row for messages that have no words."""

    explode = staticmethod(F.explode_outer)


class Fails(Sums):
    """Fails at the site, for the first rows."""

    def add(self, columns: dict[str, Any]) -> State:
        """Raise an error."""
        raise RuntimeError(f"no such amount: {columns['amount'][0]}")


class BadTime(Sums):
    """Its time is no time."""

    def rows(self, messages: DataFrame) -> dict[str, Column]:
        """A text as the time."""
        return super().rows(messages) | {"time": messages.value}


class NoKey(Sums):
    """Has no key."""

    def rows(self, messages: DataFrame) -> dict[str, Column]:
        """Only the time."""
        return {"time": messages.timestamp}


class WithMap(Sums):
    """Has a column that numpy cannot hold."""

    def rows(self, messages: DataFrame) -> dict[str, Column]:
        """A map among the columns."""
        return super().rows(messages) | {"tags": F.create_map(F.lit("a"), messages.value)}


def no_class(messages: DataFrame) -> DataFrame:
    """A job of another kind."""
    return messages
