"""Reads the messages of Spark and Python, and shortens them to readable ones."""

from __future__ import annotations

_BETWEEN_BATCHES = ("Getting offsets from", "Waiting for")  # beginnings of a query's status message


def first_line(text: str, limit: int = 500) -> str:
    """The first line of a text that is not blank, cut to ``limit`` characters."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def is_between_batches(in_trigger: bool, message: str) -> bool:
    """True if a query in micro-batches runs none, by the trigger and the message of its status."""
    return not in_trigger or message.startswith(_BETWEEN_BATCHES)


def status_text(message: str) -> str:
    """A query's status message, without the Java object that it names as its source."""
    if message.startswith("Getting offsets from"):
        return "Looking for new messages"
    return first_line(message)
