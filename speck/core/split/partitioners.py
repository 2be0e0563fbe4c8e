"""The partitioners as data: their names, options and needs.  Their code runs at the sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

MOST_COMBINERS = 1000  # the partitioners were measured with up to as many


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a partitioner: default and bounds, both inclusive; ``whole`` allows no fraction."""

    about: str
    default: float
    low: float
    high: float
    whole: bool = False


@dataclass(frozen=True, slots=True)
class PartitionerKind:
    """A partitioner as its users see it.

    ``learns``: its tables grow across batches, so it runs as a job of its own only.  ``weighs``: it can take
    measured speeds for the combiners' weights.  ``metered``: it needs the measured work of the combiners.
    ``policy``: it takes a trained policy, which needs that as well; ``chooses``: it chooses among those that
    ship.  ``comparison``: it only serves for comparison with the others.
    """

    about: str
    options: Mapping[str, Option] = field(default_factory=dict)
    learns: bool = False
    weighs: bool = False
    metered: bool = False
    policy: bool = False
    chooses: bool = False
    comparison: bool = False


SAS_OPTIONS: Mapping[str, Option] = {
    "hot_keys": Option("keys, by rank, that count as hot", 10, 1, 1000, whole=True),
    "true_hot": Option("hot keys that are split; 0: by the rule", 0, 0, 1000, whole=True),
    "spread": Option("workers of each of them; 0: by the rule", 0, 0, MOST_COMBINERS, whole=True),
}

_OWN: Mapping[str, PartitionerKind] = {
    "balanced": PartitionerKind(
        "levels each batch with the least fan-out",
        {
            "hot": Option("a key is hot above 1/(hot * workers) of a slide", 4, 1, 1000),
            "tolerance": Option("excess over the level for which no new worker gets a key", 0.05, 0, 1),
            "memory": Option("share of the last batches' loads that counts in the next", 0.5, 0, 0.99),
            "relief": Option("excess over its share at which a worker's cold keys move", 0.02, 0, 1),
            "key_cost": Option(
                "the work for a key in a batch, beside its rows, in rows", 0, 0, 100_000, whole=True
            ),
        },
        weighs=True,
    ),
    "hash": PartitionerKind("each key at its home"),
    "shuffle": PartitionerKind("weighted round robin"),
}

_BASELINES: Mapping[str, PartitionerKind] = {
    "cam": PartitionerKind("the worker that has the key, else the lower of two"),
    "dagreedy": PartitionerKind(
        "hot keys by fan-out against load",
        {
            "alpha": Option("weight of fan-out against load", 0.5, 0, 0.99),
            "hot": Option("a key is hot above 1/(hot * workers) of a slide", 100, 0.1, 1000),
        },
    ),
    "dalton-metrics": PartitionerKind(
        "learns the workers of hot keys by their measured busy times",
        {
            "a": Option("learning rate", 0.1, 0.001, 1),
            "epsilon": Option("share of rows that explore", 0.1, 0, 1),
            "cap": Option("most workers of a key, from 2; 0: all", 6, 0, MOST_COMBINERS, whole=True),
            "hot": Option("a key is hot above 1/(hot * workers) of a slide", 1, 0.1, 1000),
        },
        learns=True,
        metered=True,
    ),
    "dalton-offline": PartitionerKind(
        "explores and learns over the hottest keys of the first slide",
        {
            "a": Option("learning rate", 0.1, 0.001, 1),
            "epsilon": Option("share of rows that explore", 0.1, 0, 1),
            "temperature": Option("of the softmax", 0.1, 0.001, 100),
            "hot_keys": Option("keys, by rank, that count as hot", 10, 1, 1000, whole=True),
        },
        learns=True,
    ),
    "dalton-original": PartitionerKind(
        "learns the workers of hot keys by Q-learning",
        {
            "a": Option("learning rate", 0.1, 0.001, 1),
            "epsilon": Option("share of rows that explore", 0.1, 0, 1),
            "alpha": Option("weight of fan-out against load", 0.5, 0, 1),
            "cap": Option("most workers of a key, from 2; 0: all", 6, 0, MOST_COMBINERS, whole=True),
            "hot": Option("a key is hot above 1/(hot * workers) of a slide", 1, 0.1, 1000),
        },
        learns=True,
    ),
    "drifting-key": PartitionerKind(
        "one key to the first worker, the others to the rest: a stress test",
        {"key": Option("rank of that key at the start, 0: the hottest", 0, 0, 1_000_000, whole=True)},
    ),
    "saspartitioner": PartitionerKind(
        "shares of the hottest keys, set each slide, by a trained policy if there is one",
        SAS_OPTIONS,
        learns=True,
        policy=True,
    ),
    "saspartitioner-adaptive": PartitionerKind(
        "the same, by the policy whose training was nearest to the keys",
        SAS_OPTIONS,
        learns=True,
        metered=True,
        chooses=True,
    ),
    "two-choices": PartitionerKind("the lower of the key's two homes"),
}

# Those for comparison come after the others wherever they are listed.
PARTITIONERS: Mapping[str, PartitionerKind] = {
    **_OWN,
    **{name: replace(kind, comparison=True) for name, kind in _BASELINES.items()},
}


def listed_partitioners() -> str:
    """The names for a message: those for comparison after the others, and as such."""
    return f"{', '.join(_OWN)}; for comparison: {', '.join(_BASELINES)}"


POLICIES = ("zipf-0.5", "zipf-1", "zipf-1.5", "zipf-2")
"""The trained policies that ship, by name."""
MOST_POLICY = 65_536  # bytes of a policy's file
