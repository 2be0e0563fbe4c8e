"""Cuts what Spark and Python say down to what a user can read."""

from __future__ import annotations


def first_line(text: str, limit: int = 500) -> str:
    """The first line of a text that says something, cut to ``limit`` characters."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def query_says(message: str) -> str:
    """What a query says that it does, without the Java object that it names as its source."""
    if message.startswith("Getting offsets from"):
        return "Looking for new messages"
    return first_line(message)
