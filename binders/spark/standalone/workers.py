"""The workers of a standalone cluster, as its master lists them."""

from __future__ import annotations

from binders.spark.standalone.master import Cluster
from speck.core.inventory import Engine
from speck.core.runtime import Worker


def workers_of(cluster: Cluster) -> list[Worker]:
    """The workers that are alive; one is free without a driver and an executor."""
    return [
        Worker(
            id=each.id,
            free=each.cores_free == each.cores,
            cores=each.cores,
            memory=each.memory,
            memory_free=each.memory_free,
        )
        for each in cluster.workers
    ]


def slots_of(cluster: Cluster, known: Engine) -> int | None:
    """The slots of all workers, by those of one in the inventory, or of the engine; ``None``: not known."""
    scale = known.scale
    if scale is None or scale.slots is None:
        return known.slots
    return scale.slots * len(cluster.workers)
