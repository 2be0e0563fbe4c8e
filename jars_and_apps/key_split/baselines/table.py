"""The partitioners for comparison by name."""

from __future__ import annotations

from collections.abc import Mapping

from jars_and_apps.key_split.baselines.adaptive import Adaptive
from jars_and_apps.key_split.baselines.cam import Cam
from jars_and_apps.key_split.baselines.dagreedy import DaGreedy
from jars_and_apps.key_split.baselines.dalton_metrics import DaltonMetrics
from jars_and_apps.key_split.baselines.dalton_offline import DaltonOffline
from jars_and_apps.key_split.baselines.dalton_original import DaltonOriginal
from jars_and_apps.key_split.baselines.drifting_key import DriftingKey
from jars_and_apps.key_split.baselines.saspartitioner import SasPartitioner
from jars_and_apps.key_split.baselines.two_choices import TwoChoices
from jars_and_apps.key_split.partitioners.protocol import Partitioner

BASELINES: Mapping[str, type[Partitioner]] = {
    "cam": Cam,
    "dagreedy": DaGreedy,
    "dalton-metrics": DaltonMetrics,
    "dalton-offline": DaltonOffline,
    "dalton-original": DaltonOriginal,
    "drifting-key": DriftingKey,
    "saspartitioner": SasPartitioner,
    "saspartitioner-adaptive": Adaptive,
    "two-choices": TwoChoices,
}
