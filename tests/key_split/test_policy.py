"""Trained policies: their files, their inference in numpy, and the partitioners that take them."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from binders.spark import policy_fault
from jars_and_apps.key_split.baselines import policy as policies
from jars_and_apps.key_split.baselines.policy import FEATURES, LARGEST, Policy, packed, shipped, shipped_text
from jars_and_apps.key_split.hashing import mix64
from jars_and_apps.key_split.partitioners.protocol import MetricsWindow, Partitioner, Setting
from jars_and_apps.key_split.partitioners.table import PARTITIONERS
from jars_and_apps.key_split.router import Router
from jars_and_apps.key_split.settings import RouterSetting
from jars_and_apps.key_split.slides import Windows
from speck.core.split import MOST_POLICY, POLICIES

Floats = NDArray[np.float64]
MANIFEST = {"name": "tried", "ranks": [0.5, 0.25]}


def speeds(weight: float = 1.0) -> tuple[tuple[Floats, Floats], ...]:
    """The layers of a policy whose shares follow rows by busy time: log rows - log busy, times ``weight``."""
    first = np.zeros((FEATURES, 4))
    first[0, 0], first[0, 1], first[1, 2], first[1, 3] = 1, -1, 1, -1
    last = np.array([[1.0], [-1.0], [-1.0], [1.0]]) * weight / 3
    return ((first, np.zeros(4)), (last, np.zeros(1)))


def content(**changes: Any) -> bytes:
    return packed(MANIFEST | changes, speeds())


def text(name: str = "tried", *ranks: float, weight: float = 1.0) -> str:
    manifest = {"name": name, "ranks": list(ranks) or [0.5]}
    return base64.b64encode(packed(manifest, speeds(weight))).decode()


def archive(**arrays: NDArray[Any]) -> bytes:
    found = io.BytesIO()
    np.savez(found, **arrays)
    return found.getvalue()


def manifest(**fields: Any) -> NDArray[np.uint8]:
    given = {"form": 1, "layers": [4, 1], "ranks": [0.5], "name": "x"} | fields
    return np.frombuffer(json.dumps(given).encode(), np.uint8)


# --- files


def test_a_policy_is_the_same_after_its_file() -> None:
    found = Policy.of_bytes(content())
    assert (found.name, found.ranks.tolist(), found.manifest["layers"]) == ("tried", [0.5, 0.25], [4, 4, 1])
    assert packed({k: v for k, v in found.manifest.items() if k != "form"}, found.layers) == content()
    for one, other in zip(found.layers, speeds(), strict=True):
        np.testing.assert_allclose(one[0], other[0], rtol=1e-6)


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "text": (lambda: b"no policy", "is not an .npz file"),
    "empty": (lambda: b"", "is not an .npz file"),
    "cut": (lambda: content()[:-40], "is not an .npz file"),
    "other arrays": (lambda: archive(weights=np.zeros(5, np.float32)), "is not a policy"),
    "objects": (
        lambda: archive(manifest=np.array([{}], object), weights=np.zeros(5, np.float32)),
        "is damaged: its arrays cannot be read",
    ),
    "large": (
        lambda: archive(manifest=manifest(), weights=np.zeros(LARGEST, np.float32)),
        "is too large for a policy",
    ),
    "no json": (
        lambda: archive(manifest=np.zeros(4, np.uint8), weights=np.zeros(5, np.float32)),
        "its manifest cannot be read",
    ),
    "form": (lambda: archive(manifest=manifest(form=2), weights=np.zeros(5, np.float32)), "of form 2"),
    "name": (lambda: archive(manifest=manifest(name=1), weights=np.zeros(5, np.float32)), "has no name"),
    "ranks": (lambda: archive(manifest=manifest(ranks=[]), weights=np.zeros(5, np.float32)), "no shares of"),
    "widths": (
        lambda: archive(manifest=manifest(layers=[16, 1]), weights=np.zeros(17, np.float32)),
        r"has the layers \[16, 1\] \(expected from 4 features to 1 output\)",
    ),
    "number": (
        lambda: archive(manifest=manifest(), weights=np.zeros(6, np.float32)),
        "6 weights of float32",
    ),
    "type": (lambda: archive(manifest=manifest(), weights=np.zeros(5)), "5 weights of float64"),
    "nan": (
        lambda: archive(manifest=manifest(), weights=np.full(5, np.nan, np.float32)),
        "a weight is not a number",
    ),
}


@pytest.mark.parametrize(("made", "fault"), BAD.values(), ids=BAD)
def test_a_bad_file_is_refused(made: Callable[[], bytes], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Policy.of_bytes(made())
    assert policy_fault(made()) is not None


def test_a_bit_that_flips_never_makes_another_error() -> None:
    data, random = content(), np.random.default_rng(3)
    for place in random.integers(0, len(data), 200):
        flipped = bytearray(data)
        flipped[place] ^= 1 << int(random.integers(8))
        try:
            Policy.of_bytes(bytes(flipped))
        except ValueError:
            continue


def test_text_that_is_no_base64_is_refused() -> None:
    with pytest.raises(ValueError, match="is not Base64"):
        Policy.of_text("!")


def test_the_policies_that_ship_are_those_of_the_schema() -> None:
    assert shipped() == POLICIES
    assert LARGEST == MOST_POLICY
    for name in POLICIES:
        found = Policy.of_text(shipped_text(name))
        assert found.name == name
        assert found.manifest.keys() >= {"seed", "data", "phases", "command", "ranks"}
        assert found.manifest["command"].startswith("python -m benchmarks.key_split train")
        # What the network answered in JAX, where it was trained.
        example = found.manifest["example"]
        shares = found.shares(np.array(example["rows"]), np.array(example["busy"]))
        np.testing.assert_allclose(shares, example["shares"], atol=1e-5)


# --- inference


def test_shares_follow_the_measured_speeds_whatever_the_units() -> None:
    found = Policy.of_bytes(content())
    rows, busy = np.array([10.0, 10, 20, 20]), np.array([2.0, 1, 2, 4])
    shares = found.shares(rows, busy)
    np.testing.assert_allclose(shares.sum(), 1)
    np.testing.assert_allclose(shares[[0, 1]], shares[[3, 2]])
    assert shares[1] > 1.9 * shares[0]
    np.testing.assert_allclose(found.shares(rows * 1000, busy / 60), shares)
    order = np.array([2, 0, 3, 1])
    np.testing.assert_allclose(found.shares(rows[order], busy[order]), shares[order])


@pytest.mark.parametrize("missing", [0.0, np.nan])
def test_shares_are_numbers_without_measurements(missing: float) -> None:
    found = Policy.of_bytes(content())
    np.testing.assert_allclose(found.shares(np.full(3, missing), np.full(3, missing)), 1 / 3)
    some = found.shares(np.array([5.0, missing, 5]), np.array([1.0, missing, 1]))
    np.testing.assert_allclose(some, 1 / 3, atol=1e-9)


# --- partitioners


def stream(seed: int, z: float = 1.5) -> NDArray[np.uint64]:
    shares = np.cumsum(np.arange(1, 2_001) ** -z)
    ranks = np.searchsorted(shares, np.random.default_rng(seed).random(20_000) * shares[-1])
    return mix64(ranks.astype(np.uint64) + np.uint64(1))


def begin(name: str, *texts: str, weights: tuple[float, ...] = (1.0,) * 8) -> Any:
    given = Setting(np.array(weights), 7, 3, {"hot_keys": 40}, texts)
    return PARTITIONERS[name].partitioner.begin(given)


def slide(partitioner: Partitioner, seed: int, speed: Floats, z: float = 1.5) -> Floats:
    """The busy times of a slide, after which the partitioner observes them."""
    workers = partitioner.route(stream(seed, z), seed).workers
    rows = np.bincount(workers, minlength=len(speed)).astype(np.float64)
    busy = rows / speed
    partitioner.observe(MetricsWindow(rows, busy, busy))
    partitioner.advance(1)
    return busy


SPEED = np.array([1.0, 0.25, 1, 1, 1, 0.25, 1, 1])


def share(busy: Floats) -> float:
    """Of the throughput of an ideal routing."""
    return float(busy @ SPEED / SPEED.sum() / busy.max())


@pytest.mark.parametrize("name", ["saspartitioner", "saspartitioner-adaptive"])
def test_a_policy_levels_workers_of_unequal_speed_and_none_does_not(name: str) -> None:
    with_policy, without = begin(name, text()), begin(name)
    assert without.policy() == "none: the job names none"
    assert with_policy.policy() == "none: no work was measured yet"
    busy = [(slide(with_policy, each, SPEED), slide(without, each, SPEED)) for each in range(6)]
    assert share(busy[-1][0]) > 0.85
    assert share(busy[-1][1]) < 0.4
    assert with_policy.policy() == "tried"
    np.testing.assert_allclose(without.shares(), 1 / 8)


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_that_ships_levels_workers_of_unequal_speed(name: str) -> None:
    found = begin("saspartitioner", shipped_text(name))
    busy = [slide(found, each, SPEED) for each in range(8)]
    assert share(np.mean(busy[3:], axis=0)) > 0.85


def test_a_worker_of_weight_0_gets_nothing_by_a_policy() -> None:
    found = begin("saspartitioner", text(), weights=(1, 0, 1, 1))
    speed = np.array([1.0, 1, 0.5, 1])
    for each in range(5):
        assert slide(found, each, speed)[1] == 0
    assert found.shares()[1] == 0


def test_the_shares_in_force_outlive_a_dump() -> None:
    given = Setting(np.ones(8), 7, 3, {"hot_keys": 40}, (text("a", 0.9), text("b", 0.1)))
    for name in ("saspartitioner", "saspartitioner-adaptive"):
        kind = PARTITIONERS[name].partitioner
        one = kind.begin(given)
        for each in range(3):
            slide(one, each, SPEED)
        other = kind.load(given, one.dump())
        for each in range(3, 6):
            np.testing.assert_array_equal(slide(one, each, SPEED), slide(other, each, SPEED))


def test_another_policy_takes_over_after_three_slides_in_which_it_was_nearer() -> None:
    flat, steep = text("flat", 0.1, 0.09, 0.08), text("steep", 0.6, 0.15, 0.07)
    found = begin("saspartitioner-adaptive", flat, steep)
    names = []
    for each in range(12):
        slide(found, each, SPEED, z=2.0 if each < 4 or each == 6 else 0.7)
        names.append(found.policy())
    # One slide of the former keys, the seventh, begins the count anew.
    assert names == ["steep"] * 9 + ["flat"] * 3


# --- the router


def test_another_policy_begins_the_partitioner_anew_and_none_reads_a_former_state() -> None:
    kind = PARTITIONERS["saspartitioner"].partitioner
    plain = RouterSetting(Windows(50, 10), "saspartitioner", kind, (1.0, 1.0))
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array(["a", "b"]),
            "time": pa.array([5, 25], pa.int64()),
            "_arrival": pa.array([5, 25], pa.int64()),
            "_hash": pa.array([1, 2], pa.int64()),
        }
    )
    router = Router.begin(plain)
    router.step(batch)
    fields = json.loads(router.report(0, 0).value[1:])
    assert fields["policy"] == "none: the job names none"
    data = router.dump()
    assert Router.load(plain, data).dump() == data
    trained = RouterSetting(Windows(50, 10), "saspartitioner", kind, (1.0, 1.0), policies=(text(),))
    changed = Router.load(trained, data)
    assert changed.dump() != data
    changed.step(batch)
    assert json.loads(changed.report(0, 0).value[1:])["policy"] == "none: no work was measured yet"


def test_the_folder_of_policies_is_found_in_the_package() -> None:
    with pytest.raises(FileNotFoundError):
        shipped_text("no-such")
    assert policies.SUFFIX == ".npz"
