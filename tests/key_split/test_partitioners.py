"""The promises of every partitioner, for any rows."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from jars_and_apps.key_split.hashing import homes, mix64
from jars_and_apps.key_split.partitioners.protocol import MetricsWindow, Partitioner, Setting
from jars_and_apps.key_split.partitioners.table import PARTITIONERS

KEYS = 400
WEIGHTS = {
    "one": [1.0],
    "two": [1.0, 3.0],
    "none-for-some": [0.0, 2.0, 1.0, 0.0, 1.0, 0.0],
    "many": [1.0] * 40,
}
# Partitioners that do not level loads which they see only as rows.
NOT_LEVELLING = {"hash", "drifting-key", "dalton-metrics", "cam"}

names = pytest.mark.parametrize("name", sorted(PARTITIONERS))


def setting(weights: list[float], slides: int = 3, **options: float) -> Setting:
    """Settings with a fixed seed."""
    return Setting(np.array(weights), 7, slides, options)


def hashes(seed: int, z: float = 1.5, rows: int = 700, drift: int = 0) -> NDArray[np.uint64]:
    """The keys of a batch, by Zipf's law; ``drift`` makes other keys hot."""
    shares = np.arange(1, KEYS + 1) ** -z
    ranks = np.random.default_rng(seed).choice(KEYS, rows, p=shares / shares.sum())
    return mix64(((ranks + drift) % KEYS + 1).astype(np.uint64))


