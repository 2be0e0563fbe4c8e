"""Operator trees as Flink and Spark print them: one operator a line, three columns of indentation a level.

::

    root
    :- first child
    :  +- its child
    +- last child
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_CHILD = re.compile(r"(?P<indent>(?:[: ] {2})*)[:+]- (?P<text>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TreeLine:
    """An operator's line; ``parent`` is the number of its parent's line, ``None`` for the root."""

    number: int
    parent: int | None
    text: str


def tree_lines(lines: Iterable[str]) -> Iterator[TreeLine]:
    """The operators with their parents, in the order of the lines.

    The first line that is not blank is the root.  Further ones that are no child's line belong to a text of
    several lines, and are left out.  A line that is indented too far hangs below the one before it.
    """
    path: list[int] = []  # the numbers of the ancestors of the next line, by depth
    number = 0
    for line in lines:
        child = _CHILD.match(line) if path else None
        text = (child["text"] if child is not None else line).strip()
        if not text or (path and child is None):
            continue
        depth = 0 if child is None else min(len(child["indent"]) // 3 + 1, len(path))
        del path[depth:]
        yield TreeLine(number, path[-1] if path else None, text)
        path.append(number)
        number += 1
