"""The kinds of records, by their keys."""

from __future__ import annotations

from typing import Any

import pytest

from speck.store.kinds import ALL, EVENT, REVISION, Kind, kind_of


@pytest.mark.parametrize("kind", ALL, ids=[kind.name for kind in ALL])
def test_a_key_names_its_kind(kind: Kind[Any]) -> None:
    key = kind.key(*["a"] * kind.parts)
    assert kind_of(key) is kind
    assert key.startswith(kind.beginning())


def test_numbers_in_keys_sort() -> None:
    assert REVISION.key("c", 9) < REVISION.key("c", 10) == b"revision/c/0000000010"


@pytest.mark.parametrize("key", [b"", b"job", b"what/ever", b"profile/what/a", b"job/a/b", b"profile/job/a"])
def test_a_key_of_no_kind_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match="no such kind of record"):
        kind_of(key).decoded(key, b"{}")


def test_a_numbered_record_needs_its_number() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        EVENT.decoded(b"event/last", EVENT.encode(EVENT.decode("1", b'[1,"drift","it died"]')))
