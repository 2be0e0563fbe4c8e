"""Messages that wait in a session, in words."""

from __future__ import annotations

import pytest

from speck.core.waiting import MOST_COUNTED, count_text, waiting_text


@pytest.mark.parametrize(
    ("waiting", "count", "text"),
    [
        (None, "messages", "the messages that wait at 't' of b"),
        (0, "0 messages", "0 messages wait at 't' of b"),
        (1, "1 message", "1 message waits at 't' of b"),
        (7, "7 messages", "7 messages wait at 't' of b"),
        (MOST_COUNTED, "1000 or more messages", "1000 or more messages wait at 't' of b"),
    ],
)
def test_the_words(waiting: int | None, count: str, text: str) -> None:
    assert count_text(waiting) == count
    assert waiting_text(waiting, "t", "b") == text
