"""Measured weights, from the reports of the combiners to the routing of the next batch."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from jars_and_apps.key_split.hashing import mix64
from jars_and_apps.key_split.partitioners.table import PARTITIONERS
from jars_and_apps.key_split.reports import MOST, metrics_window, report
from jars_and_apps.key_split.router import Router
from jars_and_apps.key_split.settings import RouterSetting
from jars_and_apps.key_split.slides import Windows
from speck.core.split import Part, Role
from speck.core.split.metrics import WorkWindow
from speck.observe.splits import SplitMeter

SLIDE = 10_000_000  # us
BEGIN = 1_500_000_000_000_000
SLOW = 4.0
ROWS, BATCHES, KEYS = 100_000, 6, 10_000  # of a slide


def setting(workers: int, name: str = "balanced", **fields: Any) -> RouterSetting:
    windows = Windows(5 * SLIDE, SLIDE)
    return RouterSetting(windows, name, PARTITIONERS[name].partitioner, (1.0,) * workers, **fields)


def batch(ranks: NDArray[np.int64], slide: int, *controls: bytes) -> pa.RecordBatch:
    """Rows of keys in a slide, and control messages."""
    hashes = mix64(ranks.astype(np.uint64) + np.uint64(1)).view(np.int64)
    count, none = len(ranks), [None] * len(controls)
    columns = {
        "key": pa.array([*ranks.astype(str), *none], pa.utf8()),
        "time": pa.array([*[BEGIN + slide * SLIDE] * count, *none], pa.int64()),
        "_arrival": pa.array([BEGIN + slide * SLIDE] * (count + len(controls)), pa.int64()),
        "_hash": pa.array([*hashes, *[42] * len(controls)], pa.int64()),
        "_control": pa.array([*[None] * count, *controls], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def ranks(seed: int, z: float = 1.5, rows: int = ROWS // BATCHES) -> NDArray[np.int64]:
    shares = np.cumsum(np.arange(1, KEYS + 1) ** -z)
    found: NDArray[np.int64] = np.searchsorted(shares, np.random.default_rng(seed).random(rows) * shares[-1])
    return found


class Run:
    """A router with simulated combiners, half of them slow, and the coordinator's meter between them."""

    def __init__(self, z: float, *, measured: bool, workers: int = 32) -> None:
        self._z, self._measured = z, measured
        self._speeds = np.ones(workers)
        self._speeds[::2] = 1 / SLOW
        self._router = Router.begin(setting(workers, measured=measured))
        part = Part(of="hot", role=Role.PARTITIONER, window_us=SLIDE, slide_us=SLIDE, workers=workers)
        self.meter = SplitMeter(replace(part, metrics_window_us=SLIDE, metrics_slide_us=SLIDE), began=0.0)
        self._window: WorkWindow | None = None

    def slide(self, number: int) -> float:
        """Route a slide; the share of the ideal throughput that it has."""
        loads = np.zeros(len(self._speeds))
        for each in range(BATCHES):
            controls = [] if self._window is None or not self._measured else [self._window.control()]
            self._window = None
            self._router.step(batch(ranks(number * BATCHES + each, self._z), number, *controls))
            _, payload = self._router.report(0.01, 0.01)
            self.meter.add_report("speck/split/hot/report/partitioner", payload, number)
            loads += json.loads(payload[1:])["loads"]
        busy = loads / self._speeds / 1000
        for worker, (rows, seconds) in enumerate(zip(loads.tolist(), busy.tolist(), strict=True)):
            _, payload = report(str(worker), {"rows": int(rows)}, Counter(), seconds, seconds)
            self.meter.add_report(f"speck/split/hot/report/{worker}", payload, number)
        self._window = self.meter.advance((number + 1) * SLIDE / 1e6)
        return float(loads.sum() / self._speeds.sum() / (loads / self._speeds).max())


