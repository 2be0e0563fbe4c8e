"""A feed of changes: the last value of each item, in the order of the changes.

An item has a kind and a name (``job``, ``clean-a1``) and plain data.  A reader that has the feed up to a
version gets the items that changed after it, each once and as it is now, however often it changed: a slow
reader misses intermediate values and nothing else.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_GONE = 10_000  # removed items that are remembered; a reader that is further behind starts over

Key = tuple[str, str]

_GONE = "null"


@dataclass(frozen=True, slots=True)
class News:
    """The changes up to ``version``; if ``whole``, all items, which replace those that the reader has.

    Each of ``items`` is the JSON text of ``[kind, name, data]``; the data of a removed one is null.
    """

    version: int
    whole: bool
    items: tuple[str, ...]


@dataclass
class Feed:
    """Safe to use from several threads.  ``most_gone`` bounds the removed items that are remembered."""

    most_gone: int = MOST_GONE
    version: int = 0
    _items: OrderedDict[Key, tuple[int, str]] = field(default_factory=OrderedDict, init=False)
    _gone: OrderedDict[Key, int] = field(default_factory=OrderedDict, init=False)
    _floor: int = field(default=0, init=False)  # removals up to this version are forgotten
    _closed: bool = field(default=False, init=False)
    _changed: threading.Condition = field(default_factory=threading.Condition, init=False, repr=False)

    def put(self, kind: str, items: Mapping[str, Any]) -> None:
        """Replace all items of a kind, given by name; those that differ are news."""
        texts = {(kind, name): json.dumps(data) for name, data in items.items()}
        with self._changed:
            version = self.version + 1
            known = [key for key in self._items if key[0] == kind]
            gone = [key for key in known if key not in texts]
            new = [key for key, text in texts.items() if self._items.get(key, (0, _GONE))[1] != text]
            for key in gone:
                del self._items[key]
                self._gone[key] = version
            for key in new:
                self._gone.pop(key, None)
                self._items[key] = (version, texts[key])
                self._items.move_to_end(key)
            self._forget()
            if gone or new:
                self.version = version
                self._changed.notify_all()

    def _forget(self) -> None:
        while len(self._gone) > self.most_gone:
            _, self._floor = self._gone.popitem(last=False)

    def news(self, since: int) -> News:
        """The news since a version (0: everything)."""
        with self._changed:
            whole = since <= 0 or since < self._floor or since > self.version
            since = 0 if whole else since
            items = [_line(key, text) for key, text in _after(self._items, since)]
            gone = [] if whole else [key for key, version in self._gone.items() if version > since]
            return News(self.version, whole, (*(_line(key, _GONE) for key in gone), *items))

    def wait(self, since: int, seconds: float) -> bool:
        """Wait until something is newer than a version, or the feed is closed; False after ``seconds``."""
        with self._changed:
            return self._changed.wait_for(lambda: self._closed or self.version != since, seconds)

    def close(self) -> None:
        """End all waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def _after(items: OrderedDict[Key, tuple[int, str]], since: int) -> list[tuple[Key, str]]:
    found = []
    for key, (version, text) in reversed(items.items()):
        if version <= since:
            break
        found.append((key, text))
    return found[::-1]


def _line(key: Key, text: str) -> str:
    return f"[{json.dumps(key[0])},{json.dumps(key[1])},{text}]"


def event(news: News, mark: str, now: float) -> Iterator[str]:
    """News as one server-sent event; ``mark`` identifies the feed, ``now`` is Unix time, s."""
    yield f"id: {mark}-{news.version}\n"
    whole = "true" if news.whole else "false"
    yield f'data: {{"whole":{whole},"now":{now:.3f},"items":[{",".join(news.items)}]}}\n\n'
