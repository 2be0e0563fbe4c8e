"""The partitioners by name, those for comparison after the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jars_and_apps.key_split.baselines.table import BASELINES
from jars_and_apps.key_split.partitioners.balanced import Balanced
from jars_and_apps.key_split.partitioners.options import Options
from jars_and_apps.key_split.partitioners.protocol import Partitioner
from jars_and_apps.key_split.partitioners.simple import Hash, Shuffle


@dataclass(frozen=True, slots=True)
class Kind:
    """A partitioner's class and its options by name."""

    partitioner: type[Partitioner]
    options: Options


def _kind(partitioner: type[Partitioner]) -> Kind:
    return Kind(partitioner, getattr(partitioner, "OPTIONS", {}))


PARTITIONERS: Mapping[str, Kind] = {
    "balanced": _kind(Balanced),
    "hash": _kind(Hash),
    "shuffle": _kind(Shuffle),
    **{name: _kind(partitioner) for name, partitioner in BASELINES.items()},
}
