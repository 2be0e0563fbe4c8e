"""Messages against the contract of their topic: the reasons why some do not fit, with their counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from speck.sql.messages import UnparsableMessage, decoder
from speck.sql.operators import Row
from speck.sql.program import Input
from speck.sql.types import Contract

MOST_REASONS = 100  # distinct ones that are kept; each has the value of a message


def reader(contract: Contract) -> Callable[[str, bytes], Row]:
    """A function from a message's topic and content to the row of all columns of a contract.

    It raises :class:`~speck.sql.messages.UnparsableMessage`.
    """
    columns = contract.columns
    return decoder(Input(contract.format, columns, tuple(range(len(columns)))))


@dataclass
class Check:
    """Counts of the messages of a topic: all, and those that do not fit, by column and reason.

    ``last`` is the reason of the last message that did not fit.

    ``others`` are messages with reasons beyond the first :data:`MOST_REASONS`.
    """

    contract: Contract
    messages: int = 0
    unparsable: int = 0
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    others: int = 0
    last: str = ""

    def __post_init__(self) -> None:
        self._read = reader(self.contract)

    def take(self, topic: str, content: bytes) -> Row | None:
        """Count a message; returns its row, or ``None`` if it does not fit."""
        self.messages += 1
        try:
            row = self._read(topic, content)
        except UnparsableMessage as fault:
            self._note((fault.column, str(fault)))
            return None
        return row

    def _note(self, reason: tuple[str, str]) -> None:
        self.unparsable += 1
        self.last = reason[1]
        if reason in self.reasons or len(self.reasons) < MOST_REASONS:
            self.reasons[reason] += 1
        else:
            self.others += 1

    def to_dict(self) -> Mapping[str, Any]:
        """The counts as plain data, the most frequent reason first."""
        return {
            "topic": self.contract.topic,
            "table": self.contract.name,
            "messages": self.messages,
            "unparsable": self.unparsable,
            "reasons": [
                {"column": column or None, "reason": reason, "messages": count}
                for (column, reason), count in self.reasons.most_common()
            ],
            "other_reasons": self.others,
        }
