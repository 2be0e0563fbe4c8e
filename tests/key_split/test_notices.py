"""Each kind of notice is needed, and no window is shared without one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Self

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from jars_and_apps.key_split.frames import PARTIALS, ROWS, Frame, decode, encode
from jars_and_apps.key_split.hashing import homes
from jars_and_apps.key_split.partitioners.protocol import Arrays, Routing, Setting
from jars_and_apps.key_split.partitioners.simple import Hash, Random
from jars_and_apps.key_split.settings import RouterSetting
from jars_and_apps.key_split.slides import NEVER, Windows
from testbed.key_split.reference import Row, results
from tests.key_split.pipeline import Pipeline

SLIDE = 60_000_000
START = 25_000_000
KEYS = [f"key-{number}" for number in range(12)]


class Movers(Hash):
    """Sends all rows of a key to its owner, and moves some keys after each batch."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._owners: dict[int, int] = {}

    @classmethod
    def load(cls, setting: Setting, arrays: Arrays) -> Self:
        """The partitioner whose state was dumped."""
        partitioner = cls(setting)
        partitioner._owners = dict(zip(arrays["keys"].tolist(), arrays["owners"].tolist(), strict=True))
        return partitioner

    def dump(self) -> Arrays:
        """The moved keys."""
        owners = np.array([*self._owners.values()], np.int64)
        return {"keys": np.array([*self._owners], np.uint64), "owners": owners}

    def route(self, hashes: NDArray[np.uint64], batch: int) -> Routing:
        """The owners so far; one of the keys moves on."""
        workers = homes(hashes, self._setting.weights, self._setting.seed)
        for at, hashed in enumerate(hashes.tolist()):
            workers[at] = self._owners.get(hashed, workers[at])
        if not len(hashes) or batch % 2:
            return Routing(workers)
        moved = hashes[batch % len(hashes)]
        owner = (int(workers[batch % len(hashes)]) + 1) % self._setting.workers
        self._owners[int(moved)] = owner
        return Routing(workers, moved=np.array([moved]), owners=np.array([owner], np.int32))


Change = Callable[[Frame], Frame]


def _chosen(frame: Frame, chosen: NDArray[np.bool_]) -> Frame:
    return frame._replace(batch=frame.batch.filter(pa.array(chosen)))


def _notices(frame: Frame) -> NDArray[np.bool_]:
    return np.asarray(frame.batch.column("key").is_null().to_numpy(zero_copy_only=False))


def without_marks(frame: Frame) -> Frame:
    """Rows off their owner look like the owner's."""
    at = frame.batch.schema.get_field_index("off_owner")
    return frame._replace(batch=frame.batch.set_column(at, "off_owner", pa.array(_notices(frame))))


def without_notices_to_owners(frame: Frame) -> Frame:
    """Owners do not learn that rows went elsewhere."""
    return _chosen(frame, ~_notices(frame))


def without_notices_to_former_owners(frame: Frame) -> Frame:
    """Former owners do not learn that a key moved."""
    slides = frame.batch.column("slide").to_numpy()
    return _chosen(frame, ~(_notices(frame) & (slides <= frame.header.newest)))


def without_notices_to_new_owners(frame: Frame) -> Frame:
    """New owners do not learn that a key moved."""
    slides = frame.batch.column("slide").to_numpy()
    return _chosen(frame, ~(_notices(frame) & (slides > frame.header.newest)))


def without_shared_until(frame: Frame) -> Frame:
    """Nobody learns that the routing changed."""
    return frame._replace(header=replace(frame.header, shared_until=NEVER))


def without_closed_before(frame: Frame) -> Frame:
    """A worker that is added does not learn which windows are out."""
    return frame._replace(header=replace(frame.header, closed_before=NEVER))


def unchanged(frame: Frame) -> Frame:
    """The frame."""
    return frame


MUTANTS: dict[Change, tuple[type[Hash], bool]] = {
    without_marks: (Random, False),
    without_notices_to_owners: (Random, False),
    without_notices_to_former_owners: (Movers, False),
    without_notices_to_new_owners: (Movers, False),
    without_shared_until: (Hash, True),
}


def _pipeline(partitioner: type[Hash], seed: int, change: Change) -> Pipeline:
    def spoil(data: bytes) -> bytes:
        return encode(change(decode(data, ROWS)))

    options = {"share": 0.1, "moves": 0.0}
    windows = Windows(5 * SLIDE, SLIDE)
    setting = RouterSetting(windows, "any", partitioner, (1.0,) * 3, seed, options, origin="begun")
    return Pipeline(setting, spoil=spoil)


