"""The partitioners by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jars_and_apps.key_split.partitioners.adaptive import Adaptive
from jars_and_apps.key_split.partitioners.balanced import Balanced
from jars_and_apps.key_split.partitioners.cam import Cam
from jars_and_apps.key_split.partitioners.dagreedy import DaGreedy
from jars_and_apps.key_split.partitioners.dalton_metrics import DaltonMetrics
from jars_and_apps.key_split.partitioners.dalton_offline import DaltonOffline
from jars_and_apps.key_split.partitioners.dalton_original import DaltonOriginal
from jars_and_apps.key_split.partitioners.drifting_key import DriftingKey
from jars_and_apps.key_split.partitioners.options import Options
from jars_and_apps.key_split.partitioners.protocol import Partitioner
from jars_and_apps.key_split.partitioners.saspartitioner import SasPartitioner
from jars_and_apps.key_split.partitioners.simple import Hash, Shuffle
from jars_and_apps.key_split.partitioners.two_choices import TwoChoices


@dataclass(frozen=True, slots=True)
class Kind:
    """A partitioner's class and its options by name."""

    partitioner: type[Partitioner]
    options: Options


def _kind(partitioner: type[Partitioner]) -> Kind:
    return Kind(partitioner, getattr(partitioner, "OPTIONS", {}))


PARTITIONERS: Mapping[str, Kind] = {
    "balanced": _kind(Balanced),
    "cam": _kind(Cam),
    "dagreedy": _kind(DaGreedy),
    "dalton-metrics": _kind(DaltonMetrics),
    "dalton-offline": _kind(DaltonOffline),
    "dalton-original": _kind(DaltonOriginal),
    "drifting-key": _kind(DriftingKey),
    "hash": _kind(Hash),
    "saspartitioner": _kind(SasPartitioner),
    "saspartitioner-adaptive": _kind(Adaptive),
    "shuffle": _kind(Shuffle),
    "two-choices": _kind(TwoChoices),
}
