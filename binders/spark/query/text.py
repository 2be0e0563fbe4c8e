"""Shortens messages of Spark and Python to readable ones."""

from __future__ import annotations


def first_line(text: str, limit: int = 500) -> str:
    """The first line of a text that is not blank, cut to ``limit`` characters."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def status_text(message: str) -> str:
    """A query's status message, without the Java object that it names as its source."""
    if message.startswith("Getting offsets from"):
        return "Looking for new messages"
    return first_line(message)