def _run(pipeline: Pipeline, seed: int, *, grows: bool, reduced: bool = True) -> list[list[Row]]:
    """Eight slides in order, a batch each; or with late rows, and a worker that is added halfway."""
    random = np.random.default_rng(seed)
    batches = []
    for slide in range(8):
        begun = (START + slide) * SLIDE
        # Of a slide that has its other rows elsewhere, and one of whose windows is out.
        times = [begun - 3 * SLIDE // 2 if grows and random.random() < 0.3 else begun for _ in range(12)]
        rows = [
            Row(KEYS[number], time, begun, slide * 100 + at)
            for at, (number, time) in enumerate(zip(random.integers(0, 12, 12).tolist(), times, strict=True))
        ]
        batches.append(rows)
        if slide == 4 and grows:
            setting = pipeline.router.setting
            pipeline.change(weights=(*setting.weights, 1.0))
        pipeline.route(rows)
    pipeline.drain(reduced=reduced)
    return batches


def _is_right(partitioner: type[Hash], seed: int, change: Change, grows: bool) -> bool:
    pipeline = _pipeline(partitioner, seed, change)
    batches = _run(pipeline, seed, grows=grows)
    try:
        return pipeline.found() == results(batches, pipeline.windows)
    except AssertionError:  # a window twice
        return False


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_results_are_wrong_without_each_kind_of_notice(mutant: Change) -> None:
    """Of four runs with the mutant one is wrong, and with nothing left out the same run is right."""
    partitioner, grows = MUTANTS[mutant]
    wrong = (seed for seed in range(4) if not _is_right(partitioner, seed, mutant, grows))
    seed = next(wrong, None)
    assert seed is not None
    assert _is_right(partitioner, seed, unchanged, grows)


@pytest.mark.slow("eight runs of a split")
def test_a_combiner_that_is_not_told_which_windows_are_out() -> None:
    """The reducer drops what it makes of them, and with nothing left out there is nothing to drop."""
    late = Counter[Change]()
    for seed in range(4):
        for change in (without_closed_before, unchanged):
            pipeline = _pipeline(Hash, seed, change)
            batches = _run(pipeline, seed, grows=True)
            assert pipeline.found() == results(batches, pipeline.windows)
            late[change] += pipeline.reducers[0].report()["faults"].get("late_partials", 0)
    assert late[without_closed_before] > 0
    assert late[unchanged] == 0


@pytest.mark.parametrize("seed", range(5))
def test_keys_that_move_share_the_windows_over_their_move_alone(seed: int) -> None:
    """With rows in order, a window goes by the reducer only if it has a slide next to a move of its key."""
    pipeline = _pipeline(Movers, seed, unchanged)
    batches = _run(pipeline, seed, grows=False, reduced=False)
    moves = [
        (rows[batch % len(rows)].key, START + batch) for batch, rows in enumerate(batches) if batch % 2 == 0
    ]
    assert pipeline.partials
    for frame in (decode(each, PARTIALS) for each in pipeline.partials):
        for key, end in zip(
            *(frame.batch.column(name).to_pylist() for name in ("key", "window")), strict=True
        ):
            moved = [slide for name, slide in moves if name == key]
            assert any(end - 5 <= slide + 1 and slide < end for slide in moved), (key, end, moved)
    pipeline.drain()
    assert pipeline.found() == results(batches, pipeline.windows)


class Scripted(Hash):
    """Sends each row of batch i to worker ``SCRIPT[i][0]``, and makes worker ``SCRIPT[i][1]`` the owner."""

    def route(self, hashes: NDArray[np.uint64], batch: int) -> Routing:
        """The worker and owner of the batch."""
        worker, owner = SCRIPT[batch]
        if not len(hashes):
            return Routing(np.empty(0, np.int32))
        home = int(homes(hashes[:1], self._setting.weights, self._setting.seed)[0])
        workers = np.full(len(hashes), (home + worker) % 3, np.int32)
        if owner is None:
            return Routing(workers)
        return Routing(workers, moved=hashes[:1], owners=np.array([(home + owner) % 3], np.int32))


SCRIPT: tuple[tuple[int, int | None], ...] = (
    (0, None),
    (0, 1),
    (0, None),
    (0, None),
    (1, None),
    (0, None),
    (0, None),
)


def _scripted(slides: Sequence[int], keys: str, windows: Windows, changed: int = -1) -> None:
    """Run the script over rows of these keys and slides, with another seed from batch ``changed`` on."""
    pipeline = Pipeline(RouterSetting(windows, "any", Scripted, (1.0,) * 3, origin="begun"))
    batches = [
        [Row(key, (START + slide) * SLIDE, (START + 9) * SLIDE, at)]
        for at, (key, slide) in enumerate(zip(keys, slides, strict=True))
    ]
    for at, rows in enumerate(batches):
        if at == changed:
            pipeline.change(seed=5)  # the home of "a" is then another than both owners before
        pipeline.route(rows)
    pipeline.drain()
    assert pipeline.found() == results(batches, windows)


def test_a_key_that_was_moved_ahead_and_forgotten() -> None:
    """Its owner is its home again, which is told of rows elsewhere also where a former owner was."""
    _scripted((0, 0, 3, 1, 1, 1, 9), "aabaaab", Windows(3 * SLIDE, SLIDE))


def test_a_key_that_was_moved_ahead_of_a_change() -> None:
    """The owner by the new routing is told of rows elsewhere also where a former owner was."""
    _scripted((0, 0, 1, 1, 1, 1, 9), "aaaaaab", Windows(SLIDE, SLIDE), changed=2)


def test_a_combiner_that_is_added() -> None:
    """All its shards are told what is closed, by rows that are not theirs: the reducer waits for them."""
    pipeline = Pipeline(RouterSetting(Windows(SLIDE, SLIDE), "any", Hash, (1.0,), origin="begun"))
    row = Row("a", START * SLIDE, START * SLIDE, 0)
    pipeline.route([row])
    pipeline.change(weights=(1.0, 0.0), shards=(1, 3))
    pipeline.route([row])
    for shard in range(3):
        (data,) = pipeline.waiting[1, shard]
        header = decode(data, ROWS).header
        assert (header.closed_before, header.shards) == (START, (1, 3))
    pipeline.route([row])
    assert [len(pipeline.waiting[1, shard]) for shard in range(3)] == [1, 1, 1]
