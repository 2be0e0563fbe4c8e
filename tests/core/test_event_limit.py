"""The bound on events of one source: what is counted, and what is reported when a period is over."""

from __future__ import annotations

import pytest

from speck.core.event_limit import EventLimit


def admitted(limit: EventLimit, source: str, now: float) -> bool:
    with limit.admission(source, now) as is_admitted:
        return is_admitted


def reported(limit: EventLimit, now: float) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    limit.report(now, lambda source, number: found.append((source, number)))
    return found


def test_each_source_has_its_own_bound_and_what_is_left_out_is_reported_once() -> None:
    limit = EventLimit(2, period=60.0)
    assert [admitted(limit, "a", now) for now in (0.0, 1.0, 2.0, 3.0)] == [True, True, False, False]
    assert admitted(limit, "b", 3.0)
    assert reported(limit, 59.0) == []
    assert reported(limit, 60.0) == [("a", 2)]
    assert reported(limit, 120.0) == []
    assert admitted(limit, "a", 60.0)


def test_an_event_that_could_not_be_written_does_not_count() -> None:
    limit = EventLimit(1)
    for _ in range(3):
        with pytest.raises(OSError), limit.admission("a", 0.0) as is_admitted:
            assert is_admitted
            raise OSError
    assert limit.room("a", 0.0) == 1


def test_a_report_that_fails_is_made_again() -> None:
    limit = EventLimit(0, period=60.0)
    assert not admitted(limit, "a", 0.0)

    def fail(source: str, number: int) -> None:
        raise OSError

    with pytest.raises(OSError):
        limit.report(60.0, fail)
    assert reported(limit, 61.0) == [("a", 1)]
