"""Tables and code in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table and an empty one; none without rows."""
    body = [f"| {' | '.join(_cell(each) for each in row)} |" for row in rows]
    if not body:
        return []
    return [f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |", *body, ""]


def code(value: object) -> str:
    """A value in code style."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text}`"


def sentence(text: str) -> str:
    """The text with a capital letter first and a full stop last."""
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def page(lines: Iterable[str]) -> str:
    """The text of a page."""
    return "\n".join(lines).rstrip("\n") + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