def step(partitioner: Partitioner, batch: int, n: int) -> list[NDArray[np.generic]]:
    """Route a batch, observe its loads, and begin a slide after each third; what came out."""
    keys = (
        np.empty(0, np.uint64)
        if batch % 7 == 6
        else hashes(batch, [0.0, 1.0, 2.0][batch % 3], drift=batch // 9)
    )
    routing = partitioner.route(keys, batch)
    rows = np.bincount(routing.workers, minlength=n).astype(np.float64)
    if batch % 2:
        busy = np.where(rows > 0, rows * np.linspace(1, 4, n), np.nan)
        partitioner.observe(MetricsWindow(rows, busy, busy))
    if batch % 3 == 2:
        partitioner.advance(1)
    return [routing.workers, routing.moved, routing.owners, np.array(routing.threshold)]


def run(name: str, weights: list[float], batches: int = 24) -> str:
    """A digest of all that a partitioner does."""
    partitioner = PARTITIONERS[name].partitioner.begin(setting(weights))
    digest = hashlib.sha256()
    for batch in range(batches):
        for array in step(partitioner, batch, len(weights)):
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


@pytest.fixture(name="elsewhere", scope="module")
def elsewhere_fixture() -> dict[str, str]:
    """The answers of each partitioner in one other process."""
    code = (
        "import json; from tests.key_split.test_partitioners import *; "
        "print(json.dumps({name: run(name, WEIGHTS['many']) for name in PARTITIONERS}))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    given: dict[str, str] = json.loads(found.stdout)
    return given


@pytest.mark.slow("starts a new interpreter")
@names
def test_the_same_rows_go_the_same_way_in_another_process(name: str, elsewhere: dict[str, str]) -> None:
    assert elsewhere[name] == run(name, WEIGHTS["many"])


@names
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
def test_every_row_has_a_worker_with_weight(name: str, weights: list[float]) -> None:
    partitioner = PARTITIONERS[name].partitioner.begin(setting(weights))
    for batch in range(24):
        workers, moved, owners, _ = step(partitioner, batch, len(weights))
        assert workers.dtype == np.int32
        assert owners.dtype == np.int32
        assert moved.dtype == np.uint64
        assert len(moved) == len(owners) == len(set(moved.tolist()))
        assert len(workers) == (0 if batch % 7 == 6 else 700)
        for each in (workers, owners):
            assert set(each.tolist()) <= set(np.flatnonzero(weights).tolist())


@names
def test_a_state_that_was_dumped_goes_on_as_if_it_had_not_been(name: str) -> None:
    weights = setting(WEIGHTS["none-for-some"])
    kind = PARTITIONERS[name].partitioner
    retained, loaded = kind.begin(weights), kind.begin(weights)
    for batch in range(24):
        dumped = {key: np.array(array) for key, array in loaded.dump().items()}
        assert not any(array.dtype.hasobject for array in dumped.values())
        loaded = kind.load(weights, dumped)
        again = loaded.dump()
        assert dumped.keys() == again.keys()
        for key in dumped:
            np.testing.assert_array_equal(dumped[key], again[key])
        for one, other in zip(step(retained, batch, 6), step(loaded, batch, 6), strict=True):
            np.testing.assert_array_equal(one, other)


@names
def test_the_state_has_no_trace_of_keys_that_are_silent_for_a_window(name: str) -> None:
    partitioner = PARTITIONERS[name].partitioner.begin(setting([1.0, 1.0, 1.0], slides=2))
    sizes = []
    for slide in range(12):
        keys = mix64(np.arange(slide * 300, slide * 300 + 300, dtype=np.uint64)).repeat(3)
        partitioner.route(np.concatenate([keys, np.full(900, keys[0])]), slide)
        partitioner.advance(1)
        sizes.append(sum(np.asarray(array).nbytes for array in partitioner.dump().values()))
    assert sizes[-1] <= 1.1 * max(sizes[:5])
    partitioner.route(np.empty(0, np.uint64), 12)
    partitioner.advance(4)
    partitioner.route(np.empty(0, np.uint64), 13)
    remaining = {key: array for key, array in partitioner.dump().items() if key.endswith("hash")}
    assert {key: len(array) for key, array in remaining.items()} == dict.fromkeys(remaining, 0)


@pytest.mark.parametrize("name", sorted(PARTITIONERS.keys() - NOT_LEVELLING))
def test_the_greatest_load_is_well_below_that_of_hashing(name: str) -> None:
    partitioner = PARTITIONERS[name].partitioner.begin(setting([1.0] * 8, slides=1))
    loads = np.zeros(8)
    for slide in range(4):
        keys = hashes(slide, 2.0, rows=20_000)
        loads = np.zeros(8)
        for start in range(0, len(keys), 2_000):
            loads += np.bincount(partitioner.route(keys[start : start + 2_000], slide).workers, minlength=8)
        partitioner.advance(1)
    at_home = np.bincount(homes(keys, np.ones(8), 7), minlength=8)
    assert loads.max() < 0.75 * at_home.max()


def work(of_key: int, **options: float) -> list[float]:
    """The greatest work of 8 workers over the mean, by batch, as in one job; a key counts as so many rows."""
    found = []
    for batch in range(20):
        keys = hashes(batch, rows=8000)
        partitioner = PARTITIONERS["balanced"].partitioner.begin(setting([1.0] * 8, **options))
        workers = partitioner.route(keys, batch).workers
        pairs = np.unique(np.stack([workers, keys.astype(np.int64)]), axis=1)
        done = np.bincount(workers, minlength=8) + of_key * np.bincount(pairs[0], minlength=8)
        found.append(float(done.max() / done.mean()))
    return found


def test_balanced_levels_the_work_for_keys_with_that_for_rows() -> None:
    assert max(work(30)) > 1.1
    assert max(work(30, key_cost=30)) < 1.06
    assert max(work(0)) < 1.06


def test_balanced_goes_on_from_its_state_with_the_work_for_keys() -> None:
    of_keys = setting(WEIGHTS["none-for-some"], key_cost=30)
    kind = PARTITIONERS["balanced"].partitioner
    retained, loaded = kind.begin(of_keys), kind.begin(of_keys)
    for batch in range(24):
        loaded = kind.load(of_keys, loaded.dump())
        for one, other in zip(step(retained, batch, 6), step(loaded, batch, 6), strict=True):
            np.testing.assert_array_equal(one, other)


@names
def test_options_are_checked(name: str) -> None:
    kind = PARTITIONERS[name]
    for option, about in kind.options.items():
        kind.partitioner.begin(setting([1.0, 1.0], **{option: about.low}))
        kind.partitioner.begin(setting([1.0, 1.0], **{option: about.high}))
        with pytest.raises(ValueError, match=f"option '{option}' is .* from"):
            kind.partitioner.begin(setting([1.0, 1.0], **{option: about.high + 1}))
    if kind.options:
        with pytest.raises(ValueError, match="option 'colour' is not one of this partitioner"):
            kind.partitioner.begin(setting([1.0, 1.0], colour=1.0))
