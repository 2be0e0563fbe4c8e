"""The number of workers: first-fit packing, spare workers, predicted load."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.core.inventory import Predictor
from speck.placement.packing import (
    MARGIN,
    Average,
    Item,
    first_fit,
    further_instances,
    loose_fit,
    spare_workers,
    strict_fit,
    target_workers,
)
from tests.support.properties import tries

SHARES = st.floats(0, 1, allow_nan=False)


def items(*shares: float) -> list[Item]:
    return [Item(f"job-{index}", share) for index, share in enumerate(shares)]


def least_bins(shares: Sequence[float]) -> int:
    """The least number of workers of size 1, by trying all ways to share the items out."""

    def search(rest: Sequence[float], loads: tuple[float, ...], best: int) -> int:
        if len(loads) >= best:
            return best
        if not rest:
            return len(loads)
        for index, load in enumerate(loads):
            if load + rest[0] <= 1 + 1e-9:
                more = (*loads[:index], load + rest[0], *loads[index + 1 :])
                best = min(best, search(rest[1:], more, best))
        return min(best, search(rest[1:], (*loads, rest[0]), best))

    return search(sorted(shares, reverse=True), (), len(shares) + 1)


@tries(60)
@given(st.lists(SHARES, max_size=8))
def test_first_fit_is_within_its_bound(shares: list[float]) -> None:
    """Garey, Graham, Johnson, Yao 1976; the margin makes workers larger, which can only help."""
    assert len(first_fit(items(*shares)).bins) <= 1.7 * least_bins(shares) + 1


@tries(200)
@given(st.lists(SHARES, max_size=40), st.none() | st.integers(1, 8))
def test_every_item_has_a_place_and_no_worker_too_many(shares: list[float], slots: int | None) -> None:
    given_items = items(*shares)
    packed = first_fit(given_items, slots)
    share_of = {each.name: each.share for each in given_items}
    assert sorted(name for each in packed.bins for name in each) == sorted(share_of)
    for names, load in zip(packed.bins, packed.loads, strict=True):
        assert load == pytest.approx(sum(share_of[name] for name in names))
        assert names
        assert load <= 1 + MARGIN + 1e-9
        assert slots is None or len(names) <= slots
    # A worker is opened only for an item that fits nowhere before it.
    for index, names in enumerate(packed.bins):
        for before, load in list(zip(packed.bins, packed.loads, strict=True))[:index]:
            full = slots is not None and len(before) >= slots
            assert full or load + share_of[names[0]] > 1  # more came later, perhaps


@tries(100)
@given(st.lists(SHARES, max_size=40))
def test_an_item_more_never_needs_less(shares: list[float]) -> None:
    counts = [len(first_fit(items(*shares[:number])).bins) for number in range(len(shares) + 1)]
    assert counts == sorted(counts)


@pytest.mark.parametrize(("share", "strict"), [(1 / 8, 0.875), (1 / 4, 0.75)])
def test_workers_are_filled_which_the_published_rule_does_not(share: float, strict: float) -> None:
    number = round(10 / share)
    loose = first_fit(items(*[share] * number), fit=loose_fit)
    assert loose.loads == pytest.approx([1.0] * 10)
    published = first_fit(items(*[share] * number), fit=strict_fit)
    assert published.loads[:-1] == pytest.approx([strict] * (len(published.loads) - 1))
    assert len(published.bins) > len(loose.bins)


def test_noise_of_measuring_opens_no_worker() -> None:
    assert len(first_fit(items(*[0.2505] * 4)).bins) == 1
    assert len(first_fit(items(*[0.256] * 4)).bins) == 2


def test_an_item_larger_than_a_worker_has_one_for_itself() -> None:
    packed = first_fit(items(0.5, 1.7, 0.5, 30.0))
    assert packed.bins == (("job-0", "job-2"), ("job-1",), ("job-3",))


def test_workers_are_opened_by_index() -> None:
    packed = first_fit(items(0.6, 0.6, 0.3, 0.3, 0.1))
    assert packed.bins == (("job-0", "job-2", "job-4"), ("job-1", "job-3"))


@pytest.mark.parametrize(
    ("bins", "spare"),
    [(0, 0), (1, 1), (9, 1), (10, 2), (54, 2), (55, 3), (99, 3), (100, 4), (148, 4), (149, 5)],
)
def test_spare_workers(bins: int, spare: int) -> None:
    assert spare_workers(bins) == spare


@tries(100)
@given(st.integers(0, 2000), st.integers(0, 20), st.integers(0, 20))
def test_target_is_within_its_bounds(bins: int, least: int, more: int) -> None:
    most = least + more
    target = target_workers(bins, least, most)
    assert least <= target <= most
    assert target in (least, most, bins + spare_workers(bins))


def test_average_begins_as_a_mean_and_forgets() -> None:
    average = Average(0.2)
    for sample in (0.4, 0.6):
        average = average.with_next(sample)
    assert average.value == pytest.approx(0.4)
    for _ in range(60):
        average = average.with_next(0.1)
    assert average.value == pytest.approx(0.1, rel=0.02)


@pytest.mark.parametrize(
    ("growth", "waiting", "units"),
    [
        *((10.1, 0, 2), (10.0, 0, 1), (5.1, 0, 1), (5.0, 0, 0)),
        *((0.0, 101, 2), (-9.9, 101, 2), (-10.0, 101, 1), (-50.0, 101, 1)),
        *((0.0, 100, 0), (-50.0, 0, 0), (50.0, 1000, 2)),
    ],
)
def test_published_predictor(growth: float, waiting: int, units: int) -> None:
    assert further_instances(Predictor(), growth, waiting) == units


def test_predictor_takes_its_parameters() -> None:
    assert further_instances(Predictor(rise=1, steep=2), 1.5, 0) == 1
    assert further_instances(Predictor(waiting=5, fall=1), -2, 6) == 1
