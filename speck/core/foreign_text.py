"""Text of other programs, to be quoted in an error: one bounded line without markup."""

from __future__ import annotations

import re

_LONGEST = 300  # characters
_READ = 4_000  # characters of a page in which the text is looked for
_HIDDEN = re.compile(r"<(script|style|head)\b.*?(</\1\s*>|\Z)|<!--.*?(-->|\Z)", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(r"<title\b[^>]*>([^<]*)", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")


def one_line(text: str) -> str:
    """The text in one line of 300 characters at most; of an HTML page, its title or the text of its body."""
    text = text[:_READ]
    title = _TITLE.search(text)
    if title is not None and title[1].strip():
        text = title[1]
    elif "<" in text:
        text = _TAG.sub(" ", _HIDDEN.sub(" ", text))
    printable = "".join(each if each.isprintable() else " " for each in text)
    return " ".join(printable.split())[:_LONGEST]
