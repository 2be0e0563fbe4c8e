"""Tables and code in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table's lines, with an empty one behind; without rows none at all."""
    body = [f"| {' | '.join(_cell(each) for each in row)} |" for row in rows]
    if not body:
        return []
    return [f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |", *body, ""]


def code(value: object) -> str:
    """A value as it is written, in code."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text}`"


def sentence(text: str) -> str:
    """Text that begins with a capital letter and ends with a full stop."""
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def page(lines: Iterable[str]) -> str:
    """A page's text."""
    return "\n".join(lines).rstrip("\n") + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