@pytest.mark.slow("some 100,000 rows a slide")
@pytest.mark.parametrize(("z", "least"), [(1.5, 0.92), (0.5, 0.9)])
def test_half_of_the_workers_are_slow(z: float, least: float) -> None:
    """4 times slower; the targets are those of the simulation (``benchmarks.key_split``)."""
    measured, fixed = Run(z, measured=True), Run(z, measured=False)
    shares = [measured.slide(number) for number in range(5)]
    assert np.mean(shares[-3:]) >= least, shares
    assert fixed.slide(0) < 0.5
    shown = measured.meter.data(5 * SLIDE / 1e6)
    assert shown["weights"][1::2] == pytest.approx([SLOW * each for each in shown["weights"][::2]], rel=0.02)
    assert shown["table_age_seconds"] == SLIDE / 1e6
    assert shown["imbalance"] < 0.15  # by these weights


def control(*speeds: float | None, end: float = 1.0) -> bytes:
    """A window in which each worker was busy for a second."""
    workers = [None if each is None else {"rows": each, "busy": 1.0, "wall": 1.0} for each in speeds]
    return json.dumps({"end": end, "workers": workers}).encode()


def weights(router: Router) -> list[float]:
    found: list[float] = json.loads(router.report(0.1, 0.1).value[1:])["weights"]
    return found


def test_a_window_counts_from_the_next_batch_on_also_if_batches_are_run_again() -> None:
    of = setting(4, measured=True)
    plain, routed = Router.begin(of), Router.begin(of)
    first, second = batch(ranks(1), 0, control(1000.0, 100.0, 100.0, 100.0)), batch(ranks(2), 0)
    assert routed.step(first) == plain.step(batch(ranks(1), 0))
    assert weights(routed) == [0.25] * 4
    state = routed.dump()
    outputs = routed.step(second)
    assert outputs != plain.step(second)
    assert weights(routed) == pytest.approx([10 / 13, 1 / 13, 1 / 13, 1 / 13], abs=1e-6)
    again = Router.load(of, state)
    assert again.step(second) == outputs
    assert again.dump() == routed.dump()


def test_windows_of_one_batch_count_in_the_order_of_their_times() -> None:
    earlier, later = control(100.0, 100.0, end=1.0), control(300.0, 100.0, end=2.0)
    states = []
    for controls in ((earlier, later), (later, earlier)):
        router = Router.begin(setting(2, measured=True))
        router.step(batch(ranks(1), 0, *controls))
        states.append(router.dump())
        router.step(batch(ranks(2), 0))
        assert weights(router) == pytest.approx([160 / 260, 100 / 260], abs=1e-6)
    assert states[0] == states[1]


def test_the_last_weights_stay_while_no_window_comes() -> None:
    router = Router.begin(setting(2, measured=True))
    router.step(batch(ranks(1), 0, control(300.0, 100.0)))
    for slide in range(1, 9):
        router = Router.load(setting(2, measured=True), router.dump())
        router.step(batch(ranks(slide), slide, *([control(None, None)] if slide == 4 else [])))
        assert weights(router) == [0.75, 0.25]
    fields = json.loads(router.report(0.1, 0.1).value[1:])
    assert (fields["observed"], fields["observed_end"]) == (2, 1.0)


def test_fixed_weights_again_forget_what_was_measured() -> None:
    router = Router.begin(setting(2, measured=True))
    router.step(batch(ranks(1), 0, control(300.0, 100.0)))
    router = Router.load(setting(2), router.dump())
    router.step(batch(ranks(2), 1))
    assert weights(router) == [0.5, 0.5]
    assert json.loads(router.report(0.1, 0.1).value[1:])["observed_end"] is None


def test_speeds_are_bounded_by_the_median() -> None:
    router = Router.begin(setting(3, measured=True))
    router.step(batch(ranks(1), 0, control(1e9, 100.0, 1.0)))
    router.step(batch(ranks(2), 0))
    assert weights(router) == pytest.approx([20 / 21.05, 1 / 21.05, 0.05 / 21.05], abs=1e-6)


@pytest.mark.parametrize("value", ["-1", "NaN", "Infinity", "-Infinity", str(MOST), '"x"', "[1]", "null"])
@pytest.mark.parametrize("field", ["rows", "busy", "wall", "end"])
def test_numbers_that_no_window_has(field: str, value: str) -> None:
    text = control(1.0).decode().replace(f'"{field}": 1.0', f'"{field}": {value}')
    assert value in text
    with pytest.raises(ValueError, match="control message is no metrics window"):
        metrics_window(text.encode(), 1)
