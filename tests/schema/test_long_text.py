"""Long text, of a user or of an engine, costs time in proportion to its length.

Each of these would take hours if it took the square of it: so one that does so again is seen by the limit
that every test has.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from binders.flink.rest.stack_trace import root_cause
from binders.spark.query.progress import failure_line
from speck.schema.secret_detection import is_secret, names_secret

MANY = 1_000_000
PARTS = ["a", "\n", " ", "a.", "a:", "A: ", "key", "//", "a://b:c", "Caused by: ", "-----BEGIN ", "\n\t"]


@pytest.mark.slow("48 texts of a million characters")
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("read", [root_cause, failure_line, is_secret, names_secret])
def test_long_text(read: Callable[[str], object], part: str) -> None:
    read(part * (MANY // len(part)))
