"""Groups: the rows of one key and slide that go to one place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jars_and_apps.key_split.frames import PIECE
from jars_and_apps.key_split.hashing import Hashes
from jars_and_apps.key_split.rows import Rows

_GROUP = 29
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups by place (rising), one value each; group i has the rows ``starts[i]`` to ``starts[i + 1]``.

    A group is cut where its rows are too many for one frame; ``pieces`` are the first groups of frames.
    """

    places: Integers
    hashes: Hashes
    slides: Integers
    keys: pa.Array
    starts: Integers
    rows: pa.StructArray
    pieces: Integers

    @property
    def counts(self) -> Integers:
        """The rows of each group."""
        return np.diff(self.starts)

    def batch(self, off_owner: NDArray[np.bool_]) -> pa.RecordBatch:
        """The groups as frames have them (``frames.ROWS``)."""
        rows = pa.ListArray.from_arrays(pa.array(self.starts, pa.int32()), self.rows)
        columns = [self.keys, pa.array(self.hashes), pa.array(self.slides), pa.array(off_owner), rows]
        return pa.RecordBatch.from_arrays(columns, names=["key", "hash", "slide", "off_owner", "rows"])

    def pieces_of(self, place: int) -> Iterator[slice]:
        """The groups of each frame to a place."""
        first, end = np.searchsorted(self.places, [place, place + 1])
        cuts = self.pieces[np.searchsorted(self.pieces, first) : np.searchsorted(self.pieces, end)]
        bounds = [*cuts.tolist(), int(end)]
        return (slice(a, b) for a, b in pairwise(bounds))


def group(rows: Rows, slides: Integers, places: Integers, piece: int | None = PIECE) -> Groups:
    """The groups of rows with these slides that go to these places, cut to frames of ``piece`` bytes."""
    order, code = _sort(rows.hashes, slides, places)
    rows, slides, places, code = rows.take(order), slides[order], places[order], code[order]
    changes = code[1:] != code[:-1]
    if len(rows) > 1:  # two keys of one hash
        changes |= np.asarray(pc.not_equal(rows.keys[1:], rows.keys[:-1]).to_numpy(zero_copy_only=False))
    begins = np.concatenate(([True], changes))[: len(rows)]
    cuts = _cuts(rows, places, np.flatnonzero(begins), piece) if piece else np.empty(0, np.int64)
    starts = np.union1d(np.flatnonzero(begins), cuts).astype(np.int64)
    return Groups(
        places[starts],
        rows.hashes[starts],
        slides[starts],
        rows.keys.take(pa.array(starts)),
        np.append(starts, len(rows)),
        rows.structures(),
        np.searchsorted(starts, cuts),
    )


def _sort(hashes: Hashes, slides: Integers, places: Integers) -> tuple[Integers, Integers]:
    """The order of rows by place, hash and slide, and a number for each row's three."""
    distinct, key = np.unique(hashes, return_inverse=True)
    newest, slide = np.unique(slides, return_inverse=True)
    code = (places * max(1, len(distinct)) + key) * max(1, len(newest)) + slide
    return np.argsort(code, kind="stable"), code


def _cuts(rows: Rows, places: Integers, begins: Integers, piece: int) -> Integers:
    """The first row of each frame."""
    widths = rows.widths()
    keys = rows.keys.take(pa.array(begins))
    widths[begins] += np.asarray(pc.binary_length(keys).to_numpy(zero_copy_only=False)) + _GROUP
    total = np.cumsum(widths)
    changes = np.flatnonzero(places[1:] != places[:-1]) + 1 if len(places) else np.empty(0, np.int64)
    bounds = [0, *changes.tolist(), len(places)] if len(places) else [0]
    cuts = []
    for first, end in pairwise(bounds):
        while first < end:
            cuts.append(first)
            before = total[first - 1] if first else 0
            first = max(first + 1, int(np.searchsorted(total, before + piece, side="right")))
    return np.array(cuts, np.int64)
