"""``speck fmt``: spaces change, and neither the meaning nor a comment does."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.errors import UnreadableInput
from speck.schema.yaml import formatting
from speck.schema.yaml.formatting import formatted
from speck.schema.yaml.parser import parse
from tests.support.properties import tries

ROOT = Path(__file__).parent.parent.parent

UNTIDY = b"""\
# at the head

name:   traffic-${REGION:-aarhus}   # of the region
defaults: &defaults {site:  A,engine: spark}



jobs:
    -   <<: *defaults
        job_name:  'clean'  # quoted
        # between two fields
        arguments:
               limit: 1.50
               on: "yes"
    - {job_name: other,  source_topic: "a#b"}
# at the end
"""
TIDY = b"""\
# at the head

name: traffic-${REGION:-aarhus}     # of the region
defaults: &defaults {site: A, engine: spark}

jobs:
- <<: *defaults
  job_name: 'clean'         # quoted
        # between two fields
  arguments:
    limit: 1.50
    on: "yes"
- {job_name: other, source_topic: "a#b"}
# at the end
"""


def test_spaces_change_and_nothing_else() -> None:
    assert formatted(UNTIDY).decode() == TIDY.decode()
    assert formatted(TIDY) == TIDY


@pytest.mark.parametrize("path", sorted((ROOT / "pipelines").rglob("*.yaml")), ids=lambda path: path.name)
def test_the_files_of_this_repository_are_formatted(path: Path) -> None:
    assert formatted(path.read_bytes()) == path.read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [1", "is not valid|expected|flow"),
        (b'{"jobs": []}', "is JSON"),
        (b"", "is empty"),
    ],
)
def test_what_is_not_formatted(content: bytes, message: str) -> None:
    with pytest.raises(UnreadableInput, match=message):
        formatted(content)


def test_a_change_of_the_meaning_or_of_a_comment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for broken in ("a: 2 # b\n", "a: 1\n", "c: 1 # b\n"):
        monkeypatch.setattr(formatting, "_round_trip", lambda _, broken=broken: broken)
        with pytest.raises(UnreadableInput, match="without a change of its meaning or its comments"):
            formatted(b"a: 1 # b\n")


words = st.text("ab #:'\"-${}yesno1.0", min_size=1, max_size=6)
comments = st.sampled_from(["", "  # note", "\n# before", "\n\n\n"])


@tries(200)
@given(st.lists(st.tuples(words, words, comments, st.integers(1, 4)), min_size=1, max_size=6))
def test_any_document_is_formatted_without_a_change_of_meaning_or_refused(
    lines: list[tuple[str, str, str, int]],
) -> None:
    text = "".join(f"k{n}:{' ' * gap}{value}{after}\n" for n, (_, value, after, gap) in enumerate(lines))
    try:
        before = parse(text.encode())
        once = formatted(text.encode())
    except UnreadableInput:
        return
    assert repr(parse(once).value) == repr(before.value)
    assert once.count(b"# note") == text.count("# note")
    assert formatted(once) == once
