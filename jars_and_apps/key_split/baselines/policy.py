"""Trained policies: the workers' shares by what was measured, computed in numpy.

A policy is a small network that is applied to each worker alike, so that it fits any number of workers.  Its
file is an ``.npz`` of two arrays without objects: ``manifest`` (uint8: JSON) and ``weights`` (float32, those
of the layers in turn, each a matrix by rows and then its bias).
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FORM = 1
FEATURES = 4
BOUND = 3.0  # of the logarithm of a share over the mean
LARGEST = 65_536  # bytes of a file, and of each array in it
LEAST, MOST_ROWS, MOST_BUSY = 0.05, 2.0, 8.0  # of a worker's rows and busy time, by the mean
SUFFIX = ".npz"
_PACKAGE = "jars_and_apps.key_split.baselines"


@dataclass(frozen=True)
class Policy:
    """A trained network with its manifest, which has at least ``name``, ``ranks`` and ``layers``.

    ``ranks``: the shares of the rows that the hottest keys had in training, falling.  ``layers``: the widths
    from the features to the one output.
    """

    manifest: Mapping[str, Any]
    layers: tuple[tuple[Floats, Floats], ...]

    @classmethod
    def of_bytes(cls, data: bytes) -> Self:
        """The policy in the content of a file; ValueError, as a predicate, for anything else."""
        arrays = _arrays(data)
        manifest = _manifest(arrays["manifest"])
        return cls(manifest, tuple(_layers(manifest["layers"], arrays["weights"])))

    @classmethod
    def of_text(cls, text: str) -> Self:
        """The policy in a file's content as Base64."""
        try:
            return cls.of_bytes(base64.b64decode(text, validate=True))
        except binascii.Error as error:
            raise ValueError("is not Base64") from error

    @property
    def name(self) -> str:
        """The name in the manifest."""
        return str(self.manifest["name"])

    @property
    def ranks(self) -> Floats:
        """The shares of the hottest keys in training."""
        return np.array(self.manifest["ranks"], np.float64)

    def shares(self, rows: Floats, busy: Floats) -> Floats:
        """The share of each worker, which sum to 1, by the rows and busy times (s) of the last window.

        A worker that did not report (NaN) is taken to be as the mean.  Without any rows the shares are even.
        """
        logits = self.logits(features(by_mean(rows), by_mean(busy)))
        shares = np.exp(logits - logits.max())
        return np.asarray(shares / shares.sum())

    def logits(self, inputs: Floats) -> Floats:
        """The output for each worker, from -3 to 3: the logarithm of its share, up to a constant."""
        values = inputs
        for number, (matrix, bias) in enumerate(self.layers):
            values = values @ matrix + bias
            if number < len(self.layers) - 1:
                values = np.maximum(values, 0.0)
        return np.asarray(BOUND * np.tanh(values[:, 0]))


def features(rows: Floats, busy: Floats) -> Floats:
    """The inputs of the network, one row a worker, of rows and busy times that are by their mean.

    The logarithms of both; then, the same for all workers, the mean of the distances of the busy times from
    their mean, and the logarithm of the greatest.
    """
    taken = np.clip(busy, LEAST, MOST_BUSY)
    columns = [
        np.log(np.clip(rows, LEAST, MOST_ROWS)),
        np.log(taken),
        np.full(len(busy), np.abs(taken - 1).mean()),
        np.full(len(busy), np.log(taken.max())),
    ]
    return np.stack(columns, axis=1)


def by_mean(values: Floats) -> Floats:
    """Values over the mean of those that are numbers; 1 for the others, and for all if there is no mean."""
    known = np.isfinite(values)
    mean = values[known].mean() if known.any() else 0.0
    return np.where(known, values, mean) / mean if mean > 0 else np.ones(len(values))


def packed(manifest: Mapping[str, Any], layers: tuple[tuple[Floats, Floats], ...]) -> bytes:
    """The content of a policy's file; the same for the same policy."""
    widths = [layers[0][0].shape[0], *(matrix.shape[1] for matrix, _ in layers)]
    text = json.dumps({"form": FORM, **manifest, "layers": widths}, indent=1).encode()
    weights = np.concatenate([each.ravel() for layer in layers for each in layer]).astype(np.float32)
    content = io.BytesIO()
    np.savez(content, manifest=np.frombuffer(text, np.uint8), weights=weights)
    return content.getvalue()


def shipped() -> tuple[str, ...]:
    """The names of the policies that are part of this package."""
    folder = files(_PACKAGE).joinpath("policies")
    return tuple(sorted(each.name.removesuffix(SUFFIX) for each in folder.iterdir() if _is_policy(each.name)))


def shipped_text(name: str) -> str:
    """A policy of this package, as Base64; FileNotFoundError for an unknown name."""
    return base64.b64encode(files(_PACKAGE).joinpath("policies", name + SUFFIX).read_bytes()).decode()


def _is_policy(name: str) -> bool:
    return name.endswith(SUFFIX)


def _arrays(data: bytes) -> dict[str, NDArray[Any]]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            sizes = {each.filename: each.file_size for each in archive.infolist()}
    except zipfile.BadZipFile as error:
        raise ValueError("is not an .npz file") from error
    if sizes.keys() != {"manifest.npy", "weights.npy"}:
        raise ValueError("is not a policy (expected the arrays manifest and weights)")
    if max(len(data), *sizes.values()) > LARGEST:
        raise ValueError(f"is too large for a policy (expected at most {LARGEST:,} bytes)")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            return dict(found)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError("is damaged: its arrays cannot be read") from error


def _manifest(array: NDArray[Any]) -> dict[str, Any]:
    try:
        found = json.loads(array.astype(np.uint8).tobytes())
        form, widths, ranks = found["form"], list(found["layers"]), np.array(found["ranks"], np.float64)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError("is damaged: its manifest cannot be read") from error
    if form != FORM:
        raise ValueError(f"is a policy of form {form!r} (expected {FORM})")
    if not _are_widths(widths):
        raise ValueError(f"has the layers {widths} (expected from {FEATURES} features to 1 output)")
    if ranks.ndim != 1 or not len(ranks) or not (np.isfinite(ranks) & (ranks >= 0)).all():
        raise ValueError("has no shares of the hottest keys in its manifest")
    if not isinstance(found.get("name"), str):
        raise ValueError("has no name in its manifest")
    return dict(found)


def _are_widths(widths: list[Any]) -> bool:
    whole = all(isinstance(each, int) and 0 < each <= LARGEST for each in widths)
    return whole and len(widths) > 1 and widths[0] == FEATURES and widths[-1] == 1


def _layers(widths: list[int], weights: NDArray[Any]) -> Iterator[tuple[Floats, Floats]]:
    expected = sum((low + 1) * high for low, high in pairwise(widths))
    if weights.dtype != np.float32 or weights.shape != (expected,):
        raise ValueError(
            f"is damaged: {weights.size} weights of {weights.dtype} (expected {expected} float32)"
        )
    if not np.isfinite(weights).all():
        raise ValueError("is damaged: a weight is not a number")
    values, start = weights.astype(np.float64), 0
    for low, high in pairwise(widths):
        end = start + low * high
        yield values[start:end].reshape(low, high), values[end : end + high]
        start = end + high
